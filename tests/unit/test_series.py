"""Short jobs share a lease in turn; nobody is stuck behind a long one."""

from distributed_grid.kernel.series import (
    PATIENCE_MS,
    ROW_MAX,
    ROW_US,
    SHAPES_MAX,
    Series,
    Shape,
)
from distributed_grid.model.job import Work
from distributed_grid.model.resources import Request
from distributed_grid.wire.keeper import Run, Withdraw
from tests.node_world import World, a_job

ONE = Shape(Request(cpu_milli=1_000))


def a_world_of_short_jobs(running: int = 4) -> tuple[World, list]:
    """Four cores on which jobs were short so far, and as many jobs as cores run."""
    world = World()
    before = a_job("before")
    world.submit(before)
    world.end(before)
    jobs = [a_job(f"running-{number}") for number in range(running)]
    world.submit(*jobs)
    world.pump()
    return world, jobs


def runs(ready) -> list[Run]:
    return [message for message in ready.tell if isinstance(message, Run)]


def withdrawn(ready) -> list[str]:
    return [message.attempt for message in ready.tell if isinstance(message, Withdraw)]


def test_the_next_short_job_is_told_before_there_is_room():
    world, jobs = a_world_of_short_jobs()
    ready = world.submit(a_job("next"))
    [run] = runs(ready)
    assert run.lease in {world.job(job).live_attempts[0].lease for job in jobs}
    assert run.attempt != run.lease
    assert not ready.save_leases, "the lease is durable already"
    assert world.state(a_job("next")) == "waiting"
    world.node.check()


def test_it_starts_when_the_one_before_it_has_ended_and_gives_the_lease_back_at_its_end():
    world, jobs = a_world_of_short_jobs()
    following = a_job("next")
    [run] = runs(world.submit(following))
    leader = next(job for job in jobs if world.job(job).live_attempts[0].lease == run.lease)
    world.end(leader)
    assert world.state(following) == "running"
    assert run.lease in world.node.ledger.leases
    world.end(following)
    assert world.state(following) == "succeeded"
    assert run.lease not in world.saved_leases
    world.node.check()


def test_before_anybody_knows_how_long_they_take_nobody_lines_up():
    world = World()
    world.submit(*(a_job(f"job-{number}") for number in range(9)))
    assert len(world.keeper.runs) == 4


def test_jobs_that_take_long_do_not_line_up():
    series = Series()
    series.open("lease", "first", ONE, 0)
    series.took(ONE, ROW_US + 1)
    assert series.place(ONE, 0) is None
    series.took(Shape(Request(cpu_milli=1)), 0)  # Another shape, and no time at all.
    assert series.place(ONE, 0) is None


def test_a_row_is_as_long_as_its_time_allows_and_never_longer_than_its_bound():
    series = Series()
    series.open("lease", "first", ONE, 0)
    series.took(ONE, ROW_US // 2)
    series.line_up("lease", "second")
    assert series.place(ONE, 0) == "lease"
    series.line_up("lease", "third")
    assert series.place(ONE, 0) is None
    short = Series()
    short.open("lease", "0", ONE, 0)
    short.took(ONE, 1)
    for number in range(ROW_MAX):
        assert short.place(ONE, 0) == "lease"
        short.line_up("lease", str(number + 1))
    assert short.place(ONE, 0) is None


def test_the_shortest_row_is_chosen():
    series = Series()
    series.took(ONE, 1)
    series.open("long", "a", ONE, 0)
    series.line_up("long", "b")
    series.open("short", "c", ONE, 0)
    assert series.place(ONE, 0) == "short"


def test_a_larger_job_that_is_first_in_the_line_is_not_overtaken_into_a_row():
    world, _ = a_world_of_short_jobs()
    world.submit(a_job("large", cpus=4_000))
    world.now_ms += 1
    assert not runs(world.submit(a_job("next")))


def test_arrays_and_containers_have_their_own_leases():
    world, _ = a_world_of_short_jobs()
    work = Work(argv=("true",), cwd="/", image="an/image")
    assert not runs(world.submit(a_job("contained", work=work)))


def test_whoever_stands_behind_a_long_one_is_taken_back_and_runs_where_there_is_room():
    world, jobs = a_world_of_short_jobs()
    following = a_job("next")
    [run] = runs(world.submit(following))
    world.now_ms += PATIENCE_MS + 1
    other = next(job for job in jobs if world.job(job).live_attempts[0].lease != run.lease)
    world.end(other)
    assert run.attempt not in world.keeper.runs
    world.pump()
    world.pump()
    assert world.state(following) == "running"
    assert world.job(following).losses == world.job(following).failures == 0
    *_, last = (m for m in world.keeper.told if isinstance(m, Run) and m.job == following.id)
    assert last.env["GRID_ATTEMPT"] == "1", "what never ran is no attempt"
    assert [attempt.number for attempt in world.job(following).attempts] == [1]
    world.node.check()


def test_a_tick_takes_back_too_and_nobody_lines_up_there_again():
    world, _ = a_world_of_short_jobs()
    following = a_job("next")
    [run] = runs(world.submit(following))
    world.pass_time(PATIENCE_MS + 1)
    world.pump()
    assert world.keeper.runs.keys() == set(world.keeper.started)
    assert world.state(following) == "waiting"
    assert following.id in world.node.coordinator.host.line
    assert run.attempt not in world.keeper.runs


def test_one_that_has_started_meanwhile_goes_on():
    world, jobs = a_world_of_short_jobs()
    following = a_job("next")
    [run] = runs(world.submit(following))
    leader = next(job for job in jobs if world.job(job).live_attempts[0].lease == run.lease)
    world.keeper.end_one(world.job(leader).live_attempts[0].id, 0)  # Not told yet.
    world.pass_time(PATIENCE_MS + 1)
    world.pump()
    assert world.state(following) == "running"


def test_one_that_stands_in_a_row_can_be_cancelled():
    world, _ = a_world_of_short_jobs()
    following = a_job("next")
    world.submit(following)
    world.cancel(following)
    world.pump()
    assert world.state(following) == "cancelled"
    assert len(world.node.ledger.leases) == 4
    world.node.check()


def test_a_row_outlives_the_agent():
    world, jobs = a_world_of_short_jobs()
    following = a_job("next")
    [run] = runs(world.submit(following))
    world.start_agent()
    world.node.check()
    assert world.state(following) == "waiting", "it has not started, and nobody says so"
    leader = next(job for job in jobs if world.job(job).live_attempts[0].lease == run.lease)
    world.end(leader)
    world.start_agent()  # Now the one that began the lease is gone.
    world.end(following)
    assert world.state(following) == "succeeded"


def test_the_death_of_the_keeper_is_no_loss_for_those_who_only_stood_in_a_row():
    world, jobs = a_world_of_short_jobs()
    following = a_job("next")
    world.submit(following)
    world.keeper.die()
    world.start_agent()
    assert world.job(following).losses == 0
    assert all(world.job(job).losses == 1 for job in jobs)
    world.drain()
    assert world.state(following) == "succeeded"


def test_durations_are_remembered_of_a_bounded_number_of_shapes():
    series = Series()
    for number in range(SHAPES_MAX + 5):
        series.took(Shape(Request(cpu_milli=number)), 1)
    series.check({})
