"""Who waits for something to happen.

Lives here: futures by job, and the ring of events. Never here: what happens (`kernel`).
Invariant: bounded; a watcher that does not read is let go, never waited for.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from typing import Final

from distributed_grid.kernel.ready import Happened
from distributed_grid.model.ids import JobId
from distributed_grid.wire.api import Event

EVENTS_KEPT: Final = 10_000
EVENTS_UNREAD_MAX: Final = 1_000  # A reader further behind is not reading.


class Watchers:
    """Wakes those who wait for jobs, and feeds those who read events."""

    def __init__(self) -> None:
        self._waiting: dict[JobId, set[asyncio.Future[None]]] = {}
        self._events: deque[Event] = deque(maxlen=EVENTS_KEPT)
        self._readers: set[asyncio.Queue[Event | None]] = set()
        self._number = 0

    async def change_of(self, job: JobId, *, timeout_s: float) -> bool:
        """Until the job changes (true), or the time is over (false)."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(job, set()).add(future)
        try:
            async with asyncio.timeout(timeout_s):
                await future
        except TimeoutError:
            return False
        finally:
            waiting = self._waiting.get(job)
            if waiting is not None:
                waiting.discard(future)
                if not waiting:
                    del self._waiting[job]
        return True

    def is_awaited(self, job: JobId) -> bool:
        """Whether somebody waits for a change of this job."""
        return job in self._waiting

    def wake(self, job: JobId) -> None:
        """The job has changed."""
        for future in self._waiting.pop(job, ()):
            if not future.done():
                future.set_result(None)

    def publish(self, happened: Happened) -> None:
        """Number an event, keep it, and give it to every reader."""
        self._number += 1
        event = Event(
            number=self._number,
            at_ms=happened.at_ms,
            name=happened.name,
            job=happened.job,
            fields=happened.fields,
        )
        self._events.append(event)
        for reader in list(self._readers):
            if reader.qsize() >= EVENTS_UNREAD_MAX:
                self._readers.discard(reader)
                reader.put_nowait(None)
            else:
                reader.put_nowait(event)

    async def events(self, *, after: int, follow: bool = True) -> AsyncIterator[Event]:
        """Events with a higher number, then those to come; -1: only those to come."""
        reader: asyncio.Queue[Event | None] = asyncio.Queue()
        self._readers.add(reader)
        try:
            for kept in [e for e in self._events if 0 <= after < e.number]:
                yield kept
            while follow and (event := await reader.get()) is not None:
                yield event
        finally:
            self._readers.discard(reader)

    def close(self) -> None:
        """Let every reader go."""
        for reader in self._readers:
            reader.put_nowait(None)
