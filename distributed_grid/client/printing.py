"""What calls print: kept beside their outcomes by a worker, shown by the client.

Lives here: both ends of it. Never here: the job's log, which gets everything as well.
Invariant: of one call at most `PRINTED_CHARACTERS_MAX` travel, in the order in which they were
written; to print them never makes a map fail.
"""

import contextlib
import itertools
import sys
from typing import Any, Final

import msgspec

from distributed_grid.model.bounds import Body, Listed

PRINTED_CHARACTERS_MAX: Final = 64 << 10  # Of one call; the rest is in the job's log.


class Prints:
    """The worker's side: stands before the standard streams from now on."""

    def __init__(self) -> None:
        self.are_wanted = False
        self._parts: list[tuple[bool, str]] = []
        self._left = PRINTED_CHARACTERS_MAX
        sys.stdout = _Stream(sys.stdout, self, is_error=False)
        sys.stderr = _Stream(sys.stderr, self, is_error=True)

    def add(self, text: str, *, is_error: bool) -> None:
        """Something was written."""
        if not self.are_wanted or self._left < 0:
            return
        self._left -= len(text)
        if self._left < 0:
            text = f"{text[: self._left]}\n[… more is in `grid logs` of its workers]\n"
        self._parts.append((is_error, text))

    def taken(self) -> bytes:
        """What was written since this was asked last."""
        if not self._parts:
            return b""
        parts, self._parts, self._left = self._parts, [], PRINTED_CHARACTERS_MAX
        joined = [
            (is_error, "".join(text for _, text in some).encode(errors="replace"))
            for is_error, some in itertools.groupby(parts, key=lambda part: part[0])
        ]
        return msgspec.msgpack.encode(joined)


class _Stream:
    """A standard stream that is overheard."""

    def __init__(self, stream: Any, prints: Prints, *, is_error: bool) -> None:
        self._stream, self._prints, self._is_error = stream, prints, is_error

    def write(self, text: str) -> int:
        """As the stream itself."""
        written: int = self._stream.write(text)
        self._prints.add(text, is_error=self._is_error)
        return written

    def writelines(self, lines: Any) -> None:
        """As the stream itself."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def show(printed: bytes) -> None:
    """The client's side: what one call wrote, on the streams of this program."""
    with contextlib.suppress(OSError, ValueError):  # Closed, or nobody reads: no harm is done.
        for is_error, text in msgspec.msgpack.decode(printed, type=Listed[tuple[bool, Body]]):
            stream = sys.stderr if is_error else sys.stdout
            stream.write(text.decode())
            stream.flush()
