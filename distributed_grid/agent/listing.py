"""Finding jobs in memory and, beyond what is kept there, in the store.

Lives here: where to look. Never here: what a word means (`kernel.finding`).
"""

from collections.abc import Iterable

import msgspec

from distributed_grid.agent.records import Unreadable, jobs_of
from distributed_grid.edges.store import JobFilter, Store
from distributed_grid.errors import NotFound
from distributed_grid.kernel.coordinator import Coordinator
from distributed_grid.kernel.finding import PREFIX_MIN, find_job
from distributed_grid.kernel.jobs import Job
from distributed_grid.model.ids import ID_DIGITS, JobId

CANDIDATES_MAX = 50  # Of one name or prefix in the store; two are enough to be ambiguous.


async def found(word: str, coordinator: Coordinator, store: Store) -> Job:
    """The job that a word means, wherever it is."""
    told = word.removeprefix("id:")
    if len(told) == ID_DIGITS and (job := coordinator.jobs.get(JobId(told))):
        return job  # As programs name jobs, by the thousand: without a look at all of them.
    try:
        return find_job(word, coordinator.jobs.values())
    except NotFound:
        wanted = word.removeprefix("id:").removeprefix("name:")
        filters = [JobFilter(name=wanted)]
        if len(wanted) >= PREFIX_MIN:
            filters.append(JobFilter(id_prefix=wanted.lower()))
        rows = {
            row.id: row
            for matching in filters
            for row in await store.jobs(matching, limit=CANDIDATES_MAX)
        }
        jobs, damaged = jobs_of(rows.values())
        if not jobs and damaged:
            raise Unreadable(damaged[0]) from None
        return find_job(word, jobs)


async def page(
    coordinator: Coordinator,
    store: Store,
    *,
    matching: JobFilter,
    limit: int,
    before_ms: int,
    held: Iterable[Job] = (),
) -> tuple[list[Job], bool, tuple[str, ...]]:
    """A page of jobs, newest first, with those held for others; whether there are more.

    Guests that go on come along; those that have ended are their homes' to tell. At last the ids
    of those that cannot be read.
    """
    found = [
        job
        for job in coordinator.jobs.values()
        if _matches(job, matching) and (not before_ms or job.submitted_ms < before_ms)
    ]
    jobs = [job for job in found if not job.is_guest]
    damaged: tuple[str, ...] = ()
    if len(jobs) <= limit:
        before = (before_ms, "") if before_ms else None
        own = msgspec.structs.replace(matching, id_digits=ID_DIGITS)
        rows = await store.jobs(own, limit=limit + 1, before=before)
        past, damaged = jobs_of(row for row in rows if row.id not in coordinator.jobs)
        jobs += [job for job in past if job.has_ended]
    known = {job.spec.id for job in jobs}
    jobs += [job for job in held if job.spec.id not in known and _matches(job, matching)]
    guests = [job for job in found if job.is_guest and not job.has_ended]
    shown = [*sorted(jobs, key=_age)[:limit], *sorted(guests, key=_age)[:limit]]
    return sorted(shown, key=_age), len(jobs) + len(damaged) > limit, damaged


def _age(job: Job) -> tuple[int, JobId]:
    return -job.submitted_ms, job.spec.id


def _matches(job: Job, matching: JobFilter) -> bool:
    return (
        (matching.states is None or job.state in matching.states)
        and (matching.name is None or job.spec.name == matching.name)
        and (matching.user is None or job.spec.user == matching.user)
    )
