"""What is kept for somebody, now and later, and what others must leave free for it.

Lives here: the calendar of bookings, and the room that they need. Never here: whom to stop when a
window begins (`preemption`), granting (`ledger`), reading times (`model.moment`).
Invariant: at every moment the bookings that hold fit this machine side by side.

Bookings are requests, not devices: nothing is set aside by name. Amounts are added up; GPUs are
tried on, the choosiest first, so a fit is never claimed that is none, but a clever one may be
missed where demands on models and on memory cross. Whole cores count as amounts.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec

from distributed_grid.errors import BadValue, BookingConflict, Conflict, NotFound, Overloaded
from distributed_grid.kernel.roominess import Missing, left_of, missing_for, without
from distributed_grid.model.booking import Booking
from distributed_grid.model.resources import Request, Resources

BOOKINGS_MAX: Final = 1_000  # People type them; a calendar of three years of workdays.
TOGETHER_MAX: Final = 100  # That hold at once: a decision looks at all of them.


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """Whose a job is, which decides the bookings it may use."""

    user: str = ""
    project: str = ""
    booking: str = ""  # The one it names.

    def may_use(self, booking: Booking) -> bool:
        """Whether this booking is kept for it."""
        return booking.is_open_to(self.user, self.project, self.booking)


class Holder(msgspec.Struct, frozen=True, kw_only=True):
    """A running job: whose it is, what it holds, until when at most."""

    claim: Claim
    resources: Resources
    # None: it gives way when a booking begins. Of one that never does: a moment far away.
    until_ms: int | None = None


class Blocked(msgspec.Struct, frozen=True, kw_only=True):
    """Why a job must not start now: it would still run then, and leave too little room."""

    at_ms: int
    bookings: tuple[str, ...]
    missing: Missing


class Due(msgspec.Struct, frozen=True, kw_only=True):
    """A booking that holds and has no room: what of it is not in use, and what is missing."""

    booking: str
    rest: tuple[Request, ...]
    missing: Missing


class Bookings:
    """The calendar of one machine."""

    def __init__(self, total: Resources) -> None:
        self.total = total
        self._bookings: dict[str, Booking] = {}
        self._ordered: tuple[Booking, ...] = ()  # As they begin.
        self._squeezed: set[str] = set()  # Restored, though there is no room for them any more.

    def __iter__(self) -> Iterator[Booking]:
        """In the order in which they begin."""
        return iter(self._ordered)

    def __contains__(self, name: object) -> bool:
        return name in self._bookings

    def __len__(self) -> int:
        return len(self._bookings)

    def add(self, booking: Booking, now_ms: int) -> None:
        """Keep it, or raise: BookingConflict tells beside whom it does not fit.

        The same again changes nothing.
        """
        self.expire(now_ms)
        if self._bookings.get(booking.name) == booking:
            return
        if booking.name in self._bookings:
            raise Conflict("booking", booking.name)
        if booking.until_ms <= now_ms:
            raise BadValue(
                booking.until_ms, expected="an end in the future", remedy="Check the times"
            )
        if len(self._bookings) >= BOOKINGS_MAX:
            raise Overloaded("bookings", most=BOOKINGS_MAX)
        if any(len(crowd) >= TOGETHER_MAX for crowd in _crowds(self._ordered, booking)):
            raise Overloaded("bookings at one moment", most=TOGETHER_MAX)
        conflict = self._conflict(booking)
        if conflict is not None:
            raise conflict
        self._keep(booking)

    def restore(self, booking: Booking) -> BookingConflict | None:
        """Keep one that was promised before; tells if the machine has no room for it any more.

        It is kept all the same: what is missing may come back, and until then it is `due`.
        """
        conflict = self._conflict(booking)
        if conflict is not None:
            self._squeezed.add(booking.name)
        self._keep(booking)
        return conflict

    def remove(self, name: str) -> Booking:
        """Keep it no longer."""
        if name not in self._bookings:
            raise NotFound("booking", name)
        booking = self._bookings[name]
        self._forget([booking])
        return booking

    def expire(self, now_ms: int) -> list[Booking]:
        """Forget those that are over; tells which."""
        over = [one for one in self._ordered if one.until_ms <= now_ms]
        if over:
            self._forget(over)
        return over

    def active(self, now_ms: int) -> tuple[Booking, ...]:
        """Those that hold now, in the order in which they began."""
        return tuple(one for one in self._ordered if one.holds_at(now_ms))

    def next_ms(self, now_ms: int) -> int | None:
        """When the next one begins or ends; None if nothing will."""
        ahead = (ms for one in self._ordered for ms in (one.from_ms, one.until_ms))
        return min((ms for ms in ahead if ms > now_ms), default=None)

    def held_back(
        self, now_ms: int, claim: Claim, running: Sequence[Holder]
    ) -> tuple[Request, ...]:
        """What a job of this claim must leave free now, because it is kept for others.

        What the jobs of a booking hold already is not kept once more. Whether a request fits
        beside it: `roominess.missing_for`; on which devices: `roominess.devices_beside`.
        """
        rests = self._rests(now_ms, running)
        return tuple(one for booking, rest in rests if not claim.may_use(booking) for one in rest)

    def blocks(
        self,
        request: Request,
        until_ms: int | None,
        now_ms: int,
        claim: Claim,
        running: Sequence[Holder],
    ) -> Blocked | None:
        """Why a job that starts now and ends then must not; None: it may.

        One without a known end may start: it gives way when the window begins. So do the running
        ones without an end, which is why they are not counted here.
        """
        if until_ms is None:
            return None
        begins = {
            one.from_ms
            for one in self._ordered
            if now_ms < one.from_ms < until_ms and not claim.may_use(one)
        }
        for at_ms in sorted(begins):
            staying = [one for one in running if one.until_ms is not None and one.until_ms > at_ms]
            free = self.total
            for holder in staying:
                free = without(free, holder.resources)
            rests = [
                (one, rest) for one, rest in self._rests(at_ms, staying) if not claim.may_use(one)
            ]
            kept = [wanted for _, rest in rests for wanted in rest]
            missing = missing_for([*kept, request], free)
            if missing:
                names = tuple(one.name for one, _ in rests)
                return Blocked(at_ms=at_ms, bookings=names, missing=missing)
        return None

    def due(self, now_ms: int, free: Resources, running: Sequence[Holder]) -> tuple[Due, ...]:
        """Bookings that hold now and would not fit into what is free, with what is missing.

        They are counted up in the order in which they began; each is told for itself.
        """
        found = []
        kept: list[Request] = []
        for booking, rest in self._rests(now_ms, running):
            kept += rest
            missing = missing_for(kept, free)
            if missing:
                found.append(Due(booking=booking.name, rest=rest, missing=missing))
                del kept[len(kept) - len(rest) :]
        return tuple(found)

    def check(self) -> None:
        """Re-derive what must be true."""
        assert len(self._bookings) <= BOOKINGS_MAX, "bookings without bound"
        assert self._squeezed <= self._bookings.keys(), "remembers one that is gone"
        assert list(self._ordered) == sorted(self._bookings.values(), key=_order), "out of order"
        for booking in self._ordered:
            beside = [one for one in self.active(booking.from_ms) if one.name not in self._squeezed]
            # GPUs by their sum: trying on may miss a fit when one of them has gone.
            gpu_milli = sum(one.request.gpus.milli for one in beside if one.request.gpus)
            assert gpu_milli <= sum(gpu.share_milli for gpu in self.total.gpus), "overbooked"
            rest = [msgspec.structs.replace(one.request, gpus=None) for one in beside]
            assert not missing_for(rest, self.total), "overbooked"

    def _keep(self, booking: Booking) -> None:
        self._bookings[booking.name] = booking
        self._ordered = tuple(sorted(self._bookings.values(), key=_order))

    def _forget(self, bookings: Iterable[Booking]) -> None:
        for booking in bookings:
            del self._bookings[booking.name]
            self._squeezed.discard(booking.name)
        self._ordered = tuple(one for one in self._ordered if one.name in self._bookings)

    def _conflict(self, booking: Booking) -> BookingConflict | None:
        """Beside whom it does not fit, the first time that it does not."""
        for beside in _crowds(self._ordered, booking):
            missing = missing_for([*(one.request for one in beside), booking.request], self.total)
            if missing:
                others = [one.name for one in beside]
                return BookingConflict(booking.name, others=others, missing=missing)
        return None

    def _rests(
        self, at_ms: int, running: Sequence[Holder]
    ) -> list[tuple[Booking, tuple[Request, ...]]]:
        """Every booking that holds then, with what its jobs do not hold of it.

        A job that may use several draws on the first, then on the next; those with less choice
        come first.
        """
        active = self.active(at_ms)
        if not active:
            return []
        rests: dict[str, tuple[Request, ...]] = {one.name: (one.request,) for one in active}
        choices = [([b for b in active if one.claim.may_use(b)], one.resources) for one in running]
        for usable, held in sorted(choices, key=lambda choice: len(choice[0])):
            spare = held
            for booking in usable:
                rests[booking.name], spare = left_of(rests[booking.name], spare)
        return [(one, rests[one.name]) for one in active]


def _crowds(bookings: Iterable[Booking], during: Booking) -> Iterator[list[Booking]]:
    """Those that hold together while this one does; not those who are part of a larger crowd."""
    changes: list[tuple[int, bool, Booking]] = []  # Who ends makes room for who begins.
    for one in bookings:
        if one.from_ms < during.until_ms and during.from_ms < one.until_ms:
            changes.append((max(one.from_ms, during.from_ms), True, one))
            changes.append((one.until_ms, False, one))
    crowd: dict[str, Booking] = {}
    has_grown = True
    for at_ms, begins, one in sorted(changes, key=lambda change: change[:2]):
        if at_ms >= during.until_ms:
            break
        if not begins and has_grown:
            yield list(crowd.values())
        if begins:
            crowd[one.name] = one
        else:
            del crowd[one.name]
        has_grown = begins
    if has_grown:
        yield list(crowd.values())


def _order(booking: Booking) -> tuple[int, str]:
    return booking.from_ms, booking.name
