"""The same job once more, as a job of its own; of an array maybe only what failed.

Lives here: what its specification is. Never here: submitting it, its files (`agent`).
"""

import msgspec

from distributed_grid.errors import NotPermitted
from distributed_grid.kernel.jobs import FAILED, Job
from distributed_grid.model.ids import JobId
from distributed_grid.model.indices import parts_of
from distributed_grid.model.job import PARTS_MAX, Array, JobSpec


def rerun_of(job: Job, new: JobId, now_ms: int, *, only_failed: bool) -> JobSpec:
    """What is to be submitted; indices keep their numbers. Raises NotPermitted."""
    spec = job.spec
    if not job.has_ended:
        remedy = f"Wait for it (grid wait {spec.name}), or cancel it first"
        raise NotPermitted(f"{spec.name} has not ended, it is {job.state}", remedy=remedy)
    if only_failed and (job.state == "succeeded" or (spec.array and not _failed(job))):
        remedy = f"Run all of it again: grid rerun {spec.name}"
        raise NotPermitted(f"nothing of {spec.name} has failed, it is {job.state}", remedy=remedy)
    return msgspec.structs.replace(
        spec,
        id=new,
        array=_array_of(job) if only_failed and spec.array else spec.array,
        after=(),  # They were waited for.
        start_ms=0,
        deadline_ms=spec.deadline_ms if spec.deadline_ms > now_ms else 0,
        # Taken anew from its directory, unless somebody named what travels.
        ship=spec.ship if spec.ship and (spec.ship.is_named or _is_abroad(spec)) else None,
    )


def _is_abroad(spec: JobSpec) -> bool:
    """Whether its directory is on another machine: it was taken over from there."""
    return spec.work is not None and spec.work.is_abroad


def _failed(job: Job) -> list[int]:
    assert job.progress is not None, "only arrays are asked"
    assert job.spec.array is not None, "as above"
    indices, states = job.spec.array.indices, job.progress.states
    return [indices[at] for at, state in enumerate(states) if state == FAILED]


def _array_of(job: Job) -> Array:
    parts, width = parts_of(_failed(job)), job.spec.array.width if job.spec.array else 0
    if len(parts) > PARTS_MAX:
        what = f"{len(parts)} ranges of indices of {job.spec.name} failed, one job has {PARTS_MAX}"
        raise NotPermitted(what, remedy=f"Run all of it again: grid rerun {job.spec.name}")
    if len(parts) == 1:
        (start, stop, step) = parts[0]
        return Array(start=start, stop=stop, step=step, width=width)
    return Array(parts=parts, width=width)
