"""The job's side: from submission to the result, over attempts, retries, losses and arrays.

Lives here: what happens to jobs. Never here: what is free (`host`), processes (`edges.runner`).
Invariant: a job holds leases only while it has live attempts, and every live attempt holds one.
"""

from collections import deque
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from distributed_grid.kernel.arrays import Arrays
from distributed_grid.kernel.attempts import LiveAttempts
from distributed_grid.kernel.calendar import Calendar
from distributed_grid.kernel.elsewhere import Alone, Elsewhere
from distributed_grid.kernel.endings import TIMEOUT_CODE, Again, Over, guest_outcome, outcome_of
from distributed_grid.kernel.giving_way import GivingWay, Tenant
from distributed_grid.kernel.host import Host
from distributed_grid.kernel.jobs import Attempt, Conclusion, Job, Progress
from distributed_grid.kernel.ready import Happened, Ready
from distributed_grid.kernel.resuming import begins
from distributed_grid.kernel.series import Series, shape_of
from distributed_grid.model.across import HERE
from distributed_grid.model.ids import JobId
from distributed_grid.model.job import JobSpec
from distributed_grid.model.lease import Lease
from distributed_grid.wire.keeper import Ended, Started, Stop, Withdraw

FINISHED_KEPT: Final = 2_000  # In memory; the store has the rest.

Launch = Callable[[Job, Attempt, Lease], None]


class Ending(NamedTuple):
    """A job has ended, here or at another home."""

    job: JobId
    name: str
    state: str


class Coordinator:
    """All jobs of this node that have not ended, and the latest of those that have."""

    def __init__(self, host: Host, *, node: str, launch: Launch) -> None:
        self.host = host
        self.node = node
        self.jobs: dict[JobId, Job] = {}
        self.unfinished = 0
        self.launch = launch  # Makes the message to the keeper, which knows paths.
        self.elsewhere: Elsewhere = Alone(node)
        self.attempts = LiveAttempts()
        self.arrays = Arrays()
        self.series = Series()
        self.giving_way = GivingWay(host, self._tenants)
        self._starts = Calendar()  # Jobs that are not to start before a moment.
        self.deadlines = Calendar()
        self.replaced: set[str] = set()  # Attempts that end because an older one came back.
        self._unsaved: dict[str, int] = {}  # By attempt: the first report that is not saved yet.
        self.dependents: dict[JobId, set[JobId]] = {}
        self.finished: deque[JobId] = deque()
        self._news: deque[Ending] = deque()  # Their dependents were not told yet.

    # Submitting and cancelling

    def submit(self, spec: JobSpec, now_ms: int, ready: Ready) -> None:
        """Take a job; the same again changes nothing."""
        if spec.id in self.jobs:
            # Nothing changes; but the acknowledgement waits until it is durable, as the first did.
            ready.save_jobs[spec.id] = self.jobs[spec.id]
            return
        progress = Progress.of(spec.array) if spec.array else None
        job = Job(spec=spec, submitted_ms=now_ms, progress=progress)
        job.tell(now_ms, "submitted", f"by {spec.user}" if spec.user else "")
        self.jobs[spec.id] = job
        self.unfinished += 1
        ready.touch(job)
        ready.happened.append(Happened(name="job.submitted", at_ms=now_ms, job=spec.id))
        if spec.deadline_ms:
            self.deadlines.add(spec.id, spec.deadline_ms)
        job.after_left = sorted({after.job for after in spec.after})
        for after in spec.after:
            self.dependents.setdefault(after.job, set()).add(spec.id)
        for after in spec.after:
            other = self.jobs.get(after.job)  # None: another node looks after it.
            if other is not None and other.has_ended and not job.has_ended:
                self._decide_after(job, ending_of(other), now_ms, ready)
        if not job.has_ended:
            self.queue(job, now_ms)

    def cancel(self, job_id: JobId, now_ms: int, ready: Ready) -> None:
        """Ask a job to end; one that has ended stays as it is."""
        job = self.jobs[job_id]
        if job.is_cancelled:
            ready.save_jobs[job_id] = job  # Maybe it was not saved yet; the answer waits for that.
        if job.has_ended or job.is_cancelled:
            return
        job.is_cancelled = True
        job.tell(now_ms, "cancel asked")
        ready.touch(job)
        self.stop(job, "cancelled", "before it ran", now_ms, ready)

    def stop(self, job: Job, state: str, why: str, now_ms: int, ready: Ready) -> None:
        """Nothing more of it starts, what runs is stopped; if nothing does, it ends as told."""
        self.leave(job.spec.id)
        self.arrays.cancel(job)
        self.tell_to_stop(job, ready)
        if not job.live_attempts:
            self.conclude(job, state, now_ms, ready, why)

    def tell_to_stop(self, job: Job, ready: Ready) -> None:
        """Whatever runs of it is to end."""
        for attempt in job.live_attempts:
            self.halt(job, attempt, ready)

    def halt(self, job: Job, attempt: Attempt, ready: Ready) -> None:
        """This attempt of it is to end."""
        if attempt.host != HERE:
            self.elsewhere.halt(job, attempt, ready)
        else:
            grace_ms = job.spec.work.grace_ms if job.spec.work else 0
            ready.tell.append(Stop(attempt=attempt.id, grace_ms=grace_ms))

    # Waiting and starting

    def queue(self, job: Job, now_ms: int) -> None:
        """Put a job into the line, unless it must wait for another, or for its time."""
        is_put_off = bool(job.after_left) or job.ending is not None
        if is_put_off or not self.elsewhere.is_cleared(job.spec.id):
            return
        booking = self.host.booking(job.spec.booking) if job.spec.booking else None
        start_ms = max(job.spec.start_ms, booking.from_ms if booking else 0, job.again_ms)
        again_ms = self.arrays.wake(job, now_ms)
        if (due_ms := max(start_ms, again_ms)) > now_ms:
            self._starts.add(job.spec.id, due_ms)
        if start_ms <= now_ms and (job.progress is None or self.arrays.wants_more(job)):
            self._wait(job, now_ms)

    def _wait(self, job: Job, now_ms: int) -> None:
        """Only room is lacking: here, or anywhere."""
        if self.elsewhere.waits_here(job.spec):
            self.host.wait(job, now_ms)
        elif job.ready_ms is None:
            job.ready_ms = now_ms
        self.elsewhere.waits(job)

    def wait_no_more(self, job: JobId) -> None:
        """It has what it wants."""
        self.host.leave(job)
        self.elsewhere.waits_no_more(job)

    def leave(self, job: JobId) -> None:
        """It waits for nothing any more."""
        self.wait_no_more(job)
        self._starts.forget(job)

    def keep_dates(self, now_ms: int, ready: Ready) -> None:
        """Those whose time has come join the line; those whose time is over end."""
        for job_id in self._starts.due(now_ms):
            ready.touch(self.jobs[job_id])
            self.queue(self.jobs[job_id], now_ms)
        for job_id in self.deadlines.due(now_ms):
            job = self.jobs[job_id]
            job.is_overdue = True
            job.tell(now_ms, "its deadline has passed")
            ready.touch(job)
            if job.attempts_made:
                job.exit_code = TIMEOUT_CODE
                self.stop(job, "failed", "its deadline passed", now_ms, ready)
            else:
                self.stop(job, "skipped", "its deadline passed before it ran", now_ms, ready)

    def _decide_after(self, job: Job, other: Ending, now_ms: int, ready: Ready) -> None:
        """One of those that a job comes after has ended: go on, wait for the rest, or skip."""
        if other.job not in job.after_left:
            return  # Decided before, maybe at another home.
        is_ok = other.state == "succeeded"
        ready.touch(job)
        for after in job.spec.after:
            if after.job != other.job:
                continue
            if (after.when == "ok" and not is_ok) or (after.when == "failed" and is_ok):
                why = f"{other.name} ended {other.state}, and it comes after :{after.when}"
                self.conclude(job, "skipped", now_ms, ready, why)
                return
        job.after_left.remove(other.job)
        self.queue(job, now_ms)

    def fill(self, now_ms: int, ready: Ready) -> None:
        """Start whatever fits."""
        for entry, lease in self.host.grants(now_ms):
            if self.elsewhere.granted(entry, lease, now_ms, ready):
                continue
            job = self.jobs[entry.job]
            attempt = self.begin(job, lease, now_ms)
            self.series.open(lease.id, attempt.id, shape_of(job), now_ms)
            self.host.hold(job, lease.id, now_ms)
            if not self.arrays.wants_more(job):
                self.wait_no_more(entry.job)
            ready.save_leases.append(lease)
            ready.touch(job)
            if not self.elsewhere.holds_back(job, attempt):
                self.launch(job, attempt, lease)
        if self.host.is_draining:
            return  # Nobody gives way to those who do not start either.
        self._line_up(now_ms, ready)
        self.giving_way.make_room_for_bookings(now_ms, ready)
        self.giving_way.make_room(now_ms, ready)
        for leaving in (*self.giving_way.leaving, *self.giving_way.suspended):
            self.series.close(leaving)

    def take_back(self, now_ms: int, ready: Ready) -> None:
        """Those who lined up behind one that goes on and on wait for another place."""
        for attempt in self.series.stuck(now_ms):
            ready.tell.append(Withdraw(attempt=attempt))

    def _line_up(self, now_ms: int, ready: Ready) -> None:
        """Nothing is free: let the next stand behind those that will soon have ended."""
        while (first := self.host.first(now_ms)) is not None:
            job = self.jobs.get(first.job)  # None: another node's, which gets a lease of its own.
            shape = shape_of(job) if job is not None else None
            place = None if shape is None else self.series.place(shape, now_ms)
            if job is None or place is None:
                return  # The first in the line decides: nobody overtakes it into a row.
            lease = self.host.ledger.leases[place]
            attempt = self.begin(job, lease, now_ms, own_id=self.host.new_id())
            self.series.line_up(place, attempt.id)
            self.wait_no_more(first.job)
            ready.touch(job)
            self.launch(job, attempt, lease)

    def begin(self, job: Job, lease: Lease, now_ms: int, *, own_id: str = "") -> Attempt:
        """The next attempt of a job, in a lease of this node."""
        job.attempts_made += 1
        origin = job.spec.origin
        indices = self.arrays.take_chunk(job, slots=self.slots(job))
        attempt = Attempt(
            number=origin.number if origin else job.attempts_made,
            lease=lease.id,
            epoch=job.epoch,
            own_id=own_id,
            node=self.node,
            granted_ms=now_ms,
            indices=origin.indices if origin else indices,
            tries=self.arrays.tries_of(job, indices) if indices else 0,
            cores=tuple(core for core, _ in lease.cores),
            gpus=tuple(gpu.device for gpu in lease.resources.gpus),
        )
        return self.enter(job, attempt, now_ms)

    def enter(self, job: Job, attempt: Attempt, now_ms: int) -> Attempt:
        """An attempt begins its life."""
        job.attempts.append(attempt)
        job.keep_few_attempts()
        if not job.spec.array or attempt.number == 1:
            job.tell(now_ms, "granted", f"attempt {attempt.number} on {attempt.node}")
        self.attempts.add(job.spec.id, attempt)
        return attempt

    def slots(self, job: Job) -> int:
        """How many leases of this shape could run at once, here and elsewhere."""
        here = self.host.ledger.total.cpu_milli // max(job.spec.request.cpu_milli, 1)
        return here + (self.elsewhere.slots(job.spec) if job.spec.array else 0)

    # Reports of the keeper

    def _tenants(self) -> Iterator[tuple[str, Tenant]]:
        """Who runs in each lease."""
        for lease in self.host.ledger.leases:
            if lease in self.elsewhere.offered:
                continue
            first, *behind = self.series.row(lease)
            job_id, attempt = self.attempts.here[first]
            if attempt.is_held or attempt.awaits_votes:
                continue  # Nothing runs there that could give way.
            yield lease, Tenant(self.jobs[job_id], attempt, tuple(behind))

    def started(self, report: Started, ready: Ready, *, is_away: bool = False) -> None:
        """A process runs."""
        found = self.attempts.find(report.attempt, is_away=is_away)
        if found is None:
            return
        job, attempt = self.jobs[found[0]], found[1]
        if job.is_guest and attempt.state != "running":  # Else it is a repetition.
            self.elsewhere.reported(job)
        begins(job, attempt, report.resumed, report.at_ms)
        attempt.state, attempt.pid = "running", report.pid or attempt.pid
        attempt.started_ms = attempt.started_ms or report.at_ms  # An owner may have forgotten when.
        if job.state == "waiting":
            job.started_ms = job.started_ms or max(report.at_ms, job.submitted_ms)
            job.move("running", report.at_ms, f"attempt {attempt.number}, pid {report.pid}")
            ready.changed[job.spec.id] = None
            ready.happened.append(Happened(name="job.started", at_ms=report.at_ms, job=job.spec.id))

    def ended(self, report: Ended, now_ms: int, ready: Ready, *, is_away: bool = False) -> None:
        """A process is gone."""
        found = self.attempts.find(report.attempt, is_away=is_away)
        if found is None:
            self.attempts.stray_ended(report)
            return  # Or it was told before: the keeper repeats itself until it is acknowledged.
        job, attempt = self.jobs[found[0]], found[1]
        never_started = attempt.state == "granted" and report.how == "stopped"
        if job.state == "waiting" and not never_started:
            job.started_ms = job.started_ms or max(report.started_ms, job.submitted_ms)
            job.move("running", report.started_ms)
        attempt.add_usage(report.usage)
        attempt.started_ms = attempt.started_ms or report.started_ms
        if report.index >= 0 and not job.has_ended:
            self._index_ended(job, attempt, report, now_ms, ready)
        if not report.is_last:
            # Saved with the end of the chunk, and not acknowledged before: see `acknowledged`.
            if attempt.host == HERE:
                self._unsaved.setdefault(report.attempt, report.number)
            return
        if never_started and job.progress is None and job.spec.gang == 1 and not job.is_guest:
            # It never was: the first that runs is the first, for whoever asks GRID_ATTEMPT.
            job.attempts.remove(attempt)
            job.attempts_made -= 1
        self._release(job, attempt, report, now_ms, ready)
        self._decide(job, attempt, report, now_ms, ready)

    def _decide(self, job: Job, attempt: Attempt, report: Ended, now_ms: int, ready: Ready) -> None:
        """An attempt is over: what follows."""
        if job.has_ended or job.ending is not None:
            self.replaced.discard(attempt.id)  # It is decided: what ran here counts as nothing.
        elif job.is_guest:
            self._guest_ended(job, report, now_ms, ready)
        elif job.progress is not None:
            self._chunk_ended(job, attempt, report, now_ms, ready)
        else:
            self._try_ended(job, attempt, report, now_ms, ready)

    def _try_ended(
        self, job: Job, attempt: Attempt, report: Ended, now_ms: int, ready: Ready
    ) -> None:
        if job.spec.gang > 1:
            decided = self.elsewhere.rank_ended(job, attempt, report, ready)
            if decided is None:
                return  # Other ranks are not over yet.
            report = decided
        is_replaced = attempt.id in self.replaced
        self.replaced.discard(attempt.id)
        if is_replaced and report.code != 0 and job.live_attempts:
            return  # An older attempt came back, and counts instead.
        outcome = outcome_of(job, report)
        job.losses += report.how == "lost"
        self._follow(job, outcome, now_ms, ready)

    def _index_ended(
        self, job: Job, attempt: Attempt, report: Ended, now_ms: int, ready: Ready
    ) -> None:
        place = attempt.indices.index(report.index)
        if place >= attempt.ended_indices:  # Else it is a repetition.
            attempt.ended_indices = place + 1
            if job.is_guest:
                job.ends.append(report)
                self.elsewhere.reported(job)
            else:
                self.arrays.index_ended(job, report, now_ms)
                if self.arrays.is_called_off(job, attempt):
                    self.halt(job, attempt, ready)

    def _guest_ended(self, job: Job, report: Ended, now_ms: int, ready: Ready) -> None:
        """An attempt of another node's job is over; what follows from it is decided there."""
        if report.index < 0 or not job.ends or job.ends[-1].index != report.index:
            job.ends.append(report)
        self._follow(job, guest_outcome(report), now_ms, ready)
        self.elsewhere.reported(job)

    def acknowledged(self, last: int) -> int:
        """Up to which report everything is saved, or will be with this step."""
        return min(self._unsaved.values(), default=last + 1) - 1

    def _release(
        self, job: Job, attempt: Attempt, report: Ended, now_ms: int, ready: Ready
    ) -> None:
        attempt.state = "lost" if report.how == "lost" else "ended"
        attempt.ended_ms, attempt.how = report.ended_ms, report.how
        attempt.exit_code, attempt.note, attempt.saved = report.code, report.note, report.saved
        job.leaves(report.outputs)
        self.attempts.remove(attempt)
        self._unsaved.pop(attempt.id, None)
        ready.touch(job)
        if attempt.host != HERE:
            return
        shape = shape_of(job)
        if report.how == "exited" and shape is not None:
            self.series.took(shape, (report.ended_ms - report.started_ms) * 1_000)
        if self.series.row(attempt.lease)[0] == attempt.id:
            # It was told to leave, or suspended; whoever stands behind it and started was not.
            self.giving_way.forget(attempt.lease)
        if self.series.leave(attempt.lease, attempt.id, now_ms):
            self.host.release(attempt.lease, now_ms)
            ready.drop_leases.append(attempt.lease)

    def _follow(self, job: Job, outcome: Over | Again, now_ms: int, ready: Ready) -> None:
        """What an end leads to: the end of the job, or another try."""
        if isinstance(outcome, Over):
            if outcome.exit_code is not None:
                job.exit_code = outcome.exit_code
            self.conclude(job, outcome.state, now_ms, ready, outcome.reason)
            return
        job.failures += outcome.counts_as == "failure"
        job.again_ms = now_ms + outcome.pause_ms
        job.preemptions += outcome.counts_as == "preemption"
        if job.live_attempts and job.spec.gang == 1:
            job.tell(now_ms, "goes on", f"{outcome.reason}; another attempt of it does")
            return  # Of another home that it had: a third one would be too many.
        if job.state == "waiting":
            job.tell(now_ms, "waiting", outcome.reason)
        else:
            job.move("waiting", now_ms, outcome.reason)
        self.queue(job, now_ms)

    def _chunk_ended(
        self, job: Job, attempt: Attempt, report: Ended, now_ms: int, ready: Ready
    ) -> None:
        self.arrays.chunk_ended(job, attempt, report)
        job.preemptions += report.how == "preempted"
        self.go_on(job, now_ms, ready)

    def go_on(self, job: Job, now_ms: int, ready: Ready) -> None:
        """Of an array: the end, if all of it has ended; else the rest."""
        verdict = self.arrays.verdict(job)
        if verdict is not None and not job.live_attempts:
            state, job.exit_code, reason = verdict
            self.end(job, state, now_ms, ready, reason)
        elif not job.is_stopping:
            self.queue(job, now_ms)

    # Ending

    def conclude(self, job: Job, state: str, now_ms: int, ready: Ready, reason: str = "") -> None:
        """A job is over: it ends now, or when those who vote on it know."""
        if job.ending is not None:
            return  # The first end stays.
        if not self.elsewhere.holds_end(job):
            self.end(job, state, now_ms, ready, reason)
            return
        job.ending = Conclusion(state=state, reason=reason, at_ms=now_ms)  # type: ignore[arg-type]  # The table checks it.
        job.tell(now_ms, "ending", f"{state}: its voters are told")
        self.leave(job.spec.id)
        ready.touch(job)

    def close(self, job: Job, now_ms: int, ready: Ready) -> None:
        """Those who vote on it know how it ended: now it has."""
        ending = job.ending
        assert ending is not None, "concluded before"
        self.end(job, ending.state, now_ms, ready, ending.reason)

    def end(self, job: Job, state: str, now_ms: int, ready: Ready, reason: str = "") -> None:
        """A job has ended."""
        job.move(state, now_ms, reason)  # type: ignore[arg-type]  # The table checks it.
        job_id, job.ending = job.spec.id, None
        self.leave(job_id)
        self.deadlines.forget(job_id)
        self.arrays.forget(job_id)
        self.unfinished -= 1
        ready.touch(job)
        fields = {"state": state, "exit_code": job.exit_code}
        ready.happened.append(Happened(name="job.ended", at_ms=now_ms, job=job_id, fields=fields))
        self.finished.append(job_id)
        self.tell_dependents(ending_of(job), now_ms, ready)

    def tell_dependents(self, ending: Ending, now_ms: int, ready: Ready) -> None:
        """One end may decide others, which may decide others: a chain of any length."""
        self._news.append(ending)
        if len(self._news) > 1:
            return  # The loop below is at work further up: no recursion.
        while self._news:
            other = self._news[0]
            for dependent in sorted(self.dependents.pop(other.job, ())):
                job = self.jobs.get(dependent)  # None: it has another home meanwhile.
                if job is not None and not job.has_ended:
                    self._decide_after(job, other, now_ms, ready)
            self._news.popleft()
        while len(self.finished) > FINISHED_KEPT:
            self.jobs.pop(self.finished.popleft(), None)

    def check(self) -> None:
        """Re-derive what must be true."""
        self.host.check()
        live = self.attempts.check(self.jobs.values())
        leases = {lease for lease in self.host.ledger.leases if lease not in self.elsewhere.offered}
        assert set(live) == leases, "a lease without an attempt, or reverse"
        self.series.check(live)
        unfinished = [job for job in self.jobs.values() if not job.has_ended]
        assert len(unfinished) == self.unfinished, "unfinished jobs are miscounted"
        waiting = set(self.host.line)
        for job in unfinished:
            cared_for = bool(job.spec.id in waiting or job.live_attempts or job.after_left)
            cared_for = cared_for or job.spec.id in self._starts or job.ending is not None
            cared_for = cared_for or self.elsewhere.is_waiting(job.spec.id)
            cared_for = cared_for or not self.elsewhere.is_cleared(job.spec.id)
            assert cared_for, "a job that nobody will ever start"


def ending_of(job: Job) -> Ending:
    """The same, of a job that is known here."""
    return Ending(job.spec.id, job.spec.name, job.state)
