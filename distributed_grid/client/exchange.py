"""One HTTP conversation, without a socket: bytes in, pieces of an answer out.

Lives here: requests, answers, limits. Never here: sockets, clocks, waiting (the drivers), the words
of a head (`answer_head`).
Invariant: whatever the other end sends, the outcome is pieces, `Broken`, or `BadAnswer`, and it is
the same however the bytes are cut.

It is HTTP/1.1 as our own agent speaks it, and nothing more: a library for all of HTTP cost `grid
run` a seventh of its start, and every question a third of its time.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

from distributed_grid.client.answer_head import read_chunk_size, read_head
from distributed_grid.errors import GridError

ANSWER_BYTES_MAX: Final = 256 << 20  # A page of 10,000 jobs with 25 kB each; streams are not held.
HEAD_BYTES_MAX: Final = 64 << 10  # Servers send some hundred bytes.
CHUNK_LINE_BYTES_MAX: Final = 256  # Sixteen digits, and extensions that nobody writes.
READ_BYTES: Final = 64 << 10  # Of one read; room for more would be mapped anew each time: 20 µs.
VERSION: Final = b"HTTP/1.1 "
LINE_END: Final = b"\r\n"


class Request(NamedTuple):
    """What is asked. `wait_ms` is how long the answer may rightly take beyond the usual."""

    method: str
    target: str
    body: bytes = b""
    wait_ms: int = 0
    is_repeatable: bool = True  # Asking twice does no harm, so a lost connection is no failure.
    media: str = "application/json"  # Of the body.


class Response(NamedTuple):
    """What was answered, and how long that took."""

    status: int
    body: bytes
    took_ms: int = 0


class Head(NamedTuple):
    """An answer begins."""

    status: int


class End(NamedTuple):
    """An answer is complete."""


Piece = Head | bytes | End


class Broken(ConnectionError):
    """The connection ended in the middle. Whether that matters, the driver knows."""


class BadAnswer(GridError):
    """What answers on the socket does not speak as Grid does."""

    def __init__(self, why: str) -> None:
        self.why = why
        super().__init__(
            f"the answer makes no sense: {why}",
            remedy="Compare the versions: grid version, and grid status; then restart the agent",
        )


class Exchange:
    """The conversation on one connection: ask, hear until `End`, ask again."""

    def __init__(self) -> None:
        self._rest = b""  # Heard, and not understood yet: at most a head, or the line of a chunk.
        self._left_bytes = 0  # Of the body, or of this chunk.
        self._is_last = False  # The other end will close after this answer.
        self._step: Callable[[Exchange, list[Piece]], bool] = Exchange._unasked

    @property
    def is_reusable(self) -> bool:
        """Whether another request may follow on this connection."""
        return self._step is Exchange._unasked and not self._is_last and not self._rest

    def ask(self, request: Request) -> bytes:
        """The bytes of a request."""
        assert self.is_reusable, "the answer to the last question is not complete"
        self._step = Exchange._head
        kind = f"content-type: {request.media}\r\n" if request.body else ""
        head = (
            f"{request.method} {request.target} HTTP/1.1\r\nhost: grid\r\n"
            f"content-length: {len(request.body)}\r\n{kind}\r\n"
        )
        return head.encode("ascii") + request.body

    def hear(self, data: bytes) -> list[Piece]:
        """What these bytes say; empty bytes mean that the other end has closed."""
        if not data:
            raise Broken("the connection was closed before the answer was complete")
        self._rest = self._rest + data if self._rest else data
        pieces: list[Piece] = []
        try:
            while self._rest and self._step(self, pieces):
                pass
        except ValueError as error:
            raise BadAnswer(str(error)) from error
        return pieces

    # The steps: each takes what it understands from the rest, and is False if it needs more.

    def _unasked(self, pieces: list[Piece]) -> bool:
        if not pieces:  # Else it came with an answer, whose pieces count: see `is_reusable`.
            raise ValueError("it came without a question")
        return False

    def _head(self, pieces: list[Piece]) -> bool:
        if not self._rest.startswith(VERSION[: len(self._rest)]):
            raise ValueError("it is not HTTP/1.1")
        text = self._until(LINE_END * 2, HEAD_BYTES_MAX)
        if text is None:
            return False
        head = read_head(text)
        self._is_last = head.is_last
        pieces.append(Head(head.status))
        if head.length_bytes is None:
            self._step = Exchange._chunk_size
        else:
            self._left_bytes = head.length_bytes
            self._step = Exchange._body
            if not self._left_bytes:
                self._end(pieces)
        return True

    def _body(self, pieces: list[Piece]) -> bool:
        if self._take(pieces):
            self._end(pieces)
        return True

    def _chunk_size(self, pieces: list[Piece]) -> bool:
        del pieces
        line = self._until(LINE_END, CHUNK_LINE_BYTES_MAX)
        if line is None:
            return False
        self._left_bytes = read_chunk_size(line)
        self._step = Exchange._chunk if self._left_bytes else Exchange._trailer
        return True

    def _chunk(self, pieces: list[Piece]) -> bool:
        if self._take(pieces):
            self._step = Exchange._chunk_end
        return True

    def _chunk_end(self, pieces: list[Piece]) -> bool:
        del pieces
        if not self._skip_line_end("a chunk is longer than it said"):
            return False
        self._step = Exchange._chunk_size
        return True

    def _trailer(self, pieces: list[Piece]) -> bool:
        if not self._skip_line_end("something follows its last chunk"):  # Ours sends nothing there.
            return False
        self._end(pieces)
        return True

    def _skip_line_end(self, problem: str) -> bool:
        if not LINE_END.startswith(self._rest[:2]):
            raise ValueError(problem)
        is_whole = len(self._rest) >= 2
        if is_whole:
            self._rest = self._rest[2:]
        return is_whole

    def _take(self, pieces: list[Piece]) -> bool:
        """What is here of the body or the chunk; whether that was all of it."""
        part, self._rest = self._rest[: self._left_bytes], self._rest[self._left_bytes :]
        self._left_bytes -= len(part)
        pieces.append(part)
        return not self._left_bytes

    def _until(self, mark: bytes, bytes_max: int) -> bytes | None:
        """What stands before the mark, both taken; None if it is not whole yet."""
        at = self._rest.find(mark, 0, bytes_max + len(mark))
        if at < 0:
            if len(self._rest) >= bytes_max + len(mark):
                raise ValueError(f"its head is longer than {bytes_max} bytes")
            return None
        text, self._rest = self._rest[:at], self._rest[at + len(mark) :]
        return text

    def _end(self, pieces: list[Piece]) -> None:
        pieces.append(End())
        self._step = Exchange._unasked


class Gathering:
    """A whole answer, from its pieces; never more than the limit."""

    def __init__(self, *, bytes_max: int = ANSWER_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._status = 0
        self._parts: list[bytes] = []
        self._size = 0

    def add(self, pieces: list[Piece]) -> Response | None:
        """The answer, once it is complete."""
        for piece in pieces:
            match piece:
                case Head():
                    self._status = piece.status
                case bytes():
                    self._size += len(piece)
                    if self._size > self._bytes_max:
                        raise BadAnswer(f"it is longer than {self._bytes_max} bytes")
                    self._parts.append(piece)
                case End():
                    return Response(self._status, b"".join(self._parts))
        return None
