"""A job changes hands: this node becomes its home, or is it no longer, or learns more of it.

Lives here: what follows for the coordinator when records meet. Never here: records (`record`), who
holds them (`guarding`), attempts that run elsewhere (`away`).
Invariant: what runs here goes on when its job changes hands, as a guest of the new home; of several
attempts at one job the oldest stays, but of a gang that which this node can let go: all ranks that
live are those of one attempt.
"""

from collections.abc import Callable
from typing import Final

import msgspec

from distributed_grid.kernel.across.away import Away
from distributed_grid.kernel.across.guests import foreign_spec
from distributed_grid.kernel.across.hands import adopt_guest, let_go, prepare, replace, settle
from distributed_grid.kernel.across.record import JobRecord, conclusion_of, has_ended, state_of
from distributed_grid.kernel.across.record_jobs import job_of
from distributed_grid.kernel.across.travelling import local, travelling
from distributed_grid.kernel.coordinator import Coordinator
from distributed_grid.kernel.jobs import PENDING, RUNNING, SUCCEEDED, Attempt, Job
from distributed_grid.kernel.ready import Ready
from distributed_grid.kernel.restarting import take_up
from distributed_grid.model.across import HERE, Epoch, Origin
from distributed_grid.model.ids import JobId, NodeId

Changed = Callable[[Job, int, Ready], None]

GIVEN_MAX: Final = 10_000  # A client that heard no answer asks again within seconds.
_OPEN: Final = (PENDING, RUNNING)


class Handover:
    """What one node does when a job changes hands."""

    def __init__(
        self, coordinator: Coordinator, away: Away, *, me: NodeId, changed: Changed
    ) -> None:
        self._coordinator = coordinator
        self._away = away
        self._me = me
        self._changed = changed
        # To other homes, the last that went: whether this node's own people had submitted it.
        self.given: dict[JobId, bool] = {}

    def taken_over(self, record: JobRecord, now_ms: int, ready: Ready) -> None:
        """This node is the job's home from now on."""
        coordinator, job = self._coordinator, job_of(record)
        known = coordinator.jobs.get(job.spec.id)
        if known is not None and not known.has_ended:
            return  # It is ours already: the record is older than what is known here.
        # Who wrote the record may not name files of this machine, whatever it says of itself.
        job.spec = travelling(job.spec)
        job.is_foreign = not (self.given.get(record.job) or (known and known.certified_by))
        if job.is_foreign:
            job.spec = foreign_spec(job.spec)
        else:  # Its record may say so of every job; that this node issued it, only this node knows.
            job.spec, job.certified_by = local(job.spec, coordinator.node), coordinator.node
        job.tell(now_ms, "taken over", f"by {coordinator.node}")
        job.attempts = [one for one in job.attempts if not self._is_of_another(one)]
        if job.state == "running" and not job.live_attempts:
            job.state = "waiting"  # What has begun is a live attempt.
        take_up(coordinator, job)
        self._keep_gone(job, now_ms, ready)
        ready.touch(job)
        self._learn_conclusion(job, record, now_ms, ready)
        self._changed(job, now_ms, ready)
        self._go_on(job, now_ms, ready)

    def cleared(self, job_id: JobId, now_ms: int, ready: Ready) -> None:
        """After a start: nobody else has taken it meanwhile."""
        job = self._coordinator.jobs.get(job_id)
        if job is not None and not job.has_ended:
            self._go_on(job, now_ms, ready)

    def _go_on(self, job: Job, now_ms: int, ready: Ready) -> None:
        coordinator = self._coordinator
        if job.is_stopping:
            coordinator.tell_to_stop(job, ready)
        for attempt in job.live_attempts:
            if attempt.host != HERE:
                self._away.ask_after(attempt.host, job.spec.id, attempt.lease, now_ms, ready)
        if job.has_ended or self._end_if_done(job, now_ms, ready):
            return  # What ran of it was on a node that is gone, or all of it had run.
        if job.is_stopping and not job.live_attempts:
            coordinator.stop(job, "cancelled", "before it ran", now_ms, ready)
        elif not job.live_attempts or coordinator.arrays.wants_more(job):
            coordinator.queue(job, now_ms)

    def abdicated(self, record: JobRecord, now_ms: int, ready: Ready) -> None:
        """Another node is its home; what runs here is its guest now."""
        job = self._coordinator.jobs.get(record.job)
        if job is None or job.is_guest:
            return
        running = [attempt for attempt in job.live_attempts if attempt.host == HERE]
        let_go(self._coordinator, job, ready)
        self._away.let_go(record.job)
        self.given[record.job] = bool(job.certified_by)
        if len(self.given) > GIVEN_MAX:
            del self.given[next(iter(self.given))]
        for attempt in running:
            guest = _guest(job, attempt, record, now_ms)
            adopt_guest(self._coordinator, guest, attempt, ready)

    def merged(self, record: JobRecord, now_ms: int, ready: Ready) -> None:
        """Others knew more of a job of this node."""
        job = self._coordinator.jobs.get(record.job)
        if job is None:
            return
        theirs = job_of(record)
        self._learn_attempts(job, theirs, now_ms, ready)
        self._learn_indices(job, theirs)
        if has_ended(record):
            self._learn_result(job, theirs, record, now_ms, ready)
        elif not job.has_ended and not self._end_if_done(job, now_ms, ready):
            self._learn_conclusion(job, record, now_ms, ready)
            if record.cancel:
                self._coordinator.cancel(job.spec.id, now_ms, ready)
        if not job.has_ended:
            self._keep_oldest(job, now_ms, ready)
        ready.touch(job)
        self._changed(job, now_ms, ready)

    def _learn_attempts(self, job: Job, theirs: Job, now_ms: int, ready: Ready) -> None:
        known = {attempt.id for attempt in job.attempts}
        ours = {_try_of(attempt) for attempt in job.live_attempts}
        live = []
        for attempt in theirs.attempts:
            is_mine = attempt.host == self._me and not self._is_guest(job.spec.id, attempt.lease)
            if attempt.id in known or is_mine or self._is_of_another(attempt):
                continue  # What ran here as its home's own is known, or never was.
            job.attempts.append(attempt)
            job.attempts_made = max(job.attempts_made, attempt.number)
            if attempt.state in ("granted", "running"):
                self._coordinator.attempts.add(job.spec.id, attempt)
                live.append(attempt)
        if live and job.spec.gang > 1:
            self._coordinator.wait_no_more(job.spec.id)  # Its next attempt waits for their end.
        for attempt in live:  # All are known by now: when a rank is lost, the others end with it.
            if job.spec.gang > 1 and ours and _try_of(attempt) not in ours:
                # Another home gathered it too. Both together would never be whole, and their ranks
                # would be mixed up; of the other one `go` is not known here.
                replace(self._coordinator, job, attempt, now_ms, ready)
            else:
                self._away.ask_after(attempt.host, job.spec.id, attempt.lease, now_ms, ready)

    def _is_of_another(self, attempt: Attempt) -> bool:
        """Whether a job of this node has it already: whoever wrote the record mixes them up."""
        return self._coordinator.attempts.find(attempt.id, is_away=True) is not None

    def _keep_gone(self, job: Job, now_ms: int, ready: Ready) -> None:
        """Of a gang that two homes gathered before this one: what may go is the attempt."""
        go, live = job.gang_go, job.live_attempts
        if go is None:
            return  # It is none, or everything is given back (`gangs`).
        others = [attempt for attempt in live if _try_of(attempt) != (go.epoch, go.number)]
        if len(others) < len(live):
            for attempt in others:
                replace(self._coordinator, job, attempt, now_ms, ready)

    def _is_guest(self, job: JobId, lease: str) -> bool:
        """Whether this node ran, or runs, an attempt for its former home: it goes on, or counts."""
        guest = self._coordinator.jobs.get(JobId(lease))
        origin = guest.spec.origin if guest is not None else None
        return origin is not None and origin.job == job

    def _learn_indices(self, job: Job, theirs: Job) -> None:
        """Of an array: what ended on the other side has ended."""
        if job.progress is None or theirs.progress is None:
            return
        mine, other = job.progress, theirs.progress
        for at, state in enumerate(other.states):
            is_better = state not in _OPEN and mine.states[at] in _OPEN
            if is_better or (state == SUCCEEDED and mine.states[at] != SUCCEEDED):
                mine.states[at] = state
                mine.codes.pop(at, None)
                if at in other.codes:
                    mine.codes[at] = other.codes[at]
        self._coordinator.arrays.forget(job.spec.id)  # Worked out again from the record.
        if not self._coordinator.arrays.wants_more(job):
            self._coordinator.wait_no_more(job.spec.id)

    def _end_if_done(self, job: Job, now_ms: int, ready: Ready) -> bool:
        """Of an array: all of it may have ended without a home that knew all of that."""
        verdict = self._coordinator.arrays.verdict(job) if job.progress is not None else None
        if verdict is None or job.live_attempts:
            return False
        state, job.exit_code, reason = verdict
        settle(self._coordinator, job, state, now_ms, ready, reason=reason)
        return True

    def _learn_result(
        self, job: Job, theirs: Job, record: JobRecord, now_ms: int, ready: Ready
    ) -> None:
        state = state_of(record)
        if job.has_ended and state == job.state:
            return
        for attempt in job.live_attempts:
            replace(self._coordinator, job, attempt, now_ms, ready)
        job.exit_code = theirs.exit_code
        if job.has_ended:  # Only failed or cancelled becomes succeeded: the better result counts.
            job.correct(state, now_ms, theirs.reason)
            return
        settle(self._coordinator, job, state, now_ms, ready, reason=theirs.reason)

    def _learn_conclusion(self, job: Job, record: JobRecord, now_ms: int, ready: Ready) -> None:
        """A former home saw it end, and could not tell those who vote on it: this one does.

        That it may have told some of them is no majority: to people it still runs.
        """
        result = conclusion_of(record)
        if result is None or job.ending is not None:
            return
        for attempt in job.live_attempts:
            replace(self._coordinator, job, attempt, now_ms, ready)
        job.exit_code = result.exit_code
        prepare(job, result.state, now_ms)
        self._coordinator.conclude(job, result.state, now_ms, ready, result.reason)

    def _keep_oldest(self, job: Job, now_ms: int, ready: Ready) -> None:
        if job.spec.array is not None or job.spec.gang > 1:
            return
        live = sorted(job.live_attempts, key=lambda one: (one.epoch, one.number, one.id))
        for newer in live[1:]:
            replace(self._coordinator, job, newer, now_ms, ready)


def _try_of(attempt: Attempt) -> tuple[Epoch, int]:
    """Which try it is, or a rank of."""
    return attempt.epoch, attempt.number


def _guest(job: Job, attempt: Attempt, record: JobRecord, now_ms: int) -> Job:
    """What runs here of a job that has another home now."""
    origin = Origin(
        home=record.home,
        job=job.spec.id,
        epoch=record.version.epoch,
        attempt=attempt.id,
        number=attempt.number,
        indices=attempt.indices,
        holders=record.holders,
    )
    spec = msgspec.structs.replace(
        job.spec,
        id=JobId(attempt.id),
        origin=origin,
        array=None,
        after=(),
        retries=0,
        losses_max=0,
        start_ms=0,
        deadline_ms=0,
        gang=1,
    )
    guest = Job(
        spec=spec,
        submitted_ms=job.submitted_ms,
        state="running" if attempt.state == "running" else "waiting",
        attempts=[attempt],
        attempts_made=1,
        epoch=record.version.epoch,
        started_ms=attempt.started_ms,
        output_of=job.spec.id,
    )
    guest.tell(now_ms, "guest", f"its home is {record.home[:8]} now")
    return guest
