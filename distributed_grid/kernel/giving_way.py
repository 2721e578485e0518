"""Whose work gives way, to whom, and how it is asked to.

Lives here: who may evict whom, which leases were told to go, which are suspended. Never here:
choosing the victims (`preemption`), when the owner is back (`lending`), signals (`edges.runner`).
Invariant: a lease is told to go at most once, and for one reason.

The owner's work comes before borrowed work: whoever of the owner's waits for room may evict
borrowers. Urgent work evicts what is less important: the owner's among all, a borrower's among
borrowers. Nothing evicts urgent work, nor work that has waited so long that it counts as such.
"""

from collections.abc import Callable, Iterable
from itertools import islice
from typing import Final

import msgspec

from distributed_grid.kernel.bookings import Claim
from distributed_grid.kernel.entry import Entry, lifted
from distributed_grid.kernel.host import Host
from distributed_grid.kernel.jobs import Attempt, Job
from distributed_grid.kernel.lending import in_words
from distributed_grid.kernel.offers import goes_with_gpus
from distributed_grid.kernel.preemption import Candidate, plan
from distributed_grid.kernel.ready import Happened, Ready
from distributed_grid.model.ids import JobId
from distributed_grid.model.priority import LOW, RANKS, URGENT
from distributed_grid.wire.keeper import Preempt, Resume, Suspend, Withdraw

AGAIN_MS: Final = 1_000  # Nothing helped: what runs changes, but looking costs up to 10 ms.
BEFORE: Final = "since before the agent started"
AHEAD_MAX: Final = 64  # Of those who wait, so many are considered.
LOOKS_MAX: Final = 4  # Of them, so many are helped in one step; the others in the next.


class Tenant(msgspec.Struct, frozen=True):
    """Who runs in a lease: the first of its row, and those who stand behind it."""

    job: Job
    attempt: Attempt
    behind: tuple[str, ...] = ()


class GivingWay:
    """The evictions and suspensions of one node."""

    def __init__(self, host: Host, tenants: Callable[[], Iterable[tuple[str, Tenant]]]) -> None:
        self._host = host
        self._tenants = tenants
        self.leaving: dict[str, str] = {}  # Lease -> for whose sake, in a word.
        self.suspended: dict[str, str] = {}  # Lease -> why.
        self._unsure: set[str] = set()  # Leases of borrowers that ran before a restart.
        self._for_whom: dict[str, JobId] = {}  # Lease -> the job that waits for its room.
        self._looked_ms: dict[JobId, int] = {}  # When nothing helped a job that waits.
        self._booked_ms: dict[str, int] = {}  # When room was last looked for, by booking.

    def forget(self, lease: str) -> None:
        """The lease is over."""
        self.leaving.pop(lease, None)
        self.suspended.pop(lease, None)
        self._unsure.discard(lease)
        self._for_whom.pop(lease, None)

    def restored(self, lease: str) -> None:
        """A borrower's lease from before a restart: nobody knows whether its work is suspended."""
        self._unsure.add(lease)

    def met(self, suspended: tuple[str, ...]) -> None:
        """A keeper greets, and tells which attempts are suspended."""
        for lease, tenant in self._tenants():
            if tenant.attempt.id in suspended and lease not in self.suspended:
                tenant.attempt.suspended = tenant.attempt.suspended or BEFORE
                self.suspended[lease] = tenant.attempt.suspended
                self._unsure.discard(lease)
            elif lease in self._unsure:
                tenant.attempt.suspended = ""

    # For nobody: this node is to be left

    def movable(self, which: Callable[[Tenant], bool]) -> list[Candidate]:
        """The leases of those of this kind who do not leave already."""
        return [
            self._candidate(lease, tenant)
            for lease, tenant in self._tenants()
            if lease not in self.leaving and which(tenant)
        ]

    def send_away(
        self, which: Callable[[Tenant], bool], why: str, now_ms: int, ready: Ready
    ) -> list[JobId]:
        """Let everyone of this kind save its work and leave; tells whose work that is."""
        found = [(k, v) for k, v in self._tenants() if k not in self.leaving and which(v)]
        for lease, tenant in found:
            self._evict(lease, tenant, why, now_ms, ready)
        return [tenant.job.spec.id for _, tenant in found]

    # For those who wait

    def make_room(self, now_ms: int, ready: Ready) -> None:
        """Let others go for the most important of those who wait and may ask for that."""
        host = self._host
        self._stop_waiting()
        is_owner_short = host.line.has_own and bool(host.borrowers)
        if not (is_owner_short or host.urgent_waiting):
            return
        looks = 0
        is_short = False  # The owner's more important work lacks room: what is low stays behind.
        for entry in islice(host.line.order(now_ms, host.accounts), AHEAD_MAX):
            is_low = host.line.lifted(entry, now_ms) == LOW
            if looks < LOOKS_MAX and not (is_low and is_short) and self._may_look(entry, now_ms):
                looks += self._evict_for(entry, now_ms, ready)
            is_own = not (is_low or entry.is_shared)
            is_short = is_short or (is_own and host.ledger.could_ever(entry.request) is None)

    def _stop_waiting(self) -> None:
        """Those whose victims have all gone had their chance: they may ask again."""
        host, expected = self._host, set(self._for_whom.values())
        host.awaited &= expected
        host.gave_way = {
            victim: whom for victim, whom in host.gave_way.items() if whom in host.awaited
        }

    def _may_look(self, entry: Entry, now_ms: int) -> bool:
        could_evict = entry.rank == URGENT or (not entry.is_shared and self._host.borrowers)
        if not (could_evict and entry.may_evict) or entry.job in self._host.awaited:
            return False
        if self._host.may_go(entry.job, now_ms):
            return False  # Else somebody would have given way in vain.
        return not _is_fresh(self._looked_ms.get(entry.job), now_ms)

    def _evict_for(self, entry: Entry, now_ms: int, ready: Ready) -> bool:
        """Plan and carry out; whether it was worth a look."""
        tenants = dict(self._tenants())
        candidates = [
            self._candidate(lease, tenant)
            for lease, tenant in tenants.items()
            if lease not in self.leaving and self._may_evict(entry, tenant)
        ]
        if not candidates:
            return False
        victims = self._victims(entry, candidates, now_ms)
        if not victims:
            self._looked_ms[entry.job] = now_ms
            if len(self._looked_ms) > len(self._host.line):
                waiting = set(self._host.line)
                self._looked_ms = {k: v for k, v in self._looked_ms.items() if k in waiting}
            return True
        self._host.awaited.add(entry.job)
        for lease in victims:
            self._evict(lease, tenants[lease], f"job {entry.job[:12]}", now_ms, ready)
            self._for_whom[lease] = entry.job
            self._host.gave_way[tenants[lease].job.spec.id] = entry.job
        return True

    def _victims(self, entry: Entry, candidates: list[Candidate], now_ms: int) -> tuple[str, ...]:
        """Whom to evict; nobody, if it would not help."""
        if not entry.is_shared:
            found = plan(self._host.ledger, candidates, entry.request, now_ms)
            return found.victims if found else ()
        # A borrower needs an offer, not only room: so others give back what they borrowed.
        some = [one.lease for one in sorted(candidates, key=_youngest)]
        for count in range(1, len(some) + 1):
            if self._host.would_admit(entry, tuple(some[:count]), now_ms):
                return self._needed(entry, some[:count], now_ms)
        return ()

    def _needed(self, entry: Entry, victims: list[str], now_ms: int) -> tuple[str, ...]:
        """Without those of whom it turned out that they need not go."""
        for lease in tuple(victims):
            others = tuple(one for one in victims if one != lease)
            if others and self._host.would_admit(entry, others, now_ms):
                victims.remove(lease)
        return tuple(victims)

    def _may_evict(self, entry: Entry, tenant: Tenant) -> bool:
        spec = tenant.job.spec
        terms = self._host.lending.terms
        if spec.preempt.is_forbidden and (not spec.is_shared or terms.allow_no_preempt):
            return False
        if spec.is_shared and not entry.is_shared:
            return True  # The owner comes first.
        is_same_side = spec.is_shared == entry.is_shared
        return entry.rank == URGENT and is_same_side and self._rank(tenant) > URGENT

    def _candidate(self, lease: str, tenant: Tenant) -> Candidate:
        return Candidate(
            lease=lease,
            job=tenant.job.spec.id,
            rank=self._rank(tenant),
            is_shared=tenant.job.spec.is_shared,
            started_ms=tenant.attempt.granted_ms,
        )

    def _rank(self, tenant: Tenant) -> int:
        """How important it was when it was granted: waiting had lifted it by then."""
        waited_ms = tenant.attempt.granted_ms - (tenant.job.ready_ms or tenant.attempt.granted_ms)
        return lifted(RANKS[tenant.job.spec.priority], waited_ms, self._host.ageing_ms)

    # For those who booked

    def make_room_for_bookings(self, now_ms: int, ready: Ready) -> None:
        """A window has begun: whoever is not of the booking gives way, as far as it needs room."""
        host = self._host
        if not host.bookings.active(now_ms):
            return
        due = host.bookings.due(now_ms, host.ledger.free(), tuple(host.holders.values()))
        if all(_is_fresh(self._booked_ms.get(one.booking), now_ms) for one in due):
            return
        self._booked_ms = {one.booking: now_ms for one in due}
        # All that is kept is tried on side by side, beside those who do not leave already.
        trial = host.ledger.copy()
        for lease in self.leaving:
            trial.release(lease)
        active, tenants = host.bookings.active(now_ms), dict(self._tenants())
        candidates = [
            self._candidate(lease, tenant)
            for lease, tenant in tenants.items()
            if lease not in self.leaving
            and not tenant.job.spec.preempt.is_forbidden
            and not any(host.holders[lease].claim.may_use(one) for one in active)
        ]
        kept = host.bookings.held_back(now_ms, Claim(), tuple(host.holders.values()))
        for number, request in enumerate(kept):
            found = plan(trial, candidates, request, now_ms)
            for lease in found.victims if found else ():
                trial.release(lease)
                self._evict(lease, tenants[lease], "a booking", now_ms, ready)
            trial.reserve(f"kept {number}", JobId(""), "", request, now_ms)

    # For the owner

    def yield_to_owner(self, now_ms: int, ready: Ready) -> list[Job]:
        """Suspend, resume or stop what was lent, as the owner's terms say; tells whose it is."""
        turned = []
        way = self._host.lending.gives_way(now_ms)
        why = in_words(way.because) if way.because else ""
        limit_ms = self._host.lending.terms.allocation_ms_max
        for lease, tenant in list(self._tenants()):
            if not tenant.job.spec.is_shared or lease in self.leaving:
                continue
            held = self._host.ledger.leases[lease].resources
            action = "none" if way.spares_gpus and goes_with_gpus(held) else way.action
            if action == "stop":
                self._evict(lease, tenant, f"the owner ({why})", now_ms, ready)
            elif limit_ms and now_ms - tenant.attempt.granted_ms > limit_ms:
                self._evict(lease, tenant, "others: its loan is over", now_ms, ready)
            elif action == "suspend" and lease not in self.suspended:
                self._suspend(lease, tenant, why, now_ms, ready)
                turned.append(tenant.job)
            elif action != "none" or not self._host.lending.is_measured:
                continue  # After a restart nobody knows yet whether the owner is there.
            elif lease in self.suspended:
                self._resume(lease, tenant, now_ms, ready)
                turned.append(tenant.job)
            elif lease in self._unsure:
                self._unsure.discard(lease)
                ready.tell.append(Resume(attempt=tenant.attempt.id))
        return turned

    def _suspend(self, lease: str, tenant: Tenant, why: str, now_ms: int, ready: Ready) -> None:
        self.suspended[lease] = tenant.attempt.suspended = why
        self._unsure.discard(lease)
        tenant.job.tell(now_ms, "suspended", f"the owner is back: {why}")
        ready.touch(tenant.job)
        ready.tell += [Withdraw(attempt=behind) for behind in tenant.behind]
        ready.tell.append(Suspend(attempt=tenant.attempt.id))
        ready.happened.append(_happened("job.suspended", tenant, now_ms, why))

    def _resume(self, lease: str, tenant: Tenant, now_ms: int, ready: Ready) -> None:
        del self.suspended[lease]
        tenant.attempt.suspended = ""
        tenant.job.tell(now_ms, "resumed")
        ready.touch(tenant.job)
        ready.tell.append(Resume(attempt=tenant.attempt.id))
        ready.happened.append(_happened("job.resumed", tenant, now_ms))

    def _evict(self, lease: str, tenant: Tenant, for_whom: str, now_ms: int, ready: Ready) -> None:
        self.leaving[lease] = for_whom
        asked = tenant.job.spec.preempt
        tenant.job.tell(now_ms, "told to give way", f"to {for_whom}")
        ready.touch(tenant.job)
        ready.tell += [Withdraw(attempt=behind) for behind in tenant.behind]
        ready.tell.append(
            Preempt(
                attempt=tenant.attempt.id,
                signal=asked.signal,
                grace_ms=asked.grace_ms,
                command=asked.command,
            )
        )
        ready.happened.append(_happened("job.preempted", tenant, now_ms, for_whom))


def _is_fresh(looked_ms: int | None, now_ms: int) -> bool:
    """Whether somebody looked a moment ago."""
    return looked_ms is not None and now_ms - looked_ms < AGAIN_MS


def _youngest(one: Candidate) -> tuple[int, int, str]:
    """The least important first, then the youngest."""
    return -one.rank, -one.started_ms, one.lease


def _happened(name: str, tenant: Tenant, now_ms: int, why: str = "") -> Happened:
    fields = {"why": why} if why else {}
    return Happened(name=name, at_ms=now_ms, job=tenant.job.spec.id, fields=fields)
