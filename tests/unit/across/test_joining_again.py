"""Who has left the others and joins them again, in one process: its jobs may have gone on there."""

from distributed_grid.model.job import Where
from distributed_grid.wire.keeper import Run
from tests.across_world import Room, rules_of
from tests.node_world import SENSES, a_job, fill, told


def leave(room: Room, who) -> None:
    """It forgets the others, and they give it up; what it runs goes on."""
    who.save(who.node.part(who.now_ms))
    room.dead |= {(other.me, who.me) for other in room.nodes if other is not who}
    room.cut |= {pair for pair in pairs(room) if who.me in pair}
    room.look()
    room.pass_time(6_000)


def join_again(room: Room, who) -> None:
    """Under its old name, as `grid join` does it with an agent that runs."""
    room.dead, room.cut = set(), set()
    who.node.join(who.me, senses=SENSES, rules_of=rules_of)
    room.look()
    room.pass_time(6_000)
    room.look()


def pairs(room: Room) -> set:
    return {(one.me, other.me) for one in room.nodes for other in room.nodes}


def processes(room: Room, job) -> list[str]:
    """Where something of it runs, and was not told to stop."""
    return [
        node.name
        for node in room.nodes
        for run in told(node, Run)
        if run.env["GRID_JOB_NAME"] == job.name
        and run.attempt in node.keeper.runs.keys() - node.keeper.stopped
    ]


def homes(room: Room, job) -> list[str]:
    return [
        node.name
        for node in room.nodes
        if (known := node.node.coordinator.jobs.get(job.id)) is not None and not known.has_ended
    ]


def test_what_others_took_over_meanwhile_does_not_go_on_twice():
    room, job = Room(3), a_job("job")
    room[0].submit(job)
    room.settle()
    leave(room, room[0])
    assert len(processes(room, job)) == 2
    assert len(homes(room, job)) == 2

    join_again(room, room[0])

    assert len(processes(room, job)) == 1
    assert len(homes(room, job)) == 1


def test_what_waited_here_and_runs_elsewhere_meanwhile_is_not_started_here():
    room, job = Room(3), a_job("job", avoid=Where(nodes=("node-2", "node-3")))
    fill(room[0])
    room[0].submit(job)
    room.settle()
    leave(room, room[0])
    assert len(homes(room, job)) == 2

    join_again(room, room[0])
    for attempt in list(room[0].keeper.runs):  # Of the fillers, which make room for it.
        room[0].keeper.end_one(attempt, 0)
    room.settle()
    room.pass_time(6_000)

    assert len(processes(room, job)) == 1
    assert len(homes(room, job)) == 1


def test_in_another_mesh_what_runs_here_is_held_by_others_too():
    room, job = Room(3), a_job("job")
    who = room[0]
    who.submit(job)
    room.settle()
    who.save(who.node.part(who.now_ms))
    for other in room.nodes[1:]:  # They know nothing of it.
        other.saved_held.clear()
        other.start_agent()
    who.node.join(who.me, senses=SENSES, rules_of=rules_of)
    room.look()
    room.pass_time(2_000)

    assert who.node.across.copies(job.id) > 1
