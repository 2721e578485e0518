"""What a node does without the others: before they have answered, and when they are gone."""

import pytest

from distributed_grid.kernel.across.held import held_job
from distributed_grid.kernel.elsewhere import Alone
from distributed_grid.kernel.explaining import explain
from distributed_grid.kernel.node import Beat, Requeue, Submit
from distributed_grid.kernel.ready import Ready
from distributed_grid.model.ids import JobId
from distributed_grid.model.job import After, Where
from distributed_grid.wire.keeper import Run
from distributed_grid.wire.register import Accepted, Promised
from tests.across_world import Room
from tests.node_world import World, a_job, fill, told
from tests.unit.across.once_room import OnceRoom, once


def test_who_is_alone_parts_from_nobody():
    world, job = World(), a_job("job")
    world.submit(job)
    world.pump()

    ready = world.node.part(world.now_ms)

    assert ready == Ready()
    assert world.state(job) == "running"


def test_alone_nobody_waits_here_for_others():
    assert Alone("here").asked(JobId("~job")) is None


def test_who_comes_after_a_job_that_ends_with_the_parting_is_decided_with_it():
    room, first = OnceRoom(3), once("first")
    later = a_job("later", after=(After(job=first.id),))
    home = room[0]
    home.submit(first, later)
    room.settle()
    room.pass_time(2_000)
    room.losing = (Accepted, Promised)
    room.finish(first, code=1)
    assert home.job(first).ending is not None
    home.save(home.node.part(home.now_ms))
    home.step(Beat(now_ms=home.now_ms))

    assert (home.state(first), home.state(later)) == ("failed", "skipped")
    assert later.id not in home.node.host.line


def test_a_careful_job_whose_files_are_gone_with_the_others_is_not_placed_any_more():
    room, job = OnceRoom(3), once()
    first = room[0]
    first.step(Submit(now_ms=first.now_ms, jobs=(job,), rooted=frozenset({job.id})))
    room.pass_time(2_000)
    room.kill(first)
    room.until(lambda: any(job.id in one.node.coordinator.jobs for one in room.nodes[1:]))
    room.pass_time(15_000)
    home = room.home_of(job)
    assert job.id in {one.spec.id for one in home.node.across.once.home.everyone()}
    home.save(home.node.part(home.now_ms))

    assert home.state(job) == "lost"
    assert job.id not in home.node.host.line


# After a start


def restarted(room: Room, job):
    """A home that was away, and whom nobody answers; nothing of the job runs."""
    home = room[0]
    fill(home)
    home.submit(job)
    room.settle()
    home.keeper.die()
    home.keeper.unacknowledged.clear()
    room.cut |= {(home.me, room[1].me), (room[1].me, home.me)}
    home.start_agent()
    home.look()
    return home


def test_a_job_that_others_are_asked_about_first_says_so_and_offers_no_force():
    room, job = Room(2), a_job("job", avoid=Where(nodes=("node-2",)))
    home = restarted(room, job)

    why = explain(home.node.coordinator, home.job(job), home.now_ms)

    assert why.summary == "other nodes are asked first whether it may run"
    assert why.remedies == ()


def test_what_nobody_knows_any_more_runs_when_a_person_says_so():
    room, job = Room(2), a_job("job", avoid=Where(nodes=("node-2",)))
    home = restarted(room, job)
    meeting = home.node.across.guarding._meeting
    meeting.resolve(job.id)
    meeting.untracked.add(job.id)
    room.pass_time(2_000)
    assert not any(run.env["GRID_JOB_NAME"] == "job" for run in told(home, Run))

    home.step(Requeue(now_ms=home.now_ms, job=job.id))

    assert any(run.env["GRID_JOB_NAME"] == "job" for run in told(home, Run))


def test_what_comes_after_another_still_does_after_a_start():
    world, first = World(), a_job("first")
    later = a_job("later", after=(After(job=first.id),))
    world.submit(first, later)
    world.pump()
    world.start_agent()
    assert not world.job(later).live_attempts

    world.end(first)

    assert world.job(later).live_attempts


# What has ended before


@pytest.mark.parametrize(("code", "state"), [(0, "waiting"), (1, "skipped")])
def test_what_comes_after_a_job_that_has_ended_is_decided_at_once(code, state):
    world, first = World(), a_job("first")
    world.submit(first)
    world.end(first, code)
    twice = (After(job=first.id), After(job=first.id, when="any"))
    later = a_job("later", after=twice)

    world.submit(later)

    assert world.state(later) == state
    assert len(world.job(later).live_attempts) == (code == 0)


# Records of others


def test_a_record_is_found_by_its_whole_id_whatever_another_is_called():
    room, job = Room(2), a_job("job")
    namesake = a_job(job.id)
    room[0].submit(job, namesake)
    room.settle()
    guarding = room[1].node.across.guarding

    assert held_job(guarding, job.id).spec.id == job.id
    assert held_job(guarding, f"id:{job.id}").spec.id == job.id
    assert held_job(guarding, f"name:{job.id}").spec.id == namesake.id
    assert held_job(guarding, job.id[:12].upper()).spec.id == job.id
