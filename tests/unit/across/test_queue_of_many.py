"""The line of a node shows who waits there for other nodes, and its own that wait elsewhere."""

from distributed_grid.kernel.queueing import queue
from distributed_grid.model.job import Where
from tests.across_world import Room
from tests.node_world import a_job, fill


def shown(node) -> dict[str, tuple[str, str]]:
    found = queue(node.node.coordinator, limit=100, now_ms=node.now_ms).entries
    return {entry.name: (entry.user, entry.waits) for entry in found}


def test_a_job_that_waits_on_another_node_is_shown_on_both():
    room = Room(2)
    fill(room[1])
    there = a_job("there", require=Where(nodes=("node-2",)), user="ada")
    room[0].submit(there)
    room.settle()

    assert shown(room[0])["there"] == ("ada", "room elsewhere")
    assert shown(room[1])["there"][0] == "ada@node-1"


def test_a_gang_that_waits_for_a_rank_is_shown_where_it_waits():
    room = Room(2)
    fill(room[1])
    room[0].submit(a_job("gang", gang=2, cpus=4_000))
    room.settle()

    assert shown(room[0])["gang"][1] == "room elsewhere"
    assert "gang" in shown(room[1])
