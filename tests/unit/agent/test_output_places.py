"""Where what a job wrote is, in the words of a node that only holds a copy of its record."""

from types import SimpleNamespace

import pytest

from distributed_grid.agent.across_desk import AcrossDesk, Desk
from distributed_grid.agent.kept_output import Away
from distributed_grid.kernel.jobs import (
    ATTEMPTS_KEPT,
    SUCCEEDED,
    WROTE_KEPT,
    Attempt,
    Job,
    Progress,
)
from distributed_grid.model.across import HERE, Epoch
from distributed_grid.model.ids import NodeId
from distributed_grid.model.job import Array
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


# Arrays of which most attempts are forgotten


def an_array(hosts: list[str], *, first: int = 0) -> Job:
    """One that has ended, an attempt for each index, on these nodes one after the other."""
    count = len(hosts)
    job = Job(spec=a_job("many", array=Array(start=first, stop=first + 2 * count, step=2)),
              submitted_ms=1, state="succeeded", epoch=Epoch(1, HOME),
              progress=Progress(states=bytearray([SUCCEEDED] * count)))  # fmt: skip
    for at, host in enumerate(hosts):
        ran(job, host, (first + 2 * at,), number=1 + at)
    return job


def ran(job: Job, host: str, indices: tuple[int, ...], *, number: int) -> None:
    attempt = Attempt(number=number, lease=f"{number:032x}", host=NodeId(host), node="x",
                      epoch=Epoch(1, HOME), granted_ms=1, started_ms=1, state="ended",
                      indices=indices, ended_indices=len(indices))  # fmt: skip
    job.attempts.append(attempt)
    job.keep_few_attempts()


async def test_of_every_index_it_is_known_who_ran_it_however_many_there_are():
    hosts = [OWNER, HERE, OTHER] * 3 * ATTEMPTS_KEPT
    job = an_array(hosts, first=7)
    holder = a_holder(job)
    assert len(job.attempts) == ATTEMPTS_KEPT

    for at, host in enumerate(hosts):
        place = await holder.output("job", index=7 + 2 * at)
        assert place.node == host
        assert place.word == (f"id:{1 + at:032x}" if host else "")
        # Among those of this node attempts are forgotten for good: what it wrote is here.
        assert (place.attempt == 1 + at) or not host
    assert (await holder.output("job", index=8)).node == "", "no index of it"


async def test_of_an_index_that_was_tried_again_the_last_try_counts():
    job = an_array([OWNER, OTHER, OTHER])
    ran(job, OTHER, (0, 4), number=8)
    ran(job, HERE, (2,), number=9)
    for number in range(10, 10 + ATTEMPTS_KEPT):
        ran(job, OTHER, (), number=number)
    holder = a_holder(job)

    told = [await holder.output("job", index=index) for index in (0, 2, 4)]
    assert [(one.node, one.attempt) for one in told] == [(OTHER, 8), ("", 0), (OTHER, 8)]


async def test_an_array_that_never_left_its_machine_remembers_nothing():
    job = an_array([HERE] * 3 * ATTEMPTS_KEPT)

    assert not job.progress.wrote
    assert (await a_holder(job).output("job", index=0)).node == ""


async def test_what_is_remembered_of_an_array_has_an_end():
    job = an_array([OWNER] * (WROTE_KEPT + ATTEMPTS_KEPT + 1))

    assert len(job.progress.wrote) == WROTE_KEPT
    assert (await a_holder(job).output("job", index=2)).node == OWNER
