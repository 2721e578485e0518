"""What a coordinator does with attempts and jobs that are not its own alone.

Lives here: beginning elsewhere, coming back, being replaced; guests; a job that goes to another
home. Never here: when that happens (`asking`, `away`, `hosting`, `handover`).
Invariant: after each of these the coordinator's own books are right.
"""

from typing import Final

from distributed_grid.kernel.coordinator import Coordinator
from distributed_grid.kernel.elsewhere import Place
from distributed_grid.kernel.jobs import MOVES, Attempt, Job
from distributed_grid.kernel.ready import Ready
from distributed_grid.model.across import HERE
from distributed_grid.model.ids import NodeId
from distributed_grid.model.lease import Lease
from distributed_grid.wire.keeper import Stop

UNREADY_MS: Final = 5_000  # Then it is tried there again: disks are seldom full for long.
UNREADY_LOOKED: Final = 16  # Of its last attempts: more are not lost in that time.


def unready(job: Job, since_ms: int | None, now_ms: int) -> set[NodeId]:
    """Who lost it before there was a process, for want of room for its files, say.

    Such a node idles, and would have it again at once, until no loss is left. `since_ms`: when the
    job began to look for a place again; None: now.
    """
    return {
        one.host
        for one in job.attempts[-UNREADY_LOOKED:]
        if (one.how == "lost" and one.pid is None and one.host != HERE)
        and now_ms - max(now_ms if since_ms is None else since_ms, one.granted_ms) < UNREADY_MS
    }


def begin_elsewhere(
    coordinator: Coordinator, job: Job, place: Place, now_ms: int, ready: Ready
) -> Attempt:
    """Another node grants a lease to a job that waits: its next attempt is there."""
    job.attempts_made += 1
    indices = coordinator.arrays.take_chunk(job, slots=coordinator.slots(job))
    attempt = Attempt(
        number=job.attempts_made,
        lease=place.lease,
        host=place.host,
        epoch=job.epoch,
        node=place.name,
        granted_ms=now_ms,
        indices=indices,
        tries=coordinator.arrays.tries_of(job, indices) if indices else 0,
        cores=place.cores,
        gpus=place.gpus,
    )
    coordinator.enter(job, attempt, now_ms)
    if not coordinator.arrays.wants_more(job):
        coordinator.wait_no_more(job.spec.id)
    ready.touch(job)
    return attempt


def revive(coordinator: Coordinator, job: Job, attempt: Attempt, now_ms: int, ready: Ready) -> None:
    """An attempt that was given up for lost still runs: it is the one that counts."""
    attempt.state, attempt.how, attempt.note = "running", "", ""
    attempt.exit_code = attempt.ended_ms = None
    job.losses = max(0, job.losses - 1)  # It was none; else a bad network would use them up.
    coordinator.attempts.add(job.spec.id, attempt)
    coordinator.wait_no_more(job.spec.id)
    word = f"attempt {attempt.number} on {attempt.node} came back"
    if job.state == "waiting":
        job.move("running", now_ms, word)
    else:  # What took its place ends.
        job.reason = word
        job.tell(now_ms, "running", word)
    ready.touch(job)


def replace(
    coordinator: Coordinator, job: Job, attempt: Attempt, now_ms: int, ready: Ready
) -> None:
    """End an attempt because another one counts; it counts as nothing."""
    if attempt.host == HERE:
        coordinator.replaced.add(attempt.id)
        ready.tell.append(Stop(attempt=attempt.id))
        return
    coordinator.elsewhere.halt(job, attempt, ready)
    coordinator.attempts.remove(attempt)
    attempt.state, attempt.how, attempt.ended_ms = "ended", "stopped", now_ms


def take_guest(
    coordinator: Coordinator, guest: Job, lease: Lease, now_ms: int, ready: Ready
) -> None:
    """Run an attempt of another node's job in the lease that it was granted; or once it may."""
    coordinator.jobs[guest.spec.id] = guest
    coordinator.unfinished += 1
    attempt = coordinator.begin(guest, lease, now_ms)
    coordinator.series.open(lease.id, attempt.id, None, now_ms)
    ready.save_leases.append(lease)
    ready.touch(guest)
    if not coordinator.elsewhere.holds_back(guest, attempt):
        coordinator.launch(guest, attempt, lease)


def let_go(coordinator: Coordinator, job: Job, ready: Ready) -> None:
    """Another node is its home: nothing of it is decided here any more."""
    job_id = job.spec.id
    for attempt in job.live_attempts:
        coordinator.attempts.remove(attempt)
    coordinator.leave(job_id)
    coordinator.deadlines.forget(job_id)
    coordinator.arrays.forget(job_id)
    coordinator.unfinished -= not job.has_ended
    del coordinator.jobs[job_id]
    ready.save_jobs.pop(job_id, None)
    ready.drop_jobs.append(job_id)
    ready.changed[job_id] = None


def adopt_guest(coordinator: Coordinator, guest: Job, attempt: Attempt, ready: Ready) -> None:
    """What runs here of such a job goes on, as a guest of its new home."""
    coordinator.jobs[guest.spec.id] = guest
    coordinator.unfinished += 1
    coordinator.attempts.add(guest.spec.id, attempt)
    coordinator.elsewhere.reported(guest)
    ready.touch(guest)


def settle(
    coordinator: Coordinator, job: Job, state: str, now_ms: int, ready: Ready, *, reason: str
) -> None:
    """It has ended elsewhere; what still runs of it is being stopped."""
    prepare(job, state, now_ms)
    coordinator.end(job, state, now_ms, ready, reason)


def prepare(job: Job, state: str, now_ms: int) -> None:
    """Let it be as it was where it ended: there it ran, or there it did not."""
    if state not in MOVES[job.state]:
        job.move("running" if job.state == "waiting" else "waiting", now_ms)
