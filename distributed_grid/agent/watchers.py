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
from distributed_grid.wire.api import GAP, Event, EventPlace

EVENTS_KEPT: Final = 10_000
EVENTS_UNREAD_MAX: Final = 1_000  # A reader further behind is not reading.


class Watchers:
    """Wakes those who wait for jobs, and feeds those who read events."""

    def __init__(self) -> None:
        self._waiting: dict[JobId, set[asyncio.Future[None]]] = {}
        self._events: deque[Event] = deque(maxlen=EVENTS_KEPT)
        self._readers: set[asyncio.Queue[Event | None]] = set()
        self._number = 0
        self.epoch = 0  # Which start of the agent this is.

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

    def wake_all(self) -> None:
        """Any of them may have changed."""
        for job in list(self._waiting):
            self.wake(job)

    def publish(self, happened: Happened) -> None:
        """Number an event, keep it, and give it to every reader."""
        self._number += 1
        event = Event(
            epoch=self.epoch,
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

    async def events(self, *, after: EventPlace, follow: bool = True) -> AsyncIterator[Event]:
        """Events after this one, then those to come; None: only those to come."""
        reader: asyncio.Queue[Event | None] = asyncio.Queue()
        self._readers.add(reader)
        try:
            for kept in self._kept(*after) if after is not None else []:
                yield kept
            while follow and (event := await reader.get()) is not None:
                yield event
        finally:
            self._readers.discard(reader)

    def _kept(self, epoch: int, number: int) -> list[Event]:
        """Those after this one; first a word about what lies between and is no longer kept."""
        first = self._events[0].number if self._events else self._number + 1
        if epoch in (0, self.epoch):
            kept = [event for event in self._events if event.number > number]
            if number == 0 or first <= number + 1:
                return kept
            why = f"only the last {EVENTS_KEPT} are kept"
        else:
            kept, why = list(self._events), "the agent was started again; some before that are lost"
        at_ms = kept[0].at_ms if kept else 0
        told = {"after": f"{epoch}-{number}", "why": why}
        return [
            Event(epoch=self.epoch, number=first - 1, at_ms=at_ms, name=GAP, fields=told),
            *kept,
        ]

    def close(self) -> None:
        """Let every reader go."""
        for reader in self._readers:
            reader.put_nowait(None)
