"""What waits to be sent in one lane of a link.

Lives here: the bounded queue, the one task that empties it, the patience with a slow peer.
Never here: how bytes go out (`write` is given).
Invariant: messages go out whole and in order, even if whoever sent one is cancelled.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final

from distributed_grid.edges.transport.inbox import MESSAGE_COST_BYTES

BATCH_BYTES: Final = 256 << 10  # Small messages go out together, in one write.


class Outbox:
    """One lane, outwards. `write` is called by one task at a time, and calls `moved` meanwhile."""

    def __init__(
        self,
        *,
        queue_bytes: int,
        write: Callable[[list[bytes]], Awaitable[None]],
        stalled_ms: int,
        on_stalled: Callable[[], None],
    ) -> None:
        self._queue_bytes, self._write = queue_bytes, write
        self._stalled_s, self._on_stalled = stalled_ms / 1000, on_stalled
        self._waiting: deque[bytes] = deque()
        self._used = 0
        self._room = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._moved_s = 0.0
        self._patience: asyncio.TimerHandle | None = None
        self._is_closed = False  # It takes nothing more.

    async def put(self, message: bytes) -> bool:
        """Add a message; waits for room. False: closed, and it was not taken."""
        cost = len(message) + MESSAGE_COST_BYTES
        while self._used and self._used + cost > self._queue_bytes and not self._is_closed:
            self._room.clear()
            await self._room.wait()
        if self._is_closed:
            return False
        self._used += cost
        self._waiting.append(message)
        if self._task is None:
            self._task = asyncio.create_task(self._empty())
        return True

    def moved(self) -> None:
        """The peer has taken something."""
        self._moved_s = asyncio.get_running_loop().time()

    async def drained(self) -> None:
        """Return when everything has gone out, or nothing more will."""
        while self._task is not None:
            await asyncio.shield(self._task)

    def finish(self) -> None:
        """Take nothing more; what was taken still goes out, and whoever waits for room is told."""
        self._is_closed = True
        self._room.set()

    def close(self) -> None:
        """Drop what waits, too."""
        self.finish()
        self._waiting.clear()

    async def _empty(self) -> None:
        self.moved()
        self._watch()
        try:
            while self._waiting:
                batch, cost = self._batch()
                await self._write(batch)
                self._used -= cost
                self._room.set()
                self.moved()
        finally:
            self._task = None
            if self._patience is not None:
                self._patience.cancel()

    def _batch(self) -> tuple[list[bytes], int]:
        batch: list[bytes] = []
        cost = 0
        while self._waiting and (
            not batch or cost + len(self._waiting[0]) + MESSAGE_COST_BYTES <= BATCH_BYTES
        ):
            message = self._waiting.popleft()
            batch.append(message)
            cost += len(message) + MESSAGE_COST_BYTES
        return batch, cost

    def _watch(self) -> None:
        loop = asyncio.get_running_loop()
        left_s = self._moved_s + self._stalled_s - loop.time()
        if left_s <= 0:
            self._on_stalled()
        else:
            self._patience = loop.call_later(left_s, self._watch)
