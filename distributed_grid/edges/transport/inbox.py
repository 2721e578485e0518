"""What came over a link and waits to be taken.

Lives here: a bounded queue for each lane, and a ring of datagrams. Never here: where it comes from.
Invariant: a lane holds at most its bytes and one message; a taker that is cancelled has taken
nothing.
"""

import asyncio
from collections import deque
from typing import Final

from distributed_grid.edges.transport import DATAGRAMS_MAX, LANES, Datagram, Lane

MESSAGE_COST_BYTES: Final = 64  # Of an empty one, so that they are bounded too.


class Inbox:
    """Messages of three lanes, and datagrams."""

    def __init__(self, queue_bytes: int) -> None:
        self._queue_bytes = queue_bytes
        self._lanes: dict[Lane, deque[bytes]] = {lane: deque() for lane in LANES}
        self._used: dict[Lane, int] = dict.fromkeys(LANES, 0)
        self._room: dict[Lane, asyncio.Event] = {lane: asyncio.Event() for lane in LANES}
        self._some = asyncio.Event()
        self._asked = asyncio.Event()
        self._takers = 0
        self._datagrams: deque[Datagram] = deque(maxlen=DATAGRAMS_MAX)
        self._some_datagrams = asyncio.Event()
        self._is_closed = False

    async def put(self, lane: Lane, message: bytes) -> None:
        """Add a message; waits for room. What comes after the end is dropped."""
        cost = len(message) + MESSAGE_COST_BYTES
        while self._used[lane] and self._used[lane] + cost > self._queue_bytes:
            if self._is_closed:
                return
            self._room[lane].clear()
            await self._room[lane].wait()
        self._used[lane] += cost
        self._lanes[lane].append(message)
        self._some.set()

    async def asked(self) -> None:
        """Return when somebody waits for a message and there is none, or at the end."""
        while not (self._is_closed or (self._takers and not any(self._lanes.values()))):
            self._asked.clear()
            await self._asked.wait()

    async def take(self) -> tuple[Lane, bytes] | None:
        """The next message, the most urgent lane first; None after the last one."""
        while True:
            for lane, waiting in self._lanes.items():
                if waiting:
                    message = waiting.popleft()
                    self._used[lane] -= len(message) + MESSAGE_COST_BYTES
                    self._room[lane].set()
                    return lane, message
            if self._is_closed:
                return None
            self._some.clear()
            self._takers += 1
            self._asked.set()
            try:
                await self._some.wait()
            finally:
                self._takers -= 1

    def put_datagram(self, datagram: Datagram) -> bool:
        """Add a datagram. False: an older one had to make room."""
        has_room = len(self._datagrams) < DATAGRAMS_MAX
        self._datagrams.append(datagram)
        self._some_datagrams.set()
        return has_room

    async def take_datagrams(self) -> list[Datagram]:
        """All that are there, at least one; none at the end."""
        while not self._datagrams:
            if self._is_closed:
                return []
            self._some_datagrams.clear()
            await self._some_datagrams.wait()
        return self.waiting_datagrams()

    def waiting_datagrams(self) -> list[Datagram]:
        """All that are there."""
        taken = list(self._datagrams)
        self._datagrams.clear()
        return taken

    def close(self) -> None:
        """Nothing more comes; what is there can still be taken."""
        self._is_closed = True
        self._some.set()
        self._asked.set()
        self._some_datagrams.set()
        for room in self._room.values():
            room.set()
