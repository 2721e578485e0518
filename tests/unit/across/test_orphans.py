"""What runs for another node finds the home of its job, wherever that is by now, or ends."""

import msgspec
import pytest

from distributed_grid.kernel.across.record_bytes import encode
from distributed_grid.kernel.node import Beat, Told
from distributed_grid.model.across import Epoch, Fence
from distributed_grid.model.ids import NodeId
from distributed_grid.model.job import Array, JobSpec, Where
from distributed_grid.wire.across import Begun, Granted, Holding, Inquiry, Report, Reserve, Start
from distributed_grid.wire.keeper import Run, Stop
from tests.across_world import Neighbour, Room
from tests.node_world import a_job, fill, told

JOB = a_job("job")
FIRST = Epoch()


def lodge(
    room: Room, owner: Neighbour, home: Neighbour, epoch: Epoch = FIRST, job: JobSpec = JOB
) -> str:
    """Let a node run an attempt of whose job its home knows nothing; answers its lease."""
    bare = msgspec.structs.replace(job, work=None)
    asked = Reserve(job=job.id, epoch=epoch, number=1, spec=bare)
    owner.step(Told(now_ms=owner.now_ms, peer=home.me, message=asked))
    lease = owner.said(Granted)[-1].lease
    start = Start(job=job.id, epoch=epoch, number=2, lease=lease, spec=job, attempt=1)
    owner.step(Told(now_ms=owner.now_ms, peer=home.me, message=start))
    room.post.clear()
    return lease


def untold(owner: Neighbour) -> list:
    return owner.node.across.hosting.reporting.untold()


def asked_by(owner: Neighbour) -> set:
    return {node for node, word in owner.sent if isinstance(word, Inquiry)}


def test_a_guest_whose_home_knows_nothing_of_it_is_ended_after_a_minute():
    room = Room(3)
    owner, home, other = room.nodes
    lease = lodge(room, owner, home)
    room.settle()
    assert home.said(Holding) == [Holding(job=JOB.id)]

    room.pass_time(1_000)
    assert asked_by(owner) == {home.me, other.me}
    room.pass_time(58_000)
    assert told(owner, Stop) == []
    room.pass_time(2_000)
    assert [stop.attempt for stop in told(owner, Stop)] == [lease]

    owner.keeper.end_one(lease, 143)
    room.settle()
    assert owner.said(Report)
    room.pass_time(62_000)
    assert untold(owner) == []
    said = len(owner.sent)
    room.pass_time(10_000)
    assert len(owner.sent) == said


def test_a_guest_whose_home_is_dead_is_ended_if_nobody_knows_its_job():
    room = Room(2)
    owner, home = room.nodes
    lease = lodge(room, owner, home)
    room.settle()
    room.kill(home)
    room.pass_time(62_000)

    assert [stop.attempt for stop in told(owner, Stop)] == [lease]
    assert asked_by(owner) <= {home.me}


def test_a_guest_reports_to_whoever_looks_after_its_job_now():
    room = Room(3)
    owner, former, home = room.nodes
    home.submit(JOB)
    room.settle()
    lease = lodge(room, owner, former)
    room.settle()
    assert former.said(Begun) == []
    room.pass_time(1_000)

    # It has its own attempt already: of what it did not start it wants to hear no more.
    assert [stop.attempt for stop in told(owner, Stop)] == [lease]
    owner.keeper.end_one(lease, 143)
    room.settle()
    assert untold(owner) == []


def test_a_guest_obeys_no_older_word_than_its_own():
    room = Room(3)
    owner, former, home = room.nodes
    home.submit(JOB)
    room.settle()
    lodge(room, owner, former, Epoch(7, former.me))
    room.settle()
    room.pass_time(10_000)

    assert told(owner, Stop) == []
    assert owner.node.across.hosting.reporting.home_of(untold(owner)[0]) == former.me


def test_what_ended_long_ago_is_confirmed_by_its_home():
    room = Room(2)
    owner, home = room.nodes
    home.submit(JOB)
    room.settle()
    home.end(JOB)
    room.settle()
    home.node.coordinator.jobs.pop(JOB.id)  # As if thousands had ended since.
    home.node.coordinator.finished.clear()
    lease = lodge(room, owner, home, Epoch(1, home.me))
    owner.keeper.end_one(lease, 0)
    room.settle()

    assert untold(owner) == []
    assert home.said(Holding) == []


def test_an_orphan_that_is_forgotten_is_not_looked_for():
    room = Room(3)
    owner, home, _ = room.nodes
    lease = lodge(room, owner, home)
    owner.keeper.end_one(lease, 0)
    room.settle()
    del owner.node.coordinator.jobs[lease]
    room.pass_time(1_000)

    assert asked_by(owner) == set()


def test_a_node_that_a_guest_does_not_report_to_may_know_nothing_of_it():
    room = Room(3)
    owner, home, other = room.nodes
    lodge(room, owner, home)
    room.post.clear()
    word = Holding(job=JOB.id)
    owner.step(Told(now_ms=owner.now_ms, peer=other.me, message=word))
    room.post.clear()
    owner.step(Told(now_ms=owner.now_ms, peer=other.me, message=Holding(job=a_job("x").id)))
    room.cut |= {(owner.me, home.me), (home.me, owner.me)}
    room.pass_time(1_000)

    assert asked_by(owner) == set()


def test_a_guest_stays_with_the_home_that_it_has():
    room = Room(3)
    owner, home, other = room.nodes
    home.submit(JOB)
    room.settle()
    lodge(room, owner, home, Epoch(1, home.me))
    owner.sent.clear()
    record = encode(home.node.across.guarding.find(JOB.id))
    word = Holding(job=JOB.id, record=record)
    owner.step(Told(now_ms=owner.now_ms, peer=other.me, message=word))

    assert owner.node.across.hosting.reporting.home_of(untold(owner)[0]) == home.me
    assert owner.said(Begun) == []


def test_the_end_of_a_guest_is_forgotten_if_who_was_home_has_lost_what_others_know_to_be_over():
    room = Room(3)
    owner, home, other = room.nodes
    home.submit(JOB)
    room.settle()
    home.end(JOB)
    room.settle()
    assert other.knows(JOB) == "succeeded"
    for nodes_disk in (home, owner):  # Both have lost theirs; the third remembers the end.
        for table in (nodes_disk.saved_jobs, nodes_disk.saved_leases, nodes_disk.saved_held):
            table.clear()
        nodes_disk.start_agent()
    room.look()
    lease = lodge(room, owner, home, Epoch(1, home.me))
    owner.keeper.end_one(lease, 0)
    room.cut |= {(other.me, home.me)}  # Nor is the home told what it was.
    room.pass_time(5_000)
    assert untold(owner) != []
    room.pass_time(60_000)

    assert untold(owner) == []
    said = len(owner.sent)
    room.pass_time(20_000)
    assert len(owner.sent) == said


@pytest.mark.parametrize("count", [2, 3, 5])
@pytest.mark.parametrize("is_planned", [False, True])
def test_what_runs_goes_on_under_another_home_for_as_long_as_it_takes(count, is_planned):
    room = Room(count)
    home = room[0]
    fill(home)
    home.submit(JOB)
    room.settle()
    (owner,) = [one for one in room.nodes[1:] if one.keeper.runs]
    if is_planned:
        home.peer["restarting_until_ms"] = home.now_ms + 60_000
    room.kill(home)
    for _ in range(180):
        room.pass_time(1_000)
        room.look()

    assert told(owner, Stop) == []
    assert any(one.knows(JOB) == "running" for one in room.nodes[1:])
    assert (
        untold(owner) == []
        or owner.node.across.hosting.reporting.home_of(untold(owner)[0]) != home.me
    )


def test_of_many_nodes_others_are_asked_each_time(monkeypatch):
    monkeypatch.setattr("distributed_grid.kernel.across.orphans.ASKED_MAX", 1)
    room = Room(4)
    owner, home, *others = room.nodes
    for name in ("one", "two"):
        lodge(room, owner, home, job=a_job(name))
    room.kill(home)
    room.pass_time(30_000)

    asked = [(node, word.jobs) for node, word in owner.sent if isinstance(word, Inquiry)]
    for name in ("one", "two"):
        wanted = (a_job(name).id,)
        assert {node for node, jobs in asked if jobs == wanted} == {one.me for one in others}


def test_who_is_told_and_says_that_another_is_home_is_not_told_for_ever():
    room = Room(3)
    owner, told_one, other = room.nodes
    other.submit(JOB)
    room.settle()
    other.end(JOB)
    room.settle()
    known = other.node.across.guarding.find(JOB.id)
    gone = NodeId("f" * 64)
    record = msgspec.structs.replace(known, version=Fence(Epoch(3, gone), 5))
    lease = lodge(room, owner, told_one, Epoch(1, told_one.me))
    owner.keeper.end_one(lease, 0)
    owner.pump()
    for _ in range(62):
        word = Holding(job=JOB.id, record=encode(record))
        owner.step(Told(now_ms=owner.now_ms, peer=told_one.me, message=word))
        room.post.clear()
        owner.now_ms += 1_000
        owner.step(Beat(now_ms=owner.now_ms))

    assert untold(owner) == []


def given_up_and_forgotten(job: JobSpec) -> tuple[Room, Neighbour, set[str]]:
    """The owner of its attempts seemed dead, and the home began anew before it was back."""
    room = Room(2)
    home, owner = room.nodes
    home.submit(job)
    room.settle()
    guests = {guest.spec.id for guest in untold(owner)}
    assert guests
    room.dead.add((home.me, owner.me))
    room.cut = {(home.me, owner.me), (owner.me, home.me)}
    room.look()
    room.pass_time(2_000)
    assert "lost" in {one.state for one in home.job(job).attempts}
    home.start_agent()
    room.dead.clear()
    room.cut.clear()
    room.look()
    room.pass_time(20_000)
    return room, owner, guests


def test_a_chunk_that_its_home_has_given_up_and_forgotten_is_ended():
    _, owner, guests = given_up_and_forgotten(a_job("given-up", array=Array(stop=8)))

    assert {stop.attempt for stop in told(owner, Stop)} == guests


def test_an_attempt_that_its_home_has_given_up_and_forgotten_goes_on_and_no_other_begins():
    job = a_job("given-up", avoid=Where(nodes=("node-1",)))
    room, owner, guests = given_up_and_forgotten(job)

    assert {one.lease for one in room[0].job(job).live_attempts} == guests
    assert {run.attempt for run in told(owner, Run)} == guests
    assert told(owner, Stop) == []
