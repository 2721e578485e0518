"""What the keeper is told of an attempt."""

import msgspec
import pytest

from distributed_grid.config.variables import unknown
from distributed_grid.kernel.jobs import Attempt, Job
from distributed_grid.kernel.launching import BORROWED_NICENESS, run_message
from distributed_grid.model.across import Epoch, Origin
from distributed_grid.model.ids import JobId, NodeId
from distributed_grid.model.lease import Lease
from distributed_grid.model.resources import Resources
from tests.node_world import PATHS, a_job

GUEST = Origin(home=NodeId("a" * 64), job=JobId("b" * 64), epoch=Epoch(), attempt="a1")


def told(*, is_pinned: bool = True, **fields):
    job = Job(spec=a_job("job", **fields), submitted_ms=1)
    attempt = Attempt(number=1, lease="l1", own_id="a1", node="desk", granted_ms=1, cores=(3,))
    lease = Lease(
        id="l1",
        job=job.spec.id,
        attempt="a1",
        cores=((3, 1_000),),
        resources=Resources(cpu_milli=1_000),
        state="committed",
        granted_ms=1,
    )
    paths = msgspec.structs.replace(PATHS, is_pinned=is_pinned)
    return run_message(job, attempt, lease, paths)


@pytest.mark.parametrize(
    ("fields", "is_pinned", "niceness"),
    [
        ({}, True, 0),
        ({"is_shared": True}, True, BORROWED_NICENESS),
        ({"is_shared": True}, False, BORROWED_NICENESS),
        ({"is_shared": True, "origin": GUEST}, True, BORROWED_NICENESS),
        ({"is_shared": True, "origin": GUEST}, False, 0),  # Pretended machines share a real one.
    ],
)
def test_borrowers_give_way_to_the_owner_of_a_real_machine(fields, is_pinned, niceness):
    assert told(is_pinned=is_pinned, **fields).niceness == niceness


def test_a_process_knows_which_attempt_it_is_of():
    assert told().env["GRID_JOB_ATTEMPT"] == "a1"


def test_a_process_knows_where_it_runs():
    assert told().env["GRID_NODE"] == "desk"


def test_grid_called_in_a_job_knows_all_its_variables():
    rank = msgspec.structs.replace(GUEST, rank=1, ranks=2, peers=("desk:1", "attic:2"))
    rank = msgspec.structs.replace(rank, rendezvous="desk:1")

    assert unknown(told(origin=rank).env) == []
