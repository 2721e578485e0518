"""Where what a job wrote is, in the words of a node that only holds a copy of its record."""

from types import SimpleNamespace

import pytest

from distributed_grid.agent.across_desk import AcrossDesk, Desk
from distributed_grid.agent.kept_output import Away
from distributed_grid.kernel.jobs import Attempt, Job
from distributed_grid.model.across import Epoch
from distributed_grid.model.ids import NodeId
from tests.node_world import a_job

HOME, OWNER, OTHER = (NodeId(letter * 64) for letter in "abc")


def a_holder(job: Job) -> AcrossDesk:
    async def find(_):
        return job

    node = SimpleNamespace(coordinator=SimpleNamespace(jobs={}))
    kept = SimpleNamespace(away=lambda _job, _index, _number: None)
    return AcrossDesk(node, None, Desk(find, *[None] * (len(Desk._fields) - 1)), kept)


@pytest.mark.parametrize(("host", "is_guest"), [(HOME, False), (OWNER, True)])
async def test_an_attempt_at_its_home_is_asked_for_by_the_jobs_own_name(host, is_guest):
    spec, lease = a_job("job"), "1" * 32
    attempt = Attempt(number=1, lease=lease, host=host, epoch=Epoch(1, HOME), node="x",
                      granted_ms=1, state="running")  # fmt: skip
    job = Job(spec=spec, submitted_ms=1, state="running", attempts=[attempt])

    place = await a_holder(job).output("job", index=-1)

    assert place.node == host
    assert place.word == f"id:{lease if is_guest else spec.id}"


@pytest.mark.parametrize(("host", "copies"), [(HOME, (OTHER,)), (OWNER, ())])
async def test_the_first_guardian_has_the_end_of_what_ran_at_the_home(host, copies):
    attempt = Attempt(number=1, lease="1" * 32, host=host, epoch=Epoch(1, HOME), node="x",
                      granted_ms=1, state="ended")  # fmt: skip
    job = Job(spec=a_job("job"), submitted_ms=1, state="succeeded", attempts=[attempt],
              epoch=Epoch(1, HOME), guardians=(OTHER, OWNER))  # fmt: skip
    holder = a_holder(job)
    holder._kept.away = lambda _job, index, _number: Away(attempt, index, "/not/there")

    assert (await holder.output("job", index=-1)).copies == copies
