"""Jobs as others see them.

Lives here: records turned into the structs of the API. Never here: decisions, formatting for eyes
(`cli`).
"""

from distributed_grid.kernel.endings import index_in_words
from distributed_grid.kernel.jobs import (
    CANCELLED,
    FAILED,
    PENDING,
    RUNNING,
    SUCCEEDED,
    Attempt,
    Job,
)
from distributed_grid.model.across import HERE
from distributed_grid.model.ids import NodeId
from distributed_grid.model.indices import parts_of, written
from distributed_grid.wire.api import ArrayView, AttemptView, JobView

FAILED_INDICES_SHOWN = 100


def job_view(
    job: Job, *, limits: dict[str, str], with_story: bool = True, home: NodeId = HERE
) -> JobView:
    """One job, whole."""
    spec = job.spec
    origin = spec.origin
    return JobView(
        id=spec.id,
        name=spec.name,
        state=job.state,
        submitted_ms=job.submitted_ms,
        exit_code=job.exit_code,
        reason=job.reason,
        node=last.node if (last := job.telling_attempt) else None,
        user=spec.user,
        argv=spec.work.argv if spec.work else (),
        cwd=spec.work.cwd if spec.work else "",
        started_ms=job.started_ms,
        ended_ms=job.ended_ms,
        attempts=tuple(_attempt_view(attempt, limits) for attempt in job.attempts),
        array=_array_view(job, with_indices=with_story),
        cpu_milli=spec.request.cpu_milli,
        memory_bytes=spec.request.memory_bytes,
        gpu_milli=spec.request.gpus.milli if spec.request.gpus else 0,
        priority=spec.priority,
        project=spec.project,
        is_shared=spec.is_shared,
        start_ms=spec.start_ms,
        deadline_ms=spec.deadline_ms,
        booking=spec.booking,
        story=tuple(job.story) if with_story else (),
        home=origin.home if origin else home,
        guest_of=origin.job if origin else "",
        holders=job.guardians,
        gang=spec.gang,
        at_most_once=spec.at_most_once,
    )


def _attempt_view(attempt: Attempt, limits: dict[str, str]) -> AttemptView:
    return AttemptView(
        number=attempt.number,
        node=attempt.node,
        state=attempt.state,
        started_ms=attempt.started_ms,
        ended_ms=attempt.ended_ms,
        exit_code=attempt.exit_code,
        how=attempt.how,
        pid=attempt.pid,
        note=attempt.note,
        cores=attempt.cores,
        gpus=attempt.gpus,
        user_us=attempt.usage.user_us,
        system_us=attempt.usage.system_us,
        memory_bytes_peak=attempt.usage.memory_bytes_peak,
        limits=limits,
        lease=attempt.lease if attempt.state == "granted" and attempt.host != HERE else "",
        suspended=attempt.suspended if attempt.state == "running" else "",
        indices=written(parts_of(sorted(attempt.indices))),
    )


def _array_view(job: Job, *, with_indices: bool) -> ArrayView | None:
    progress, array = job.progress, job.spec.array
    if progress is None or array is None:
        return None
    indices = array.indices
    failed = sorted(progress.codes.items())[:FAILED_INDICES_SHOWN]
    return ArrayView(
        total=len(progress.states),
        waiting=progress.count(PENDING),
        running=progress.count(RUNNING),
        succeeded=progress.count(SUCCEEDED),
        failed=progress.count(FAILED),
        cancelled=progress.count(CANCELLED),
        failed_indices=tuple((indices[position], code) for position, code in failed),
        reasons=tuple(index_in_words(code, progress.whys.get(at, "")) for at, code in failed),
        indices=written(array.ranges) if with_indices else "",
    )
