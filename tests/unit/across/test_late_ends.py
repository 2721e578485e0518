"""An attempt that was given up has ended after all: what that means for the one in its place."""

import pytest

from distributed_grid.model.job import Where
from distributed_grid.wire.across import Halt
from tests.across_world import Neighbour, Room
from tests.node_world import a_job

JOB = a_job("job", require=Where(nodes=("node-2", "node-3")))


@pytest.fixture
def room() -> Room:
    room = Room(3)
    room[0].submit(JOB)
    room.settle()
    return room


def host(room: Room) -> Neighbour:
    (attempt,) = room[0].job(JOB).live_attempts
    return room.by_id(attempt.host)


def part(room: Room, who: Neighbour) -> None:
    """The others do not hear of it, and think it dead."""
    for other in room.nodes:
        if other is not who:
            room.cut |= {(who.me, other.me), (other.me, who.me)}
            room.dead |= {(who.me, other.me), (other.me, who.me)}
    room.look()


def meet(room: Room) -> None:
    room.cut.clear()
    room.dead.clear()
    room.look()
    room.pass_time(6_000)


def stories(room: Room) -> list[tuple[str, str]]:
    return [(line.what, line.detail) for line in room[0].job(JOB).story]


@pytest.mark.parametrize(("how", "code", "word"), [
    ("lost", 125, "lost"), ("exited", 9, "exit code 9"), ("stopped", 143, "stopped"),
])  # fmt: skip
def test_the_one_in_its_place_goes_on_if_it_did_not_succeed(room, how, code, word):
    first = host(room)
    (attempt,) = room[0].job(JOB).live_attempts
    part(room, first)
    room.until(lambda: room[0].job(JOB).live_attempts, 5_000)
    second = host(room)
    assert second is not first
    first.keeper._report(attempt.id, -1, how, code, is_last=True)
    first.keeper._leave(attempt.id)
    meet(room)

    assert host(room) is second
    assert second.keeper.stopped == set()
    assert room[0].said(Halt) == []
    assert room[0].state(JOB) == "running"
    told = f"an attempt on {first.name} that was given up has ended: {word}"
    assert stories(room).count(("of no account", told)) == 1
    second.keeper.end_one(room[0].job(JOB).live_attempts[0].id, 0)
    room.settle()
    room.pass_time(2_000)
    assert room[0].state(JOB) == "succeeded"
    assert first.node.across.hosting.reporting.untold() == []


def test_its_success_counts_and_the_other_ends(room):
    first = host(room)
    (attempt,) = room[0].job(JOB).live_attempts
    part(room, first)
    room.until(lambda: room[0].job(JOB).live_attempts, 5_000)
    second = host(room)
    first.keeper.end_one(attempt.id, 0)
    meet(room)

    assert room[0].state(JOB) == "succeeded"
    assert second.keeper.stopped == set(second.keeper.runs)


def test_its_failure_counts_while_nothing_is_in_its_place(room):
    first, other = host(room), next(one for one in room.nodes[1:] if one is not host(room))
    (attempt,) = room[0].job(JOB).live_attempts
    part(room, other)
    part(room, first)
    first.keeper.end_one(attempt.id, 9)
    room.cut -= {pair for pair in room.cut if first.me in pair}
    room.dead -= {pair for pair in room.dead if first.me in pair}
    room.look()
    room.pass_time(1_000)

    assert (room[0].state(JOB), room[0].job(JOB).exit_code) == ("failed", 9)


def test_one_that_came_back_alive_is_told_of(room):
    first = host(room)
    part(room, first)
    room.until(lambda: room[0].job(JOB).live_attempts, 5_000)
    room.until(lambda: room[0].state(JOB) == "running", 5_000)
    meet(room)

    assert host(room) is first
    word = f"attempt 1 on {first.name} came back"
    assert ("running", word) in stories(room)
    assert room[0].job(JOB).reason == word
