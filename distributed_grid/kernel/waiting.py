"""Who waits for resources, in order, in a way that ten thousand cost as little as ten.

Lives here: the line. Never here: what is free (`ledger`), who may have it (`host`), who has used
what (`fairness`).
Invariant: the order of service is that of

    (is_shared, class after waiting, [medium only: use of the user, use of the project],
     submitted_ms, id)

and of entries that differ only in the last two, only the oldest can be next. So a decision looks at
the head of each group. Since the oldest is also the first to be lifted, so is the line: only heads
have an alarm. Time never goes back here.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from operator import attrgetter
from typing import Final

from distributed_grid.kernel.entry import AGEING_MS, Entry, lifted
from distributed_grid.kernel.fairness import Accounts
from distributed_grid.kernel.forecast import Forecast
from distributed_grid.kernel.groups import (
    Claim,
    ClaimKey,
    Group,
    GroupKey,
    Purse,
    PurseKey,
    Spot,
    key_of,
)
from distributed_grid.kernel.lanes import FairLane, PlainLane
from distributed_grid.model.ids import JobId
from distributed_grid.model.priority import MEDIUM, RANKS, URGENT

_CLASSES: Final = len(RANKS)
_SUBMITTED: Final = attrgetter("submitted_ms")


class WaitingLine:
    """Entries by group; the heads of the groups by shared flag and class."""

    def __init__(self, *, ageing_ms: int = AGEING_MS) -> None:
        self._ageing_ms = ageing_ms
        self._now_ms = 0
        self._spots: dict[JobId, Spot] = {}
        self.version = 0  # Goes up whenever somebody joins or leaves.
        self._by_age: list[list[Spot]] = [[] for _ in range(2 * _CLASSES)]  # By their own class.
        self._groups: dict[GroupKey, Group] = {}
        self._groups_made = 0
        self._claims: dict[bool, dict[ClaimKey, Claim]] = {False: {}, True: {}}  # Shared or not.
        self._purses: dict[PurseKey, Purse] = {}
        self._lanes = [
            FairLane() if number % _CLASSES == MEDIUM else PlainLane()
            for number in range(2 * _CLASSES)
        ]
        self._alarms: list[tuple[int, int, Group]] = []  # Due, number; one for each due group.

    def add(self, entry: Entry) -> bool:
        """Join the line; a job that waits already keeps its place, and that is told."""
        if entry.job in self._spots:
            return False
        group = self._group(entry)
        self.version += 1
        spot = Spot(entry.submitted_ms, entry.job, entry, group, group.claim, group.purse)
        self._spots[entry.job] = spot
        insort(self._by_age[_base(entry) + entry.rank], spot)
        insort(group.entries, entry)
        if group.entries[0] is entry:
            self._lead(group)
        return True

    def remove(self, job: JobId) -> Entry | None:
        """Leave the line; None: it did not wait."""
        spot = self._spots.pop(job, None)
        if spot is None:
            return None
        self.version += 1
        entry, group = spot.entry, spot.group
        by_age = self._by_age[_base(entry) + entry.rank]
        del by_age[bisect_left(by_age, spot)]
        del group.entries[bisect_left(group.entries, entry)]
        if group.head is entry:
            self._lead(group)
        if not group.entries:
            self._drop(group)
        return entry

    def lifted(self, entry: Entry, now_ms: int) -> int:
        """The class of an entry after waiting until now."""
        return lifted(entry.rank, now_ms - entry.submitted_ms, self._ageing_ms)

    def tops(self, now_ms: int, accounts: Accounts) -> list[Entry]:
        """The next of each group, in the order of service."""
        self._wake(now_ms)
        heads: list[Entry] = []
        for lane in self._lanes:
            for run in lane.runs(accounts):
                heads += run
        return heads

    def first_of_each(self, now_ms: int, accounts: Accounts) -> list[Entry]:
        """The next for each distinct claim, in the order of service.

        If it cannot be met now, neither can that of anybody else who claims the same.
        """
        self._wake(now_ms)
        found: dict[Claim, Entry] = {}
        for is_shared, claims in self._claims.items():
            most = len(found) + len(claims)
            lanes = self._lanes[_CLASSES * is_shared :]
            heads = (head for lane in lanes for run in lane.runs(accounts) for head in run)
            while len(found) < most:
                head = next(heads)
                found.setdefault(self._spots[head.job].claim, head)
        return list(found.values())

    def order(self, now_ms: int, accounts: Accounts) -> Iterator[Entry]:
        """Everybody, in the order of service, if all were to run equally long."""
        self._wake(now_ms)
        claims = [claim for some in self._claims.values() for claim in some.values()]
        forecast = Forecast(accounts, claims, self._purses.values())
        entries: list[Entry] = []
        for number in range(2 * _CLASSES):
            is_fair = number % _CLASSES == MEDIUM
            serve = forecast.shared_out if is_fair else forecast.by_age
            entries += serve(self._lane_by_age(number))
        return iter(entries)

    def position(self, job: JobId, now_ms: int, accounts: Accounts) -> int | None:
        """From 1, in that order; None if it does not wait."""
        if job not in self._spots:
            return None
        others = (entry.job for entry in self.order(now_ms, accounts))
        return next(place for place, other in enumerate(others, start=1) if other == job)

    @property
    def has_own(self) -> bool:
        """Whether the owner's own work waits, not only that of borrowers."""
        return bool(self._claims[False])

    def __iter__(self) -> Iterator[JobId]:
        return iter(self._spots)

    def __contains__(self, job: object) -> bool:
        return job in self._spots

    def __len__(self) -> int:
        return len(self._spots)

    def check(self) -> None:
        """Re-derive what must be true."""
        waiting = sorted(self._spots.values())
        assert waiting == sorted(s for by_age in self._by_age for s in by_age), "lost by age"
        assert all(by_age == sorted(by_age) for by_age in self._by_age), "not in order of age"
        grouped = sorted(entry for group in self._groups.values() for entry in group.entries)
        assert [spot.entry for spot in waiting] == grouped, "lost in a group"
        for spot in waiting:
            assert key_of(spot.entry) == spot.group.key, "in the group of others"
        counts: dict[Claim | Purse, int] = {}
        for key, group in self._groups.items():
            assert group.key == key, "a group under another key"
            assert group.entries == sorted(group.entries), "a group that is not in order"
            assert group.entries[0] is group.head, "a group whose head is not its oldest"
            for common in (group.claim, group.purse):
                counts[common] = counts.get(common, 0) + 1
        commons: list[Claim | Purse] = [*self._purses.values()]
        for claims in self._claims.values():
            commons += claims.values()
        assert counts == {common: common.groups for common in commons}, "groups are miscounted"
        for number, lane in enumerate(self._lanes):
            heads = [group.head for group in self._groups.values() if group.lane == number]
            assert sorted(lane.check()) == sorted(filter(None, heads)), "heads and lanes disagree"
        alarms = sorted(
            (g.due_ms, g.number, g) for g in self._groups.values() if g.due_ms is not None
        )
        assert alarms == self._alarms, "alarms and heads disagree"

    def _group(self, entry: Entry) -> Group:
        key = key_of(entry)
        group = self._groups.get(key)
        if group is None:
            claims = self._claims[entry.is_shared]
            claim = claims.setdefault(key[0], Claim(key[0]))
            purse = self._purses.setdefault(key[2], Purse(key[2]))
            claim.groups += 1
            purse.groups += 1
            self._groups_made += 1
            group = self._groups[key] = Group(key, claim, purse, self._groups_made)
        return group

    def _drop(self, group: Group) -> None:
        """Forget a group without entries."""
        del self._groups[group.key]
        group.claim.groups -= 1
        if not group.claim.groups:
            del self._claims[group.claim.key[0]][group.claim.key]
        group.purse.groups -= 1
        if not group.purse.groups:
            del self._purses[group.purse.key]

    def _lead(self, group: Group) -> None:
        """Show the oldest of a group to the lane in which it is now, with an alarm for the next."""
        if group.head is not None:
            self._lanes[group.lane].remove(group.head)
        if group.due_ms is not None:
            del self._alarms[bisect_left(self._alarms, (group.due_ms, group.number))]
        group.head = head = group.entries[0] if group.entries else None
        group.due_ms = None
        if head is not None:
            rank = self.lifted(head, self._now_ms)
            group.lane = _base(head) + rank
            self._lanes[group.lane].add(head)
            if rank != URGENT:
                group.due_ms = head.submitted_ms + (head.rank - rank + 1) * self._ageing_ms
                insort(self._alarms, (group.due_ms, group.number, group))

    def _wake(self, now_ms: int) -> None:
        """Lift those whose time has come."""
        self._now_ms = max(self._now_ms, now_ms)
        while self._alarms and self._alarms[0][0] <= self._now_ms:
            self._lead(self._alarms[0][2])

    def _lane_by_age(self, number: int) -> list[Spot]:
        """Everybody in a lane, oldest first: of each class those that have waited so long."""
        base, rank = number - number % _CLASSES, number % _CLASSES
        spots: list[Spot] = []
        for own in range(rank, _CLASSES):
            by_age = self._by_age[base + own]
            start = self._waited(by_age, own - rank + 1) if rank != URGENT else 0
            spots += by_age[start : self._waited(by_age, own - rank)]
        spots.sort()
        return spots

    def _waited(self, by_age: list[Spot], steps: int) -> int:
        """How many have waited for so many steps of ageing."""
        if not steps:
            return len(by_age)
        since_ms = self._now_ms - steps * self._ageing_ms
        return bisect_right(by_age, since_ms, key=_SUBMITTED)


def _base(entry: Entry) -> int:
    """Where the lanes of the owner's work begin, or of borrowed work."""
    return _CLASSES if entry.is_shared else 0
