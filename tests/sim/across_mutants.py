"""The kernel with one guard broken, each with a seed or a scene that shows it, and how.

`python -m tests.sim.across_mutants` looks for the seeds again, which is needed after the world
changes: a mutant that no seed of the two hundred kills means that a checker or a fault is missing.
Names of mutants, or parts of them, as arguments look for those only.
"""

import contextlib
import sys
from typing import NamedTuple

from distributed_grid.sim.across import outcome_of
from distributed_grid.sim.across.scenes import SCENES, played
from tests.sim.breaking import replaced

SEEDS = 200


class Mutant(NamedTuple):
    """One line of the kernel, and what stands there instead."""

    breaks: str
    where: str  # module:Class.method or module:function, below the kernel
    line: str
    instead: str
    seed: int | str  # That shows it; or the scene that does.
    shows: str  # A part of what is said then: the checker that it proves.
    needs: tuple[tuple[str, str, str], ...] = ()  # What else holds out against it.


MUTANTS: tuple[Mutant, ...] = (
    # Nothing is sold twice
    Mutant("a guest's lease is not saved", "across.hands:take_guest",
           "ready.save_leases.append(lease)", "pass", 1, "its lease is not saved"),
    Mutant("a lease that was started in lapses", "across.hosting:Hosting.start",
           "del self.offered[word.lease]", "pass", "first words lost", ""),
    Mutant("a lease is given back before its process is gone", "across.hosting:Hosting.halt",
           "ready.tell.append(Stop(attempt=word.lease, grace_ms=word.grace_ms))",
           "ready.tell.append(Stop(attempt=word.lease, grace_ms=word.grace_ms))\n        "
           "ready.drop_leases.append(word.lease)\n        self._host.ledger.release(word.lease)", "first words lost", ""),
    Mutant("a lease nobody started in is never given back", "across.hosting:Hosting.tick",
           "if offer.until_ms <= now_ms:", "if False:", "first words lost", "holds leases for nobody"),
    Mutant("a start takes all that runs for gone", "restarting:reconcile",
           "set(coordinator.attempts.here) - running", "set(coordinator.attempts.here)",
           "restart in turn", "its lease is not saved"),
    # Nobody runs what it does not lend
    Mutant("who takes a job over runs it as its own", "across.handover:Handover.taken_over",
           "job.is_foreign = not (", "job.is_foreign = False and (", "nobody lends",
           "of others as its own"),
    # Copies
    Mutant("a copy is not saved before it is answered", "across.shelf:Shelf.put",
           "ready.save_held[job] = body", "pass", "submitter killed", "copies, on disk"),
    Mutant("whoever was sent a copy counts as a holder", "across.holders:Holders.send",
           "own.under_way[node] = own.version",
           "own.under_way[node] = own.durable[node] = own.version", "first words lost", "copies, on disk"),
    Mutant("copies that were not answered are not sent again", "across.holders:Holders.tick",
           "while self._unanswered and self._unanswered[0][0] <= now_ms:", "while False:", "first words lost", ""),
    Mutant("a dead home's records are dropped", "across.guarding:Guarding.view",
           "self._meeting.watch(job, now_ms)", "self.shelf.forget(job, ready)", "submitter killed",
           "was acknowledged with"),
    Mutant("a start knows nothing of what has just ended", "across.restoring:is_loaded",
           "return not job.is_finished or now_ms - (job.ended_ms or 0) <= FRESH_MS",
           "return not job.is_finished", "after what ended unheard", "not copied"),
    Mutant("an end is not kept for those who may come", "across.holders:Holders._is_told",
           "else self._is_only(now_ms)", "else self._is_alone(own, now_ms)",
           "after what ended unheard", "not copied"),
    Mutant("a home denies its job that ended long ago", "across.guarding:Guarding.recall",
           "self.shelf.remember(record_of(job, Fence(epoch, job.seq)), now_ms, None)", "pass",
           "after what ended long ago", "not ended"),
    # Taking over
    Mutant("nobody takes over", "across.guarding:Guarding.view",
           "self._meeting.watch(job, now_ms)", "pass", "submitter killed", ""),
    Mutant("a takeover keeps the epoch", "across.meeting:Meeting.take_over",
           "known.version.epoch.counter + 1, self.me",
           "known.version.epoch.counter, self.me", "one way", "tells twice"),
    Mutant("who is told of a higher epoch goes on", "across.guarding:Guarding._copy",
           "elif record.version.epoch > own.version.epoch:", "elif False:", "one against four", ""),
    Mutant("whoever abdicates forgets what runs here", "across.handover:Handover.abdicated",
           "adopt_guest(self._coordinator, guest, attempt, ready)", "pass", "submitted again", ""),
    Mutant("a start asks nobody", "across.restoring:_restore_own",
           "if names and not job.has_ended:", "if False:", "home comes back", ""),
    Mutant("who was away too long trusts what it remembers", "across.restoring:restore",
           "was_long_away = away_ms > GRACE_MS", "was_long_away = False", "back after the grace", "tells twice"),
    Mutant("a planned restart is taken for a death", "across.away:Away._is_gone",
           "and peer.restarting_until_ms <= now_ms", "", "restart in turn", "started something"),
    # Attempts elsewhere
    Mutant("what ran on a dead node is waited for", "across.away:Away._lose",
           'self._end(attempt, "lost", f"{peer.name} is dead", now_ms, ready)', "pass",
           "executor killed", ""),
    Mutant("a Start is said once", "across.asking:Asking.tick",
           "if now_ms - starting.said_ms >= START_MS:", "if False:", "first words lost", ""),
    Mutant("a Start that is said again starts again", "across.hosting:Hosting.start",
           "if running is not None and running.is_guest:", "if False:", "first words lost", ""),
    Mutant("an end is never confirmed", "across.away:Away.reported",
           "self._confirming[word.lease] = (peer.id, confirmed, None)", "pass", "first words lost",
           "still talked about"),
    Mutant("guests that nobody wants are never ended", "across.away:Away._send_away",
           "self._halting[lease] = (peer, word, 0)\n    ready.send.append((peer, word))", "pass",
           "orphan", ""),
    Mutant("a cancel that does not arrive is not said again", "across.away:Away._halt_again",
           "if now_ms - said_ms < POLL_MS:", "if True:", "first words lost", ""),
    Mutant("an orphan does not report to the home that is found", "across.orphans:Orphans.found",
           "self._reporting.report_to(guest, record.home, record.version.epoch)", "pass",
           "orphan", "nobody wants it"),
    Mutant("nobody looks for the home of an orphan", "across.orphans:Orphans.tick",
           "self._ask(lost, orphan, ready)", "pass", "orphan", "in the way for too long"),
    # At most once: its rules one by one are in `register_mutants`
    Mutant("nobody waits for the lease of an attempt that is replaced",
           "across.register_chair:Chair._carried", "self._start_us = now_us + WAIT_US",
           "self._start_us = now_us\n        self._doubtful.clear()", "once parted", "may run once",
           (("across.register_voter:Voter._is_free", "return last is None", "return True or last is None"),)),
    Mutant("a keeper is not told when a lease is over", "across.once_owner:OnceOwner.may_run",
           "attempt.until_boot_us, attempt.fence = word.until_boot_us, word.fence",
           "attempt.until_boot_us, attempt.fence = word.until_boot_us + 10**12, word.fence",
           "once parted", "may run once"),
    Mutant("an end is told before a majority has it", "across.machine:Across.holds_end",
           "return job.spec.at_most_once and not job.is_guest", "return False",
           "once ends alone", "has ended, and it begins"),
    Mutant("an end is told while an attempt may still run", "across.once_home:OnceHome._body",
           "if job.ending and chair.is_quiet", "if job.ending", "once ends unheard", "has ended, and it runs"),
    Mutant("whoever knows the end of a job keeps it from its new home", "across.record_writing:_concluded",
           "if job.ending is None or", "if True or", "once ends alone", "not ended within"),
    Mutant("a lease is never renewed", "across.register_lease:Tenure.granted",
           "self.due_us = sent_us + RENEW_US", "self.due_us = sent_us + 10**12",
           "once home killed", "not ended"),
    Mutant("a takeover does not adopt what runs", "across.register_chair:Chair.open",
           "is_fencing=has_named", "is_fencing=False", "once home killed", "was started"),
    Mutant("a voter that is lost has no successor", "across.once_home:OnceHome._mend",
           "if due is not None:", "if False:", "once voters replaced", "not ended"),
    Mutant("two vote", "across.register_sets:_size",
           "for size in SIZES if", "for size in (1, 2, 3) if", 16, "are no safer than"),
    Mutant("a job without votes does not say so", "across.once_home:OnceHome._complain",
           "if job.reason != word:", "if False:", "once stuck", "not said to be stuck"),
    Mutant("a person's word on a stuck job is not heard", "across.once_home:OnceHome.force",
           "return self._writer.force(", "return Effects() or self._writer.force(", "once stuck",
           "not ended"),
    Mutant("a person's word does not help voters that were restarted",
           "across.register_voter:_concerned", " and not asked.is_forced", "", "once stuck",
           "not ended"),
    Mutant("a home whose guardians are gone does not ask its voters", "across.returning:Doubt.outcome",
           'return "same" if self.is_voted_on', "return None if self.is_voted_on", 85, "not settled"),
    Mutant("an owner does not tell what became of a guest", "across.reporting:Reporting.tell",
           "if due_ms <= now_ms:", "if False:", 0, "has not ended"),
    # Gangs, and machines that are left
    Mutant("a gang is over with its first rank", "across.gangs:Gangs.rank_ended",
           "if live:", "if False:", "late rank killed", "of its ranks did"),
    Mutant("a rank that is lost ends no others", "across.gangs:Gangs.rank_ended",
           "self._coordinator.elsewhere.halt(job, other, ready)", "pass", "rank killed",
           "not begun again"),
    Mutant("a gang of another home is given up", "across.gangs:Gangs._take_up",
           "if is_told and job.gang_end is None:", "if False:", "gang's home killed",
           "were started again"),
    Mutant("guests stay on a machine that is drained", "across.balancing:Balancing._leaves_drained",
           "if is_guest:", "if False:", "drained", "not left within"),
    Mutant("all guests leave a machine that is drained", "across.balancing:Balancing._leaves_drained",
           "_age_ms(tenant, now_ms) < YOUNG_MS", "True", "drained", "was to end there"),
    Mutant("a drained machine takes more", "host:Host.grants",
           "if self.is_draining or (granted", "if (granted", "drained", "that is drained"),
    # Views
    Mutant("of two ends each side keeps its own", "across.record:joined",
           "results = _best({*one.results, *other.results})", "results = one.results or other.results",
           "ends differ", "is seen differently"),
    # Ends
    Mutant("a job that is submitted again runs again", "across.machine:Across.has",
           "return record is not None or (job in self.handover.given and not is_ours)", "return False", "submitted again", "asked for again"),
    Mutant("whatever ends elsewhere has ended well", "across.away:_of",
           "msgspec.structs.replace(end, attempt=lease)",
           'msgspec.structs.replace(end, attempt=lease, how="exited", code=0)', "drained",
           "its processes never did"),
    Mutant("an end that was learnt is decided again", "coordinator:Coordinator._decide",
           "if job.has_ended or job.ending is not None:", "if job.ending is not None:", "ends on one side", ""),
    Mutant("nobody is told that a result has changed", "across.meeting:Meeting._tell_of_result",
           "ready.happened.append(happened)", "pass", "ends differ", "and it ended"),
    Mutant("the end is not copied", "across.holders:Holders.send",
           "if own.id in self.held_back:",
           "if own.id in self.held_back or own.job.has_ended:", "executor killed",
           "still talked about"),
    Mutant("a cancel is not kept by who holds the record", "across.guarding:Guarding.cancel",
           "self._meeting.keep(asked, self.me, now_ms, ready)", "pass", "cancel unreachable", ""),
    Mutant("what is being stopped is forgotten in a crash", "restarting:take_up",
           "for attempt in job.live_attempts:", "for attempt in () if job.has_ended else job.live_attempts:",
           "ends on one side", ""),
    Mutant("tables of reports grow for ever", "across.hosting:Hosting.tick",
           "del jobs[job]", "jobs[JobId(f'{job}{now_ms}')] = seen", "one against four", "keeps"),
)  # fmt: skip


def broken(mutant: Mutant) -> contextlib.AbstractContextManager[None]:
    """The kernel with this line replaced, for a while."""
    stack = contextlib.ExitStack()
    for line in ((mutant.where, mutant.line, mutant.instead), *mutant.needs):
        stack.enter_context(replaced(*line))
    return stack


def problem_of(seed: int | str) -> str:
    """What goes wrong in a seed or a scene; empty if nothing does."""
    return played(seed)[0] if isinstance(seed, str) else outcome_of(seed).problem


def first_seed(mutant: Mutant) -> tuple[int | str | None, str]:
    """The first scene or seed that shows it, and how."""
    other = ""
    with broken(mutant):
        for seed in (mutant.seed, *range(30), *SCENES, *range(30, SEEDS)):
            problem = problem_of(seed)
            if problem and mutant.shows in problem:
                return seed, problem
            other = other or (f"{seed}: {problem}" if problem else "")
    return None, f"NOT KILLED, {other}"


if __name__ == "__main__":
    for each in MUTANTS:
        if not sys.argv[1:] or any(word in each.breaks for word in sys.argv[1:]):
            found, how = first_seed(each)
            changed = "" if found == each.seed else "CHANGED "
            print(f"{changed}{found}\t{each.breaks}\t{how[:160]}", flush=True)
