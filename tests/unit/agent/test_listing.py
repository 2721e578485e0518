"""Finding jobs in memory."""

import asyncio
from types import SimpleNamespace

import msgspec
import pytest

from distributed_grid.agent import listing
from distributed_grid.agent.records import job_row
from distributed_grid.edges.store import JobFilter, PutJob
from distributed_grid.edges.store.memory import MemoryStore
from distributed_grid.kernel.jobs import Job
from distributed_grid.model.across import Epoch, Origin
from distributed_grid.model.ids import JobId, NodeId, job_id_of
from tests.node_world import a_job


class NotLookedThrough(dict):
    """Jobs that may only be asked for by id."""

    def values(self):
        raise AssertionError("it was looked through")


@pytest.mark.parametrize("prefix", ["", "id:"])
def test_a_full_id_is_found_without_a_look_at_all_jobs(prefix):
    job = Job(spec=a_job("train"), submitted_ms=1)
    coordinator = SimpleNamespace(jobs=NotLookedThrough({job.spec.id: job}))

    found = asyncio.run(listing.found(f"{prefix}{job.spec.id}", coordinator, MemoryStore()))

    assert found is job


# --- Pages ----------------------------------------------------------------------------------------


def a_guest(number: int, *, state: str = "succeeded") -> Job:
    """An attempt at another node's job, newer than the jobs of this one."""
    name = f"{number:032x}"
    origin = Origin(home=NodeId("a" * 64), job=job_id_of("sweep"), epoch=Epoch(), attempt=name)
    spec = msgspec.structs.replace(a_job("sweep"), id=JobId(name), origin=origin)
    return Job(spec=spec, submitted_ms=1_000 + number, state=state)


@pytest.mark.parametrize("is_in_memory", [True, False])
def test_guests_that_have_ended_take_no_place_from_jobs(is_in_memory):
    jobs = [
        Job(spec=a_job(f"job {age}"), submitted_ms=10 - age, state="succeeded") for age in range(4)
    ]
    guests = [a_guest(number) for number in range(20)]
    running = a_guest(30, state="running")
    store = MemoryStore()

    async def pages():
        rows = [] if is_in_memory else [*jobs, *guests]
        await store.commit([PutJob(job_row(job)) for job in rows])
        kept = [*jobs, *guests, running] if is_in_memory else [running]
        coordinator = SimpleNamespace(jobs={job.spec.id: job for job in kept})
        every = JobFilter()
        return [
            await listing.page(coordinator, store, matching=every, limit=limit, before_ms=0)
            for limit in (3, 4, 10)
        ]

    found = [([job.spec.name for job in page], more) for page, more, _ in asyncio.run(pages())]

    assert found == [
        (["sweep", "job 0", "job 1", "job 2"], True),
        (["sweep", "job 0", "job 1", "job 2", "job 3"], False),
        (["sweep", "job 0", "job 1", "job 2", "job 3"], False),
    ]
