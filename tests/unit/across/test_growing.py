"""A machine that comes in the middle of the work takes part in it."""

import pytest

from distributed_grid.kernel.inventory import Inventory
from distributed_grid.kernel.node import Drain
from distributed_grid.model.job import Array, Where
from tests.across_world import FOUR_CORES, Neighbour, Room
from tests.node_world import a_job
from tests.unit.across.filling import give_way, occupy

EIGHT_CORES = Inventory(
    cores=tuple((core, core // 2) for core in range(8)), cpu_milli=8_000, memory_bytes=2 << 30
)


def come(room: Room) -> Neighbour:
    """One more node, which all others see from now on."""
    newcomer = Neighbour(room, len(room.nodes) + 1, FOUR_CORES)
    room.nodes.append(newcomer)
    room.look()
    return newcomer


@pytest.mark.rows("S0-78")
def test_a_node_that_joins_while_a_workload_runs_takes_part_and_disturbs_nobody():
    room = Room(2)
    array = a_job("array", array=Array(start=0, stop=1_000))
    room[0].submit(array)
    room.settle()
    before = [list(node.keeper.runs) for node in room.nodes]
    assert all(before)

    newcomer = come(room)
    room.until(lambda: newcomer.keeper.runs, 10_000)

    assert [list(node.keeper.runs) for node in room.nodes[:2]] == before
    for _ in range(64):
        for node in room.nodes:
            node.drain()
        room.settle()
        room.look()
    assert room[0].state(array) == "succeeded"


@pytest.mark.rows("S0-80")
def test_what_a_newcomer_has_counts_for_all_and_nobody_who_runs_notices():
    room = Room(2)
    jobs = [*occupy(room[0]), *occupy(room[1])]
    large, small = a_job("large", cpus=8_000), a_job("small")
    room[0].submit(small)
    room.look()
    leases = [dict(node.node.ledger.leases) for node in room.nodes]
    asking = [node.node.across.asking for node in room.nodes]
    assert [one.slots(small) for one in asking] == [0, 0]
    assert not any(one.could_run(large) for one in asking)
    assert room[0].state(small) == "waiting"

    newcomer = Neighbour(room, 3, EIGHT_CORES)
    room.nodes.append(newcomer)
    room.look()
    room.until(lambda: room[0].state(small) == "running", 5_000)
    room.look()

    assert all(one.could_run(large) for one in asking)
    assert [one.slots(small) for one in asking] == [7, 7]  # One of its cores is taken already.
    assert [one.node for one in room[0].job(small).live_attempts] == [newcomer.name]
    assert [dict(node.node.ledger.leases) for node in room.nodes[:2]] == leases
    for node, mine in ((room[0], jobs[:4]), (room[1], jobs[4:])):
        assert [(node.state(job), len(node.job(job).attempts)) for job in mine] == [
            ("running", 1)
        ] * 4


@pytest.mark.rows("S0-81")
@pytest.mark.parametrize("is_drained", [True, False])
def test_what_is_held_on_a_node_that_goes_is_given_back_or_told_as_lost(is_drained):
    room = Room(3)
    home, host, other = room.nodes
    occupy(home)
    jobs = [a_job(f"job-{number}", require=Where(nodes=(host.name,))) for number in range(3)]
    home.submit(*jobs)
    room.settle()
    assert len(host.node.ledger.leases) == 3
    if is_drained:
        host.step(Drain(now_ms=host.now_ms))
        host.peer["is_draining"] = True
        room.settle()
        give_way(room, host)
        assert host.node.ledger.leases == {}
    room.kill(host)
    room.pass_time(5_000)

    assert not home.node.across.asking.could_run(jobs[0])
    why = "preempted" if is_drained else f"lost: {host.name} is dead"
    for job in jobs:
        known = home.job(job)
        assert (home.state(job), known.live_attempts) == ("waiting", [])
        assert [line.detail for line in known.story if line.what == "waiting"] == [why]
    assert set(home.node.coordinator.attempts.away) == set()
    assert other.node.ledger.leases == {}
