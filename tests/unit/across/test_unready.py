"""A node that cannot make a job ready does not get it again at once, however idle it is."""

import pytest

from distributed_grid.kernel.across.hands import UNREADY_MS
from distributed_grid.kernel.node import Told
from distributed_grid.model.job import Array, Where
from distributed_grid.wire.across import NotGranted
from distributed_grid.wire.job_lane import decode
from tests.across_world import Room
from tests.node_world import Keeper, a_job


@pytest.fixture
def room() -> Room:
    return Room(3)


@pytest.fixture
def unable(room) -> Room:
    for node in room.nodes:
        node.keeper = Unable()
    return room


class Unable(Keeper):
    """One whose node cannot make anything ready: nothing of it ever starts."""

    def _start(self, attempt: str) -> None:
        pass


def lose_all(room: Room, node) -> None:
    """What came to a node is lost there."""
    node.keeper.die()
    node.pump()
    room.settle()


def places(room: Room, job) -> list[str]:
    return [attempt.node for attempt in room[0].job(job).attempts]


def test_another_node_gets_it_if_there_is_one(unable):
    room = unable
    job = a_job("job", require=Where(nodes=("node-2", "node-3")))
    room[0].submit(job)
    room.settle()
    (first,) = places(room, job)
    lose_all(room, next(node for node in room.nodes if node.name == first))

    room.until(lambda: len(places(room, job)) == 2, UNREADY_MS)
    assert places(room, job)[1] != first


@pytest.mark.parametrize("array", [None, Array(start=0, stop=1)])
def test_the_only_node_gets_it_again_after_a_moment(unable, array):
    room = unable
    job = a_job("job", require=Where(nodes=("node-2",)), array=array)
    room[0].submit(job)
    room.settle()
    for lost in (1, 2, 3):
        assert places(room, job) == ["node-2"] * lost
        lose_all(room, room[1])
        room.pass_time(UNREADY_MS // 2)
        assert places(room, job) == ["node-2"] * lost
        assert not room[0].job(job).has_ended
        room.pass_time(UNREADY_MS)


def test_who_lost_a_process_gets_the_next_at_once(room):
    job = a_job("job", require=Where(nodes=("node-2",)))
    room[0].submit(job)
    room.settle()
    room[1].pump()
    room.settle()
    room[1].keeper.die()
    room[1].pump()
    room.until(lambda: len(places(room, job)) == 2, UNREADY_MS // 2)

    assert places(room, job) == ["node-2", "node-2"]


def test_a_node_that_cannot_write_takes_nothing(room):
    job = a_job("job", require=Where(nodes=("node-2", "node-3")))
    for node in room.nodes[1:]:
        node.node.across.find_disk(is_full=True)
    room[0].submit(job)
    room.pass_time(5_000)
    assert places(room, job) == []
    assert "the disk is full" in str(room[1].said(NotGranted)[-1].reasons)
    room[2].node.across.find_disk(is_full=False)

    room.until(lambda: places(room, job) == ["node-3"], 30_000)


def test_what_was_granted_before_the_disk_was_full_runs_elsewhere(room):
    job = a_job("job", require=Where(nodes=("node-2", "node-3")))
    room[0].submit(job)
    full: list[str] = []
    while not full:
        for node in room.nodes[1:]:
            if node.node.across.hosting.offered and not full:
                node.node.across.find_disk(is_full=True)
                full.append(node.name)
        source, target, body = room.post.popleft()
        node = room.by_id(target)
        node.step(Told(now_ms=node.now_ms, peer=source, message=decode(body)))
    room.settle()
    room.until(lambda: places(room, job)[-1:] not in ([], full), 30_000)

    assert places(room, job)[-1] != full[0]
    assert all(not one.keeper.runs for one in room.nodes if one.name == full[0])
