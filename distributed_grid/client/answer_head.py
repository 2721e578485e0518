"""The head of an HTTP answer, and the line before a chunk: from bytes to what they say.

Lives here: the few words that matter to us. Never here: how bytes arrive (`exchange`).
Invariant: what is not certain is refused, with a ValueError that says what it is.
"""

from typing import Final, NamedTuple

DIGITS_MAX: Final = 15  # Of a length: a petabyte. More is a mistake, or meant to hurt.
BODILESS: Final = (204, 304)
_HEX: Final = b"0123456789abcdefABCDEF"


class AnswerHead(NamedTuple):
    """What a head says."""

    status: int
    length_bytes: int | None  # None: in chunks.
    is_last: bool  # The connection ends with this answer.


def read_head(text: bytes) -> AnswerHead:
    """What a head says, without its empty line at the end."""
    first, *lines = text.split(b"\r\n")
    status = _status(first)
    lengths: set[bytes] = set()
    is_chunked = is_last = False
    for line in lines:
        name, colon, value = line.partition(b":")
        if not colon or not name or name.strip() != name:
            raise ValueError("a line of its head has no name")
        match name.lower():
            case b"content-length":
                lengths.add(value.strip())
            case b"transfer-encoding":
                if value.strip().lower() != b"chunked" or is_chunked:
                    raise ValueError("it is encoded in a way that Grid does not use")
                is_chunked = True
            case b"connection":
                is_last = is_last or b"close" in value.lower()
    return AnswerHead(status, _length_bytes(status, lengths, is_chunked=is_chunked), is_last)


def read_chunk_size(line: bytes) -> int:
    """How long the chunk is that follows; 0 is the last."""
    digits = line.partition(b";")[0].strip()
    if not 0 < len(digits) <= DIGITS_MAX or digits.strip(_HEX):
        raise ValueError("a chunk has no length")
    return int(digits, 16)


def _status(line: bytes) -> int:
    digits = line.partition(b" ")[2].partition(b" ")[0]
    if len(digits) != 3 or not digits.isdigit():
        raise ValueError("it has no status")
    status = int(digits)
    if status < 200:  # Nothing was asked that could be answered in parts.
        raise ValueError(f"status {status} is no answer")
    return status


def _length_bytes(status: int, lengths: set[bytes], *, is_chunked: bool) -> int | None:
    if is_chunked + len(lengths) > 1:
        raise ValueError("it has two lengths")
    if is_chunked:
        return None
    if status in BODILESS:
        return 0
    if not lengths:
        raise ValueError("it does not say how long it is")
    [digits] = lengths
    if not digits.isdigit() or len(digits) > DIGITS_MAX:
        raise ValueError("its length is no number")
    return int(digits)
