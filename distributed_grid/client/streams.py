"""Answers without an end: a job's output as it is written, events as they happen.

Lives here: where a stream stands, so that it goes on after the agent restarted. Sans-io.
Invariant: every byte and every event is given once, in order.
"""

from typing import Final, Generic, TypeVar

import msgspec

from distributed_grid.client.calls import request_for
from distributed_grid.client.exchange import BadAnswer, End, Gathering, Head, Piece, Request
from distributed_grid.client.problems import problem_of
from distributed_grid.wire.api import Event

T = TypeVar("T")

QUIET_MS: Final = 3_600_000  # A job may say nothing for an hour; then the driver asks again.
EVENT_BYTES_MAX: Final = 1 << 20  # Of one event; ours have some hundred bytes.


class Stream(Generic[T]):
    """Where a stream stands. The driver opens `request()`, feeds pieces, begins again if told."""

    def __init__(self) -> None:
        self.is_over = False
        self._refusal: Gathering | None = None

    def request(self) -> Request:
        """What to ask now to hear what follows."""
        raise NotImplementedError

    def feed(self, pieces: list[Piece]) -> list[T]:
        """What these pieces say; raises the error the agent tells."""
        found: list[T] = []
        for piece in pieces:
            if isinstance(piece, Head) and piece.status != 200:
                self._refusal = Gathering()
            if self._refusal is not None:
                if (refusal := self._refusal.add([piece])) is not None:
                    raise problem_of(refusal)
            elif isinstance(piece, End):
                self.is_over = True
            elif isinstance(piece, bytes):
                found += self.heard(piece)
        return found

    def heard(self, data: bytes) -> list[T]:
        """What these bytes of the body say."""
        raise NotImplementedError

    def begin_again(self) -> None:
        """The connection was lost: forget what was half heard."""
        self._refusal = None


class Output(Stream[bytes]):
    """A job's output from an offset on; with `follow` until it has ended."""

    def __init__(
        self, word: str, *, stream: str, index: int | None = None, follow: bool = True
    ) -> None:
        super().__init__()
        self.word, self.stream, self.index, self.follow = word, stream, index, follow
        self.offset = 0

    def request(self) -> Request:
        """The rest of the output."""
        return request_for(
            "logs",
            job=self.word,
            wait_ms=QUIET_MS,
            stream=self.stream,
            index="" if self.index is None else str(self.index),
            follow=self.follow,
            offset=self.offset,
        )

    def heard(self, data: bytes) -> list[bytes]:
        """The bytes themselves."""
        self.offset += len(data)
        return [data]


class Events(Stream[Event]):
    """Events after a number, as server-sent events carry them; with `follow` also those to come."""

    def __init__(self, *, after: int | str | None = None, follow: bool = True) -> None:
        super().__init__()
        self.after = after  # None: only those to come; 0: whatever the agent still remembers.
        self.follow = follow
        self._rest = b""

    def request(self) -> Request:
        """The events that follow."""
        return request_for(
            "events",
            wait_ms=QUIET_MS,
            after="" if self.after is None else str(self.after),
            follow="" if self.follow else "false",
        )

    def begin_again(self) -> None:
        """Half an event is worth nothing: it comes again."""
        super().begin_again()
        self._rest = b""

    def heard(self, data: bytes) -> list[Event]:
        """The events that are complete; comments and keep-alives are skipped."""
        *blocks, self._rest = (self._rest + data.replace(b"\r\n", b"\n")).split(b"\n\n")
        if len(self._rest) > EVENT_BYTES_MAX:
            raise BadAnswer(f"an event of more than {EVENT_BYTES_MAX} bytes")
        found = [event for block in blocks if (event := _event(block)) is not None]
        for event in found:
            self.after = event.id
        return found


def _event(block: bytes) -> Event | None:
    lines = [line[5:].strip() for line in block.split(b"\n") if line.startswith(b"data:")]
    if not lines:
        return None
    try:
        return msgspec.json.decode(b"\n".join(lines), type=Event)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadAnswer(f"an event that cannot be read: {error}") from error
