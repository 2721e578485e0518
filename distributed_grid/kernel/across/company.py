"""Who runs where, by name: for jobs that want to be near others, or far from them.

Lives here: what this node knows for sure of running jobs, before it is told around. Never here:
what the other nodes tell of themselves (`peers`), the order of places (`kernel.placement`).
Invariant: a job is no company of its own. What starts in the same moment may meet: company is
looked at when a place is chosen, and is no reason to end anybody later.
"""

import msgspec

from distributed_grid.kernel.coordinator import Coordinator
from distributed_grid.model.ids import JobId, NodeId
from distributed_grid.model.job import JobSpec
from distributed_grid.model.node import NodeRecord


def is_social(spec: JobSpec) -> bool:
    """Whether it has words about other jobs."""
    return bool(
        spec.avoid.jobs or spec.require.jobs or spec.prefer.jobs or spec.avoid_if_possible.jobs
    )


def names_here(coordinator: Coordinator, but: JobId) -> set[str]:
    """The names of what runs on this node or is about to, guests among it."""
    jobs = (coordinator.jobs[job] for job, _ in coordinator.attempts.here.values())
    return {
        job.spec.name
        for job in jobs
        if but not in (job.spec.id, job.spec.origin.job if job.spec.origin else "")
    }


def names_elsewhere(coordinator: Coordinator, but: JobId) -> dict[NodeId, set[str]]:
    """The names of this node's jobs that run elsewhere or are about to, by node."""
    found: dict[NodeId, set[str]] = {}
    for job, attempt in coordinator.attempts.away.values():
        if job != but:
            found.setdefault(attempt.host, set()).add(coordinator.jobs[job].spec.name)
    return found


def among(record: NodeRecord, names: set[str]) -> NodeRecord:
    """The record of a node on which these run too."""
    if names <= set(record.running):
        return record
    return msgspec.structs.replace(record, running=tuple(sorted({*record.running, *names})))


def unfit(spec: JobSpec, names: set[str]) -> tuple[str, ...]:
    """Why a job does not go to where these run, in words; none: it may."""
    met = names.intersection(spec.avoid.jobs)
    if met:
        return (f"it is to avoid what runs here: {', '.join(sorted(met))}",)
    if spec.require.jobs and names.isdisjoint(spec.require.jobs):
        return (f"none of these runs here: {', '.join(sorted(spec.require.jobs))}",)
    return ()
