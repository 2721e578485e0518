"""Who waits stands in few lines elsewhere, and believes of others only what they have told."""

import pytest

from distributed_grid.kernel.across import asking
from distributed_grid.kernel.node import Told, View
from distributed_grid.model.job import Array, Where
from distributed_grid.wire.across import Granted, NotGranted, Reserve, Withdrawn
from distributed_grid.wire.keeper import Run
from tests.across_world import Neighbour, Room
from tests.node_world import a_job, fill, told


@pytest.fixture
def full() -> Room:
    """Nobody has room."""
    room = Room(3)
    for node in room.nodes:
        fill(node)
    room.look()
    return room


def hears(node: Neighbour, peer: Neighbour, word) -> None:
    node.step(Told(now_ms=node.now_ms, peer=peer.me, message=word))


def view(node: Neighbour, *, is_known: bool) -> None:
    """It sees the others, and itself or not yet."""
    own = node.record if is_known else None
    node.step(View(now_ms=node.now_ms, peers=node.node.across.peers, own=own))


def test_a_node_that_does_not_know_itself_yet_runs_only_jobs_that_go_anywhere():
    home = Room(1)[0]
    view(home, is_known=False)
    anywhere, here = a_job("anywhere"), a_job("here", require=Where(nodes=("node-1",)))

    across = home.node.across
    assert (across.may_run_here(anywhere), across.may_run_here(here)) == (True, False)
    view(home, is_known=True)
    assert across.may_run_here(here)


def test_of_many_kinds_of_jobs_the_last_are_remembered(monkeypatch):
    monkeypatch.setattr(asking, "KINDS_MAX", 2)
    across = Room(2)[0].node.across
    sizes = (1_000, 2_000, 4_000, 5_000, 8_000, 1_000, 5_000)

    found = [across.could_run(a_job("job", cpus=size)) for size in sizes]
    assert found == [size <= 4_000 for size in sizes]
    assert len(across.asking._possible) <= 2


def test_only_the_first_of_those_who_wait_ask_others(full, monkeypatch):
    monkeypatch.setattr(asking, "HEAD_MAX", 2)
    jobs = [a_job(f"job-{number}") for number in range(4)]
    full[0].submit(*jobs)
    full.pass_time(2_000)

    assert {word.job for word in full[0].said(Reserve)} == {job.id for job in jobs[:2]}


def test_an_array_leaves_no_line_for_another(full, monkeypatch):
    monkeypatch.setattr(asking, "WAITLISTS_FIRST", 2)
    array = a_job("array", array=Array(start=0, stop=1_000))
    full[0].submit(array)
    full.settle()
    empty = next(node for node in full.nodes[1:] if node.me != full[0].sent[0][0])
    full.cut.add((empty.me, full[0].me))  # It would fetch work by itself.
    empty.drain()
    full.pass_time(2_000)
    full.look()
    full.pass_time(2_000)

    assert full[0].said(Withdrawn) == []
    assert {word.job for word in full[0].said(Reserve)} == {array.id}


def test_whoever_stands_in_a_line_takes_no_room_and_makes_none(full):
    full[0].submit(a_job("first"))
    full.settle()

    assert len(full[0].said(Reserve)) == 1
    assert not full[0].node.across.asking.has_room(a_job("second"))


def test_what_was_asked_for_counts_as_gone():
    room = Room(2)
    fill(room[0])
    fill(room[1], 3)
    room.look()
    room[0].submit(a_job("first"))

    assert not room[0].node.across.asking.has_room(a_job("second"))


def test_a_grant_that_is_told_twice_is_used_once():
    room = Room(2)
    home, host = room.nodes
    fill(home)
    job = a_job("job")
    home.submit(job)
    room.cut.add((host.me, home.me))
    room.settle()
    (word,) = host.said(Granted)
    hears(home, host, word)
    hears(home, host, word)
    assert home.node.across.asking.starting.keys() == {word.lease}

    assert home.said(Withdrawn) == []
    room.cut.clear()
    room.pass_time(1_000)
    assert [run.attempt for run in told(host, Run)] == [word.lease]
    assert len(home.job(job).attempts) == 1


@pytest.mark.parametrize("is_over", [False, True])
def test_a_grant_that_is_told_again_after_its_use_begins_nothing(is_over):
    room = Room(2)
    home, host = room.nodes
    fill(home)
    array = a_job("array", array=Array(start=0, stop=1_000))
    home.submit(array)
    room.settle()
    word = host.said(Granted)[0]
    for _ in home.job(array).attempts[0].indices if is_over else ():
        host.keeper.end_one(word.lease, 0)
        room.settle()
    before = [(one.lease, one.state) for one in home.job(array).attempts]
    assert (word.lease, "ended" if is_over else "running") in before
    hears(home, host, word)

    assert [(one.lease, one.state) for one in home.job(array).attempts] == before
    assert home.said(Withdrawn) == []


def test_a_no_of_somebody_who_was_not_asked_is_not_heard(full):
    job = a_job("job")
    full[0].submit(job)
    full.settle()
    before = full[0].node.across.obstacles(job.id)
    (asked,) = (node for node, word in full[0].sent if isinstance(word, Reserve))
    other = next(node for node in full.nodes[1:] if node.me != asked)
    epoch = full[0].job(job).epoch
    hears(full[0], other, NotGranted(job=job.id, epoch=epoch, number=1, reasons=("never",)))

    assert full[0].node.across.obstacles(job.id) == before
    assert other.me not in full[0].node.across.asking.wish(job.id).refused
