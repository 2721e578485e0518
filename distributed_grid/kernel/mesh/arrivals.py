"""In which order things became known here: a log with a place for each reader.

Lives here: the order and how to go on from a place in it. Never here: what arrived
(`replica_maps`), who reads (`replica_links`).
Invariant: each name stands in it once, where it arrived last; so the log is never longer than twice
the names, and a reader who reads on to the end has seen the latest of everything.
"""

from bisect import bisect_right
from collections.abc import Iterator
from operator import itemgetter
from typing import Final

SLACK: Final = 64  # Outdated places kept in a short log: sweeping it would cost more than they do.

_number = itemgetter(0)


class Arrivals:
    """Names by the number of their last arrival."""

    def __init__(self) -> None:
        self.head = 0  # The number of the last arrival.
        self._log: list[tuple[int, str, int]] = []  # Number, name, when; some are outdated.
        self._last: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._last)

    def add(self, name: str, now_us: int) -> int:
        """It arrived, perhaps again."""
        self.head += 1
        self._last[name] = self.head
        self._log.append((self.head, name, now_us))
        if len(self._log) > 2 * len(self._last) + SLACK:
            self._sweep()
        return self.head

    def drop(self, name: str) -> None:
        """It is of no interest any more."""
        self._last.pop(name, None)

    def number(self, name: str) -> int:
        """When it arrived last, as a number; 0: never."""
        return self._last.get(name, 0)

    def after(self, cursor: int) -> Iterator[tuple[int, str]]:
        """What arrived since then, the stalest first."""
        for at in range(bisect_right(self._log, cursor, key=_number), len(self._log)):
            number, name, _ = self._log[at]
            if self._last.get(name) == number:
                yield number, name

    def waiting_us(self, cursor: int, now_us: int) -> int:
        """How long the stalest arrival after this place has been known here."""
        if cursor >= self.head:
            return 0
        at = bisect_right(self._log, cursor, key=_number)
        return max(0, now_us - self._log[at][2]) if at < len(self._log) else 0

    def _sweep(self) -> None:
        last = self._last
        self._log = [place for place in self._log if last.get(place[1]) == place[0]]
