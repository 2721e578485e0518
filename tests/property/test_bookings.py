import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from distributed_grid.errors import BookingConflict
from distributed_grid.kernel.bookings import Bookings, Claim, Holder
from distributed_grid.model.booking import Booking
from distributed_grid.model.resources import Request, Resources

TOTAL = Resources(cpu_milli=4_000, memory_bytes=4)
END_MS = 12
moments = st.integers(0, END_MS)
amounts = st.builds(
    Request, cpu_milli=st.sampled_from([1_000, 2_000, 3_000]), memory_bytes=st.integers(0, 3)
)
claims = st.builds(Claim, user=st.sampled_from(["", "ann", "bob"]))


class Calendar(RuleBasedStateMachine):
    """Minute by minute, as a person would count on a sheet of paper."""

    def __init__(self) -> None:
        super().__init__()
        self.bookings = Bookings(TOTAL)
        self.paper: dict[str, Booking] = {}
        self.now_ms = 0

    def used(self, at_ms: int, *more: Request) -> tuple[int, int]:
        there = [one.request for one in self.paper.values() if one.holds_at(at_ms)]
        there += more
        return sum(r.cpu_milli for r in there), sum(r.memory_bytes for r in there)

    def fits(self, at_ms: int, *more: Request) -> bool:
        cpu_milli, memory_bytes = self.used(at_ms, *more)
        return cpu_milli <= TOTAL.cpu_milli and memory_bytes <= TOTAL.memory_bytes

    @rule(
        name=st.sampled_from("abcdefgh"),
        request=amounts,
        begins=moments,
        length=st.integers(1, 6),
        user=st.sampled_from(["", "ann"]),
    )
    def add(self, name: str, request: Request, begins: int, length: int, user: str) -> None:
        ends = begins + length
        if name in self.paper or ends <= self.now_ms:
            return
        booking = Booking(name=name, request=request, from_ms=begins, until_ms=ends, user=user)
        fits = all(self.fits(at_ms, request) for at_ms in range(begins, ends))
        if fits:
            self.bookings.add(booking, self.now_ms)
            self.paper[name] = booking
            return
        with pytest.raises(BookingConflict) as refused:
            self.bookings.add(booking, self.now_ms)
        assert set(refused.value.others) <= self.paper.keys()

    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        if self.paper:
            name = data.draw(st.sampled_from(sorted(self.paper)))
            assert self.bookings.remove(name) == self.paper.pop(name)

    @rule(passed_ms=st.integers(0, 2))
    def time_passes(self, passed_ms: int) -> None:
        self.now_ms += passed_ms
        over = {one.name for one in self.bookings.expire(self.now_ms)}
        assert over == {name for name, one in self.paper.items() if one.until_ms <= self.now_ms}
        self.paper = {name: one for name, one in self.paper.items() if name not in over}

    @rule(request=amounts, until=moments, claim=claims)
    def a_job_with_an_end_is_blocked_exactly_when_a_beginning_would_be_too_tight(
        self, request: Request, until: int, claim: Claim
    ) -> None:
        others = [one for one in self.paper.values() if not claim.may_use(one)]
        kept = self.paper
        self.paper = {one.name: one for one in others}
        begins = [one.from_ms for one in others if self.now_ms < one.from_ms < until]
        tight = [at_ms for at_ms in sorted(begins) if not self.fits(at_ms, request)]
        self.paper = kept
        found = self.bookings.blocks(request, until, self.now_ms, claim, [])

        assert (found.at_ms if found else None) == (tight[0] if tight else None)

    @rule(claim=claims, held_milli=st.sampled_from([0, 500, 1_000, 4_000]))
    def no_more_is_held_back_than_is_booked_and_not_in_use(
        self, claim: Claim, held_milli: int
    ) -> None:
        running = [Holder(claim=Claim(user="ann"), resources=Resources(cpu_milli=held_milli))]
        held = self.bookings.held_back(self.now_ms, claim, running)
        active = [one for one in self.paper.values() if one.holds_at(self.now_ms)]
        booked = sum(one.request.cpu_milli for one in active if not claim.may_use(one))
        ann = sum(one.request.cpu_milli for one in active if one.user == "ann")
        in_use = 0 if claim.user == "ann" else min(held_milli, ann)

        assert sum(one.cpu_milli for one in held) == booked - in_use

    @invariant()
    def never_overbooked(self) -> None:
        self.bookings.check()
        assert {one.name for one in self.bookings} == self.paper.keys()


TestCalendar = pytest.mark.rows("S3-104")(Calendar.TestCase)
