"""The state of a job follows it from node to node, and outlives its home."""

import msgspec
import pytest

from distributed_grid.kernel.node import Drain, Reports
from distributed_grid.kernel.resuming import ANEW, WHAT
from distributed_grid.model.across import Saved
from distributed_grid.model.job import Preempt, Where
from distributed_grid.wire.across import Begun, Report, Start
from distributed_grid.wire.job_lane import decode, encode
from distributed_grid.wire.keeper import Preempt as TellToGiveWay
from distributed_grid.wire.keeper import Started
from tests.across_world import Room
from tests.node_world import a_job, told

SAVES = Preempt(command=("save",))
ONE, TWO = "a1" * 32, "b2" * 32


@pytest.fixture
def room() -> Room:
    return Room(4)


def begun(room: Room):
    """A job of the first node that runs on another one."""
    job = a_job("job", preempt=SAVES, avoid=Where(nodes=(room[0].name,)))
    room[0].submit(job)
    room.settle()
    return job, host_of(room, job)


def host_of(room: Room, job):
    (attempt,) = room.home_of(job).job(job).live_attempts
    return room.by_id(attempt.host)


def moved(room: Room, job, saved: str = ""):
    """Its node is drained, and it gives way with its state; where it goes on."""
    host = host_of(room, job)
    host.step(Drain(now_ms=host.now_ms))
    host.peer["is_draining"] = True
    room.settle()
    host.keeper.preempt(told(host, TellToGiveWay)[-1].attempt, saved=saved)
    room.settle()
    room.look()
    return host_of(room, job)


def states(node, job) -> list[str]:
    return [line.detail for line in node.job(job).story if line.what == WHAT]


def starts(node) -> list[tuple[str, ...]]:
    return [tuple(one.manifest for one in word.saved) for word in node.said(Start)]


def origins(node) -> list[tuple[Saved, ...]]:
    return [job.spec.origin.saved for job in node.node.coordinator.jobs.values() if job.is_guest]


@pytest.mark.rows("S0-70", "S0-71")
def test_what_it_saved_is_named_to_whoever_runs_it_next(room):
    home = room[0]
    job, first = begun(room)
    second = moved(room, job, ONE)
    assert origins(second) == [(Saved(manifest=ONE, number=1, node=first.name),)]
    third = moved(room, job, TWO)

    assert starts(home) == [(), (ONE,), (TWO, ONE)]
    assert [one.manifest for one in origins(third)[0]] == [TWO, ONE]
    assert len({first.name, second.name, third.name}) == 3
    assert home.job(job).preemptions == 2


@pytest.mark.rows("S0-70")
def test_without_state_it_is_started_again_elsewhere_and_says_so(room):
    job, _ = begun(room)
    moved(room, job)

    assert starts(room[0]) == [(), ()]
    assert states(room[0], job) == [ANEW]


@pytest.mark.rows("S0-71")
def test_whoever_takes_its_home_over_knows_its_state_and_goes_on_with_it(room):
    job, first = begun(room)
    second = moved(room, job, ONE)
    room.kill(room[0])
    others = [one for one in room.nodes if one.is_up]
    room.until(lambda: any(job.id in one.node.coordinator.jobs for one in others), 10_000)
    home = room.home_of(job)
    assert [one.saved for one in home.job(job).saved] == [ONE]

    first.step(Drain(now_ms=first.now_ms, is_on=False))
    first.peer["is_draining"] = False
    room.kill(second)
    room.until(lambda: bool(room.home_of(job).job(job).live_attempts), 30_000)
    home = room.home_of(job)
    (now,) = home.job(job).live_attempts
    assert now.number > 2
    named = starts(home)[-1] if now.host else tuple(one.saved for one in home.job(job).saved)
    assert named == (ONE,)


@pytest.mark.rows("S0-71")
def test_the_home_tells_with_which_state_it_went_on_elsewhere(room):
    home = room[0]
    job, _ = begun(room)
    host = moved(room, job, ONE)
    (lease,) = host.keeper.runs
    guest = host.node.coordinator.jobs[lease]
    guest.attempts[-1].state = "granted"  # As if its process had not begun yet.
    home.job(job).attempts[-1].state = "granted"
    started = Started(number=99, attempt=lease, pid=8, at_ms=5, resumed="as it was")
    host.step(Reports(now_ms=host.now_ms, reports=(started,)))
    room.settle()

    assert host.said(Begun)[-1].resumed == "as it was"
    assert states(home, job) == ["as it was"]


@pytest.mark.rows("S0-71")
def test_it_is_told_also_of_one_that_ended_before_that_was_heard(room):
    home = room[0]
    job, _ = begun(room)
    host = moved(room, job, ONE)
    (lease,) = host.keeper.runs
    host.node.coordinator.jobs[lease].attempts[-1].resumed = "as it was"
    home.job(job).attempts[-1].state = "granted"
    host.drain()
    room.settle()

    assert host.said(Report)[-1].resumed == "as it was"
    assert states(home, job) == ["as it was"]
    assert home.state(job) == "succeeded"


@pytest.mark.parametrize("saved", ["", ONE])
def test_state_is_remembered_across_a_restart_of_its_home(room, saved):
    home = room[0]
    job, _ = begun(room)
    moved(room, job, saved)
    home.start_agent()

    assert [one.saved for one in home.job(job).saved] == [saved] * bool(saved)


def test_nodes_of_the_previous_version_neither_say_nor_hear_of_it(room):
    home = room[0]
    job, _ = begun(room)
    host = moved(room, job, ONE)
    words = [home.said(Start)[-1], host.said(Begun)[-1]]
    words.append(Report(job=job.id, lease="l", first=0, ends=(), resumed="as it was"))
    for word in words:
        before = msgspec.msgpack.decode(encode(word))
        known = {name: value for name, value in before.items() if name not in ("saved", "resumed")}
        assert len(known) == len(before) - 1
        heard = decode(msgspec.msgpack.encode(known))
        assert getattr(heard, "saved", ()) == ()
        assert getattr(heard, "resumed", "") == ""
