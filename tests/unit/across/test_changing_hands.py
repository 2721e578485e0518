"""The death of any machine loses no acknowledged job: another one looks after it."""

import pytest

from distributed_grid.kernel.node import Told
from distributed_grid.kernel.ready import Ready
from distributed_grid.model.job import Array
from distributed_grid.wire.keeper import Run
from tests.across_world import Room
from tests.node_world import a_job, fill, told


def runs_of(job, node) -> int:
    """How often a node has started something of a job."""
    return sum(run.env["GRID_JOB_ID"] == job.id for run in told(node, Run))


@pytest.fixture
def room() -> Room:
    return Room(4)


def test_a_job_is_on_three_disks_more_when_it_was_submitted(room):
    job = a_job("job")
    room[0].submit(job)
    room.settle()

    assert room[0].node.across.copies(job.id) == 4
    assert [node.knows(job) for node in room.nodes[1:]] == ["waiting"] * 3


@pytest.mark.rows("S0-89", "S0-91")
def test_the_job_of_a_dead_node_runs_again_on_another(room):
    job = a_job("job")
    room[0].submit(job)
    room.settle()
    room.kill(room[0])
    room.until(lambda: any(told(node, Run) for node in room.nodes[1:]), 10_000)

    home = room.home_of(job)
    for node in room.nodes[1:]:
        node.drain()
    room.settle()
    assert home.state(job) == "succeeded"
    assert home.job(job).losses == 1
    room.pass_time(2_000)
    assert {node.knows(job) for node in room.nodes[1:]} == {"succeeded"}


def test_what_runs_elsewhere_goes_on_when_the_submitter_dies(room):
    fill(room[0])
    job = a_job("job")
    room[0].submit(job)
    room.settle()
    host = room.by_id(room[0].job(job).live_attempts[0].host)
    room.kill(room[0])
    room.until(lambda: any(job.id in node.node.coordinator.jobs for node in room.nodes[1:]))
    assert runs_of(job, host) == 1

    host.keeper.end_one(host.keeper.started[0], 0)
    room.settle()
    room.pass_time(2_000)
    assert room.home_of(job).state(job) == "succeeded"
    assert room.home_of(job).job(job).losses == 0


def test_the_submitter_that_comes_back_hands_over_what_it_ran(room):
    job = a_job("job")
    room[0].submit(job)
    room.settle()
    # It is dead in the eyes of the others, and lives.
    others = room.nodes[1:]
    for other in others:
        room.dead |= {(other.me, room[0].me), (room[0].me, other.me)}
        room.cut |= {(other.me, room[0].me), (room[0].me, other.me)}
    room.look()
    room.until(lambda: any(job.id in node.node.coordinator.jobs for node in others))
    room.pass_time(2_000)
    room.cut.clear()
    room.dead.clear()
    room.look()
    room.pass_time(10_000)

    home = room.home_of(job)
    assert home is not room[0]
    for stopped in list(home.keeper.stopped):
        home.keeper.end_one(stopped, 0)
    room.settle()
    live = home.job(job).live_attempts
    assert [attempt.host for attempt in live] == [room[0].me]
    room[0].drain()
    room.settle()
    room.pass_time(2_000)
    assert home.state(job) == "succeeded"


def test_the_chunks_of_an_array_survive_its_home(room):
    job = a_job("array", array=Array(start=0, stop=64))
    room[0].submit(job)
    room.settle()
    for node in room.nodes:
        for attempt in list(node.keeper.started):
            node.keeper.end_one(attempt, 0)
    room.settle()
    room.kill(room[0])

    def is_done() -> bool:
        for node in room.nodes[1:]:
            node.drain()
        room.settle()
        return any(node.knows(job) == "succeeded" for node in room.nodes[1:])

    room.until(is_done)
    assert room.home_of(job).job(job).progress.is_done


def test_cancelling_at_a_holder_reaches_the_home(room):
    job = a_job("job")
    room[0].submit(job)
    room.settle()
    ready = Ready()
    assert room[1].node.across.guarding.cancel(job.id, room[1].now_ms, ready)
    for peer, message in ready.send:
        room.by_id(peer).step(Told(now_ms=room[1].now_ms, peer=room[1].me, message=message))
    room.settle()
    assert room[0].job(job).is_cancelled


def test_home_and_owner_die_together(room):
    fill(room[0])
    job = a_job("job")
    room[0].submit(job)
    room.settle()
    host = room.by_id(room[0].job(job).live_attempts[0].host)
    room.kill(room[0])
    room.kill(host)
    rest = [node for node in room.nodes if node.is_up]

    room.until(
        lambda: any(run.env["GRID_JOB_ID"] == job.id for node in rest for run in told(node, Run))
    )
    for node in rest:
        node.drain()
    room.settle()
    room.pass_time(2_000)
    assert {node.knows(job) for node in rest} == {"succeeded"}
