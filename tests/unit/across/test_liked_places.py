"""A job that would like one place best goes there if it can, and elsewhere if that takes long."""

import pytest

from distributed_grid.kernel.across.asking import CONTENT_MS
from distributed_grid.kernel.node import Told
from distributed_grid.model.job import Array, Where
from distributed_grid.wire.across import NotGranted, Reserve
from tests.across_world import BEAT_MS, Room
from tests.node_world import a_job, fill


@pytest.fixture
def room() -> Room:
    return Room(4)


def asked_by(room: Room, job) -> list[int]:
    """Which nodes were asked for a job, in order."""
    numbers = {node.me: number for number, node in enumerate(room.nodes)}
    return [
        numbers[peer]
        for peer, message in room[0].sent
        if isinstance(message, Reserve) and message.job == job.id
    ]


def liked(name: str = "job", **fields):
    return a_job(name, prefer=Where(nodes=("node-3",)), **fields)


@pytest.mark.rows("S3-40")
@pytest.mark.parametrize("priority", ["high", "medium"])
def test_only_the_node_it_likes_is_asked_at_first(room, priority):
    job = liked(priority=priority)
    room[0].submit(job)
    room.settle()

    assert asked_by(room, job) == [2]
    assert room[0].job(job).live_attempts[0].node == "node-3"


@pytest.mark.rows("S3-40")
def test_after_a_moment_any_other_node_will_do(room):
    fill(room[0])
    room.cut.add((room[0].me, room[2].me))
    job = liked()
    room[0].submit(job)
    room.settle()
    room.pass_time(CONTENT_MS - BEAT_MS)
    assert (room[0].state(job), set(asked_by(room, job))) == ("waiting", {2})
    room.pass_time(2 * BEAT_MS)

    assert room[0].state(job) == "running"
    assert room[0].job(job).live_attempts[0].node in ("node-2", "node-4")


def test_after_a_moment_its_own_node_will_do(room):
    for other in (room[1], room[2], room[3]):
        room.cut.add((room[0].me, other.me))
    job = liked()
    room[0].submit(job)
    room.settle()
    assert room[0].state(job) == "waiting"
    room.until(lambda: room[0].state(job) == "running", 3 * CONTENT_MS)

    assert room[0].job(job).live_attempts[0].host == ""


def test_a_job_that_may_not_run_here_does_not_settle_here(room):
    for other in (room[1], room[2], room[3]):
        room.cut.add((room[0].me, other.me))
    job = liked(avoid=Where(nodes=("node-1",)))
    room[0].submit(job)
    for _ in range(6):
        room.pass_time(BEAT_MS)
        room.look()

    assert room[0].state(job) == "waiting"
    assert job.id not in room[0].node.coordinator.host.line


def test_a_job_without_wishes_asks_as_many_as_before(room):
    fill(room[0])
    job = a_job("job")
    room[0].submit(job)
    room.settle()

    assert len(set(asked_by(room, job))) == 1  # And it stands in the line of its own node.
    assert room[0].state(job) == "running"


def test_whoever_settled_for_its_own_node_keeps_its_place_in_the_line(room):
    fill(room[0])
    for other in (room[1], room[2], room[3]):
        room.cut.add((room[0].me, other.me))
    job = liked()
    room[0].submit(job)
    room.settle()
    line = room[0].node.coordinator.host.line
    assert job.id not in line
    room.pass_time(CONTENT_MS + BEAT_MS)
    assert job.id in line
    room.look()

    assert job.id in line


# --- What is known of room is a moment old --------------------------------------------------------


@pytest.mark.rows("S3-40")
def test_a_place_that_seems_full_and_is_not_is_asked(room):
    """Its last job has ended, and no news of that has come yet."""
    before = fill(room[2])
    room.look()
    for one in before:
        room[2].end(one)
    job = liked()
    room[0].submit(job)
    room.settle()

    assert asked_by(room, job) == [2]
    assert room[0].job(job).live_attempts[0].node == "node-3"


def test_two_in_turn_get_the_place_they_like(room):
    for name in ("one", "two", "three"):
        job = liked(name, cpus=4_000)
        room[0].submit(job)
        room.settle()
        (attempt,) = room[0].job(job).live_attempts
        assert attempt.node == "node-3"
        room[2].keeper.end_one(attempt.id, 0)
        room.settle()


def test_a_place_that_says_that_it_is_full_is_not_waited_for(room):
    fill(room[0])
    fill(room[2])
    room.look()
    job = liked()
    room[0].submit(job)
    room.settle()

    assert room[0].state(job) == "running"
    assert room[0].job(job).live_attempts[0].node in ("node-2", "node-4")


def test_its_own_node_will_do_when_the_place_it_likes_is_full(room):
    fill(room[2])
    room.look()
    job = liked()
    room[0].submit(job)
    room.settle()

    assert room[0].state(job) == "running"
    assert room[0].job(job).live_attempts[0].host == ""


def test_indices_of_an_array_wait_for_no_place(room):
    for other in (room[1], room[2], room[3]):
        fill(other)
    room.look()
    job = liked(array=Array(start=0, stop=3))
    room[0].submit(job)
    room.settle()

    assert {attempt.host for attempt in room[0].job(job).live_attempts} == {""}


def test_its_own_node_will_do_when_the_place_it_likes_refuses(room):
    for other in (room[1], room[3]):
        fill(other)
    room.cut.add((room[0].me, room[2].me))
    room.look()
    job = liked()
    room[0].submit(job)
    room.settle()
    assert room[0].state(job) == "waiting"
    epoch = room[0].job(job).epoch
    refusal = NotGranted(job=job.id, epoch=epoch, number=0, reasons=("lending is paused",))
    room[0].step(Told(now_ms=room[0].now_ms, peer=room[2].me, message=refusal))
    room.look()  # Nothing that others see of it tells that.

    assert room[0].state(job) == "running"
    assert room[0].job(job).live_attempts[0].host == ""


def test_a_job_with_a_policy_waits_here_too_when_nobody_has_room(room):
    for node in room.nodes:
        fill(node)
    room.look()
    job = a_job("job", policy="BestFit")
    room[0].submit(job)
    room.settle()

    assert room[0].state(job) == "waiting"
    assert job.id in room[0].node.coordinator.host.line
