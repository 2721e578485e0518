"""Finding jobs in memory."""

import asyncio
from types import SimpleNamespace

import pytest

from distributed_grid.agent import listing
from distributed_grid.edges.store.memory import MemoryStore
from distributed_grid.kernel.jobs import Job
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
