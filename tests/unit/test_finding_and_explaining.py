"""Which job a word means, and why a job is where it is."""

import msgspec
import pytest

from distributed_grid.errors import Ambiguous, NotFound
from distributed_grid.kernel.explaining import explain
from distributed_grid.kernel.finding import find_job
from distributed_grid.kernel.jobs import Job
from distributed_grid.kernel.node import Drain
from distributed_grid.kernel.views import job_view
from distributed_grid.model.across import Epoch, Origin
from distributed_grid.model.ids import JobId, NodeId
from distributed_grid.model.job import After, Array
from tests.node_world import World, a_job


def made(name: str, digits: str, *, state: str = "waiting", at: int = 1) -> Job:
    spec = msgspec.structs.replace(a_job(name), id=JobId(digits.ljust(64, "0")))
    return Job(spec=spec, submitted_ms=at, state=state)


OLD = made("train", "aaaa1", state="succeeded", at=1)
NEW = made("train", "aaaa2", state="failed", at=2)
OTHER = made("beef", "bbbb1", at=3)
TWIN = made("beef", "cccc1", at=4)


def test_a_full_id_comes_first():
    assert find_job(OLD.spec.id, [OLD, NEW]) is OLD


def test_a_name_means_the_unfinished_job_or_else_the_newest():
    running = made("train", "dddd1", state="running", at=0)

    assert find_job("train", [OLD, NEW]) is NEW
    assert find_job("train", [OLD, NEW, running]) is running


def test_a_name_of_two_unfinished_jobs_is_ambiguous():
    with pytest.raises(Ambiguous) as error:
        find_job("beef", [OTHER, TWIN])

    assert len(error.value.matches) == 2


def guest(digits: str, of: Job, **known) -> Job:
    one = made(of.spec.name, digits, **known)
    origin = Origin(home=NodeId("f" * 64), job=of.spec.id, epoch=Epoch(), attempt=one.spec.id)
    one.spec = msgspec.structs.replace(one.spec, origin=origin)
    return one


def test_a_job_that_was_taken_over_and_the_attempt_that_runs_here_are_one():
    attempt = guest("dddd1", OTHER, state="running", at=9)

    assert find_job("beef", [attempt, OTHER]) is OTHER
    assert find_job("id:dddd1", [attempt, OTHER]) is attempt


def test_a_name_means_the_attempt_that_goes_on_if_only_attempts_are_here():
    over = guest("dddd1", OTHER, state="succeeded", at=9)
    first, second = (guest(digits, OTHER, state="running", at=3) for digits in ("eeee1", "eeee2"))

    assert find_job("beef", [second, over, first]) is second
    with pytest.raises(Ambiguous):
        find_job("beef", [first, TWIN])


def test_a_prefix_of_four_digits_is_enough_if_it_is_the_only_one():
    assert find_job("bbbb", [OLD, OTHER]) is OTHER
    assert find_job("BBBB1", [OLD, OTHER]) is OTHER
    with pytest.raises(Ambiguous):
        find_job("aaaa", [OLD, NEW])
    with pytest.raises(NotFound):
        find_job("bbb", [OTHER])
    with pytest.raises(NotFound):
        find_job("0" * 64, [OTHER])


def test_id_and_name_can_be_forced():
    named = made("bbbb1", "eeee1", at=9)

    assert find_job("bbbb1", [OTHER, named]) is named
    assert find_job("id:bbbb1", [OTHER, named]) is OTHER
    assert find_job("name:bbbb1", [OTHER, named]) is named
    with pytest.raises(NotFound):
        find_job("name:eeee1", [OTHER, named])


def test_what_waits_for_resources_is_told_its_place_and_what_is_missing():
    world = World()
    holder, waits = a_job("holder", cpus=3_000), a_job("waits", cpus=2_000)
    world.submit(holder, waits)

    told = explain(world.node.coordinator, world.job(waits), world.now_ms)

    assert told.position == 1
    assert told.shortfall == (("cpu_milli", 2_000, 1_000),)
    assert told.waits_for == ("holder",)


def test_what_is_larger_than_the_machine_is_told_so():
    world = World()
    huge = a_job("huge", cpus=9_000, wait_for_capacity=True)
    world.submit(huge)

    told = explain(world.node.coordinator, world.job(huge), world.now_ms)

    assert told.shortfall == (("cpu_milli", 9_000, 4_000),)
    assert "larger than this machine" in told.summary


def test_on_a_node_that_is_drained_nobody_is_told_to_wait_for_others():
    world = World()
    world.step(Drain(now_ms=world.now_ms))
    world.submit(job := a_job("job", wait_for_capacity=True))

    told = explain(world.node.coordinator, world.job(job), world.now_ms)

    assert "drained" in told.summary
    assert "grid undrain" in told.remedies[0]


def test_of_a_job_of_another_node_only_that_is_told_what_a_copy_can_tell():
    world = World()
    held = Job(spec=a_job("held"), submitted_ms=1, state="running")
    told = explain(world.node.coordinator, held, world.now_ms)

    assert "a copy of its record" in told.summary
    assert "takes it over" in told.remedies[0]


def test_what_comes_after_another_names_it():
    world = World()
    before = a_job("before")
    after = a_job("after", after=(After(job=before.id),))
    world.submit(before, after)

    assert explain(world.node.coordinator, world.job(after), world.now_ms).waits_for == ("before",)


def test_what_runs_or_has_ended_is_told_so():
    world = World()
    job = a_job("one")
    world.submit(job)
    starting = explain(world.node.coordinator, world.job(job), world.now_ms).summary
    world.pump()
    running = explain(world.node.coordinator, world.job(job), world.now_ms).summary
    world.end(job, 4)
    ended = explain(world.node.coordinator, world.job(job), world.now_ms).summary

    assert (starting, running) == ("it is being started", "it runs")
    assert ended == "it has ended: failed (exit code 4)"
    world.submit(a_job("two"))
    world.end(a_job("two"))
    assert explain(world.node.coordinator, world.job(a_job("two")), world.now_ms).summary.endswith(
        "succeeded"
    )


def test_a_view_shows_attempts_usage_and_how_far_an_array_is():
    world = World()
    array = a_job("array", array=Array(start=5, stop=8, width=1))
    world.submit(array)
    world.end(array, 9)

    view = job_view(world.job(array), limits={"cpu": "pinned"})

    assert view.array.total == 3
    assert view.array.failed_indices == ((5, 9),)
    assert view.attempts[0].limits == {"cpu": "pinned"}
    assert view.story
    assert job_view(world.job(array), limits={}, with_story=False).story == ()
    assert job_view(OTHER, limits={}).array is None


def test_the_line_knows_positions_and_members():
    world = World()
    world.submit(*(a_job(f"job-{number}", cpus=4_000) for number in range(4)))
    host = world.node.host
    line, now_ms = host.line, world.now_ms

    assert sorted(line.position(job, now_ms, host.accounts) for job in line) == [1, 2, 3]
    assert len(line) == 3
    assert line.position(a_job("ghost").id, now_ms, host.accounts) is None
