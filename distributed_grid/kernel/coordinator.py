"""The job's side: from submission to the result, over attempts, retries, losses and arrays.

Lives here: what happens to jobs. Never here: what is free (`host`), processes (`edges.runner`).
Invariant: a job holds leases only while it has live attempts, and every live attempt holds one.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from distributed_grid.errors import EXIT_GRID
from distributed_grid.kernel.arrays import TIMEOUT_CODE, Arrays
from distributed_grid.kernel.calendar import Calendar
from distributed_grid.kernel.endings import in_words
from distributed_grid.kernel.giving_way import GivingWay, Tenant
from distributed_grid.kernel.host import Host
from distributed_grid.kernel.jobs import Attempt, Job, Progress
from distributed_grid.kernel.ready import Happened, Ready
from distributed_grid.kernel.series import Series, Shape
from distributed_grid.model.ids import JobId
from distributed_grid.model.job import JobSpec
from distributed_grid.model.lease import Lease
from distributed_grid.wire.keeper import Ended, Started, Stop, Usage, Withdraw

FINISHED_KEPT: Final = 2_000  # In memory; the store has the rest.


Launch = Callable[[Job, Attempt, Lease], None]


class Coordinator:
    """All jobs of this node that have not ended, and the latest of those that have."""

    def __init__(self, host: Host, *, node: str, launch: Launch) -> None:
        self.host = host
        self.node = node
        self.jobs: dict[JobId, Job] = {}
        self.unfinished = 0
        self._launch = launch  # Makes the message to the keeper, which knows paths.
        self._attempts: dict[str, tuple[JobId, Attempt]] = {}  # By id: those that are live.
        self.arrays = Arrays()
        self._series = Series()
        self.giving_way = GivingWay(host, self._tenants)
        self._starts = Calendar()  # Jobs that are not to start before a moment.
        self._deadlines = Calendar()
        self._unsaved: dict[str, int] = {}  # By attempt: the first report that is not saved yet.
        self._dependents: dict[JobId, set[JobId]] = {}
        self._finished: deque[JobId] = deque()
        self._news: deque[Job] = deque()  # Ended, and their dependents not told yet.

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
            self._deadlines.add(spec.id, spec.deadline_ms)
        job.after_left = sorted({after.job for after in spec.after})
        for after in spec.after:
            self._dependents.setdefault(after.job, set()).add(spec.id)
        for after in spec.after:
            other = self.jobs[after.job]
            if other.has_ended and not job.has_ended:
                self._decide_after(job, other, now_ms, ready)
        if not job.has_ended:
            self._queue(job, now_ms)

    def cancel(self, job_id: JobId, now_ms: int, ready: Ready) -> None:
        """Ask a job to end; one that has ended stays as it is."""
        job = self.jobs[job_id]
        if job.has_ended or job.is_cancelled:
            return
        job.is_cancelled = True
        job.tell(now_ms, "cancel asked")
        ready.touch(job)
        self._stop(job, "cancelled", "before it ran", now_ms, ready)

    def _stop(self, job: Job, state: str, why: str, now_ms: int, ready: Ready) -> None:
        """Nothing more of it starts, what runs is stopped; if nothing does, it ends as told."""
        self._leave(job.spec.id)
        self.arrays.cancel(job)
        self._tell_to_stop(job, ready)
        if not job.live_attempts:
            self._end(job, state, now_ms, ready, why)

    def _tell_to_stop(self, job: Job, ready: Ready) -> None:
        grace_ms = job.spec.work.grace_ms if job.spec.work else 0
        for attempt in job.live_attempts:
            ready.tell.append(Stop(attempt=attempt.id, grace_ms=grace_ms))

    # Waiting and starting

    def _queue(self, job: Job, now_ms: int) -> None:
        """Put a job into the line, unless it must wait for another, or for its time."""
        if job.after_left:
            return
        booking = self.host.booking(job.spec.booking) if job.spec.booking else None
        start_ms = max(job.spec.start_ms, booking.from_ms if booking else 0)
        if start_ms > now_ms:
            self._starts.add(job.spec.id, start_ms)
        else:
            self.host.wait(job, now_ms)

    def _leave(self, job: JobId) -> None:
        """It waits for nothing any more."""
        self.host.leave(job)
        self._starts.forget(job)

    def keep_dates(self, now_ms: int, ready: Ready) -> None:
        """Those whose time has come join the line; those whose time is over end."""
        for job_id in self._starts.due(now_ms):
            self.host.wait(self.jobs[job_id], now_ms)
            ready.touch(self.jobs[job_id])
        for job_id in self._deadlines.due(now_ms):
            job = self.jobs[job_id]
            job.is_overdue = True
            job.tell(now_ms, "its deadline has passed")
            ready.touch(job)
            if job.attempts_made:
                job.exit_code = TIMEOUT_CODE
                self._stop(job, "failed", "its deadline passed", now_ms, ready)
            else:
                self._stop(job, "skipped", "its deadline passed before it ran", now_ms, ready)

    def _decide_after(self, job: Job, other: Job, now_ms: int, ready: Ready) -> None:
        """One of those that a job comes after has ended: go on, wait for the rest, or skip."""
        is_ok = other.state == "succeeded"
        ready.touch(job)
        for after in job.spec.after:
            if after.job != other.spec.id:
                continue
            if (after.when == "ok" and not is_ok) or (after.when == "failed" and is_ok):
                why = f"{other.spec.name} ended {other.state}, and it comes after :{after.when}"
                self._end(job, "skipped", now_ms, ready, why)
                return
        job.after_left.remove(other.spec.id)
        self._queue(job, now_ms)

    def fill(self, now_ms: int, ready: Ready) -> None:
        """Start whatever fits."""
        for entry, lease in self.host.grants(now_ms):
            job = self.jobs[entry.job]
            attempt = self._begin(job, lease, now_ms)
            self._series.open(lease.id, attempt.id, _shape(job), now_ms)
            self.host.hold(job, lease.id, now_ms)
            if not self.arrays.wants_more(job):
                self.host.leave(entry.job)
            ready.save_leases.append(lease)
            ready.touch(job)
            self._launch(job, attempt, lease)
        self._line_up(now_ms, ready)
        self.giving_way.make_room_for_bookings(now_ms, ready)
        self.giving_way.make_room(now_ms, ready)
        for leaving in (*self.giving_way.leaving, *self.giving_way.suspended):
            self._series.close(leaving)

    def take_back(self, now_ms: int, ready: Ready) -> None:
        """Those who lined up behind one that goes on and on wait for another place."""
        for attempt in self._series.stuck(now_ms):
            ready.tell.append(Withdraw(attempt=attempt))

    def _line_up(self, now_ms: int, ready: Ready) -> None:
        """Nothing is free: let the next stand behind those that will soon have ended."""
        while (first := self.host.first(now_ms)) is not None:
            job = self.jobs[first.job]
            shape = _shape(job)
            place = None if shape is None else self._series.place(shape, now_ms)
            if place is None:
                return  # The first in the line decides: nobody overtakes it into a row.
            lease = self.host.ledger.leases[place]
            attempt = self._begin(job, lease, now_ms, own_id=self.host.new_id())
            self._series.line_up(place, attempt.id)
            self.host.leave(first.job)
            ready.touch(job)
            self._launch(job, attempt, lease)

    def _begin(self, job: Job, lease: Lease, now_ms: int, *, own_id: str = "") -> Attempt:
        job.attempts_made += 1
        indices = self.arrays.take_chunk(job, slots=self._slots(job))
        attempt = Attempt(
            number=job.attempts_made,
            lease=lease.id,
            own_id=own_id,
            node=self.node,
            granted_ms=now_ms,
            indices=indices,
            tries=self.arrays.tries_of(job, indices) if indices else 0,
            cores=tuple(core for core, _ in lease.cores),
            gpus=tuple(gpu.device for gpu in lease.resources.gpus),
        )
        job.attempts.append(attempt)
        job.keep_few_attempts()
        if not job.spec.array or attempt.number == 1:
            job.tell(now_ms, "granted", f"attempt {attempt.number} on {self.node}")
        self._attempts[attempt.id] = (job.spec.id, attempt)
        return attempt

    def _slots(self, job: Job) -> int:
        """How many leases of this shape could run at once on this machine."""
        return self.host.ledger.total.cpu_milli // max(job.spec.request.cpu_milli, 1)

    # Reports of the keeper

    def _tenants(self) -> Iterator[tuple[str, Tenant]]:
        """Who runs in each lease."""
        for lease in self.host.ledger.leases:
            first, *behind = self._series.row(lease)
            job_id, attempt = self._attempts[first]
            yield lease, Tenant(self.jobs[job_id], attempt, tuple(behind))

    def live_attempt(self, attempt: str) -> tuple[JobId, Attempt] | tuple[None, None]:
        """Whose attempt this is, while it is live."""
        return self._attempts.get(attempt, (None, None))

    def started(self, report: Started, ready: Ready) -> None:
        """A process runs."""
        found = self._attempts.get(report.attempt)
        if found is None:
            return
        job, attempt = self.jobs[found[0]], found[1]
        attempt.state, attempt.pid, attempt.started_ms = "running", report.pid, report.at_ms
        if job.state == "waiting":
            job.started_ms = job.started_ms or max(report.at_ms, job.submitted_ms)
            job.move("running", report.at_ms, f"attempt {attempt.number}, pid {report.pid}")
            ready.changed[job.spec.id] = None
            ready.happened.append(Happened(name="job.started", at_ms=report.at_ms, job=job.spec.id))

    def ended(self, report: Ended, now_ms: int, ready: Ready) -> None:
        """A process is gone."""
        found = self._attempts.get(report.attempt)
        if found is None:
            return  # Told before; the keeper repeats itself until it is acknowledged.
        job, attempt = self.jobs[found[0]], found[1]
        never_started = attempt.state == "granted" and report.how == "stopped"
        if job.state == "waiting" and not never_started:
            job.started_ms = job.started_ms or max(report.started_ms, job.submitted_ms)
            job.move("running", report.started_ms)
        attempt.usage = _added(attempt.usage, report)
        attempt.started_ms = attempt.started_ms or report.started_ms
        if job.progress is not None and report.index >= 0:
            self._index_ended(job, attempt, report)
        if not report.is_last:
            # Saved with the end of the chunk, and not acknowledged before: see `acknowledged`.
            self._unsaved.setdefault(report.attempt, report.number)
            return
        self._release(job, attempt, report, now_ms, ready)
        if never_started and job.progress is None:
            # It never was: the first that runs is the first attempt, for whoever asks GRID_ATTEMPT.
            job.attempts.remove(attempt)
            job.attempts_made -= 1
        if job.progress is not None:
            self._chunk_ended(job, attempt, report, now_ms, ready)
        elif report.how == "lost":
            self._lost(job, now_ms, ready, report.note)
        else:
            self._process_ended(job, report, now_ms, ready)

    def _index_ended(self, job: Job, attempt: Attempt, report: Ended) -> None:
        place = attempt.indices.index(report.index)
        if place >= attempt.ended_indices:  # Else it is a repetition.
            attempt.ended_indices = place + 1
            self.arrays.index_ended(job, report)

    def acknowledged(self, last: int) -> int:
        """Up to which report everything is saved, or will be with this step."""
        return min(self._unsaved.values(), default=last + 1) - 1

    def _release(
        self, job: Job, attempt: Attempt, report: Ended, now_ms: int, ready: Ready
    ) -> None:
        attempt.state = "lost" if report.how == "lost" else "ended"
        attempt.ended_ms, attempt.how = report.ended_ms, report.how
        attempt.exit_code, attempt.note = report.code, report.note
        del self._attempts[attempt.id]
        self._unsaved.pop(attempt.id, None)
        shape = _shape(job)
        if report.how == "exited" and shape is not None:
            self._series.took(shape, (report.ended_ms - report.started_ms) * 1_000)
        if self._series.row(attempt.lease)[0] == attempt.id:
            # It was told to leave, or suspended; whoever stands behind it and started was not.
            self.giving_way.forget(attempt.lease)
        if self._series.leave(attempt.lease, attempt.id, now_ms):
            self.host.release(attempt.lease, now_ms)
            ready.drop_leases.append(attempt.lease)
        ready.touch(job)

    def _process_ended(self, job: Job, report: Ended, now_ms: int, ready: Ready) -> None:
        if report.how in ("stopped", "preempted") and job.is_cancelled:
            self._end(job, "cancelled", now_ms, ready, "while it ran")
        elif job.is_overdue and report.code != 0:
            job.exit_code = TIMEOUT_CODE
            self._end(job, "failed", now_ms, ready, "its deadline passed")
        elif report.how in ("stopped", "preempted"):  # Not by its owner, and not its fault.
            job.preemptions += report.how == "preempted"
            if job.state == "waiting":
                job.tell(now_ms, "waiting", report.note)
            else:
                job.move("waiting", now_ms, report.note or report.how)
            self._queue(job, now_ms)
        elif report.code == 0:
            job.exit_code = 0
            self._end(job, "succeeded", now_ms, ready)
        elif job.failures < job.spec.retries and not job.is_stopping:
            job.failures += 1
            job.move("waiting", now_ms, f"exit {report.code}, retry {job.failures}")
            self._queue(job, now_ms)
        else:
            job.exit_code = report.code
            self._end(job, "failed", now_ms, ready, report.note or in_words(report))

    def _lost(self, job: Job, now_ms: int, ready: Ready, why: str) -> None:
        job.losses += 1
        if job.is_cancelled:
            self._end(job, "cancelled", now_ms, ready, why)
        elif job.losses > job.spec.losses_max:
            self._end(job, "lost", now_ms, ready, why)
        else:
            job.move("waiting", now_ms, f"lost: {why}")
            self._queue(job, now_ms)

    def _chunk_ended(
        self, job: Job, attempt: Attempt, report: Ended, now_ms: int, ready: Ready
    ) -> None:
        self.arrays.chunk_ended(job, attempt, report)
        job.preemptions += report.how == "preempted"
        verdict = self.arrays.verdict(job)
        if verdict is not None and not job.live_attempts:
            state, job.exit_code, reason = verdict
            self._end(job, state, now_ms, ready, reason)
        elif self.arrays.wants_more(job):
            self._queue(job, now_ms)

    # Ending

    def _end(self, job: Job, state: str, now_ms: int, ready: Ready, reason: str = "") -> None:
        job.move(state, now_ms, reason)  # type: ignore[arg-type]  # The table checks it.
        job_id = job.spec.id
        self._leave(job_id)
        self._deadlines.forget(job_id)
        self.arrays.forget(job_id)
        self.unfinished -= 1
        ready.touch(job)
        fields = {"state": state, "exit_code": job.exit_code}
        ready.happened.append(Happened(name="job.ended", at_ms=now_ms, job=job_id, fields=fields))
        self._finished.append(job_id)
        self._news.append(job)
        if len(self._news) == 1:  # Else the loop below is at work further up: no recursion.
            self._tell_dependents(now_ms, ready)

    def _tell_dependents(self, now_ms: int, ready: Ready) -> None:
        """One end may decide others, which may decide others: a chain of any length."""
        while self._news:
            other = self._news[0]
            for dependent in sorted(self._dependents.pop(other.spec.id, ())):
                job = self.jobs[dependent]
                if not job.has_ended:
                    self._decide_after(job, other, now_ms, ready)
            self._news.popleft()
        while len(self._finished) > FINISHED_KEPT:
            self.jobs.pop(self._finished.popleft(), None)

    # After a restart

    def restore(self, jobs: Iterable[Job], leases: dict[str, Lease]) -> None:
        """Take up jobs and leases as the store had them; nothing is started before `reconcile`."""
        for job in sorted(jobs, key=lambda job: (job.submitted_ms, job.spec.id)):
            self.jobs[job.spec.id] = job
            if job.has_ended:
                self._finished.append(job.spec.id)
                continue
            self.unfinished += 1
            if job.spec.deadline_ms:
                self._deadlines.add(job.spec.id, job.spec.deadline_ms)
            for other in job.after_left:
                self._dependents.setdefault(other, set()).add(job.spec.id)
            for attempt in job.live_attempts:
                self._attempts[attempt.id] = (job.spec.id, attempt)
        for job_id, attempt in sorted(self._attempts.values(), key=_turn):
            if attempt.lease in self.host.ledger.leases:
                self._series.line_up(attempt.lease, attempt.id)
                continue
            self.host.ledger.restore(leases[attempt.lease])
            shape = _shape(self.jobs[job_id])
            self._series.open(attempt.lease, attempt.id, shape, attempt.granted_ms)
            self.host.hold(self.jobs[job_id], attempt.lease, attempt.granted_ms)
            if self.jobs[job_id].spec.is_shared:
                self.giving_way.restored(attempt.lease)

    def recall(self, job: Job) -> None:
        """Know a finished job again, because another comes after it."""
        assert job.has_ended, "unfinished jobs are never forgotten"
        self.jobs[job.spec.id] = job
        self._finished.append(job.spec.id)

    def reconcile(self, running: set[str], queued: set[str], now_ms: int, ready: Ready) -> None:
        """What the keeper does not run, and has not reported, is lost, or never started."""
        for known in sorted((running - queued) & set(self._attempts)):
            # Its `Started` was acknowledged, and not saved for its own sake.
            job_id, attempt = self._attempts[known]
            attempt.state = "running"
            if self.jobs[job_id].state == "waiting":
                self.jobs[job_id].move("running", now_ms, "it went on while the agent was away")
        for gone in sorted(set(self._attempts) - running):
            _, attempt = self._attempts[gone]
            never_started = attempt.state == "granted"
            self.ended(
                Ended(
                    number=0,
                    attempt=gone,
                    how="stopped" if never_started else "lost",
                    code=EXIT_GRID,
                    started_ms=now_ms,
                    ended_ms=now_ms,
                    usage=Usage(),
                    note="the agent went down before it was started" if never_started else "lost",
                ),
                now_ms,
                ready,
            )
        for job in list(self.jobs.values()):
            if job.is_stopping:
                self._tell_to_stop(job, ready)  # That may have been lost with the last agent.
            if not job.has_ended and (not job.live_attempts or self.arrays.wants_more(job)):
                self._queue(job, now_ms)

    def check(self) -> None:
        """Re-derive what must be true."""
        self.host.check()
        live: dict[str, set[str]] = {}
        for job in self.jobs.values():
            for attempt in job.live_attempts:
                live.setdefault(attempt.lease, set()).add(attempt.id)
        known = {attempt for row in live.values() for attempt in row}
        assert known == set(self._attempts), "a live attempt is not known by its id"
        assert set(live) == set(self.host.ledger.leases), "a lease without an attempt, or reverse"
        self._series.check(live)
        unfinished = [job for job in self.jobs.values() if not job.has_ended]
        assert len(unfinished) == self.unfinished, "unfinished jobs are miscounted"
        waiting = set(self.host.line)
        for job in unfinished:
            cared_for = bool(job.spec.id in waiting or job.live_attempts or job.after_left)
            cared_for = cared_for or job.spec.id in self._starts
            assert cared_for, "a job that nobody will ever start"


def _shape(job: Job) -> Shape | None:
    """What a job has in common with those with whom it may share a lease in turn; None: nobody."""
    spec = job.spec
    if spec.array is not None or spec.work is None or spec.work.image:
        return None
    return Shape(spec.request, spec.user, spec.project, spec.priority, spec.is_shared, spec.booking)


def _turn(live: tuple[JobId, Attempt]) -> tuple[int, str]:
    return live[1].granted_ms, live[1].id


def _added(usage: Usage, report: Ended) -> Usage:
    more = report.usage
    return Usage(
        user_us=usage.user_us + more.user_us,
        system_us=usage.system_us + more.system_us,
        memory_bytes_peak=max(usage.memory_bytes_peak, more.memory_bytes_peak),
    )
