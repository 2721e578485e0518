"""Taking up after a start: what the store had, what the keeper still runs, what is gone.

Lives here: putting a coordinator back, and comparing it with its keeper. Never here: what follows
from an end (`coordinator`), attempts on other nodes (`across`).
Invariant: nothing is started before both were done.
"""

from collections.abc import Iterable

from distributed_grid.kernel.coordinator import Coordinator
from distributed_grid.kernel.jobs import Attempt, Job
from distributed_grid.kernel.ready import Ready
from distributed_grid.kernel.series import shape_of
from distributed_grid.kernel.unusable import about
from distributed_grid.model.ids import JobId
from distributed_grid.model.lease import Lease
from distributed_grid.wire.keeper import Ended, Hello, Stop, untold_end


def restore(coordinator: Coordinator, jobs: Iterable[Job], leases: dict[str, Lease]) -> None:
    """Take up jobs and leases as the store had them; nothing is started before `reconcile`."""
    for job in sorted(jobs, key=lambda job: (job.submitted_ms, job.spec.id)):
        with about("job", job.spec.id):
            take_up(coordinator, job)
    for job_id, attempt in sorted(coordinator.attempts.here.values(), key=_turn):
        with about("job", job_id):
            _put_back(coordinator, coordinator.jobs[job_id], attempt, leases)


def take_up(coordinator: Coordinator, job: Job) -> None:
    """Know a job: one of before a start, or one that another node has cared for until now."""
    coordinator.jobs[job.spec.id] = job
    for attempt in job.live_attempts:  # Also of one that ended elsewhere: they are being stopped.
        coordinator.attempts.add(job.spec.id, attempt)
    if job.has_ended:
        coordinator.finished.append(job.spec.id)
        return
    coordinator.unfinished += 1
    if job.spec.deadline_ms:
        coordinator.deadlines.add(job.spec.id, job.spec.deadline_ms)
    for other in job.after_left:
        coordinator.dependents.setdefault(other, set()).add(job.spec.id)


def _put_back(
    coordinator: Coordinator, job: Job, attempt: Attempt, leases: dict[str, Lease]
) -> None:
    if attempt.lease in coordinator.host.ledger.leases:
        coordinator.series.line_up(attempt.lease, attempt.id)
        return
    coordinator.host.ledger.restore(leases[attempt.lease])
    coordinator.series.open(attempt.lease, attempt.id, shape_of(job), attempt.granted_ms)
    coordinator.host.hold(job, attempt.lease, attempt.granted_ms)
    if job.spec.is_shared:
        coordinator.giving_way.restored(attempt.lease)


def recall(coordinator: Coordinator, job: Job) -> None:
    """Know a finished job again, because another comes after it."""
    assert job.has_ended, "unfinished jobs are never forgotten"
    take_up(coordinator, job)


def reconcile(coordinator: Coordinator, hello: Hello, now_ms: int, ready: Ready) -> None:
    """What the keeper does not run, and has not reported, is lost, or never started.

    What it runs and nobody here knows (the disk was lost under the agent) ends: nobody would.
    """
    running = set(hello.running)
    coordinator.attempts.strays = running - set(coordinator.attempts.here)
    ready.tell += [Stop(attempt=stray) for stray in sorted(coordinator.attempts.strays)]
    for known in sorted((running - {*hello.queued}) & set(coordinator.attempts.here)):
        # Its `Started` was acknowledged, and not saved for its own sake.
        job_id, attempt = coordinator.attempts.here[known]
        job = coordinator.jobs[job_id]
        attempt.state = "running"
        attempt.started_ms = attempt.started_ms or hello.began.get(known)
        if job.state == "waiting":
            job.started_ms = job.started_ms or attempt.started_ms
            job.move("running", now_ms, "it went on while the agent was away")
    for gone in sorted(set(coordinator.attempts.here) - running):
        _, attempt = coordinator.attempts.here[gone]
        if attempt.is_held or attempt.awaits_votes:
            continue  # The keeper was never told of it: it waits for the other ranks, or for votes.
        coordinator.ended(_gone(attempt, now_ms), now_ms, ready)
    for job in list(coordinator.jobs.values()):
        if job.is_guest:
            coordinator.elsewhere.reported(job)
            continue
        if job.is_stopping or job.has_ended:
            coordinator.tell_to_stop(job, ready)  # That may have been lost with the last agent.
        if not job.has_ended and (not job.live_attempts or coordinator.arrays.wants_more(job)):
            coordinator.queue(job, now_ms)


def _gone(attempt: Attempt, now_ms: int) -> Ended:
    never_started = attempt.state == "granted"
    if never_started:
        note = "the agent went down before it was started"
        return untold_end(attempt.id, "stopped", now_ms, note=note)
    return untold_end(attempt.id, "lost", now_ms, note="lost")


def _turn(live: tuple[JobId, Attempt]) -> tuple[int, str]:
    return live[1].granted_ms, live[1].id
