"""`ClusterScaler`: how busy a mesh is, and which of its machines come or go."""

import asyncio

import pytest

from distributed_grid.cluster_mesh import ClusterScaler, ScalingPolicy
from distributed_grid.cluster_mesh.scaler import chosen_spares, load_of
from distributed_grid.errors import MeshUnreachable
from distributed_grid.kernel.scaling import Load
from distributed_grid.wire.across_api import DrainView
from tests.mesh_stand_in import a_node

IDLE = {"cpu_milli_total": 4_000, "cpu_milli_free": 4_000}
BUSY = {"cpu_milli_total": 4_000, "cpu_milli_free": 0, "jobs_running": 4}
SPARES = frozenset({"attic", "barn"})


def test_the_scarcer_of_cores_and_gpus_counts():
    cores = a_node("desk", cpu_milli_total=4_000, cpu_milli_free=1_000)
    gpus = a_node("attic", **IDLE, gpus_total=4, gpus_free_milli=500)

    assert load_of([cores]) == Load(nodes=1, used_milli=750)
    assert load_of([cores, gpus]) == Load(nodes=2, used_milli=875)
    assert load_of([]) == Load(nodes=0, used_milli=0)


@pytest.mark.parametrize("change", [{"is_draining": True}, {"health": "suspect"}])
def test_who_rests_or_is_silent_is_not_in_service(change):
    there = [a_node("desk", **BUSY), a_node("attic", **IDLE, **change)]
    assert load_of(there) == Load(nodes=1, used_milli=1_000)


def test_jobs_that_wait_count_wherever_they_wait():
    waiting = a_node("attic", **IDLE, is_draining=True, jobs_waiting=2)
    assert load_of([a_node("desk", **IDLE), waiting]).jobs_waiting == 2


def names(nodes) -> list[str]:
    return [node.name for node in nodes]


def test_the_idlest_of_the_spares_rest_first_and_nobody_else():
    nodes = [a_node("desk", **IDLE), a_node("attic", **BUSY), a_node("barn", **IDLE)]

    assert names(chosen_spares(nodes, SPARES, -1)) == ["barn"]
    assert names(chosen_spares(nodes, SPARES, -9)) == ["barn", "attic"]
    assert names(chosen_spares(nodes, SPARES, 0)) == []


def test_the_largest_of_those_that_rest_comes_back_first():
    nodes = [
        a_node("desk", **IDLE, is_draining=True),  # Its owner's doing.
        a_node("attic", cpu_milli_total=2_000, is_draining=True),
        a_node("barn", cpu_milli_total=8_000, is_draining=True),
    ]
    assert names(chosen_spares(nodes, SPARES, 1)) == ["barn"]
    assert names(chosen_spares(nodes, SPARES, 9)) == ["barn", "attic"]
    by_id = frozenset({nodes[1].id})
    assert names(chosen_spares(nodes, by_id, 9)) == ["attic"]


class Town:
    """A mesh that does what it is told, but for those who do not hear."""

    def __init__(self, *nodes) -> None:
        self.nodes, self.deaf = {node.id: node for node in nodes}, set()
        self.told: list[tuple[str, str]] = []
        self.cluster = self

    async def list_nodes(self):
        return list(self.nodes.values())

    async def drain(self, node: str) -> DrainView:
        return self._tell("drain", node)

    async def undrain(self, node: str) -> DrainView:
        return self._tell("undrain", node)

    def _tell(self, word: str, node: str) -> DrainView:
        name = self.nodes[node].name
        self.told.append((word, name))
        if name in self.deaf:
            raise MeshUnreachable(name, why="it does not answer")
        return DrainView(id=node, name=name, state="drained" if word == "drain" else "open")


async def test_who_does_not_hear_is_asked_again_and_there_is_no_cooldown_for_it():
    town = Town(a_node("desk", **BUSY), a_node("attic", **IDLE, is_draining=True))
    town.deaf.add("attic")
    scaler = ClusterScaler(town, spares=["attic"], clock_s=lambda: 0.0)
    assert (await scaler.look()).change == 1
    first = await scaler.step()
    town.deaf.clear()
    second, third = await scaler.step(), await scaler.step()

    assert (first.nodes, first.woken) == (1, ())
    assert (second.nodes, second.woken) == (2, ("attic",))
    assert third.woken == ()  # As if it had not come yet: that takes a moment.
    assert town.told == [("undrain", "attic")] * 2


async def test_it_looks_again_and_again_until_it_is_cancelled():
    town = Town(a_node("desk", **IDLE), a_node("attic", **IDLE))
    times = iter(range(0, 10**9, 100))
    policy = ScalingPolicy(scale_in_cooldown_ms=1_000_000)
    scaler = ClusterScaler(town, policy, spares=["attic"], clock_s=lambda: next(times))
    running = asyncio.create_task(scaler.run(every="1ms"))
    async with asyncio.timeout(20):
        while not town.told:
            await asyncio.sleep(0)
    running.cancel()

    assert town.told[0] == ("drain", "attic")
    assert await asyncio.gather(running, return_exceptions=True) != [None]
