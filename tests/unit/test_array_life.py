"""What happens to the indices of arrays, without a process."""

from distributed_grid.kernel.chunks import chunk_size, smoothed_us
from distributed_grid.kernel.explaining import explain
from distributed_grid.kernel.jobs import (
    ATTEMPTS_KEPT,
    CANCELLED,
    STORY_LINES_MAX,
    SUCCEEDED,
    Attempt,
    Job,
    Progress,
)
from distributed_grid.kernel.node import Reports
from distributed_grid.kernel.views import job_view
from distributed_grid.model.job import Array
from distributed_grid.wire.keeper import Ended, Run, Started, Stop, Usage
from tests.node_world import World, a_job, fill, told


def test_an_array_runs_every_index_once_and_succeeds():
    world = World()
    array = a_job("array", array=Array(start=0, stop=50))
    world.submit(array)
    world.drain()

    seen = [i for m in world.keeper.told if isinstance(m, Run) for i in m.indices]
    assert sorted(seen) == list(range(50))
    assert world.state(array) == "succeeded"


def test_an_array_of_a_list_runs_the_indices_of_the_list():
    world = World()
    array = a_job("array", array=Array(parts=((27, 28, 1), (47, 48, 1), (60, 70, 1))))
    world.submit(array)
    world.drain()

    seen = [i for m in world.keeper.told if isinstance(m, Run) for i in m.indices]
    assert sorted(seen) == [27, 47, *range(60, 70)]
    assert world.state(array) == "succeeded"


def test_an_array_never_runs_wider_than_it_may():
    world = World()
    array = a_job("array", array=Array(start=0, stop=20, width=2))

    world.submit(array)

    assert len(world.keeper.runs) == 2


def test_a_failed_index_fails_the_array_and_its_code_is_kept():
    world = World()
    array = a_job("array", array=Array(start=10, stop=13, width=1))
    world.submit(array)
    world.end(array, 7)
    world.drain()

    assert world.state(array) == "failed"
    assert world.job(array).exit_code == 1
    assert world.job(array).progress.codes == {0: 7}


def test_why_the_first_hundred_failed_is_kept_and_shown_with_who_ran_them():
    job = Job(
        spec=a_job("array", array=Array(start=10, stop=212)),
        submitted_ms=0,
        progress=Progress(states=bytearray(202)),
        attempts=[Attempt(number=1, lease="l", node="here", granted_ms=0, indices=(10, 11, 14))],
    )
    for position in range(202):
        job.progress.fail(position, 137 if position else 1, "x" * 500 if position else "")
    view = job_view(job, limits={})

    assert view.array.failed_indices[:2] == ((10, 1), (11, 137))
    assert view.array.reasons[:2] == ("exit 1", f"exit 137: {'x' * 120}")
    assert len(view.array.reasons) == len(job.progress.whys) == 100
    assert view.attempts[0].indices == "10,11,14"
    assert view.array.indices == "10-211"
    assert job_view(job, limits={}, with_story=False).array.indices == ""


def test_retries_of_an_array_are_per_index():
    world = World()
    array = a_job("array", retries=1, array=Array(start=0, stop=2, width=1))
    world.submit(array)
    world.end(array, 1)
    world.drain()

    assert world.state(array) == "succeeded"
    assert world.job(array).progress.tries == {0: 1}


def test_an_index_that_is_lost_too_often_fails_alone():
    world = World()
    array = a_job("array", losses_max=0, array=Array(start=0, stop=3, width=1))
    world.submit(array)
    world.pump()
    world.keeper.die()
    world.start_agent()
    world.drain()

    progress = world.job(array).progress
    assert world.state(array) == "failed"
    assert progress.codes == {0: 125}
    assert progress.count(2) == 2


def test_cancelling_an_array_stops_what_runs_and_forgets_the_rest():
    world = World()
    array = a_job("array", array=Array(start=0, stop=30, width=1))
    world.submit(array)
    world.cancel(array)
    world.end(array)

    assert world.state(array) == "cancelled"
    assert world.job(array).progress.count(0) == 0


def test_reports_about_strangers_are_ignored():
    world = World()
    array = a_job("array", array=Array(start=0, stop=4, width=1))
    world.submit(array)
    world.pump()
    attempt = world.job(array).live_attempts[0].lease
    strange = Started(number=98, attempt="stranger", pid=1, at_ms=1)
    repeated = Ended(
        number=99,
        attempt=attempt,
        index=0,
        how="exited",
        code=0,
        started_ms=1,
        ended_ms=2,
        usage=Usage(),
        is_last=False,
    )

    world.step(Reports(now_ms=1, reports=(strange, repeated, repeated)))

    assert world.job(array).progress.count(2) == 1


def test_a_story_and_the_attempts_are_bounded_and_keep_how_it_began():
    job = Job(spec=a_job("one"), submitted_ms=1)
    job.tell(0, "submitted")
    for number in range(STORY_LINES_MAX + 50):
        job.tell(number, "again")

    assert len(job.story) == STORY_LINES_MAX
    assert job.story[0].what == "submitted"

    world = World()
    array = a_job("array", array=Array(start=0, stop=4_000, width=1))
    world.submit(array)
    world.drain()
    assert len(world.job(array).attempts) <= ATTEMPTS_KEPT


def test_chunks_grow_for_short_work_and_shrink_towards_the_end():
    assert chunk_size(pending=10_000, slots=2, mean_us=0) == 4
    assert chunk_size(pending=10_000, slots=2, mean_us=1_000) == 256
    assert chunk_size(pending=10_000, slots=2, mean_us=10_000_000) == 1
    assert chunk_size(pending=10, slots=2, mean_us=1_000) == 3
    assert chunk_size(pending=1, slots=8, mean_us=1) == 1
    assert smoothed_us(0, 80) == 80
    assert smoothed_us(80, 160) == 90


def test_what_an_array_reported_is_acknowledged_only_when_it_is_saved():
    world = World()
    array = a_job("array", array=Array(start=0, stop=200, width=1))
    world.submit(array)
    while len(world.job(array).live_attempts[0].indices) < 3:
        world.end(array)
    first = world.job(array).live_attempts[0]
    world.keeper.end_one(first.lease, 0)
    world.pump_once()

    assert world.keeper.unacknowledged, "the keeper must be able to repeat it"
    world.start_agent()
    assert world.job(array).progress.count(2) >= 1
    world.drain()
    ran = [i for m in world.keeper.told if isinstance(m, Run) for i in m.indices]
    assert sorted(ran) == list(range(200)), "nothing ran twice"


def test_the_try_of_an_index_is_told_to_its_process():
    world = World()
    array = a_job("array", retries=1, array=Array(start=0, stop=2, width=1))
    world.submit(array)
    world.end(array, 1)
    world.drain()

    tries = [
        (index, message.env["GRID_ATTEMPT"])
        for message in world.keeper.told
        if isinstance(message, Run)
        for index in message.indices
    ]
    assert sorted(tries) == [(0, "1"), (0, "2"), (1, "1")]


def test_of_a_cancelled_array_nothing_is_begun_while_the_last_of_it_ends():
    world = World()
    array = a_job("array", array=Array(start=0, stop=9, width=2))
    world.submit(array)
    world.pump()
    first, second = sorted(world.keeper.runs)
    world.cancel(array)
    world.keeper.end_one(first, 0)
    world.pump()

    assert world.state(array) == "running"
    assert list(world.keeper.runs) == [second]
    world.keeper.end_one(second, 0)
    world.pump()
    assert world.state(array) == "cancelled"


def test_a_stop_that_nobody_asked_for_is_no_failure_of_an_index():
    world = World()
    array = a_job("array", array=Array(start=0, stop=2, width=1))
    world.submit(array)
    world.pump()
    world.keeper.stopped.add(world.job(array).live_attempts[0].lease)
    world.end(array)
    world.drain()

    assert world.state(array) == "succeeded"


def test_an_index_that_fails_again_pauses_while_the_others_run():
    world = World()
    array = a_job("array", retries=3, array=Array(start=0, stop=3, width=1))
    world.submit(array)
    for code in (1, 0, 0, 1):  # The first fails, the others do not, and it fails again.
        world.end(array, code)
    progress = world.job(array).progress

    assert (progress.again, world.keeper.runs) == ({0: world.now_ms + 1_000}, {})
    assert world.state(array) == "running"
    assert (
        "tries again in 1 s"
        in explain(world.node.coordinator, world.job(array), world.now_ms).summary
    )

    world.pass_time(999)
    world.start_agent()
    assert not world.keeper.runs
    world.pass_time(1)
    world.end(array, 1)
    world.job(array).progress.again[1] = 0  # It has ended: an older word about it is no pause.
    world.pass_time(2_000)
    world.drain()

    assert world.state(array) == "succeeded"


def test_an_array_whose_failed_indices_pause_is_cancelled_at_once():
    world = World()
    array = a_job("array", retries=3, array=Array(start=0, stop=1))
    world.submit(array)
    world.end(array, 1)
    world.end(array, 1)
    world.cancel(array)
    world.pass_time(60_000)

    assert (world.state(array), world.keeper.runs) == ("cancelled", {})


def test_one_index_is_cancelled_and_the_others_run():
    world = World()
    array = a_job("array", array=Array(start=10, stop=13, width=1))
    world.submit(array)
    world.pump()
    world.cancel(array, 12)
    world.cancel(array, 10)  # It runs.
    world.cancel(array, 12)  # Again: no change.
    assert [one.attempt for one in told(world, Stop)] == list(world.keeper.runs)

    world.end(array)
    world.drain()
    job = world.job(array)

    assert [run.indices for run in told(world, Run)] == [(10, 11), (11,)]
    assert (job.state, job.exit_code) == ("succeeded", 0)
    assert job.reason == "2 of 3 were cancelled"
    assert [line.detail for line in job.story if line.what == "cancel asked"] == [
        "index 12", "index 10",
    ]  # fmt: skip
    world.cancel(array, 11)  # It has ended.
    assert world.job(array).progress.count(SUCCEEDED) == 1


def test_a_chunk_is_stopped_when_it_comes_to_a_cancelled_index_and_the_rest_goes_back():
    world = World()
    array = a_job("array", array=Array(start=0, stop=400))
    world.submit(array)
    for _ in range(8):  # Short ones: chunks become long.
        world.end(array)
    chunk = max(world.job(array).live_attempts, key=lambda one: len(one.indices))
    first, second, third = chunk.indices[:3]
    world.cancel(array, second)
    assert not told(world, Stop)

    world.pump()
    world.keeper.end_one(chunk.id, 0)
    world.pump()
    assert [one.attempt for one in told(world, Stop)] == [chunk.id]
    world.keeper.end_one(chunk.id, 0)
    world.drain()
    states = world.job(array).progress.states

    assert (states[first], states[second], states[third]) == (SUCCEEDED, CANCELLED, SUCCEEDED)
    assert world.state(array) == "succeeded"


def test_an_array_of_which_every_index_was_cancelled_is_cancelled():
    world = World()
    fill(world)
    array = a_job("array", array=Array(start=0, stop=2))
    world.submit(array)
    world.cancel(array, 0)
    assert world.state(array) == "waiting"
    world.cancel(array, 1)

    assert (world.state(array), world.job(array).reason) == ("cancelled", "every index was")
