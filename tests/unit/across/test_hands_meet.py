"""A job changes hands: what its homes, old and new, make of what the other knew."""

import msgspec
import pytest

from distributed_grid.kernel import coordinator as coordinator_module
from distributed_grid.kernel.across import handover as handover_module
from distributed_grid.kernel.across.record import JobRecord, state_of
from distributed_grid.kernel.across.record_bytes import encode
from distributed_grid.kernel.across.record_jobs import job_of
from distributed_grid.kernel.across.record_parts import Result
from distributed_grid.kernel.across.record_parts import encode as written
from distributed_grid.kernel.across.record_runs import BAD, GONE, GOOD
from distributed_grid.kernel.across.record_runs import Run as Fate
from distributed_grid.kernel.jobs import CANCELLED, FAILED, PENDING, SUCCEEDED
from distributed_grid.kernel.node import Told
from distributed_grid.kernel.ready import Ready
from distributed_grid.model.across import Epoch, Fence
from distributed_grid.model.job import Array
from distributed_grid.wire.across import Copy, Holding
from distributed_grid.wire.keeper import Run
from tests.across_world import Neighbour, Room
from tests.node_world import a_job, told
from tests.unit.across.filling import occupy

JOB = a_job("job")


def hear(node: Neighbour, other: Neighbour, message) -> Ready:
    """One word of another node; nobody answers."""
    return node.step(Told(now_ms=node.now_ms, peer=other.me, message=message))


def record(node: Neighbour, job=JOB) -> JobRecord:
    return node.node.across.guarding.find(job.id)


def of_higher_home(known: JobRecord, home: Neighbour, **what) -> JobRecord:
    """As a node writes it that has taken the job over."""
    higher = Fence(Epoch(known.version.epoch.counter + 5, home.me), 1)
    holders = tuple(sorted({*known.holders, home.me}))
    return msgspec.structs.replace(known, version=higher, holders=holders, **what)


def result(state: str) -> tuple[bytes, ...]:
    return (written(Result(state=state)),)


@pytest.fixture
def room() -> Room:
    return Room(3)


# Taking over


def test_who_looks_after_a_job_already_does_not_begin_it_anew_when_another_home_dies():
    room = Room(2)
    home, other = room.nodes
    home.submit(JOB)
    room.settle()
    theirs = of_higher_home(record(other), other)
    home.node.across.guarding.holders.release(JOB.id)  # It runs, and its record was let go.
    hear(home, other, Copy(record=encode(theirs)))
    before = home.job(JOB)
    room.kill(other)
    room.pass_time(20_000)

    assert home.job(JOB) is before
    assert home.node.coordinator.unfinished == 1
    assert len(told(home, Run)) == 1


def test_a_job_whose_last_loss_comes_with_its_home_ends(room):
    home, host, heir = room.nodes
    occupy(home)
    occupy(heir)
    room.look()
    job = a_job("job", losses_max=0)
    home.submit(job)
    room.settle()
    assert home.job(job).live_attempts[0].host == host.me
    for gone in (home, host):
        gone.is_up = False
        gone.keeper.die()
        room.dead |= {(heir.me, gone.me)}
    heir.look()
    room.until(lambda: job.id in heir.node.coordinator.jobs)

    assert heir.state(job) == "lost"
    assert job.id not in heir.node.host.line
    assert heir.node.across.asking.wish(job.id) is None


# No longer its home


def over(room: Room, job, monkeypatch) -> Neighbour:
    """A job failed long ago; its home has forgotten all but the record."""
    home = room[0]
    home.submit(job)
    room.settle()
    monkeypatch.setattr(coordinator_module, "FINISHED_KEPT", 0)
    home.end(job, code=1)
    room.settle()
    room.pass_time(2_000)
    assert job.id not in home.node.coordinator.jobs
    assert state_of(record(home)) == "failed"
    return home


def test_a_home_that_has_forgotten_a_job_still_tells_of_a_better_end(room, monkeypatch):
    home = over(room, JOB, monkeypatch)
    better = msgspec.structs.replace(record(room[1]), results=result("succeeded"))

    ready = hear(home, room[1], Holding(job=JOB.id, record=encode(better)))

    assert state_of(record(home)) == "succeeded"
    assert [one.name for one in ready.happened] == ["job.result_changed"]
    assert JOB.id not in home.node.coordinator.jobs


def test_a_home_that_has_forgotten_a_job_learns_that_another_was_its_home_too(room, monkeypatch):
    home = over(room, JOB, monkeypatch)
    theirs = of_higher_home(record(room[1]), room[1], results=result("succeeded"))

    ready = hear(home, room[1], Holding(job=JOB.id, record=encode(theirs)))

    assert record(home).home == room[1].me
    assert [one.name for one in ready.happened] == ["job.result_changed"]
    assert not ready.drop_jobs
    assert JOB.id not in home.node.across.handover.given


@pytest.mark.parametrize("is_restarted", [False, True])
def test_who_told_an_end_and_abdicated_still_tells_of_a_better_one(room, is_restarted):
    home, heir, between = room.nodes
    home.submit(JOB)
    room.settle()
    room.cut |= {(home.me, heir.me), (home.me, between.me)}
    home.end(JOB, code=1)
    theirs = of_higher_home(record(heir), heir)
    joined = msgspec.structs.replace(theirs, results=record(home).results)  # By who heard both.
    ready = hear(home, between, Holding(job=JOB.id, record=encode(joined)))
    assert [one.name for one in ready.happened] == ["job.abdicated"], "nothing better is known yet"
    if is_restarted:
        home.start_agent()
        home.look()
    better = msgspec.structs.replace(theirs, results=result("succeeded"))

    ready = hear(home, heir, Copy(record=encode(better)))

    assert state_of(record(home)) == "succeeded"
    (event,) = ready.happened
    assert event.name == "job.result_changed"
    assert event.fields == {"before": "failed", "state": "succeeded"}


def test_of_jobs_that_went_to_other_homes_the_last_are_remembered(room, monkeypatch):
    monkeypatch.setattr(handover_module, "GIVEN_MAX", 1)
    home, other, _ = room.nodes
    jobs = [a_job("first"), a_job("last")]
    home.submit(*jobs)
    room.settle()
    for job in jobs:
        theirs = of_higher_home(record(other, job), other)
        hear(home, other, Copy(record=encode(theirs)))

    assert list(home.node.across.handover.given) == [jobs[1].id]


# Arrays


ARRAY = a_job("array", array=Array(start=0, stop=6))


def fates(ends: str) -> tuple[Fate, ...]:
    """What became of some indices, in order."""
    kinds = {"g": GOOD, "b": BAD, "c": GONE}
    return tuple(Fate(at, at + 1, kinds[kind]) for at, kind in enumerate(ends) if kind in kinds)


def other_side(home: Neighbour, holder: Neighbour, ends: str, *, cancel: bool = False) -> None:
    """Somebody knows what became of some indices, in order; they have a code if they failed."""
    codes = {at: 7 for at, kind in enumerate(ends) if kind == "b"}
    theirs = msgspec.structs.replace(
        record(home, ARRAY), runs=fates(ends), codes=codes, cancel=cancel
    )
    hear(home, holder, Holding(job=ARRAY.id, record=encode(theirs)))


def occupy_no_more(node: Neighbour, *, but: str = "") -> None:
    for filler in set(node.keeper.started) - {but}:
        node.keeper.end_one(filler, 0)


def waiting_array(room: Room) -> Neighbour:
    for node in room.nodes:
        occupy(node)
    room.look()
    room[0].submit(ARRAY)
    room.settle()
    assert not room[0].job(ARRAY).live_attempts
    return room[0]


def test_what_ended_of_an_array_on_the_other_side_has_ended_here(room):
    home = waiting_array(room)
    other_side(home, room[1], "gbc...")

    progress = home.job(ARRAY).progress
    assert list(progress.states) == [SUCCEEDED, FAILED, CANCELLED, PENDING, PENDING, PENDING]
    assert progress.codes == {1: 7}
    for filler in list(home.keeper.started):
        home.keeper.end_one(filler, 0)
    room.settle()
    begun = {index for one in home.job(ARRAY).attempts for index in one.indices}
    assert begun
    assert begun <= {3, 4, 5}


def test_what_ended_on_the_other_side_while_a_chunk_runs_here_is_not_begun_any_more(room):
    home = room[0]
    occupy(home, count=3)
    for node in room.nodes[1:]:
        occupy(node)
    room.look()
    home.submit(ARRAY)
    room.settle()
    (chunk,) = home.job(ARRAY).live_attempts
    assert chunk.indices == (0,)
    other_side(home, room[1], "..ggg.")
    for filler in set(home.keeper.started) - {chunk.id}:
        home.keeper.end_one(filler, 0)
    room.settle()

    begun = sorted(index for one in home.job(ARRAY).attempts for index in one.indices)
    assert begun == [0, 1, 5]


def test_the_better_end_of_an_index_counts_and_no_worse_one(room):
    home = waiting_array(room)
    other_side(home, room[1], "bgb...")
    other_side(home, room[1], "gb....")

    progress = home.job(ARRAY).progress
    assert list(progress.states)[:3] == [SUCCEEDED, SUCCEEDED, FAILED]
    assert progress.codes == {2: 7}
    assert list(job_of(record(home, ARRAY)).progress.states) == list(progress.states)


@pytest.mark.parametrize("is_cancelled", [False, True])
def test_an_array_of_which_all_has_ended_somewhere_has_ended(room, is_cancelled):
    home = waiting_array(room)
    other_side(home, room[1], "gggggg", cancel=is_cancelled)

    assert home.state(ARRAY) == state_of(record(home, ARRAY)) == "succeeded"
    assert home.job(ARRAY).exit_code == 0
    occupy_no_more(home)
    room.settle()
    assert home.job(ARRAY).attempts == []


@pytest.mark.parametrize("is_cancelled", [False, True])
def test_who_takes_over_an_array_of_which_all_has_ended_ends_it(room, is_cancelled):
    """Each of two homes knew only what had ended under itself; their records have met here."""
    home = waiting_array(room)
    holder = room[1]
    other_side(home, holder, "gg....")
    room.settle()
    runs = fates("gggggg")
    theirs = msgspec.structs.replace(record(holder, ARRAY), runs=runs, cancel=is_cancelled)
    hear(holder, room[2], Copy(record=encode(theirs)))
    room.kill(home)
    room.kill(room[2])
    room.until(lambda: ARRAY.id in holder.node.coordinator.jobs, 10_000)

    assert holder.state(ARRAY) == state_of(record(holder, ARRAY)) == "succeeded"
    occupy_no_more(holder)
    room.settle()
    assert holder.job(ARRAY).attempts == []


@pytest.mark.parametrize("ends", [".ggggg", "gggggg"])
def test_what_runs_of_an_array_ends_it_when_the_rest_has_ended_on_the_other_side(room, ends):
    home = room[0]
    occupy(home, count=3)
    for node in room.nodes[1:]:
        occupy(node)
    room.look()
    home.submit(ARRAY)
    room.settle()
    (chunk,) = home.job(ARRAY).live_attempts
    other_side(home, room[1], ends)
    occupy_no_more(home, but=chunk.id)
    room.settle()
    assert (home.state(ARRAY), home.job(ARRAY).live_attempts) == ("running", [chunk])

    home.keeper.end_one(chunk.id, 0)
    room.settle()
    assert home.state(ARRAY) == "succeeded"
