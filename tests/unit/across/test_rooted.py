"""A job whose files are on one machine only waits for that machine, and says so."""

import pytest

from distributed_grid.kernel.explaining import explain
from distributed_grid.kernel.node import Cancel, Packed, Submit
from distributed_grid.model.job import Shipment, Work
from distributed_grid.wire.across import Start
from distributed_grid.wire.keeper import Run
from tests.across_world import Room
from tests.node_world import SENSES, a_job, fill, told

SHIP = Shipment(manifest="ab" * 32, size_bytes=10, files=1)
WHY = "its directory was only on node-1: it goes on when node-1 is back"


@pytest.fixture
def room() -> Room:
    return Room(3)


def submitted(node, job):
    """With a directory that nobody named."""
    rooted = frozenset({job.id})
    node.step(Submit(now_ms=node.now_ms, jobs=(job,), rooted=rooted))
    node.room.settle()
    return job


def packed(node, *jobs, ship=SHIP, are_only_here=False) -> None:
    ids = tuple(job.id for job in jobs)
    node.step(Packed(now_ms=node.now_ms, jobs=ids, ship=ship, are_only_here=are_only_here))
    node.room.settle()


def taken_over(room, job):
    """The home dies; who looks after the job then."""
    room.kill(room[0])
    room.until(lambda: any(job.id in one.node.coordinator.jobs for one in room.nodes[1:]), 10_000)
    room.pass_time(5_000)
    return room.home_of(job)


def runs_of(job, *nodes) -> int:
    return sum(run.env["GRID_JOB_ID"] == job.id for node in nodes for run in told(node, Run))


def test_after_a_takeover_it_waits_and_says_for_whom(room):
    job = submitted(room[0], a_job("job"))
    assert room[0].state(job) == "running"
    home = taken_over(room, job)

    assert runs_of(job, *room.nodes[1:]) == 0
    assert (home.state(job), home.job(job).reason) == ("waiting", WHY)
    found = explain(home.node.coordinator, home.job(job), home.now_ms)
    assert found.summary == WHY
    assert "--ship" in found.remedies[0]
    assert [line.what for line in home.job(job).story].count("waits for its directory") == 1


def test_it_goes_on_where_its_directory_is_when_that_node_is_back(room):
    job = submitted(room[0], a_job("job"))
    taken_over(room, job)
    room.revive(room[0])
    room.until(lambda: runs_of(job, room[0]) == 2, 30_000)

    assert room.home_of(job) is room[0]
    assert room[0].job(job).spec.work.cwd == job.work.cwd
    assert not room[0].job(job).spec.work.is_abroad
    room[0].drain()
    room.pass_time(2_000)
    assert {one.knows(job) for one in room.nodes} == {"succeeded"}
    assert runs_of(job, *room.nodes[1:]) == 0


def test_what_runs_there_goes_on_when_it_only_seemed_dead(room):
    job = submitted(room[0], a_job("job"))
    first = room[0]
    others = room.nodes[1:]
    room.cut = {pair for one in others for pair in ((first.me, one.me), (one.me, first.me))}
    room.dead = {pair for one in others for pair in ((first.me, one.me), (one.me, first.me))}
    room.look()
    room.until(lambda: any(job.id in one.node.coordinator.jobs for one in others), 10_000)
    room.cut, room.dead = set(), set()
    room.look()
    room.until(lambda: not any(job.id in one.node.coordinator.jobs for one in others), 10_000)

    assert room[0].state(job) == "running"
    assert runs_of(job, *room.nodes) == 1
    room[0].drain()
    room.pass_time(2_000)
    assert {one.knows(job) for one in room.nodes} == {"succeeded"}


def test_one_that_was_cancelled_meanwhile_does_not_come_back(room):
    job = submitted(room[0], a_job("job"))
    home = taken_over(room, job)
    home.step(Cancel(now_ms=home.now_ms, job=job.id))
    room.settle()
    assert home.state(job) == "cancelled"
    room.revive(room[0])
    room.pass_time(10_000)

    assert {one.knows(job) for one in room.nodes} == {"cancelled"}
    assert runs_of(job, room[0]) == 1


@pytest.mark.parametrize("ship", [SHIP, None])
def test_once_others_have_its_files_it_runs_elsewhere_with_them(room, ship):
    job = submitted(room[0], a_job("job"))
    packed(room[0], job, ship=ship)
    assert room[0].job(job).rooted == ""
    home = taken_over(room, job)

    assert runs_of(job, *room.nodes[1:]) == 1
    assert home.job(job).spec.ship == ship
    packed(home, job, ship=None, are_only_here=False)
    assert home.job(job).spec.ship == ship


def test_what_is_packed_but_not_copied_stays_where_it_is(room):
    job = submitted(room[0], a_job("job"))
    packed(room[0], job, are_only_here=True)
    home = taken_over(room, job)

    assert (home.state(job), home.job(job).reason) == ("waiting", WHY)
    assert home.job(job).spec.ship == SHIP
    packed(home, job)
    assert home.job(job).rooted == room[0].me, "nobody but its first home knows"


def test_at_its_home_it_may_be_placed_anywhere_and_its_files_stand_in_the_record(room):
    fill(room[0])
    job = submitted(room[0], a_job("job"))
    [attempt] = room[0].job(job).live_attempts
    host = room.by_id(attempt.host)
    assert runs_of(job, host) == 1
    packed(room[0], job, are_only_here=True)
    room.kill(room[0])
    room.kill(host)
    [last] = [one for one in room.nodes if one.is_up]
    room.until(lambda: job.id in last.node.coordinator.jobs, 20_000)

    assert (last.state(job), last.job(job).reason) == ("waiting", WHY)
    assert last.said(Start) == []


def test_a_job_said_again_and_those_of_others_are_not_marked(room):
    job = submitted(room[0], a_job("job"))
    packed(room[0], job)
    spec = room[0].job(job).spec
    room[0].step(Submit(now_ms=room[0].now_ms, jobs=(spec,), rooted=frozenset({job.id})))
    assert room[0].job(job).rooted == ""
    room[0].drain()
    room.settle()
    packed(room[0], job, a_job("unknown"), are_only_here=True)
    assert room[0].job(job).rooted == ""


def test_one_that_votes_hold_comes_back_as_well(room):
    job = submitted(room[0], a_job("job", at_most_once=True))
    room.pass_time(2_000)
    assert room[0].state(job) == "running"
    home = taken_over(room, job)
    room.pass_time(15_000)
    assert (home.state(job), runs_of(job, *room.nodes[1:])) == ("waiting", 0)
    assert home.job(job).reason == WHY
    room.revive(room[0])
    room.until(lambda: runs_of(job, room[0]) == 2, 60_000)
    room[0].drain()
    room.pass_time(3_000)

    assert {one.knows(job) for one in room.nodes} == {"succeeded"}


def test_who_leaves_the_mesh_gives_up_what_others_have_and_keeps_its_own(room):
    job = submitted(room[0], a_job("job"))
    home = taken_over(room, job)
    mine = submitted(home, a_job("mine"))
    home.submit(a_job("plain"))
    home.node.part(home.now_ms)

    assert (home.state(job), home.job(job).reason) == ("lost", "its directory was only on node-1")
    assert home.job(mine).rooted == ""
    home.node.check()


def test_without_a_mesh_nothing_is_marked(room):
    alone = room[0]
    alone.node.part(alone.now_ms)
    job = a_job("job")
    alone.step(Submit(now_ms=alone.now_ms, jobs=(job,), rooted=frozenset({job.id})))
    assert alone.job(job).rooted == ""
    assert alone.node.coordinator.elsewhere.lacks(alone.job(job)) == ""


def test_one_that_is_ending_when_the_mesh_is_left_ends_as_it_was_to(room):
    job = submitted(room[0], a_job("job", at_most_once=True))
    room.pass_time(2_000)
    over = submitted(room[0], a_job("over"))
    home = taken_over(room, job)
    room.pass_time(15_000)
    done = room.home_of(over)
    done.step(Cancel(now_ms=done.now_ms, job=over.id))
    room.kill(next(one for one in room.nodes[1:] if one is not home))
    home.step(Cancel(now_ms=home.now_ms, job=job.id))
    room.settle()
    assert home.job(job).ending is not None
    home.node.part(home.now_ms)

    assert home.state(job) == "cancelled"
    home.node.check()


@pytest.mark.parametrize("has_files", [True, False])
def test_jobs_of_before_there_was_a_mesh_are_where_their_files_are(room, has_files):
    alone = room[0]
    alone.node.part(alone.now_ms)
    work = Work(argv=("true",), cwd="/", image="alpine")
    over, image, job = a_job("over"), a_job("image", work=work), a_job("job")
    alone.step(Submit(now_ms=alone.now_ms, jobs=(over,)))
    alone.drain()
    alone.step(Submit(now_ms=alone.now_ms, jobs=(image, job)))
    alone.node.join(alone.me, senses=SENSES).has_files = has_files
    room.look()

    assert alone.job(job).rooted == (alone.me if has_files else "")
    assert (alone.job(image).rooted, alone.job(over).rooted) == ("", "")
