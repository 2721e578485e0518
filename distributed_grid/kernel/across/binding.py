"""A job whose directory cannot travel: it stays where it was submitted.

Lives here: what follows from that. Never here: looking at directories (`edges.artifacts`).
Invariant: nothing of such a job begins elsewhere any more; what had begun there with no files has
ended, and counts as nothing.
"""

from typing import TYPE_CHECKING

import msgspec

from distributed_grid.kernel.jobs import STAYS_HERE
from distributed_grid.kernel.ready import Ready
from distributed_grid.model.ids import JobId

if TYPE_CHECKING:
    from distributed_grid.kernel.across.machine import Across


def bind(across: "Across", job_id: JobId, why: str, now_ms: int, ready: Ready) -> None:
    """Let a job wait for room here, and nowhere else; one that may not run here fails."""
    coordinator, job = across.coordinator, across.coordinator.jobs.get(job_id)
    if job is None or job.has_ended:
        return
    may_run_here = across.may_run_here(job.spec)
    if may_run_here:
        require = msgspec.structs.replace(job.spec.require, nodes=(across.me,))
        job.spec = msgspec.structs.replace(job.spec, require=require)
        job.tell(now_ms, STAYS_HERE, why)
    ready.touch(job)
    for attempt in job.live_attempts:
        if attempt.host and attempt.state == "granted":
            across.away.unsaid(attempt, why, now_ms, ready)
    if not may_run_here:
        coordinator.stop(job, "failed", why, now_ms, ready)
    elif not job.live_attempts or coordinator.arrays.wants_more(job):
        coordinator.leave(job_id)  # And with it what was asked of others.
        coordinator.queue(job, now_ms)
