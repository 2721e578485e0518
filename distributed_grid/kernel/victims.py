"""Whom to stop so that a request fits: the fewest, and of those the least deserving.

Lives here: the search, on numbers. Never here: what a lease brings (`shortage`), who deserves
what (`preemption`).
Invariant: what is chosen suffices, and without any one of the chosen it would not.

The search is exact for up to `SIZE_MAX` victims while it stays below `TRIES_MAX`: sets of one, of
two, and so on, where sets that cannot bring enough are not tried, and of leases that are worth the
same only the least deserving are. Beyond that the better of two greedy choices is taken, rid of
everybody who is not needed and improved by exchanging one for one. The gap then: where no core or
device is shared, at most as many times the fewest as kinds are lacking, so with one kind it is the
fewest. Where they are shared there is no such factor, only the invariant; in a test on full
machines one of forty plans has one victim too many.
"""

from collections.abc import Collection, Sequence
from itertools import accumulate, takewhile
from operator import add
from typing import Final

from distributed_grid.kernel.shortage import Offering, Shortage
from distributed_grid.model import milli

SIZE_MAX: Final = 8  # Sets beyond this are too many to compare, whatever is left out.
TRIES_MAX: Final = 600  # Steps of the search: some two milliseconds.
POOL_MAX: Final = 32  # For each need, those who bring most; a millisecond for ten victims.
IMPROVED_MAX: Final = 64  # Of more victims a few better ones make no difference.
EXCHANGES_MAX: Final = 300  # Half a millisecond more.

Class = tuple[int, int]  # How important: own or borrowed, then the rank.
Chosen = tuple[int, ...]  # Numbers of offerings, the most deserving first.


def fewest(shortage: Shortage, classes: Sequence[Class]) -> Chosen | None:
    """The offerings to give back; None if all together do not suffice.

    Offerings are numbered from the least deserving; `classes` says how important each is, and
    goes up with the number. Leaves the shortage as it was.
    """
    if not shortage.can_suffice:
        return None
    useful = [n for n, one in enumerate(shortage.offerings) if any(one.amounts) or one.shares]
    search = _Search(shortage, classes, useful)
    return search.exact() or search.greedy()


class _Search:
    def __init__(self, shortage: Shortage, classes: Sequence[Class], useful: Sequence[int]) -> None:
        self.shortage, self.classes, self.useful = shortage, classes, useful
        self.offerings = shortage.offerings
        self.credits = {n: shortage.credits(self.offerings[n]) for n in useful}
        self.some: Sequence[int] = ()  # Those that sets of the present size are made of.
        self.peaks: Sequence[Sequence[int]] = ()
        self.tries = self.exchanges = 0
        self.best: Chosen | None = None

    def exact(self) -> Chosen | None:
        """The best set of the smallest size; None if that would take too long."""
        for size in range(self._least(), SIZE_MAX + 1):
            self.some = self._of_equals(size)
            self.peaks = [
                list(accumulate((self.credits[n][need] for n in self.some), max))
                for need in range(len(self.shortage.needs))
            ]
            self._try(len(self.some), size, (), (0,) * len(self.shortage.needs))
            if self.tries >= TRIES_MAX:
                return None
            if self.best is not None:
                return self.best
        return None

    def greedy(self) -> Chosen:
        """A set that is found fast: the better of two, exchanged one for one."""
        eager = []
        for column in zip(*self.credits.values(), strict=True):
            brings = dict(zip(self.useful, column, strict=True))
            eager.append(sorted(self.useful, key=brings.__getitem__, reverse=True))  # Stable.
        first = self._by_need(eager)
        if len(first) > IMPROVED_MAX:
            return first
        found = [some for some in (self.best, self._by_step(eager), first) if some]
        least = min(map(len, found))
        few = dict.fromkeys(some for some in found if len(some) == least)
        return min(map(self._exchanged, few), key=self._order)

    def _order(self, some: Chosen) -> tuple[int, tuple[Class, ...], Chosen]:
        return len(some), tuple(self.classes[n] for n in some), some

    def _least(self) -> int:
        """No set smaller than this can bring enough."""
        least = 1
        columns = zip(*self.credits.values(), strict=True)
        for column, need in zip(columns, self.shortage.needs, strict=True):
            brought = accumulate(sorted(column, reverse=True))
            least = max(least, 1 + sum(1 for _ in takewhile(need.__gt__, brought)))
        return least

    def _of_equals(self, most: int) -> list[int]:
        """No more than so many of those that are worth the same: the least deserving."""
        seen: dict[Offering, int] = {}
        some = []
        for number in self.useful:
            offering = self.offerings[number]
            seen[offering] = count = seen.get(offering, 0) + 1
            if count <= most:
                some.append(number)
        return some

    def _try(self, limit: int, size: int, chosen: Chosen, brought: tuple[int, ...]) -> None:
        """Extend by `size` of the first `limit`, the most deserving of them first."""
        prefix = tuple(self.classes[n] for n in chosen)
        for index in range(size - 1, limit):
            number = self.some[index]
            classes = (*prefix, self.classes[number])
            if self._is_beaten(classes, is_whole=size == 1) or self.tries >= TRIES_MAX:
                return
            self.tries += 1
            got = tuple(map(add, brought, self.credits[number]))
            if not self._could(got, index, size - 1):
                continue
            self.tries += 1 + len(self.offerings[number].shares)
            self.shortage.give(self.offerings[number])
            if size > 1:
                self._try(index, size - 1, (*chosen, number), got)
            elif self.shortage.fits():
                self.best = (*chosen, number)
            self.shortage.take(self.offerings[number])

    def _is_beaten(self, classes: tuple[Class, ...], *, is_whole: bool) -> bool:
        """Whether nothing that begins like this is less important than the best so far.

        Sets are tried in the order of the numbers, so of equal classes the first is the best.
        """
        if self.best is None:
            return False
        best = tuple(self.classes[n] for n in self.best[: len(classes)])
        return classes > best or (is_whole and classes == best)

    def _could(self, brought: Sequence[int], limit: int, more: int) -> bool:
        """Whether `more` of the first `limit` could bring what is still lacking."""
        for need, wanted in enumerate(self.shortage.needs):
            rest = wanted - brought[need]
            if rest > 0 and (not more or rest > more * self.peaks[need][limit - 1]):
                return False
        return True

    def _by_need(self, eager: Sequence[Sequence[int]]) -> Chosen:
        """For one need after the other those who bring most of it."""
        given: set[int] = set()
        for need, numbers in enumerate(eager):
            for number in numbers:
                if self.shortage.is_met(need):
                    break
                if number not in given:
                    given.add(number)
                    self.shortage.give(self.offerings[number])
        return self._rid(given)

    def _by_step(self, eager: Sequence[Sequence[int]]) -> Chosen | None:
        """Whoever brings most of everything that is lacking, again and again, among the best."""
        pool = sorted({number for numbers in eager for number in numbers[:POOL_MAX]})
        needs, left = self.shortage.needs, list(self.shortage.needs)
        given: list[int] = []

        def brings_milli(number: int) -> int:
            parts = zip(self.credits[number], left, needs, strict=True)
            return sum(min(some, rest) * milli.WHOLE // need for some, rest, need in parts)

        while pool and not self.shortage.fits():
            number = max(pool, key=brings_milli)  # The first, and least deserving, of equals.
            pool.remove(number)
            given.append(number)
            self.shortage.give(self.offerings[number])
            left = [
                max(rest - some, 0) for rest, some in zip(left, self.credits[number], strict=True)
            ]
        if self.shortage.fits():
            return self._rid(given)
        self._take(given)  # The pool was too small.
        return None

    def _rid(self, given: Collection[int]) -> Chosen:
        """Without those who are not needed, the most deserving first; takes all of them back."""
        needed = []
        for number in sorted(given, reverse=True):
            self.shortage.take(self.offerings[number])
            if not self.shortage.fits():
                self.shortage.give(self.offerings[number])
                needed.append(number)
        self._take(needed)
        return tuple(needed)

    def _exchanged(self, chosen: Chosen) -> Chosen:
        """With less deserving ones in the place of others, as far as the time goes."""
        others = sorted(set(self.useful).difference(chosen))
        given = []
        self._give(chosen)
        for number in chosen:
            self.shortage.take(self.offerings[number])
            keeps = number
            for other in others:
                if other > number or self.exchanges >= EXCHANGES_MAX:
                    break
                self.exchanges += 1
                self.shortage.give(self.offerings[other])
                if self.shortage.fits():
                    keeps = other
                    others.remove(other)
                    break
                self.shortage.take(self.offerings[other])
            if keeps == number:
                self.shortage.give(self.offerings[number])
            given.append(keeps)
        return self._rid(given)

    def _give(self, some: Sequence[int]) -> None:
        for number in some:
            self.shortage.give(self.offerings[number])

    def _take(self, some: Sequence[int]) -> None:
        for number in some:
            self.shortage.take(self.offerings[number])
