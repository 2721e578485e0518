"""Who waits for resources, in order, in a way that ten thousand cost as little as ten.

Lives here: the line. Never here: what is free (`ledger`), who may have it (`host`).
Invariant: of entries that ask for the same, only the first can be next; so a decision looks at one
entry for each distinct request, however many wait.
"""

import heapq
from collections.abc import Iterator

import msgspec

from distributed_grid.model.ids import JobId
from distributed_grid.model.resources import Request


class Entry(msgspec.Struct, frozen=True, kw_only=True, order=True):
    """A job in the line; entries sort in the order of service."""

    priority: int = 2  # urgent 0, high 1, medium 2, low 3
    submitted_ms: int
    job: JobId


class WaitingLine:
    """Entries by what they ask for, each in a heap."""

    def __init__(self) -> None:
        self._entries: dict[JobId, tuple[Entry, Request]] = {}
        self._heaps: dict[Request, list[Entry]] = {}

    def add(self, entry: Entry, request: Request) -> None:
        """Join the line; a job that waits already keeps its place."""
        if entry.job not in self._entries:
            self._entries[entry.job] = (entry, request)
            heapq.heappush(self._heaps.setdefault(request, []), entry)

    def remove(self, job: JobId) -> None:
        """Leave the line; the heap forgets it when it comes to the top."""
        self._entries.pop(job, None)

    def first_of_each(self) -> list[tuple[Entry, Request]]:
        """The next entry for each distinct request, in the order of service."""
        tops = []
        for request, heap in list(self._heaps.items()):
            while heap and not self._waits(heap[0], request):
                heapq.heappop(heap)
            if heap:
                tops.append((heap[0], request))
            else:
                del self._heaps[request]
        return sorted(tops, key=lambda top: top[0])

    def first(self) -> Entry | None:
        """Who is next, if there is room."""
        tops = self.first_of_each()
        return tops[0][0] if tops else None

    def position(self, job: JobId) -> int | None:
        """From 1; None if it does not wait."""
        if job not in self._entries:
            return None
        own = self._entries[job][0]
        return 1 + sum(1 for entry, _ in self._entries.values() if entry < own)

    def __iter__(self) -> Iterator[JobId]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def _waits(self, entry: Entry, request: Request) -> bool:
        return self._entries.get(entry.job) == (entry, request)

    def check(self) -> None:
        """Re-derive what must be true."""
        for entry, request in self._entries.values():
            assert entry in self._heaps[request], "somebody who waits is in no heap"
