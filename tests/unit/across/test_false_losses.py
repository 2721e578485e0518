"""A loss that turns out to be none does not count: a bad network uses up nobody's patience."""

from collections import deque

import pytest

from distributed_grid.model.job import Where
from distributed_grid.wire.across import Poll, Report, Reserve
from distributed_grid.wire.job_lane import decode
from distributed_grid.wire.keeper import Run
from tests.across_world import Neighbour, Room
from tests.node_world import a_job, fill, told

ONLY_THERE = Where(nodes=("node-2",))
JOB = a_job("job", losses_max=1)


def part(room: Room, host: Neighbour) -> None:
    """The home and one other hear nothing of each other, and think each other dead."""
    pairs = {(room[0].me, host.me), (host.me, room[0].me)}
    room.cut |= pairs
    room.dead |= pairs
    room.look()


def test_an_attempt_that_comes_back_again_and_again_is_never_given_up_for_good():
    room = Room(3)
    fill(room[0])
    room[0].submit(JOB)
    room.settle()
    attempt = room[0].job(JOB).live_attempts[0]
    host = room.by_id(attempt.host)
    for _ in range(3):
        part(room, host)
        assert attempt.state == "lost"
        assert room[0].job(JOB).losses == 1
        room.cut.clear()
        room.dead.clear()
        room.look()
        room.pass_time(6_000)
        assert attempt.state == "running"
        assert room[0].job(JOB).losses == 0

    host.keeper.end_one(attempt.id, 0)
    room.settle()
    room.pass_time(2_000)
    assert room[0].state(JOB) == "succeeded"
    assert len([run for run in told(host, Run) if run.attempt == attempt.id]) == 1


def test_who_comes_back_is_heard_before_anybody_is_asked_for_another_try():
    """Else the job runs a second time, though the first one has ended well meanwhile."""
    room = Room(2)
    job = a_job("job", require=ONLY_THERE)
    room[0].submit(job)
    room.settle()
    first = room[0].job(job).live_attempts[0]
    part(room, room[1])
    room[1].keeper.end_one(first.id, 0)
    room.settle()
    room.cut.clear()
    room.dead.clear()
    room.look()
    room.pass_time(2_000)

    assert room[0].state(job) == "succeeded"
    assert [run.attempt for run in told(room[1], Run)] == [first.id]


@pytest.mark.parametrize("is_over", [True, False])
def test_who_is_asked_for_room_tells_first_of_an_attempt_that_it_has(is_over):
    """The question what became of it was lost, as the link was gone when it was asked."""
    room = Room(2)
    job = a_job("job", require=ONLY_THERE)
    room[0].submit(job)
    room.settle()
    first = room[0].job(job).live_attempts[0]
    part(room, room[1])
    if is_over:
        room[1].keeper.end_one(first.id, 0)
    room.settle()
    room.cut.clear()
    room.dead.clear()
    for node in room.nodes:
        node.look()
    room.post = deque(one for one in room.post if not isinstance(decode(one[2]), Poll | Report))
    room.pass_time(3_000)

    assert room[0].state(job) == ("succeeded" if is_over else "running")
    assert [run.attempt for run in told(room[1], Run)] == [first.id]


def test_a_job_whose_attempt_is_lost_for_good_is_tried_again_at_once():
    room = Room(2)
    job = a_job("job", require=ONLY_THERE)
    room[0].submit(job)
    room.settle()
    room.kill(room[1])
    assert room[0].state(job) == "waiting"
    room.revive(room[1])

    assert room[0].state(job) == "running"
    assert [one.state for one in room[0].job(job).attempts] == ["lost", "running"]


def test_who_comes_back_and_says_nothing_is_waited_for_a_second_only():
    room = Room(2)
    job = a_job("job", require=ONLY_THERE)
    room[0].submit(job)
    room.settle()
    part(room, room[1])
    asked = len(room[0].said(Reserve))
    room.dead.clear()
    room.cut = {(room[1].me, room[0].me)}
    room.look()

    assert len(room[0].said(Reserve)) == asked, "the first attempt may be heard of"
    room.pass_time(2_000)
    assert len(room[0].said(Reserve)) > asked
