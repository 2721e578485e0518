"""How a job's output lies in its files once it was too long: the keeper cuts, the agent reads.

Lives here: the names, and the first line of the older part. Never here: files (`edges.runner`,
`agent`).
Invariant: the older part says where in the stream it begins; the file itself goes on at its end.

While a file is cut there is a marker. The marker becomes the older part, so the two change in one
moment, and whoever reads can tell whether a cut came in between.
"""

from typing import Final, NamedTuple

HEAD: Final = b"grid-cut %019d\n"
HEAD_BYTES: Final = len(HEAD % 0)


class Span(NamedTuple):
    """A part of a stream, in bytes from its beginning."""

    start: int = 0
    end: int = 0
    head_bytes: int = 0  # Before the part itself, in its file.


def older_name(path: str) -> str:
    """Where the older part of a file is."""
    return f"{path}.1"


def marker_name(path: str) -> str:
    """What is there while a file is cut."""
    return f"{path}.cut"


def head(start: int) -> bytes:
    """The first line of an older part that begins here."""
    return HEAD % start


def span_of(first_bytes: bytes, file_bytes: int) -> Span:
    """What an older part spans, from the first bytes of its file; without a head from 0 on."""
    line = first_bytes[:HEAD_BYTES]
    word, _, digits = line.partition(b" ")
    is_head = word == b"grid-cut" and len(line) == HEAD_BYTES and line.endswith(b"\n")
    if not is_head or not digits[:-1].isdigit():
        return Span(0, file_bytes)
    start = int(digits)
    return Span(start, start + file_bytes - HEAD_BYTES, HEAD_BYTES)
