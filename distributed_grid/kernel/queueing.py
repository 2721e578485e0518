"""The waiting jobs as others see them: in the order of service, with what each waits for.

Lives here: records turned into the structs of the API. Never here: the order itself (`waiting`).
"""

from collections.abc import Iterator
from itertools import islice

from distributed_grid.kernel.coordinator import Coordinator
from distributed_grid.kernel.jobs import Job
from distributed_grid.kernel.obstacles import obstacle, survey_of
from distributed_grid.model.job import JobSpec
from distributed_grid.model.priority import NAMES
from distributed_grid.wire.sharing import Queue, QueueEntry


def queue(coordinator: Coordinator, *, limit: int, now_ms: int) -> Queue:
    """At most so many; those who wait for a date or for another job come last."""
    host = coordinator.host
    survey = survey_of(host, now_ms)
    waits: dict[object, str] = {}  # Of those who ask for the same, once.
    found: list[QueueEntry] = []
    for entry in islice(host.line.order(now_ms, host.accounts), limit):
        claim = (entry.is_shared, entry.request, entry.booking, entry.user, entry.project)
        key = entry.job if entry.job in host.awaited or entry.timeout_ms else claim
        if key not in waits:
            waits[key] = obstacle(host, entry, now_ms, survey).waits
        own = coordinator.jobs.get(entry.job)
        spec = own.spec if own is not None else coordinator.elsewhere.asked(entry.job)
        assert spec is not None, "nobody waits without a name"
        found.append(
            _entry(
                coordinator,
                spec,
                position=len(found) + 1,
                lifted=NAMES[host.line.lifted(entry, now_ms)],
                waits=waits[key],
                waited_ms=now_ms - (own.submitted_ms if own is not None else entry.submitted_ms),
            )
        )
    later = list(_not_in_line(coordinator))
    for job in sorted(later, key=_submitted)[: limit - len(found)]:
        found.append(
            _entry(
                coordinator,
                job.spec,
                position=len(found) + 1,
                lifted=job.spec.priority,
                waits=_what_for(coordinator, job),
                waited_ms=now_ms - job.submitted_ms,
            )
        )
    return Queue(entries=tuple(found), total=len(host.line) + len(later))


def _not_in_line(coordinator: Coordinator) -> Iterator[Job]:
    line = set(coordinator.host.line)
    for job in coordinator.jobs.values():
        if job.state == "waiting" and job.spec.id not in line and not job.live_attempts:
            yield job


def _submitted(job: Job) -> tuple[int, str]:
    return job.submitted_ms, job.spec.id


def _what_for(coordinator: Coordinator, job: Job) -> str:
    """Of one that does not stand in the line of this node."""
    if job.after_left:
        return "jobs that it comes after"
    return "room elsewhere" if coordinator.elsewhere.is_waiting(job.spec.id) else "its start time"


def _entry(
    coordinator: Coordinator,
    spec: JobSpec,
    *,
    position: int,
    lifted: str,
    waits: str,
    waited_ms: int,
) -> QueueEntry:
    return QueueEntry(
        position=position,
        id=spec.id,
        name=spec.name,
        priority=spec.priority,
        lifted=lifted,  # type: ignore[arg-type]  # One of the names of priorities.
        user=spec.user,
        project=spec.project,
        share_milli=coordinator.host.accounts.share_milli(spec.user, spec.project or None),
        waited_ms=max(waited_ms, 0),
        is_shared=spec.is_shared,
        waits=waits,
    )
