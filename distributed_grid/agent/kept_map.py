"""One map at its agent: its queue, its workers, and those who wait for either.

Lives here: what is kept of a map, and which of its workers elsewhere are gone. Never here: what
happens to it (`maps`).
"""

import asyncio
from collections.abc import Iterator
from typing import Literal, NamedTuple

from distributed_grid.kernel.calls import Calls
from distributed_grid.kernel.jobs import SUCCEEDED, Attempt, Job
from distributed_grid.model.ids import JobId, NodeId


class Gone(NamedTuple):
    """A worker on another node is no more."""

    worker: str
    how: Literal["peaceful", "died", "lost"]
    note: str = ""


class Abroad:
    """The workers of one job that run on other nodes, as far as their ends were told."""

    def __init__(self) -> None:
        self._told: dict[str, tuple[Attempt, int]] = {}  # By attempt: how many ends.

    def look(self, job: Job) -> Iterator[Gone]:
        """Those that have ended since it was last looked at."""
        known = {attempt.id: attempt for attempt in job.attempts if attempt.host}
        for attempt_id, attempt in known.items():
            _, told = self._told.get(attempt_id, (attempt, 0))
            self._told[attempt_id] = (attempt, attempt.ended_indices)
            yield from _ended(job, attempt, told)
            if attempt not in job.live_attempts:
                yield from _lost(attempt, attempt.ended_indices)
                # Its workers may still be somewhere: that they are lost is told once.
                self._told[attempt_id] = (attempt, len(attempt.indices))
        for attempt_id in self._told.keys() - known.keys():  # Over for so long that it is dropped.
            attempt, told = self._told.pop(attempt_id)
            yield from _lost(attempt, told)


def worker_name(attempt: str, index: int) -> str:
    """What a worker calls itself: the attempt it is of, and its place in that."""
    return f"{attempt}.{index}"


def _ended(job: Job, attempt: Attempt, told: int) -> Iterator[Gone]:
    assert job.progress is not None, "workers are an array"
    assert job.spec.array is not None, "workers are an array"
    for index in attempt.indices[told : attempt.ended_indices]:
        is_well = job.progress.states[job.spec.array.indices.index(index)] == SUCCEEDED
        note = attempt.note or f"{attempt.how or 'exited'} {attempt.exit_code or ''}".strip()
        yield Gone(worker_name(attempt.id, index), "peaceful" if is_well else "died", note)


def _lost(attempt: Attempt, told: int) -> Iterator[Gone]:
    note = attempt.note or f"{attempt.node} is gone"
    for index in attempt.indices[told:]:
        yield Gone(worker_name(attempt.id, index), "lost", note)


class KeptMap:
    """One map."""

    def __init__(self, map_id: str) -> None:
        self.id = map_id
        self.calls = Calls()
        self.jobs: dict[JobId, None] = {}
        self.abroad: dict[JobId, Abroad] = {}
        # Nodes that cannot run its calls: their names, and why.
        self.unable: dict[NodeId, tuple[str, str]] = {}
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
