"""A loss that turns out to be none does not count: a bad network uses up nobody's patience."""

from distributed_grid.wire.keeper import Run
from tests.across_world import Neighbour, Room
from tests.node_world import a_job, fill, told

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
