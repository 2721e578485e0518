"""What dice brought about: words that cross a takeover, a restart, an end that is known already."""

import msgspec
import pytest

from distributed_grid.kernel.across.record_bytes import encode
from distributed_grid.kernel.node import Told
from distributed_grid.model.across import Epoch, Fence
from distributed_grid.wire.across import Copied, Copy, Halt, Holding, Report
from distributed_grid.wire.job_lane import decode
from distributed_grid.wire.keeper import Run, Stop
from tests.across_world import Neighbour, Room
from tests.node_world import a_job, fill, told

JOB = a_job("job")


@pytest.fixture
def room() -> Room:
    return Room(4)


def tell(node: Neighbour, peer: Neighbour, message) -> None:
    node.step(Told(now_ms=node.now_ms, peer=peer.me, message=message))


def part(room: Room, left: list[Neighbour], right: list[Neighbour]) -> None:
    for one in left:
        for other in right:
            pairs = {(one.me, other.me), (other.me, one.me)}
            room.cut |= pairs
            room.dead |= pairs
    room.look()


def heal(room: Room) -> None:
    room.cut.clear()
    room.dead.clear()
    room.look()


def taken_over(room: Room) -> Neighbour:
    """The others take a job over while its home runs it; answers who."""
    room[0].submit(JOB)
    room.settle()
    part(room, [room[0]], room.nodes[1:])
    others = room.nodes[1:]
    room.until(lambda: any(JOB.id in node.node.coordinator.jobs for node in others))
    return next(node for node in others if JOB.id in node.node.coordinator.jobs)


def runs_elsewhere(room: Room) -> Neighbour:
    """A job of the first runs on another; answers which."""
    fill(room[0])
    room[0].submit(JOB)
    room.settle()
    return room.by_id(room[0].job(JOB).live_attempts[0].host)


def test_a_job_is_not_taken_again_by_its_former_home(room):
    home = taken_over(room)
    heal(room)
    room.pass_time(2_000)
    assert JOB.id not in room[0].node.coordinator.jobs
    ready = room[0].submit(JOB)

    assert JOB.id in ready.save_held
    assert JOB.id not in room[0].node.coordinator.jobs
    assert JOB.id in home.node.coordinator.jobs


def test_any_holder_takes_a_cancel_to_the_home(room):
    room[0].submit(JOB)
    room.settle()
    room[1].cancel(JOB)
    room.settle()
    room.pass_time(2_000)

    assert room[0].job(JOB).is_cancelled


def test_what_ended_elsewhere_is_stopped_here_also_after_a_crash(room):
    home = taken_over(room)
    room.until(lambda: bool(home.keeper.runs))
    room[0].drain()
    assert room[0].state(JOB) == "succeeded"
    heal(room)
    room.until(lambda: home.knows(JOB) == "succeeded")
    attempt = home.job(JOB).live_attempts[0].id
    assert attempt in home.keeper.stopped
    home.keeper.told.clear()
    home.start_agent()
    assert [stop.attempt for stop in told(home, Stop)] == [attempt]

    home.keeper.end_one(attempt, 143)
    home.pump()
    assert home.state(JOB) == "succeeded"
    assert not home.node.ledger.leases


def test_what_runs_on_a_node_that_restarts_is_not_placed_again(room):
    host = runs_elsewhere(room)
    host.peer["restarting_until_ms"] = room[0].now_ms + 30_000
    room.dead |= {(node.me, host.me) for node in room.nodes}
    room.look()
    attempt = room[0].job(JOB).live_attempts[0]
    assert attempt.host == host.me

    room.pass_time(29_000)
    assert room[0].job(JOB).live_attempts == [attempt]
    room.pass_time(2_000)
    assert attempt.state == "lost"


def test_what_ran_on_a_node_that_left_is_lost_at_once(room):
    host = runs_elsewhere(room)
    attempt = room[0].job(JOB).live_attempts[0]
    room.nodes.remove(host)
    room[0].look()

    assert attempt.state == "lost"


def test_whoever_halts_what_has_ended_hears_of_the_end_again(room):
    host = runs_elsewhere(room)
    lease = room[0].job(JOB).live_attempts[0].lease
    host.drain()
    room.settle()
    room.pass_time(2_000)
    before = len(host.said(Report))
    tell(host, room[0], Halt(job=JOB.id, epoch=room[0].job(JOB).epoch, lease=lease))
    room.settle()

    assert len(host.said(Report)) == before + 1


def test_who_abdicates_wants_nothing_more_of_owners(room):
    fill(room[0])
    other = room[1]
    room.cut |= {(room[0].me, node.me) for node in room.nodes[1:]}
    room[0].submit(JOB)
    across = room[0].node.across
    across.away._lost["gone"] = (other.me, JOB.id)
    across.away._halting["ended"] = (other.me, Halt(job=JOB.id, epoch=Epoch(), lease="ended"), 0)
    across.away._halting["others"] = (other.me, Halt(job=a_job("b").id, epoch=Epoch(), lease=""), 0)
    across.away._lost["others"] = (other.me, a_job("b").id)
    record = across.guarding.find(JOB.id)
    newer = msgspec.structs.replace(record, version=Fence(Epoch(9, other.me), 1))
    tell(room[0], other, Copy(record=encode(newer)))

    assert JOB.id not in room[0].node.coordinator.jobs
    assert list(across.away._halting) == list(across.away._lost) == ["others"]


def test_a_start_that_was_not_answered_is_forgotten_with_its_job(room):
    fill(room[0])
    room[0].submit(JOB)
    while not room[0].node.across.asking.starting and room.post:
        source, target, body = room.post.popleft()
        host = room.by_id(target)
        host.step(Told(now_ms=host.now_ms, peer=source, message=decode(body)))
    room.post.clear()
    record = room[0].node.across.guarding.find(JOB.id)
    newer = msgspec.structs.replace(record, version=Fence(Epoch(9, room[1].me), 1))
    assert room[0].node.across.asking.starting
    tell(room[0], room[1], Copy(record=encode(newer)))

    assert not room[0].node.across.asking.starting


def test_a_cancelled_job_whose_owner_died_with_its_home_ends_once(room):
    host = runs_elsewhere(room)
    room[0].cancel(JOB)
    room.settle()
    rest = [node for node in room.nodes[1:] if node is not host]
    room.kill(host)
    room.kill(room[0])
    room.until(lambda: any(node.knows(JOB) == "cancelled" for node in rest))
    assert not any(run.env["GRID_JOB_ID"] == JOB.id for node in rest for run in told(node, Run))


def test_who_hands_on_what_is_over_is_told_so(room):
    room[0].submit(JOB)
    room.settle()
    old = room[1].node.across.guarding.find(JOB.id)
    room[0].drain()
    room.settle()
    room.pass_time(2_000)
    room[1].sent.clear()
    tell(room[1], room[2], Copy(record=encode(old)))

    assert [type(word) for node, word in room[1].sent if node == room[2].me] == [Holding]


def test_an_errand_is_over_when_the_home_knows_as_much(room):
    room[0].submit(JOB)
    room.settle()
    guarding = room[1].node.across.guarding
    errands = guarding._meeting.errands
    errands.plan(JOB.id, room[0].me, room[1].now_ms)
    tell(room[1], room[2], Holding(job=JOB.id, record=encode(guarding.find(JOB.id))))
    assert errands.has(JOB.id, room[0].me)
    tell(room[1], room[0], Holding(job=JOB.id, record=encode(guarding.find(JOB.id))))

    assert not errands.has(JOB.id, room[0].me)


def test_an_end_that_the_owner_tells_needs_no_answer_of_the_holders(room):
    host = runs_elsewhere(room)
    guards = [node for node in room.nodes[1:] if node is not host]
    for node in guards:
        room.cut |= {(node.me, room[0].me), (room[0].me, node.me)}
    room.cut |= {(host.me, room[0].me), (room[0].me, host.me)}
    room[0].start_agent()
    room.look()
    assert not room[0].node.across.is_cleared(JOB.id)
    room.cut -= {(host.me, room[0].me)}
    host.drain()
    host.sent = [pair for pair in host.sent if not isinstance(pair[1], Copied)]
    room.pass_time(500)

    assert room[0].node.across.is_cleared(JOB.id)
    assert room[0].state(JOB) == "succeeded"
