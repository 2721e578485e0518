"""The owner's side: who of the waiting gets what is free.

Lives here: the order of service, the rule for overtaking, what borrowers may have. Never here: a
job's life (`coordinator`), whose work gives way (`giving_way`), the arithmetic of devices
(`ledger`).
Invariant: nothing is granted that the ledger did not reserve; borrowers get what is offered only.
"""

from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from distributed_grid.kernel.bookings import Blocked, Bookings, Claim, Holder
from distributed_grid.kernel.entry import AGEING_MS, Entry
from distributed_grid.kernel.fairness import Accounts
from distributed_grid.kernel.jobs import Job
from distributed_grid.kernel.ledger import Ledger, Shortfall
from distributed_grid.kernel.lending import Lending
from distributed_grid.kernel.roominess import devices_beside, missing_for
from distributed_grid.kernel.waiting import WaitingLine
from distributed_grid.model.booking import Booking
from distributed_grid.model.ids import JobId
from distributed_grid.model.lease import Lease
from distributed_grid.model.lending import Terms, Withheld
from distributed_grid.model.priority import LOW, RANKS, URGENT, Weights
from distributed_grid.model.resources import Resources

# Smaller work may overtake the first in the line while that one waits for room, so that nothing
# idles; after this long it may not any more, so that the large ones get their turn.
OVERTAKING_MS_MAX: Final = 60_000
GRANTS_MAX: Final = 1_024  # In one step: the rest follows in the next ones.
FAR_MS: Final = 1 << 62


class NotOffered(msgspec.Struct, frozen=True):
    """Why a borrower gets nothing now, although it may be there."""

    reasons: tuple[Withheld, ...]


class Kept(msgspec.Struct, frozen=True):
    """What is free now is kept for others, who booked it."""

    missing: tuple[tuple[str, int, int], ...]


Refusal = Shortfall | NotOffered | Kept | Blocked


class Host:
    """Grants leases to those who wait."""

    def __init__(
        self,
        ledger: Ledger,
        *,
        new_lease_id: Callable[[], str],
        terms: Terms | None = None,
        weights: Weights | None = None,
        ageing_ms: int = AGEING_MS,
    ) -> None:
        self.ledger = ledger
        self.ageing_ms = ageing_ms
        self.line = WaitingLine(ageing_ms=ageing_ms)
        self.accounts = Accounts(ledger.total, weights or Weights())
        self.lending = Lending(ledger.total, terms)
        self.bookings = Bookings(ledger.total)
        self.new_id = new_lease_id
        self.is_draining = False  # Nothing new starts here, of nobody.
        self.is_left_now = False  # Beside that: what runs here does not stay until its end.
        self.files_bytes_max = 0  # Of one job's files, told from outside; 0: any.
        self.urgent_waiting = 0  # How many of those who wait may evict others.
        self.awaited: set[JobId] = set()  # Others give way for these: nobody overtakes them.
        # Whether another node may take a job in a moment; told from outside.
        self.may_go: Callable[[JobId, int], bool] = lambda _job, _now_ms: False
        # Who gave way, for whom: while that one is awaited it is not passed by its own victim, who
        # may have waited for longer.
        self.gave_way: dict[JobId, JobId] = {}
        self._borrowed: dict[str, Resources] = {}  # By lease, of borrowers.
        self.borrowed = Resources()  # All of that together.
        self._holders: dict[str, Holder] = {}  # By lease, as bookings see them.

    @property
    def borrowers(self) -> tuple[str, ...]:
        """Their leases."""
        return tuple(self._borrowed)

    # Waiting

    def wait(self, job: Job, now_ms: int) -> None:
        """A job joins the line; one that waits already keeps its place.

        It ages from the first time: neither what it came after nor a late start counts.
        """
        spec = job.spec
        if job.ready_ms is None:
            job.ready_ms = now_ms
        entry = Entry(
            submitted_ms=job.ready_ms,
            job=spec.id,
            rank=RANKS[spec.priority],
            is_shared=spec.is_shared,
            user=spec.user,
            project=spec.project,
            request=spec.request,
            booking=spec.booking,
            timeout_ms=_timeout_ms(job),
        )
        self.enter(entry)

    def enter(self, entry: Entry) -> None:
        """Somebody joins the line, or keeps its place there."""
        if self.line.add(entry):
            self.accounts.joined(entry.user, entry.project)
            self.urgent_waiting += entry.rank == URGENT

    def leave(self, job: JobId) -> None:
        """A job leaves the line, if it is there."""
        entry = self.line.remove(job)
        if entry is not None:
            self.accounts.left(entry.user, entry.project)
            self.urgent_waiting -= entry.rank == URGENT
        self.awaited.discard(job)

    # Granting

    def grants(self, now_ms: int) -> Iterator[tuple[Entry, Lease]]:
        """Leases for the waiting, best first, as long as something fits.

        The caller takes an entry out of the line when it wants no more.
        """
        for _ in range(GRANTS_MAX):
            if self.is_draining or (granted := self._next(now_ms)) is None:
                return
            yield granted

    def first(self, now_ms: int) -> Entry | None:
        """Who is next, if there is room."""
        if self.is_draining or not len(self.line):
            return None
        return next(iter(self.line.tops(now_ms, self.accounts)), None)

    def _next(self, now_ms: int) -> tuple[Entry, Lease] | None:
        is_short = False  # Somebody more important lacks room.
        for entry in self._heads(now_ms):
            is_low = self.line.lifted(entry, now_ms) == LOW
            if is_short and is_low:
                if entry.job in self.awaited:
                    return None  # Nor does anybody after it get what others give up for it.
                continue  # Leftovers only: what is free now may be what another waits for.
            if self.gave_way.get(entry.job) in self.awaited:
                continue
            got = self.try_reserve(entry, now_ms)
            if isinstance(got, Lease):
                return entry, got
            waited_ms = now_ms - entry.submitted_ms
            is_next = entry.job in self.awaited or waited_ms > OVERTAKING_MS_MAX
            if is_next and self._waits_for_others(got, entry, now_ms):
                return None  # It has waited long enough: nobody overtakes it.
            is_short = is_short or (not is_low and self._is_room_lacking(got, entry))
        return None

    def _is_room_lacking(self, refusal: Refusal, entry: Entry) -> bool:
        return isinstance(refusal, Shortfall) and self.ledger.could_ever(entry.request) is None

    def _waits_for_others(self, refusal: Refusal, entry: Entry, now_ms: int) -> bool:
        """Whether it waits for what others hold, and will have it when they end."""
        if isinstance(refusal, NotOffered):  # What is offered may be in the hands of borrowers.
            return bool(self._borrowed) and self.would_admit(entry, self.borrowers, now_ms)
        return self._is_room_lacking(refusal, entry)

    def _heads(self, now_ms: int) -> list[Entry]:
        """Those of whom one may be next, in the order of service."""
        if not len(self.line):
            return []
        # What one cannot have, another who asks for the same may: a member, or whom it gave way to.
        if len(self.bookings) or self.gave_way:
            return self.line.tops(now_ms, self.accounts)
        return self.line.first_of_each(now_ms, self.accounts)

    def try_reserve(self, entry: Entry, now_ms: int) -> Lease | Refusal:
        """A lease for somebody who waits, or why there is none."""
        free = self.ledger.free()
        among: frozenset[str] | None = None
        if len(self.bookings):
            kept, among = self.beside_bookings(entry, free, now_ms)
            if kept is not None:
                return kept
        if entry.is_shared:
            admission = self.lending.admits(entry.request, free, self.borrowed, now_ms)
            if admission.reasons:
                return NotOffered(admission.reasons)
            among = admission.devices if among is None else among & admission.devices
        lease_id = self.new_id()
        got = self.ledger.reserve(lease_id, entry.job, "", entry.request, now_ms, among=among)
        return self.ledger.commit(lease_id, now_ms) if isinstance(got, Lease) else got

    def beside_bookings(
        self, entry: Entry, free: Resources, now_ms: int
    ) -> tuple[Kept | Blocked | None, frozenset[str] | None]:
        """Whether bookings stand in the way, and the devices that they leave; None: any."""
        claim = Claim(user=entry.user, project=entry.project, booking=entry.booking)
        holders = tuple(self._holders.values())
        held_back = self.bookings.held_back(now_ms, claim, holders)
        # Too little even without them is a shortfall like any other: the ledger tells.
        if held_back and not missing_for([entry.request], free):
            missing = missing_for([*held_back, entry.request], free)
            if missing:
                return Kept(tuple(missing)), None
        until_ms = now_ms + entry.timeout_ms if entry.timeout_ms else None
        blocked = self.bookings.blocks(entry.request, until_ms, now_ms, claim, holders)
        return blocked, devices_beside(entry.request, held_back, free)

    @property
    def holders(self) -> dict[str, Holder]:
        """Who holds what, by lease, as bookings see them."""
        return self._holders

    def booking(self, name: str) -> Booking | None:
        """The booking of this name."""
        return next((one for one in self.bookings if one.name == name), None)

    def would_admit(self, entry: Entry, without: tuple[str, ...], now_ms: int) -> bool:
        """Whether a borrower would be served if these leases of borrowers were over."""
        trial, borrowed = self.ledger.copy(), self.borrowed
        for lease in without:
            trial.release(lease)
            borrowed -= self._borrowed[lease]
        admission = self.lending.admits(entry.request, trial.free(), borrowed, now_ms)
        if admission.reasons:
            return False
        got = trial.reserve(
            "on trial", entry.job, "", entry.request, now_ms, among=admission.devices
        )
        return isinstance(got, Lease)

    # Holding

    def hold(self, job: Job, lease: str, now_ms: int) -> None:
        """A lease is held by a job from now on, or still after a restart."""
        spec = job.spec
        self.accounts.begin(lease, spec.user, spec.project, spec.request, now_ms)
        held = self.ledger.leases[lease].resources
        timeout_ms = _timeout_ms(job)
        self._holders[lease] = Holder(
            claim=Claim(user=spec.user, project=spec.project, booking=spec.booking),
            resources=held,
            # One that may not be stopped stays for as long as it likes.
            until_ms=now_ms + timeout_ms if timeout_ms else _never(job),
        )
        if spec.is_shared and lease not in self._borrowed:
            self._borrowed[lease] = held
            self.borrowed += held

    def release(self, lease: str, now_ms: int) -> None:
        """Everything of a lease is given back."""
        self.ledger.release(lease)
        self.accounts.end(lease, now_ms)
        if lease in self._borrowed:
            self.borrowed -= self._borrowed.pop(lease)
        self._holders.pop(lease, None)

    def check(self) -> None:
        """Re-derive what must be true."""
        self.line.check()
        self.accounts.check()
        together = sum(self._borrowed.values(), start=Resources())
        assert self.borrowed == together, "borrowed is miscounted"
        for lease, held in self._borrowed.items():
            assert self.ledger.leases[lease].resources == held, "borrowed is not what is leased"
        assert self._holders.keys() == self.ledger.leases.keys(), "a lease that nobody holds"


def _never(job: Job) -> int | None:
    return FAR_MS if job.spec.preempt.is_forbidden else None


def _timeout_ms(job: Job) -> int:
    """How long a lease of a job lasts at most; 0: nobody knows."""
    work = job.spec.work
    return work.timeout_ms if work is not None and job.spec.array is None else 0
