"""When something must happen to which attempt.

Lives here: the order of moments. Never here: what happens then (`attempts`), the clock.
Invariant: an attempt falls due only at the moment that it asks for now; older entries are void.
"""

import heapq
from collections.abc import Collection, Iterator
from typing import Final

from distributed_grid.edges.runner.attempts import Attempt

SPARE: Final = 1_000  # Entries that may be void before all are made anew.


class Timetable:
    """Attempts by their `due_ns`."""

    def __init__(self) -> None:
        self._entries: list[tuple[int, int, Attempt]] = []
        self._count = 0

    @property
    def next_ns(self) -> int:
        """The first moment, perhaps a void one; 0: none."""
        return self._entries[0][0] if self._entries else 0

    def add(self, attempt: Attempt, others: Collection[Attempt]) -> None:
        """It has a new `due_ns`; the others are all that live."""
        if len(self._entries) > SPARE + 2 * len(others):
            # Timeouts of indices that ended long before.
            waiting = [other for other in others if other.due_ns]
            self._entries = [(other.due_ns, number, other) for number, other in enumerate(waiting)]
            heapq.heapify(self._entries)
            self._count = len(waiting)
        self._count += 1
        heapq.heappush(self._entries, (attempt.due_ns, self._count, attempt))

    def due(self, now_ns: int) -> Iterator[Attempt]:
        """Whoever asked for a moment until now."""
        while self._entries and self._entries[0][0] <= now_ns:
            due_ns, _, attempt = heapq.heappop(self._entries)
            if attempt.due_ns == due_ns and attempt.pid:
                yield attempt
