"""A guest that stands still for its owner's sake is told as such at home, and when it goes on."""

import pytest

from distributed_grid.kernel.explaining import explain
from distributed_grid.kernel.node import Lend
from distributed_grid.kernel.views import job_view
from distributed_grid.model.job import Where
from distributed_grid.wire.across import Begun
from tests.across_world import Room
from tests.node_world import a_job

THERE = Where(nodes=("node-2",))
JOB = a_job("guest", require=THERE)


@pytest.fixture
def room() -> Room:
    made = Room()
    made[0].submit(JOB)
    made.settle()
    assert made[0].state(JOB) == "running"
    return made


def pause(room: Room) -> None:
    room[1].step(Lend(now_ms=room[1].now_ms, pause_until_ms=0))


def go_on(room: Room) -> None:
    room[1].step(Lend(now_ms=room[1].now_ms, is_resumed=True))
    room.settle()


def shown(room: Room) -> list[str]:
    """Why its attempt stands still, as its home and its owner tell."""
    (guest,) = [job for job in room[1].node.coordinator.jobs.values() if job.is_guest]
    views = [job_view(job, limits={}) for job in (room[0].job(JOB), guest)]
    return [view.attempts[-1].suspended for view in views]


def told(room: Room) -> str:
    home = room[0]
    return explain(home.node.coordinator, home.job(JOB), home.now_ms).summary


def test_home_and_owner_tell_that_it_is_suspended_and_that_it_goes_on(room):
    assert shown(room) == ["", ""]
    assert told(room) == "it runs"
    pause(room)
    room.settle()
    assert shown(room) == ["lending is paused"] * 2
    assert told(room) == "it is suspended on node-2, its owner is back: lending is paused"
    go_on(room)

    assert shown(room) == ["", ""]
    lines = [(line.what, line.detail) for line in room[0].job(JOB).story]
    assert lines[-2:] == [("suspended", "lending is paused, on node-2"), ("resumed", "on node-2")]
    assert room[0].state(JOB) == "running"


def test_a_word_that_is_lost_is_made_good_by_the_next_question(room):
    room.cut.add((room[1].me, room[0].me))
    pause(room)
    room.settle()
    assert shown(room) == ["", "lending is paused"]
    room.cut.clear()
    room.pass_time(60_000)

    assert shown(room) == ["lending is paused"] * 2
    assert [line.what for line in room[0].job(JOB).story].count("suspended") == 1


def test_an_owner_of_an_older_version_says_nothing_of_it():
    assert Begun(job=JOB.id, lease="l", pid=1, at_ms=1).suspended == ""
