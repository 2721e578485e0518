"""A room in which gangs run: everyone lends all it has, and what the ranks do can be seen."""

from distributed_grid.kernel.node import Lend, Told
from distributed_grid.model.lending import Terms, Thresholds
from distributed_grid.wire.gangs import (
    CommitHold,
)
from distributed_grid.wire.keeper import Run
from tests.across_world import Room
from tests.node_world import a_job, told
from tests.unit.across.filling import occupy

LENDS = Terms(thresholds=Thresholds(cpu_min_milli=0))


def lending(room: Room) -> Room:
    """Everyone lends all it has."""
    for node in room.nodes:
        node.step(Lend(now_ms=node.now_ms, terms=LENDS))
        node.node.across.holds.meeting = lambda node=node: (f"{node.name}.lan", 4_711)
    room.look()
    return room


def beats(room: Room, count: int = 4) -> None:
    for _ in range(count):
        room.pass_time(500)
        room.look()


def runs(room: Room, spec) -> list[Run]:
    """Its processes, by rank."""
    found = [
        run
        for node in room.nodes
        for run in told(node, Run)
        if run.env["GRID_JOB_ID"] == spec.id and run.attempt in node.keeper.runs
    ]
    return sorted(found, key=lambda run: int(run.env["GRID_RANK"]))


def tell(node, peer, message):
    ready = node.step(Told(now_ms=node.now_ms, peer=peer, message=message))
    return [word for to, word in ready.send if to == peer]


def stop_what_was_told(room: Room) -> None:
    for node in room.nodes:
        for attempt in [one for one in node.keeper.started if one in node.keeper.stopped]:
            node.keeper.end_one(attempt, 0)
    room.settle()


def full_but(room):
    """All nodes but the last have room, which is busy."""
    busy = occupy(room[2])
    room.look()
    gang = a_job("gang", gang=12)
    room[0].submit(gang)
    beats(room, 2)
    return gang, busy


def uncommitted(room, monkeypatch):
    """A gang of which one node never commits its ranks."""
    home = room[0]
    monkeypatch.setattr(room[2].node.across.holds, "commit", lambda *_: None)
    gang = a_job("gang", gang=12)
    home.submit(gang)
    beats(room)
    assert home.said(CommitHold)
    assert home.job(gang).gang_go is None
    assert runs(room, gang) == []
    return gang
