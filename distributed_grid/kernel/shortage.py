"""What one request lacks here, and what each of some leases would bring towards it.

Lives here: the demands of a request that are not met, and giving leases back on trial in a
microsecond. Never here: which leases to give back (`victims`), granting (`ledger`).
Invariant: it fits exactly when the ledger would grant it (a property test compares the two).

A demand is an amount (cpu, memory, storage, a custom kind) or a number of places: cores or devices
of which enough is free at once. Two half-used cores are no whole one, so a place that several
leases hold is watched by itself. Only what is lacking is looked at: giving back never takes
anything away.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import NamedTuple

from distributed_grid.kernel.ledger import Ledger
from distributed_grid.model import milli
from distributed_grid.model.lease import Lease
from distributed_grid.model.resources import Request, Resources

Place = int | str  # A core by its number, a device by its name.
Shares = Iterable[tuple[Place, int]]


class Offering(NamedTuple):
    """What a lease would bring; equal ones are worth the same, whatever else is given back."""

    amounts: tuple[int, ...]  # Of each need; of places those that it opens by itself.
    shares: tuple[tuple[int, Place, int], ...]  # (need, place, thousandths): places with others.


class _Places(NamedTuple):
    """A demand for so many places with so much room each."""

    each_milli: int
    lacking: int
    room: Mapping[Place, int]  # Of every place that would do if it were free, and may be in use.
    shares_of: Callable[[Lease], Shares]


class Shortage:
    """How far a request is from fitting, while leases are given back and taken again."""

    def __init__(self, ledger: Ledger, request: Request, leases: Iterable[Lease]) -> None:
        held = list(leases)
        free = ledger.free()
        columns, amounts = _amounts(request, free, held)
        places = [*_cores(ledger, request), *_devices(ledger, request, free)]
        self.needs = (*amounts, *(one.lacking * milli.WHOLE for one in places))
        self._short = list(self.needs)
        self._unmet = len(self.needs)
        self._each_milli = [*amounts, *(one.each_milli for one in places)]
        self._room: list[dict[Place, int]] = [{} for _ in self.needs]
        shares: list[list[tuple[int, Place, int]]] = [[] for _ in held]
        for need, demand in enumerate(places, start=len(amounts)):
            columns.append(self._reach(need, demand, held, shares))
        self.offerings = [
            Offering(some, tuple(shared))
            for some, shared in zip(
                zip(*columns, strict=True) if columns else [()] * len(held), shares, strict=True
            )
        ]
        self.can_suffice = all(  # If all of these leases ended.
            sum(column) + milli.WHOLE * len(room) >= need
            for column, room, need in zip(columns, self._room, self.needs, strict=True)
        )

    def fits(self) -> bool:
        """Whether the ledger would grant the request now."""
        return not self._unmet

    def is_met(self, need: int) -> bool:
        """Whether one of the `needs` is lacking no more."""
        return self._short[need] <= 0

    def give(self, offering: Offering) -> None:
        """Suppose that this lease ended."""
        short = self._short
        for need, amount in enumerate(offering.amounts):
            if amount:
                before = short[need]
                short[need] = before - amount
                if before - amount <= 0 < before:
                    self._unmet -= 1
        for need, place, share in offering.shares:
            room, each_milli = self._room[need], self._each_milli[need]
            had = room[place]
            room[place] = had + share
            if had < each_milli <= had + share:
                short[need] -= milli.WHOLE
                self._unmet -= -milli.WHOLE < short[need] <= 0

    def take(self, offering: Offering) -> None:
        """Suppose that it did not, after all."""
        short = self._short
        for need, amount in enumerate(offering.amounts):
            if amount:
                before = short[need]
                short[need] = before + amount
                if before <= 0 < before + amount:
                    self._unmet += 1
        for need, place, share in offering.shares:
            room, each_milli = self._room[need], self._each_milli[need]
            had = room[place]
            room[place] = had - share
            if had - share < each_milli <= had:
                self._unmet += -milli.WHOLE < short[need] <= 0
                short[need] += milli.WHOLE

    def credits(self, offering: Offering) -> tuple[int, ...]:
        """How much of each of the `needs` a lease could bring at most, before anything is given.

        Of a place that several leases hold, each is credited with its part of what must end
        there. So whoever meets a need has credits that add up to it; the reverse is not true.
        """
        if not offering.shares:
            return offering.amounts
        earned = list(offering.amounts)
        for need, place, share in offering.shares:
            lacking_milli = self._each_milli[need] - self._room[need][place]
            part = min(share, lacking_milli) * milli.WHOLE
            earned[need] += -(-part // lacking_milli)  # Rounded up: a bound must not be low.
        return tuple(earned)

    def _reach(
        self,
        need: int,
        demand: _Places,
        leases: Sequence[Lease],
        shared: Sequence[list[tuple[int, Place, int]]],
    ) -> list[int]:
        """What each lease opens by itself; notes its shares of what several open together.

        A place that stays too full though all of them ended is no place.
        """
        shares = list(map(demand.shares_of, leases))
        held: dict[Place, int] = {}
        for some in shares:
            for place, share in some:
                held[place] = held.get(place, 0) + share
        room_of, each_milli = demand.room, demand.each_milli
        opens = {
            place: share
            for place, share in held.items()
            if place in room_of and room_of[place] < each_milli <= room_of[place] + share
        }
        column = []
        watched = self._room[need]
        for number, some in enumerate(shares):
            alone = 0
            for place, share in some:
                if place not in opens:
                    continue
                if opens[place] == share:
                    alone += milli.WHOLE
                else:
                    watched[place] = room_of[place]
                    shared[number].append((need, place, share))
            column.append(alone)
        return column


def _amounts(
    request: Request, free: Resources, leases: Sequence[Lease]
) -> tuple[list[list[int]], list[int]]:
    """For each amount that is lacking what every lease holds of it; and how much is lacking."""
    columns, short = [], []
    held = [lease.resources for lease in leases]
    for name in ("cpu_milli", "memory_bytes", "storage_bytes"):
        lacking = getattr(request, name) - getattr(free, name)
        if lacking > 0:
            short.append(lacking)
            columns.append(list(map(attrgetter(name), held)))
    has = dict(free.custom)
    for kind, amount in request.custom:
        if amount > has.get(kind, 0):
            short.append(amount - has.get(kind, 0))
            columns.append([dict(one.custom).get(kind, 0) for one in held])
    return columns, short


def _cores(ledger: Ledger, request: Request) -> list[_Places]:
    """Whole cores, and one core more with room for the share."""
    count, share = divmod(request.cpu_milli, milli.WHOLE)
    wants = [(milli.WHOLE, count)] if count else []
    wants += [(share, count + 1)] if share else []
    used = ledger.used_cores.items() if wants else ()
    room: dict[Place, int] = {core: milli.WHOLE - use for core, use in used}
    unused = len(ledger.inventory.cores) - len(room)
    return [
        _Places(each_milli, wanted - found, room, _cores_of)
        for each_milli, wanted in wants
        if wanted > (found := unused + sum(1 for one in room.values() if one >= each_milli))
    ]


def _devices(ledger: Ledger, request: Request, free: Resources) -> list[_Places]:
    """Whole devices, or one with room for the share."""
    if request.gpus is None:
        return []
    count, share = divmod(request.gpus.milli, milli.WHOLE)
    each_milli = share or milli.WHOLE
    has = {gpu.device: gpu.share_milli for gpu in free.gpus}
    accepts = request.gpus.accepts
    room: dict[Place, int] = {
        gpu.device: has.get(gpu.device, 0) for gpu in ledger.inventory.gpus if accepts(gpu)
    }
    lacking = max(count, 1) - sum(1 for one in room.values() if one >= each_milli)
    return [_Places(each_milli, lacking, room, _devices_of)] if lacking > 0 else []


def _cores_of(lease: Lease) -> Shares:
    return lease.cores


def _devices_of(lease: Lease) -> Shares:
    gpus = lease.resources.gpus
    return [(gpu.device, gpu.share_milli) for gpu in gpus] if gpus else ()
