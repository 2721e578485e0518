"""Jobs that have a date: not before this moment, ended by that one.

Lives here: what is due. Never here: what follows from it (`coordinator`).
Invariant: each date is told once; a job that is forgotten is not told at all.
"""

import heapq

from distributed_grid.model.ids import JobId


class Calendar:
    """Moments and the jobs they belong to."""

    def __init__(self) -> None:
        self._dates: list[tuple[int, JobId]] = []
        self._known: dict[JobId, int] = {}

    def add(self, job: JobId, at_ms: int) -> None:
        """Something is due at a moment; a later word replaces an earlier one."""
        if self._known.get(job) != at_ms:
            self._known[job] = at_ms
            heapq.heappush(self._dates, (at_ms, job))

    def forget(self, job: JobId) -> None:
        """It does not matter any more."""
        if self._known.pop(job, None) is not None and len(self._dates) > 2 * len(self._known):
            self._dates = [
                (at_ms, one) for at_ms, one in self._dates if self._known.get(one) == at_ms
            ]
            heapq.heapify(self._dates)

    def due(self, now_ms: int) -> list[JobId]:
        """Those whose moment has come."""
        found = []
        while self._dates and self._dates[0][0] <= now_ms:
            at_ms, job = heapq.heappop(self._dates)
            if self._known.get(job) == at_ms:
                del self._known[job]
                found.append(job)
        return found

    def __contains__(self, job: JobId) -> bool:
        return job in self._known
