"""An attempt that nobody wants any more is told to end, and not for ever."""

import pytest

from distributed_grid.kernel.across import away
from distributed_grid.kernel.node import Told
from distributed_grid.model.job import Where
from distributed_grid.wire.across import Begun, Halt, Poll
from tests.across_world import Room
from tests.node_world import a_job, fill


@pytest.fixture
def room() -> Room:
    """A job of the first node has ended on the third, and the second still runs it."""
    room = Room(3)
    fill(room[0])
    job = a_job("job", require=Where(nodes=("node-2", "node-3")))
    room[0].submit(job)
    room.settle()
    host = room.by_id(room[0].job(job).live_attempts[0].host)
    room.nodes = sorted(room.nodes, key=lambda node: (node is not room[0], node is not host))
    room.cut |= {(room[1].me, room[0].me), (room[0].me, room[1].me)}
    room.dead.add((room[0].me, room[1].me))
    room.look()
    room.until(lambda: room[0].job(job).live_attempts)
    room[2].drain()
    room.pass_time(2_000)
    assert room[0].state(job) == "succeeded"
    return room


def lease_of(room: Room) -> str:
    return next(iter(room[1].node.ledger.leases))


def begins(room: Room) -> None:
    """The home hears that it still runs there."""
    word = Begun(job=a_job("job").id, lease=lease_of(room), pid=3, at_ms=1)
    room[0].step(Told(now_ms=room[0].now_ms, peer=room[1].me, message=word))


def test_a_dead_node_is_not_told_for_ever(room):
    begins(room)
    room.pass_time(10_000)
    said = len(room[0].said(Halt))
    room.pass_time(120_000)

    assert len(room[0].said(Halt)) == said
    assert room[0].node.across.away._halting == {}
    assert room[0].node.across.away._polled_ms == {}


def test_when_it_comes_back_what_runs_there_is_ended(room):
    begins(room)
    room[0].node.across.away._lost.clear()  # As of one that was replaced while its node lived.
    room.pass_time(10_000)
    room.cut.clear()
    room.dead.clear()
    room.look()
    room.pass_time(1_000)

    assert room[0].said(Poll)
    assert room[1].keeper.stopped == {lease_of(room)}


def test_a_node_that_lives_is_told_until_it_answers(room):
    room.dead.clear()
    room.look()
    begins(room)
    said = len(room[0].said(Halt))
    room.pass_time(20_000)

    assert len(room[0].said(Halt)) == said + 4


def test_of_many_the_last_are_remembered(room, monkeypatch):
    monkeypatch.setattr(away, "HALTS_MAX", 1)
    room.dead.clear()
    room.look()
    begins(room)
    for lease in ("x", "y"):
        word = Begun(job=a_job("job").id, lease=lease, pid=3, at_ms=1)
        room[0].step(Told(now_ms=room[0].now_ms, peer=room[1].me, message=word))
    room.pass_time(500)

    assert list(room[0].node.across.away._halting) == ["y"]
