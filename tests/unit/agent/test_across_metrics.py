"""Figures of jobs across machines."""

import asyncio

from distributed_grid.agent.across_metrics import across_lines
from tests.across_world import Room
from tests.node_world import World, a_job, fill
from tests.questions_lab import Pair, Parts


def figures(node, questions, dropped: int = 0) -> dict[str, int]:
    found, kinds = {}, set()
    for line in across_lines(node, questions, dropped):
        if line.startswith("# TYPE"):
            kinds.add(line.split()[2])
        elif not line.startswith("#"):
            name, value = line.rsplit(" ", 1)
            assert name.partition("{")[0] in kinds
            found[name] = int(value)
    return found


def test_a_node_in_no_mesh_has_none_of_them():
    assert figures(World().node, None) == {}


async def test_attempts_guests_records_and_questions_are_counted():
    room, pair = Room(3), Pair(Parts([b"x"], then=asyncio.Event().wait))
    fill(room[0])
    room[0].submit(a_job("job"))
    room.settle()
    host = next(node for node in room.nodes[1:] if node.keeper.started)
    stream = pair.stream()
    await anext(stream)
    home, owner = figures(room[0].node, pair.asks), figures(host.node, pair.answers)

    assert home["grid_attempts_away"] == 1
    assert owner["grid_attempts_away"] == 0
    assert owner['grid_guests{state="running"}'] == 1
    assert owner['grid_guests{state="waiting"}'] == 0
    assert owner['grid_records_held{kind="unfinished"}'] >= 1
    assert home['grid_records_held{kind="unfinished"}'] == 0
    assert (home['grid_questions{to="others"}'], home['grid_questions_total{to="others"}']) == (
        1,
        1,
    )
    assert (owner['grid_questions{to="here"}'], owner['grid_questions_total{to="here"}']) == (1, 1)
    await stream.aclose()
    pair.roles = None
    await pair.ask()
    assert figures(host.node, pair.answers)["grid_questions_refused_total"] == 1
    assert figures(host.node, pair.answers, 7)["grid_messages_dropped_total"] == 7
    room[0].drain()
    host.drain()
    room.settle()
    room.pass_time(2_000)
    after = figures(host.node, pair.answers)
    assert after['grid_guests{state="running"}'] == 0
    assert after['grid_records_held{kind="ended"}'] >= 1
