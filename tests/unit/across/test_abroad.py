"""A job that comes after one of another node: a few are asked how that ended, ever more seldom."""

import pytest

from distributed_grid.kernel.across import abroad
from distributed_grid.kernel.node import Submit
from distributed_grid.model.ids import job_id_of
from distributed_grid.model.job import After
from distributed_grid.wire.across import Holding, Inquiry
from tests.across_world import Neighbour, Room
from tests.node_world import a_job

FIRST = job_id_of("first")


def submit_after(node: Neighbour, room: Room) -> None:
    second = a_job("second", after=(After(job=FIRST),))
    node.step(Submit(now_ms=node.now_ms, jobs=(second,), abroad=frozenset({FIRST})))
    room.settle()


def asked(node: Neighbour) -> list[str]:
    """Whom it asked after the first job."""
    return [to for to, word in node.sent if isinstance(word, Inquiry) and FIRST in word.jobs]


def parted(count: int = 8) -> tuple[Room, Neighbour]:
    """The first job runs at node 1; the node that knows nothing of it, and waits for its end."""
    room = Room(count)
    room[0].submit(a_job("first"))
    room.settle()
    node = next(one for one in room.nodes[1:] if not one.knows(a_job("first")))
    submit_after(node, room)
    return room, node


def test_once_the_home_is_known_it_alone_is_asked_and_ever_more_seldom():
    room, node = parted()
    room.pass_time(2_000)
    assert node.sent
    node.sent.clear()
    room.pass_time(60_000)

    assert set(asked(node)) == {room[0].me}
    assert 7 <= len(asked(node)) <= 12


def test_it_goes_on_when_the_other_has_ended():
    room, node = parted()
    room.pass_time(30_000)
    room[0].drain()
    room.pass_time(abroad.KNOWN_MS + 2_000)

    assert room[0].state(a_job("first")) == "succeeded"
    assert node.state(a_job("second")) in ("running", "succeeded")


def test_who_holds_the_record_need_not_ask_how_it_ended():
    room = Room(3)
    room[0].submit(a_job("first"))
    room.settle()
    submit_after(room[1], room)
    room.pass_time(2_000)
    room[1].sent.clear()
    room.cut.add((room[1].me, room[0].me))
    room[0].drain()
    room.pass_time(2_000)

    assert set(asked(room[1])) <= {room[0].me}
    assert room[1].state(a_job("second")) == "running"


def test_one_that_is_taken_over_goes_on_after_what_had_ended_there_before():
    room = Room(2)
    home, heir = room.nodes
    heir.submit(a_job("first"))
    room.settle()
    submit_after(home, room)
    heir.submit(third := a_job("third", after=(After(job=FIRST),)))
    room.cut.add((heir.me, home.me))  # Its home never hears of the end.
    room.pass_time(2_000)
    assert heir.state(third) == "waiting"
    heir.drain()
    room.settle()
    assert heir.state(a_job("first")) == "succeeded"
    assert home.state(a_job("second")) == "waiting"

    room.kill(home)
    room.pass_time(10_000)

    assert heir.state(a_job("second")) == "running"
    assert not heir.node.coordinator.dependents


def test_if_the_home_is_gone_those_who_hold_the_record_are_asked():
    room, node = parted()
    room.pass_time(2_000)
    holders = set(room[0].job(a_job("first")).guardians)
    room.dead.add((node.me, room[0].me))  # Only in its eyes: nobody takes over.
    room.look()
    node.sent.clear()
    room.pass_time(20_000)

    assert set(asked(node)) <= holders
    assert asked(node)


@pytest.mark.unmeasured
def test_if_nobody_knows_it_some_are_asked_and_others_the_next_time(monkeypatch):
    monkeypatch.setattr(abroad, "STRANGERS_ASKED", 3)
    room = Room(8)
    submit_after(room[0], room)
    room.pass_time(1_000)
    assert len(asked(room[0])) == 3
    room.pass_time(10_000)
    assert set(asked(room[0])) == {other.me for other in room.nodes[1:]}
    room[0].sent.clear()
    room.pass_time(600_000)

    assert len(asked(room[0])) <= 3 * 15


def test_a_home_that_forgot_it_is_asked_no_more():
    room, node = parted()
    room.pass_time(2_000)
    across = node.node.across
    search = across.abroad._searches[FIRST]
    assert search.home == room[0].me
    across.told(room[1].me, Holding(job=FIRST), node.now_ms, node.node._ready)
    assert search.home == room[0].me
    across.told(room[0].me, Holding(job=FIRST), node.now_ms, node.node._ready)

    assert (search.home, search.holders) == ("", ())


@pytest.mark.parametrize("is_alone", [False, True])
def test_alone_nobody_is_asked(is_alone):
    room = Room(2)
    submit_after(room[0], room)
    room[0].sent.clear()
    if is_alone:
        room.kill(room[1])
    room.pass_time(5_000)

    assert bool(asked(room[0])) != is_alone
