"""`ClusterMonitor`, name for name as in seed 002: figures, and events as they happen."""

import asyncio

import msgspec
import pytest

from distributed_grid.cluster_mesh import (
    ClusterMesh,
    ClusterMonitor,
    NodeJoined,
    NodeLeft,
    NodeUpdated,
)
from tests.agent_stand_in import serving
from tests.mesh_stand_in import a_node
from tests.unit.cluster_mesh.telling_agent import TellingAgent

TIB = 1 << 40
ATTIC = a_node("attic")
CELLAR = a_node("cellar")


@pytest.fixture
def agent():
    return TellingAgent()


@pytest.fixture
def socket(agent, tmp_path):
    with serving(agent, tmp_path / "s") as path:
        yield path


def play(socket, scene):
    """Run a scene with a monitor of the mesh behind the socket."""

    async def run():
        async with await ClusterMesh.new(socket=socket) as mesh, asyncio.timeout(20):
            return await scene(ClusterMonitor(mesh))

    return asyncio.run(run())


def short(event):
    return type(event).__name__, event.node.name, event.node.health


async def some(events, count):
    return [short(await anext(events)) for _ in range(count)]


@pytest.mark.rows("S2-100", "S2-101", "S2-102", "S2-103", "S2-104")
def test_the_example_of_the_seed_prints_the_figures(agent, socket, capsys):
    agent.mesh.members = [
        a_node(scores_tflops_milli=1_250, memory_bytes_total=2 * 10**12, jobs_running=2),
        a_node(
            "attic", scores_tflops_milli=82_250, memory_bytes_total=10**12 // 2, health="suspect"
        ),
    ]

    async def example(monitor):
        # Get cluster metrics
        metrics = await monitor.get_metrics()
        print(f"Total compute: {metrics.total_compute_power} TFLOPS")
        print(f"Total memory: {metrics.total_memory_tb} TB")
        print(f"Active jobs: {metrics.active_jobs}")

    play(socket, example)

    assert capsys.readouterr().out == (
        "Total compute: 83.5 TFLOPS\nTotal memory: 2.5 TB\nActive jobs: 3\n"
    )


@pytest.mark.rows("S2-101")
def test_the_dead_and_those_who_left_count_for_nothing(agent, socket):
    agent.mesh.members += [
        a_node("cellar", health="dead", scores_tflops_milli=10**6, memory_bytes_total=TIB),
        a_node("gone", health="left", jobs_running=9),
    ]
    metrics = play(socket, lambda monitor: monitor.get_metrics())

    assert (metrics.nodes, metrics.active_jobs, metrics.total_compute_power) == (1, 1, 0.0)


@pytest.mark.rows("S2-105", "S2-106", "S2-107", "S2-108")
def test_the_example_of_the_seed_hears_of_joining_changing_and_leaving(agent, socket, capsys):
    async def example(monitor):
        # Watch for node changes
        events = await monitor.watch_events()
        agent.mesh.members.append(ATTIC)
        agent.tell("node.joined", ATTIC)
        agent.tell("node.updated", ATTIC, what="profile")
        agent.tell("node.left", ATTIC)
        async for event in events:
            match event:
                case NodeJoined(node):
                    print(f"Node {node.id} joined")
                case NodeUpdated(node):
                    print(f"Node {node.id} updated")
                case NodeLeft(node):
                    print(f"Node {node.id} left")
                    await events.close()

    play(socket, example)

    told = f"Node {ATTIC.id} joined\nNode {ATTIC.id} updated\nNode {ATTIC.id} left\n"
    assert capsys.readouterr().out == told


@pytest.mark.rows("S2-105")
def test_what_was_before_is_not_told_and_what_comes_after_is_however_late_one_listens(
    agent, socket
):
    agent.tell("node.joined", CELLAR)
    agent.tell("node.left", CELLAR)

    async def scene(monitor):
        events = await monitor.watch_events()
        agent.mesh.members.append(ATTIC)
        agent.tell("job.ended")
        agent.tell("node.joined", ATTIC)
        await monitor.get_metrics()  # It has happened by now, and nobody listens yet.
        return await some(await events, 1)

    assert play(socket, scene) == [("NodeJoined", "attic", "alive")]


def test_what_happens_while_the_watch_begins_is_told_once(agent, socket):
    looks = []
    nodes = agent.mesh.nodes

    async def joining_meanwhile():
        looks.append(len(looks))
        if len(looks) == 2:  # After the first look, and after the last number was read.
            agent.mesh.members.append(ATTIC)
            agent.tell("node.joined", ATTIC)
        return await nodes()

    agent.mesh.nodes = joining_meanwhile

    async def scene(monitor):
        events = await monitor.watch_events()
        return await some(events, 2)

    assert play(socket, scene) == [
        ("NodeJoined", "attic", "alive"),
        ("NodeUpdated", "attic", "alive"),
    ]


def test_iterating_at_once_is_fine_too(agent, socket):
    agent.mesh.members.append(ATTIC)

    async def scene(monitor):
        first = asyncio.ensure_future(anext(monitor.watch_events()))
        while not first.done():  # Until it listens.
            agent.tell("node.updated", ATTIC, what="offers")
            await monitor.get_metrics()
        return short(await first)

    assert play(socket, scene) == ("NodeUpdated", "attic", "alive")


def test_a_dead_node_left_once_and_joins_when_it_is_heard_again(agent, socket):
    agent.mesh.members.append(ATTIC)

    async def scene(monitor):
        events = await monitor.watch_events()
        agent.tell("node.suspect", ATTIC)
        agent.tell("node.alive", ATTIC)
        for name in ("node.dead", "node.left", "node.updated", "node.path_changed"):
            agent.tell(name, ATTIC)
        agent.tell("node.alive", ATTIC)
        agent.tell("node.joined", ATTIC)
        return await some(events, 5)

    assert play(socket, scene) == [
        ("NodeUpdated", "attic", "alive"),
        ("NodeUpdated", "attic", "alive"),
        ("NodeLeft", "attic", "dead"),
        ("NodeJoined", "attic", "alive"),
        ("NodeUpdated", "attic", "alive"),
    ]


def test_a_node_that_is_dead_already_does_not_leave_again(agent, socket):
    agent.mesh.members.append(msgspec.structs.replace(ATTIC, health="dead"))

    async def scene(monitor):
        events = await monitor.watch_events()
        agent.tell("node.left", ATTIC)
        agent.tell("node.joined", CELLAR)
        return await some(events, 1)

    assert play(socket, scene) == [("NodeJoined", "cellar", "alive")]


def test_a_node_that_is_forgotten_already_is_told_by_its_name(agent, socket):
    async def scene(monitor):
        events = await monitor.watch_events()
        agent.tell("node.joined", ATTIC)
        event = await anext(events)
        return event.node.id, event.node.name

    assert play(socket, scene) == (ATTIC.id, "attic")


def test_what_a_restart_of_the_agent_hid_is_told_with_the_next_event(agent, socket):
    agent.mesh.members.append(ATTIC)
    lamp = a_node("lamp")
    agent.mesh.members.append(lamp)

    async def scene(monitor):
        events = await monitor.watch_events()
        agent.mesh.members.remove(ATTIC)
        agent.mesh.members.remove(lamp)
        agent.mesh.members += [CELLAR, msgspec.structs.replace(lamp, health="dead")]
        agent.restart()
        agent.tell("node.alive", CELLAR)
        found = await some(events, 3)
        agent.tell("node.updated", CELLAR)
        return found, await some(events, 1)

    found, then = play(socket, scene)

    assert sorted(found[:2]) == [("NodeLeft", "attic", "left"), ("NodeLeft", "lamp", "dead")]
    assert found[2] == ("NodeJoined", "cellar", "alive")
    assert then == [("NodeUpdated", "cellar", "alive")]


def test_a_stream_that_ends_ends_the_loop(agent, socket):
    async def scene(monitor):
        events = await monitor.watch_events()
        agent.mesh.members.append(ATTIC)
        agent.tell("node.joined", ATTIC)
        found = await some(events, 1)
        agent.let_go()
        return [*found, *[short(event) async for event in events]]

    assert play(socket, scene) == [("NodeJoined", "attic", "alive")]


def test_closing_twice_and_before_the_beginning_is_harmless(socket):
    async def scene(monitor):
        events = monitor.watch_events()
        await events.close()
        await events
        await events.close()
        await events.close()
        return [event async for event in events]

    assert play(socket, scene) == []
