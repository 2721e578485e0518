"""One map at its agent: its queue, its workers, and those who wait for either.

Lives here: what is kept of a map. Never here: what happens to it (`maps`).
"""

import asyncio

from distributed_grid.kernel.calls import Calls
from distributed_grid.model.ids import JobId


class KeptMap:
    """One map."""

    def __init__(self, map_id: str) -> None:
        self.id = map_id
        self.calls = Calls()
        self.jobs: dict[JobId, None] = {}
        self.holders = 0
        self.is_over = False
        self.news = Bell()  # For the client.
        self.work = Bell()  # For workers.


class Bell:
    """Wakes all who wait now."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def ring(self) -> None:
        """Wake them."""
        self._event.set()
        self._event = asyncio.Event()

    async def heard(self, timeout_s: float) -> None:
        """Until it rings, or the time is over."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._event.wait()
        except TimeoutError:
            pass
