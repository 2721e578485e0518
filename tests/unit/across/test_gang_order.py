"""Which gang gets what is there: patience, age, and the better before the worse."""

import msgspec
import pytest

from distributed_grid.kernel.across import gathering
from distributed_grid.model.across import Epoch
from distributed_grid.model.resources import Request
from distributed_grid.wire.gangs import (
    Hold,
    Revoked,
)
from tests.across_world import Room
from tests.node_world import a_job
from tests.unit.across.filling import occupy
from tests.unit.across.gang_rooms import (
    beats,
    full_but,
    lending,
    runs,
    tell,
)


@pytest.fixture
def room() -> Room:
    return lending(Room(3))


def test_a_young_gang_gives_back_what_did_not_become_whole_in_time(room):
    gang, _ = full_but(room)
    assert room[1].node.across.holds.leases
    other = a_job("other", cpus=3_000)
    room[1].submit(other)
    beats(room, 12)
    room.settle()
    assert room[1].state(other) == "running"
    assert room[0].state(gang) == "waiting"


def test_an_aged_gang_keeps_what_it_has_and_runs_when_the_last_room_comes(room):
    gang, busy = full_but(room)
    for node in room.nodes:
        node.now_ms += gathering.AGED_MS
    beats(room, 16)
    kept = [len(node.node.across.holds.leases) for node in room.nodes]
    assert kept[:2] == [4, 4]

    for job in busy:
        room[2].end(job)
    beats(room, 8)
    assert len(runs(room, gang)) == 12


def test_an_aged_gang_looks_elsewhere_for_what_is_late():
    room = lending(Room(4))
    for node in room.nodes:
        occupy(node, 1)
    occupy(room[3], 3)
    room.look()
    gang = a_job("gang", gang=9)
    room[0].submit(gang)
    for node in room.nodes:
        node.now_ms += gathering.AGED_MS
    extra = occupy(room[2], 2)  # It had room when it was chosen.
    beats(room, 2)
    beats(room, 14)
    for job in extra:
        room[2].end(job)
    beats(room, 30)
    assert len(runs(room, gang)) == 9


def test_a_gang_that_gets_no_further_lets_others_go_first(room):
    gang, _ = full_but(room)
    for node in room.nodes:
        node.now_ms += gathering.AGED_MS
    beats(room, 4)
    assert room[1].node.across.holds.leases
    beats(room, 2 * (gathering.STUCK_MS - gathering.AGED_MS) // 1_000 + 4)
    assert all(node.node.across.holds.leases == {} for node in room.nodes)
    assert room[0].state(gang) == "waiting"


def test_a_gang_for_which_nodes_have_left_holds_nothing(room):
    gang, _ = full_but(room)
    room.kill(room[2])
    beats(room, 4)
    assert all(node.node.across.holds.leases == {} for node in room.nodes[:2])
    assert room[0].state(gang) == "waiting"


def test_a_better_gang_takes_what_is_not_committed(room):
    worse, _ = full_but(room)
    better = a_job("better", gang=8, priority="high")
    room[1].submit(better)
    beats(room, 24)
    assert len(runs(room, better)) == 8
    assert runs(room, worse) == []
    assert any(node.said(Revoked) for node in room.nodes)


def test_a_worse_gang_takes_nothing(room):
    first, _ = full_but(room)
    worse = a_job("worse", gang=8, priority="low")
    room[1].submit(worse)
    before = {*room[0].node.across.holds.leases, *room[1].node.across.holds.leases}
    beats(room, 2)
    assert before == {*room[0].node.across.holds.leases, *room[1].node.across.holds.leases}
    assert runs(room, worse) == []
    assert room[0].state(first) == "waiting"


def test_what_is_committed_is_never_taken(room):
    home = room[0]
    gang = a_job("gang", gang=12, priority="low")
    home.submit(gang)
    room.cut |= {(node.me, home.me) for node in room.nodes[1:]}
    beats(room, 2)
    room.cut.clear()
    beats(room, 2)
    better = a_job("better", gang=12, priority="high")
    room[1].submit(better)
    beats(room, 6)
    assert len(runs(room, gang)) == 12
    assert runs(room, better) == []


def test_the_owner_comes_before_what_is_kept_for_gangs(room):
    full_but(room)
    own = a_job("own", cpus=4_000)
    room[1].submit(own)
    beats(room, 2)
    assert room[1].state(own) == "running"


def test_what_would_not_help_is_not_taken(room):
    worse, _ = full_but(room)
    before = set(room[1].node.across.holds.leases)
    spec = msgspec.structs.replace(
        a_job("memory", gang=2, priority="high"),
        work=None,
        request=Request(cpu_milli=1_000, memory_bytes=1 << 30),
    )
    word = Hold(job=spec.id, epoch=Epoch(1, room[2].me), number=5, spec=spec, ranks=1, since_ms=1)
    tell(room[1], room[2].me, word)
    assert set(room[1].node.across.holds.leases) == before
    assert room[0].state(worse) == "waiting"
