"""Why a job is where it is, and what would help.

Lives here: reasons, as data with numbers. Never here: words for a terminal (`cli`).
"""

from distributed_grid.kernel.coordinator import Coordinator
from distributed_grid.kernel.jobs import Job
from distributed_grid.wire.api import Explanation

HOLDERS_SHOWN = 5


def explain(coordinator: Coordinator, job: Job) -> Explanation:
    """The explanation of one job."""
    if job.has_ended:
        return _plain(
            job, f"it has ended: {job.state}" + (f" ({job.reason})" if job.reason else "")
        )
    pending = _unfinished_before(coordinator, job)
    if pending:
        return _plain(job, "it comes after jobs that have not ended", waits_for=pending)
    position = coordinator.host.line.position(job.spec.id)
    if position is None:
        return _plain(job, "it runs" if job.state == "running" else "it is being started")
    return _waiting(coordinator, job, position)


def _waiting(coordinator: Coordinator, job: Job, position: int) -> Explanation:
    ledger, request = coordinator.host.ledger, job.spec.request
    never = ledger.could_ever(request)
    if never is not None:
        return Explanation(
            id=job.spec.id,
            state=job.state,
            summary="it is larger than this machine, and waits for one that is not",
            position=position,
            shortfall=tuple(never.missing),
            remedies=("ask for less", "add a larger machine"),
        )
    holders = [
        other.spec.name
        for other in coordinator.jobs.values()
        if other.live_attempts and other.spec.id != job.spec.id
    ]
    return Explanation(
        id=job.spec.id,
        state=job.state,
        summary="it waits for resources that others use",
        position=position,
        shortfall=tuple(ledger.free().shortfall(request)),
        waits_for=tuple(holders[:HOLDERS_SHOWN]),
        remedies=("wait until one of these ends", "cancel one of them", "ask for less"),
    )


def _unfinished_before(coordinator: Coordinator, job: Job) -> tuple[str, ...]:
    return tuple(coordinator.jobs[other].spec.name for other in job.after_left)


def _plain(job: Job, summary: str, waits_for: tuple[str, ...] = ()) -> Explanation:
    return Explanation(id=job.spec.id, state=job.state, summary=summary, waits_for=waits_for)
