"""The kernel with one rule broken, each with a seed that shows it.

`python -m tests.sim.mutants` looks for the seeds again, which is needed after the world changes: a
mutant that no seed of the two hundred kills means that a checker or a fault is missing.
"""

import contextlib
from typing import NamedTuple

from distributed_grid.sim.owner import outcome_of
from tests.sim.breaking import replaced

SEEDS = 200


class Mutant(NamedTuple):
    """One line of the kernel, and what stands there instead."""

    breaks: str
    where: str  # module:Class.method
    line: str
    instead: str
    seed: int


MUTANTS = (
    Mutant("borrowers stand in one line with the owner", "host:Host._heads",
           "return self.line.first_of_each(now_ms, self.accounts)",
           "return sorted(self.line.first_of_each(now_ms, self.accounts))", 1),
    Mutant("nobody is lifted by waiting", "host:Host.__init__",
           "WaitingLine(ageing_ms=ageing_ms)", "WaitingLine(ageing_ms=10**12)", 0),
    Mutant("a grant pays nothing ahead", "fairness:Accounts.begin",
           "self._pay(held, self.quantum_ms)", "self._pay(held, 0)", 4),
    Mutant("all users weigh alike", "fairness:Accounts._open",
           "self.weights.user(user)", "1_000", 4),
    Mutant("urgent work evicts urgent work", "giving_way:GivingWay._may_evict",
           "self._rank(tenant) > URGENT", "self._rank(tenant) >= URGENT", 0),
    Mutant("ageing of those who run is not the owner's setting", "giving_way:GivingWay._rank",
           "waited_ms, self._host.ageing_ms)", "waited_ms)", 0),
    Mutant("work that must not be stopped is stopped", "giving_way:GivingWay._may_evict",
           "if spec.preempt.is_forbidden and", "if False and", 112),
    Mutant("everything evicts the owner's work", "giving_way:GivingWay._may_evict",
           "entry.rank == URGENT and is_same_side", "is_same_side", 6),
    Mutant("a preemption counts as a loss", "coordinator:Coordinator._follow",
           "job.preemptions += outcome", "job.failures += outcome", 0),
    Mutant("a victim is not queued again", "coordinator:Coordinator._follow",
           "self.queue(job, now_ms)", "pass", 0),
    Mutant("a victim's lease is not given back", "coordinator:Coordinator._release",
           "self.host.release(attempt.lease, now_ms)",
           'report.how == "preempted" or self.host.release(attempt.lease, now_ms)', 0),
    Mutant("low does not wait for leftovers", "host:Host._next",
           "if is_short and", "if False and", 2),
    Mutant("smaller work overtakes for ever", "host:Host._next",
           "or waited_ms > OVERTAKING_MS_MAX", "", 0),
    Mutant("large loans are overtaken for ever", "host:Host._waits_for_others",
           "if isinstance(refusal, NotOffered):", "if isinstance(refusal, NotOffered):\n        return False", 26),
    Mutant("others snatch the room that victims leave", "giving_way:GivingWay._evict_for",
           "self._host.awaited.add(entry.job)", "pass", 7),
    Mutant("victims take their room back", "host:Host._next",
           "if self.gave_way.get(entry.job) in self.awaited:", "if False:", 7),
    Mutant("whoever is awaited never asks again", "giving_way:GivingWay._stop_waiting",
           "host.awaited &= expected", "pass", 26),
    Mutant("borrowers need no offer", "host:Host.try_reserve",
           "if admission.reasons:", "if False:", 2),
    Mutant("a pause does not hold", "lending:Lending._is_paused",
           "return until_ms is not None and", "return False and", 10),
    Mutant("a lent GPU takes as many cores as it likes", "offers:beside_gpus",
           "devices * milli.WHOLE", "devices * 100 * milli.WHOLE", 103),
    Mutant("cores in use are lent", "offers:_cpu",
           "cores if cores >= STILL_MILLI else 0", "0", 81),
    Mutant("cores above their threshold are lent", "offers:_cpu",
           "elif used >= limits.cpu_used_max_milli:", "elif False:", 25),
    Mutant("who has a GPU need not give way", "giving_way:GivingWay.yield_to_owner",
           "way.spares_gpus and goes_with_gpus(held)", "held.gpus", 37),
    Mutant("who has a GPU stands still for cores that he does not use",
           "giving_way:GivingWay.yield_to_owner",
           "way.spares_gpus and goes_with_gpus(held)", "False", 103),
    Mutant("old samples count", "lending:Lending._closed",
           "if age_ms >= terms.offer_expiry_ms:", "if False:", 26),
    Mutant("borrowers are not suspended", "giving_way:GivingWay.yield_to_owner",
           "self._suspend(lease, tenant, why, now_ms, ready)", "pass", 10),
    Mutant("borrowers are not resumed", "giving_way:GivingWay.yield_to_owner",
           "self._resume(lease, tenant, now_ms, ready)", "pass", 23),
    Mutant("who was suspended before a crash stays so", "restarting:_put_back",
           "coordinator.giving_way.restored(attempt.lease)", "pass", 32),
    Mutant("what is booked is not held back", "host:Host.beside_bookings",
           "if held_back and not", "if False and not", 0),
    Mutant("nobody gives way to a booking", "giving_way:GivingWay.make_room_for_bookings",
           "if not host.bookings.active(now_ms):\n        return", "return", 12),
    Mutant("bookings are forgotten in a crash", "memory:Memory.save_bookings",
           "ready.save_meta[BOOKINGS] =", "_ =", 0),
    Mutant("a lease is told before it is saved", "coordinator:Coordinator.fill",
           "ready.save_leases.append(lease)", "pass", 0),
    Mutant("reports are acknowledged before they are saved", "coordinator:Coordinator.acknowledged",
           "return min(self._unsaved.values(), default=last + 1) - 1", "return last", 11),
    Mutant("a stop that is lost in a crash is not repeated", "restarting:reconcile",
           "coordinator.tell_to_stop(job, ready)", "pass", 136),
    Mutant("jobs start before their time", "coordinator:Coordinator.queue",
           "start_ms <= now_ms and (", "(", 3),
    Mutant("deadlines pass unseen", "coordinator:Coordinator.keep_dates",
           "self.deadlines.due(now_ms)", "()", 0),
)  # fmt: skip


def broken(mutant: Mutant) -> contextlib.AbstractContextManager[None]:
    """The kernel with this line replaced, for a while."""
    return replaced(mutant.where, mutant.line, mutant.instead)


def first_seed(mutant: Mutant) -> int | None:
    """The first seed that shows it."""
    with broken(mutant):
        return next((seed for seed in range(SEEDS) if outcome_of(seed).problem), None)


if __name__ == "__main__":
    for each in MUTANTS:
        found = first_seed(each)
        with broken(each):
            problem = outcome_of(found).problem if found is not None else "NOT KILLED"
        print(f"{found}\t{each.breaks}\t{problem}", flush=True)
