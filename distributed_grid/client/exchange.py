"""One HTTP conversation over h11, without a socket: bytes in, pieces of an answer out.

Lives here: requests, answers, limits. Never here: sockets, clocks, waiting (the drivers).
Invariant: whatever the other end sends, the outcome is pieces, `Broken`, or `BadAnswer`.
"""

from typing import Final, NamedTuple

import h11

from distributed_grid.errors import GridError

ANSWER_BYTES_MAX: Final = 256 << 20  # A page of 10,000 jobs with 25 kB each; streams are not held.
HEAD_BYTES_MAX: Final = 64 << 10  # Servers send some hundred bytes; h11 itself would allow 100 kB.
READ_BYTES: Final = 256 << 10  # Of one read: more than a socket buffer holds.


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
        self._h11 = h11.Connection(h11.CLIENT, max_incomplete_event_size=HEAD_BYTES_MAX)

    @property
    def is_reusable(self) -> bool:
        """Whether another request may follow on this connection."""
        return self._h11.our_state is h11.IDLE

    def ask(self, request: Request) -> bytes:
        """The bytes of a request."""
        headers = [("host", "grid"), ("content-length", str(len(request.body)))]
        if request.body:
            headers.append(("content-type", request.media))
        head = h11.Request(method=request.method, target=request.target, headers=headers)
        parts = [self._h11.send(head)]
        if request.body:
            parts.append(self._h11.send(h11.Data(data=request.body)))
        parts.append(self._h11.send(h11.EndOfMessage()))
        return b"".join(part for part in parts if part)

    def hear(self, data: bytes) -> list[Piece]:
        """What these bytes say; empty bytes mean that the other end has closed."""
        try:
            self._h11.receive_data(data)
            return self._pieces()
        except h11.RemoteProtocolError as error:
            if not data:
                raise Broken("the connection was closed in the middle of an answer") from error
            raise BadAnswer(str(error)) from error

    def _pieces(self) -> list[Piece]:
        pieces: list[Piece] = []
        while True:
            event = self._h11.next_event()
            match event:
                case h11.Response():
                    pieces.append(Head(event.status_code))
                case h11.Data():
                    pieces.append(bytes(event.data))
                case h11.EndOfMessage():
                    pieces.append(End())
                    if self._h11.our_state is h11.DONE and self._h11.their_state is h11.DONE:
                        self._h11.start_next_cycle()
                    return pieces
                case h11.ConnectionClosed():
                    raise Broken("the connection was closed before an answer")
                case h11.InformationalResponse():
                    continue
                case _:  # NEED_DATA, or PAUSED.
                    return pieces


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
