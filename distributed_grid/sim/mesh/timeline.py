"""Virtual time: what happens next, in microseconds, one thing after the other.

Lives here: the heap. Never here: a clock, a machine's idea of the time (`clocks`).
Invariant: of two things at the same moment the one planned first comes first.
"""

import heapq
import itertools
from collections.abc import Callable
from typing import Any, Final

SECOND_US: Final = 1_000_000


class Timeline:
    """Everything that is yet to happen."""

    def __init__(self) -> None:
        self.now_us = 0
        self._heap: list[tuple[int, int, Callable[..., None], tuple[Any, ...]]] = []
        self._count = itertools.count()

    def at(self, when_us: int, what: Callable[..., None], *args: Any) -> None:
        """Then, or now if then is over."""
        heapq.heappush(self._heap, (max(when_us, self.now_us), next(self._count), what, args))

    def after(self, wait_us: int, what: Callable[..., None], *args: Any) -> None:
        """So much later."""
        heapq.heappush(self._heap, (self.now_us + wait_us, next(self._count), what, args))

    def run_until(self, when_us: int) -> None:
        """Let everything happen up to then; what is planned for that very moment comes later."""
        heap, pop = self._heap, heapq.heappop
        while heap and heap[0][0] < when_us:
            self.now_us, _, what, args = pop(heap)
            what(*args)
        self.now_us = when_us
