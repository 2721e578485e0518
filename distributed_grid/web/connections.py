"""One client's connection, kept within bounds.

Lives here: how much of a head is read, how long a request may take to arrive, who makes room when
too many are connected. Never here: requests (`routes`), the server around them (`server`).
Invariant: a client that sends nothing, sends for ever, or does not read costs a bounded amount, and
never the place of one that behaves.

uvicorn bounds neither the head of a request nor the time it takes: a thousand clients that send
half a line would shut out everybody else for good.
"""

import asyncio
import itertools
from typing import Any, Final

import msgspec
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from distributed_grid.wire.api import Problem

CONNECTIONS_MAX: Final = 1_000  # At some 150 kB for one that does not read: 150 MB at the worst.
HEAD_BYTES_MAX: Final = 64 << 10  # As h11, nginx and others; ours are some hundred bytes.
ARRIVAL_S: Final = 20.0  # A whole request; 64 MiB take a tenth of a second on a socket of ours.
STALL_S: Final = (
    600.0  # Nothing was read of an answer: a person may look at a page of a log so long.
)

# Not the time: a loop that was busy finds a crowd at its door, and all of it came at once for it.
_ARRIVALS = itertools.count(1)


class Connection(HttpToolsProtocol):
    """uvicorn's own, with limits around it."""

    _arrival: asyncio.TimerHandle | None = None
    _stall: asyncio.TimerHandle | None = None
    _head_bytes = 0  # Of a request whose head is not whole yet.
    place = 0  # Among all who ever came.

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A client is there: the place may be another's who does nothing."""
        super().connection_made(transport)
        self.place = next(_ARRIVALS)
        self._arrival = self.loop.call_later(ARRIVAL_S, self._too_late)
        if len(self.connections) > CONNECTIONS_MAX and not self._make_room():
            self._refuse(503, "Overloaded", "too many clients are connected", "Come back later")

    def connection_lost(self, exc: Exception | None) -> None:
        """The client is gone."""
        self._has_arrived()
        self._has_read()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Part of a request, or a whole one, or several."""
        before: Any = self.cycle
        was_body = before is not None and before.more_body
        super().data_received(data)
        if self.transport.is_closing():
            return
        cycle: Any = self.cycle
        if cycle is not before or was_body:
            self._head_bytes = 0
        else:
            self._head_bytes += len(data)
        if self._head_bytes > HEAD_BYTES_MAX:
            self._refuse(
                431, "BadValue", "the head of the request is too long", "Put it into the body"
            )
        elif cycle and not cycle.more_body and not self._head_bytes:
            self._has_arrived()
        elif self._arrival is None:
            self._arrival = self.loop.call_later(ARRIVAL_S, self._too_late)

    def pause_writing(self) -> None:
        """The client does not read as fast as we write."""
        super().pause_writing()
        self._stall = self.loop.call_later(STALL_S, self.transport.abort)

    def resume_writing(self) -> None:
        """It does again."""
        self._has_read()
        super().resume_writing()

    def send_400_response(self, msg: str) -> None:
        """What was sent is no HTTP."""
        self._refuse(400, "BadValue", msg.rstrip("."), "Speak HTTP/1.1: see /openapi.json")

    @property
    def is_idle(self) -> bool:
        """Whether nothing that it was asked for would be lost with it."""
        cycle: Any = self.cycle
        return cycle is None or cycle.response_complete or self._stall is not None

    def _too_late(self) -> None:
        self._arrival = None
        cycle: Any = self.cycle
        if cycle is None or cycle.response_complete or cycle.more_body:
            self.transport.abort()

    def _make_room(self) -> bool:
        """Let the idle client go that has been here longest; whether there was one."""
        others = (other for other in self.connections if other is not self)
        idle = [other for other in others if isinstance(other, Connection) and other.is_idle]
        if not idle:
            return False
        oldest = min(idle, key=lambda other: other.place)
        self.connections.discard(oldest)
        oldest.transport.abort()
        return True

    def _refuse(self, status: int, error: str, message: str, remedy: str) -> None:
        body = msgspec.json.encode(Problem(error=error, message=message, remedy=remedy))
        head = f"HTTP/1.1 {status} Refused\r\ncontent-type: application/json\r\n"
        head += f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
        self.transport.write(head.encode() + body)
        self.transport.close()

    def _has_arrived(self) -> None:
        if self._arrival is not None:
            self._arrival.cancel()
            self._arrival = None

    def _has_read(self) -> None:
        if self._stall is not None:
            self._stall.cancel()
            self._stall = None
