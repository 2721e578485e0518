"""A directory that cannot travel keeps its job at home; what files came to is in the story."""

import pytest

from distributed_grid.kernel.node import Bound, Noted, Told
from distributed_grid.model.ids import JobId
from distributed_grid.model.job import Array, Where
from distributed_grid.wire.across import Start
from distributed_grid.wire.job_lane import decode
from distributed_grid.wire.keeper import Run
from tests.across_world import Room
from tests.node_world import a_job, fill, told

WHY = "its directory cannot travel: it is your home directory"


@pytest.fixture
def room() -> Room:
    return Room()


def starting(room, spec):
    """A job that was granted a place elsewhere, and was not started there yet."""
    home, _ = room.nodes
    home.submit(spec)
    while not home.said(Start):
        sender, receiver, body = room.post.popleft()
        node = room.by_id(receiver)
        node.step(Told(now_ms=node.now_ms, peer=sender, message=decode(body)))
    room.post.clear()
    return home


def bind(home, spec) -> None:
    home.step(Bound(now_ms=home.now_ms, job=spec.id, why=WHY))


def test_a_job_whose_directory_cannot_travel_waits_for_room_at_home(room):
    fill(room[0])
    home = starting(room, job := a_job("job"))
    bind(home, job)

    assert home.job(job).attempts == []
    assert home.job(job).spec.require.nodes == (home.me,)
    assert ("stays here", WHY) in [(line.what, line.detail) for line in home.job(job).story]
    for one in told(home, Run):
        home.keeper.end_one(one.attempt, 0)
    room.settle()
    assert home.job(job).attempts[-1].node == "node-1"


def test_one_that_may_not_run_at_home_fails_and_says_why(room):
    home = starting(room, job := a_job("job", require=Where(nodes=("node-2",))))
    bind(home, job)

    assert (home.state(job), home.job(job).reason) == ("failed", WHY)
    bind(home, job)
    assert home.state(job) == "failed"


def test_of_an_array_only_what_has_not_begun_comes_home(room):
    array = a_job("many", cpus=2_000, array=Array(start=0, stop=400))
    home = starting(room, array)
    here = [one for one in home.job(array).attempts if not one.host]
    assert here
    bind(home, array)

    assert [one for one in home.job(array).live_attempts if one.host] == []
    assert home.state(array) in ("waiting", "running")


def test_one_that_runs_at_home_by_now_goes_on(room):
    home = room[0]
    home.submit(job := a_job("job"))
    room.settle()
    bind(home, job)

    assert home.state(job) == "running"
    assert len(home.job(job).live_attempts) == 1


def test_a_job_that_nobody_knows_is_not_bound(room):
    room[0].step(Bound(now_ms=1, job=JobId("0" * 64), why=WHY))
    room[0].step(Noted(now_ms=1, job=JobId("0" * 64), what="outputs"))


def test_what_became_of_files_is_in_the_story(room):
    home = room[0]
    home.submit(job := a_job("job"))
    ready = home.step(
        Noted(now_ms=home.now_ms, job=job.id, what="outputs", detail="2 files written")
    )

    assert ("outputs", "2 files written") in [
        (line.what, line.detail) for line in home.job(job).story
    ]
    assert job.id in ready.save_jobs
