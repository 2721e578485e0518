"""The job's side: from submission to the result, over attempts, retries, losses and arrays.

Lives here: what happens to jobs. Never here: what is free (`host`), processes (`edges.runner`).
Invariant: a job holds leases only while it has live attempts, and every live attempt holds one.
"""

from collections import deque
from collections.abc import Callable, Iterable
from typing import Final

from distributed_grid.errors import EXIT_GRID, Conflict, NeverFits, NotFound, Overloaded
from distributed_grid.kernel.arrays import Arrays
from distributed_grid.kernel.endings import in_words
from distributed_grid.kernel.host import Host
from distributed_grid.kernel.jobs import Attempt, Job, Progress
from distributed_grid.kernel.ready import Happened, Ready
from distributed_grid.kernel.series import Series
from distributed_grid.kernel.waiting import Entry
from distributed_grid.model.ids import JobId
from distributed_grid.model.job import JobSpec
from distributed_grid.model.lease import Lease
from distributed_grid.model.resources import Request
from distributed_grid.wire.keeper import Ended, Started, Stop, Usage, Withdraw

QUEUE_MAX: Final = 100_000  # Unfinished jobs; an array of any length is one.
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
        job.after_left = sorted({after.job for after in spec.after})
        for after in spec.after:
            self._dependents.setdefault(after.job, set()).add(spec.id)
        for after in spec.after:
            other = self.jobs[after.job]
            if other.has_ended and not job.has_ended:
                self._decide_after(job, other, now_ms, ready)
        if not job.has_ended:
            self._queue(job)

    def admit_all(self, specs: tuple[JobSpec, ...]) -> None:
        """Raise if one of these cannot be taken; those of one submission may need each other."""
        new = [spec for spec in specs if spec.id not in self.jobs]
        if self.unfinished + len(new) > QUEUE_MAX:
            raise Overloaded("unfinished jobs", most=QUEUE_MAX)
        known: dict[JobId, JobSpec] = {}
        for spec in specs:
            for after in spec.after:  # Only of what came before: so there are no circles.
                if after.job not in self.jobs and after.job not in known:
                    raise NotFound("job", after.job)
            if known.setdefault(spec.id, spec) != spec:
                raise Conflict("job", spec.id)
        for spec in new:
            lacking = self.host.ledger.could_ever(spec.request)
            if lacking is not None and not spec.wait_for_capacity:
                raise NeverFits(spec.name, shortfall=lacking.missing)
        for spec in specs:
            if spec.id in self.jobs and self.jobs[spec.id].spec != spec:
                raise Conflict("job", spec.id)

    def cancel(self, job_id: JobId, now_ms: int, ready: Ready) -> None:
        """Ask a job to end; one that has ended stays as it is."""
        job = self.jobs[job_id]
        if job.has_ended or job.is_cancelled:
            return
        job.is_cancelled = True
        job.tell(now_ms, "cancel asked")
        ready.touch(job)
        self.host.line.remove(job_id)
        self.arrays.cancel(job)
        grace_ms = job.spec.work.grace_ms if job.spec.work else 0
        live = job.live_attempts
        for attempt in live:
            ready.tell.append(Stop(attempt=attempt.id, grace_ms=grace_ms))
        if not live:
            self._end(job, "cancelled", now_ms, ready, "before it ran")

    # Waiting and starting

    def _queue(self, job: Job) -> None:
        """Put a job into the line, unless it must wait for another."""
        if not job.after_left:
            entry = Entry(submitted_ms=job.submitted_ms, job=job.spec.id)
            self.host.line.add(entry, job.spec.request)

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
        self._queue(job)

    def fill(self, now_ms: int, ready: Ready) -> None:
        """Start whatever fits."""
        for entry, lease in self.host.grants(now_ms):
            job = self.jobs[entry.job]
            attempt = self._begin(job, lease, now_ms)
            self._series.open(lease.id, attempt.id, _shape(job), now_ms)
            if not self.arrays.wants_more(job):
                self.host.line.remove(entry.job)
            ready.save_leases.append(lease)
            ready.touch(job)
            self._launch(job, attempt, lease)
        self._line_up(now_ms, ready)

    def take_back(self, now_ms: int, ready: Ready) -> None:
        """Those who lined up behind one that goes on and on wait for another place."""
        for attempt in self._series.stuck(now_ms):
            ready.tell.append(Withdraw(attempt=attempt))

    def _line_up(self, now_ms: int, ready: Ready) -> None:
        """Nothing is free: let the next stand behind those that will soon have ended."""
        while (first := self.host.line.first()) is not None:
            job = self.jobs[first.job]
            shape = _shape(job)
            place = None if shape is None else self._series.place(shape, now_ms)
            if place is None:
                return  # The first in the line decides: nobody overtakes it into a row.
            lease = self.host.ledger.leases[place]
            attempt = self._begin(job, lease, now_ms, own_id=self.host.new_id())
            self._series.line_up(place, attempt.id)
            self.host.line.remove(first.job)
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
        if self._series.leave(attempt.lease, attempt.id, now_ms):
            self.host.ledger.release(attempt.lease)
            ready.drop_leases.append(attempt.lease)
        ready.touch(job)

    def _process_ended(self, job: Job, report: Ended, now_ms: int, ready: Ready) -> None:
        if report.how == "stopped" and job.is_cancelled:
            self._end(job, "cancelled", now_ms, ready, "while it ran")
        elif report.how == "stopped":  # Not by its owner, and not its fault: it waits again.
            if job.state == "waiting":
                job.tell(now_ms, "waiting", report.note)
            else:
                job.move("waiting", now_ms, report.note)
            self._queue(job)
        elif report.code == 0:
            job.exit_code = 0
            self._end(job, "succeeded", now_ms, ready)
        elif job.failures < job.spec.retries and not job.is_cancelled:
            job.failures += 1
            job.move("waiting", now_ms, f"exit {report.code}, retry {job.failures}")
            self._queue(job)
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
            self._queue(job)

    def _chunk_ended(
        self, job: Job, attempt: Attempt, report: Ended, now_ms: int, ready: Ready
    ) -> None:
        self.arrays.chunk_ended(job, attempt, report)
        verdict = self.arrays.verdict(job)
        if verdict is not None and not job.live_attempts:
            state, job.exit_code, reason = verdict
            self._end(job, state, now_ms, ready, reason)
        elif self.arrays.wants_more(job):
            self._queue(job)

    # Ending

    def _end(self, job: Job, state: str, now_ms: int, ready: Ready, reason: str = "") -> None:
        job.move(state, now_ms, reason)  # type: ignore[arg-type]  # The table checks it.
        job_id = job.spec.id
        self.host.line.remove(job_id)
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
            if not job.has_ended and (not job.live_attempts or self.arrays.wants_more(job)):
                self._queue(job)

    def check(self) -> None:
        """Re-derive what must be true."""
        self.host.line.check()
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
            cared_for = job.spec.id in waiting or job.live_attempts or job.after_left
            assert cared_for, "a job that nobody will ever start"


def _shape(job: Job) -> Request | None:
    """What a job asks for, if it may share a lease in turn with others that ask for the same."""
    is_plain = job.spec.array is None and job.spec.work is not None and not job.spec.work.image
    return job.spec.request if is_plain else None


def _turn(live: tuple[JobId, Attempt]) -> tuple[int, str]:
    return live[1].granted_ms, live[1].id


def _added(usage: Usage, report: Ended) -> Usage:
    more = report.usage
    return Usage(
        user_us=usage.user_us + more.user_us,
        system_us=usage.system_us + more.system_us,
        memory_bytes_peak=max(usage.memory_bytes_peak, more.memory_bytes_peak),
    )
