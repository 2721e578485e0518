"""Start times, deadlines, bookings, shares: when somebody's turn comes."""

import msgspec
import pytest

from distributed_grid.errors import BadValue, BookingConflict, NotFound
from distributed_grid.kernel.entry import AGEING_MS
from distributed_grid.kernel.node import Book, Unbook
from distributed_grid.model.booking import Booking
from distributed_grid.model.job import After, Array, Work
from distributed_grid.model.priority import LOW
from distributed_grid.model.resources import Request
from distributed_grid.wire import keeper
from tests.node_world import World, a_job, fill, told


def test_a_job_starts_when_its_time_has_come():
    world = World()
    later = a_job("later", start_ms=world.now_ms + 100)
    world.submit(later)
    world.pump()
    assert world.state(later) == "waiting"
    world.start_agent()
    world.pass_time(99)
    assert not told(world, keeper.Run)
    world.pass_time(1)
    world.pump()
    assert world.state(later) == "running"


def test_a_deadline_ends_what_waits_and_what_runs():
    world = World()
    soon = world.now_ms + 100
    runs = a_job("runs", cpus=4_000, deadline_ms=soon)
    waits = a_job("waits", deadline_ms=soon)
    array = a_job("array", deadline_ms=soon, array=Array(start=0, stop=2))
    world.submit(runs, waits, array)
    world.pump()
    world.start_agent()
    world.pass_time(100)
    assert world.state(waits) == world.state(array) == "skipped"
    assert "deadline" in world.job(waits).reason
    world.keeper.end_one(world.job(runs).live_attempts[0].id, 0)
    world.pump()
    assert (world.state(runs), world.job(runs).exit_code) == ("failed", 124)


def test_whatever_is_lost_while_its_deadline_stops_it_is_not_run_again():
    world = World()
    job = a_job("job", deadline_ms=world.now_ms + 100)
    world.submit(job)
    world.pump()
    world.pass_time(100)
    world.keeper.die()
    world.pump()
    assert (world.state(job), world.job(job).exit_code) == ("failed", 124)


def test_a_deadline_ends_an_array_that_has_begun():
    world = World()
    array = a_job("array", cpus=4_000, deadline_ms=world.now_ms + 100,
                  array=Array(start=0, stop=50), retries=3)  # fmt: skip
    world.submit(array)
    world.pump()
    world.pass_time(100)
    world.drain()
    assert (world.state(array), world.job(array).exit_code) == ("failed", 124)


def test_one_that_gave_way_and_did_not_run_again_in_time_has_failed():
    world = World()
    victim = a_job("victim", cpus=4_000, priority="low", deadline_ms=world.now_ms + 100)
    world.submit(victim)
    world.pump()
    world.submit(a_job("urgent", priority="urgent"))
    world.keeper.preempt(world.job(victim).live_attempts[0].id)
    world.pump()
    world.pass_time(100)
    assert (world.state(victim), world.job(victim).exit_code) == ("failed", 124)


def test_a_deadline_in_the_past_is_refused():
    world = World()
    with pytest.raises(BadValue, match="deadline"):
        world.submit(a_job("late", deadline_ms=world.now_ms))
    with pytest.raises(BadValue, match="deadline"):
        world.submit(a_job("odd", start_ms=world.now_ms + 9, deadline_ms=world.now_ms + 9))


def a_booking(world: World, cpus: int = 2_000, **what_matters) -> Booking:
    usual = dict(name="lesson", request=Request(cpu_milli=cpus), from_ms=world.now_ms + 1_000,
                 until_ms=world.now_ms + 9_000, user="ada")  # fmt: skip
    return Booking(**{**usual, **what_matters})


def test_what_is_booked_is_kept_for_whom_it_is():
    world = World()
    world.step(Book(now_ms=world.now_ms, booking=a_booking(world)))
    world.pass_time(1_000)
    strangers = fill(world)
    assert [world.state(job) for job in strangers].count("running") == 2
    hers = a_job("hers", user="ada", cpus=2_000)
    world.submit(hers)
    world.pump()
    assert world.state(hers) == "running"
    world.pass_time(8_000)
    world.end(hers)
    world.pump()
    assert [world.state(job) for job in strangers].count("running") == 4


def test_when_a_window_begins_others_give_way():
    world = World()
    low = fill(world, priority="low", count=2)
    fill_high = [a_job(f"high-{n}", priority="high") for n in range(2)]
    world.submit(*fill_high)
    world.pump()
    world.step(Book(now_ms=world.now_ms, booking=a_booking(world)))
    assert not told(world, keeper.Preempt)
    world.pass_time(1_000)
    victims = {m.attempt for m in told(world, keeper.Preempt)}
    assert victims == {world.job(job).live_attempts[0].id for job in low}
    world.pass_time(10)
    assert len(told(world, keeper.Preempt)) == 2


def test_a_job_that_would_run_into_a_window_waits_and_one_that_ends_before_it_runs():
    world = World()
    world.step(Book(now_ms=world.now_ms, booking=a_booking(world, cpus=4_000)))
    work = Work(argv=("true",), cwd="/", timeout_ms=500)
    short = a_job("short", work=work)
    long = a_job("long", work=msgspec.structs.replace(work, timeout_ms=5_000))
    world.submit(short, long)
    world.pump()
    assert (world.state(short), world.state(long)) == ("running", "waiting")


def test_a_job_that_names_a_booking_starts_with_it():
    world = World()
    world.step(Book(now_ms=world.now_ms, booking=a_booking(world, user="")))
    hers = a_job("hers", booking="lesson")
    world.submit(hers)
    world.pump()
    assert world.state(hers) == "waiting"
    world.pass_time(1_000)
    world.pump()
    assert world.state(hers) == "running"


def test_bookings_outlive_the_agent_and_can_be_given_back():
    world = World()
    booking = a_booking(world)
    world.step(Book(now_ms=world.now_ms, booking=booking))
    world.start_agent()
    assert world.node.host.booking("lesson") == booking
    with pytest.raises(BookingConflict, match="does not fit"):
        world.step(Book(now_ms=world.now_ms, booking=a_booking(world, name="b", cpus=3_000)))
    world.step(Unbook(now_ms=world.now_ms, name="lesson"))
    with pytest.raises(NotFound):
        world.step(Unbook(now_ms=world.now_ms, name="lesson"))
    with pytest.raises(NotFound):
        world.submit(a_job("x", booking="lesson"))


# --- Shares


def test_a_free_place_goes_to_whoever_used_least():
    world = World()
    world.submit(*(a_job(f"ada-{n}", user="ada") for n in range(9)))
    world.submit(*(a_job(f"bob-{n}", user="bob") for n in range(9)))
    world.pump()
    for attempt in world.keeper.started[:2]:
        world.keeper.end_one(attempt, 0)
        world.pump()
    running = [j.spec.user for j in world.node.coordinator.jobs.values() if j.state == "running"]
    assert running.count("bob") >= 2


def test_low_work_takes_leftovers_only():
    world = World()
    fill(world, count=3)
    large = a_job("large", cpus=2_000)
    world.submit(large, a_job("low", priority="low"), a_job("high", priority="high", cpus=500))
    world.pump()
    assert world.state(a_job("low")) == "waiting"
    assert world.state(a_job("high")) == "running"


def test_low_work_does_not_wait_for_low_work_that_is_larger():
    world = World()
    fill(world, count=3)
    world.submit(a_job("large", cpus=2_000, priority="low"))
    world.now_ms += 1
    world.submit(a_job("small", priority="low"))
    world.pump()
    assert world.state(a_job("small")) == "running"


def test_use_is_remembered_across_a_restart():
    world = World()
    job = a_job("job", user="ada")
    world.submit(job)
    world.pump()
    world.pass_time(100_000)
    before = world.node.host.accounts.user_use("ada")
    world.start_agent()
    assert world.node.host.accounts.user_use("ada") == before > 0


def test_a_job_ages_from_when_it_could_run_and_not_while_it_waits_for_its_time():
    world = World()
    later = a_job("later", priority="low", start_ms=world.now_ms + 4 * AGEING_MS)
    before = a_job("before")
    after = a_job("after", priority="low", after=(After(job=before.id),))
    world.submit(later, before, after)
    world.pump()
    world.now_ms += 4 * AGEING_MS
    fill(world, count=3, priority="urgent")
    world.end(before)
    world.pump()
    world.start_agent()
    line, now_ms = world.node.host.line, world.now_ms
    waiting = {entry.job: entry for entry in line.order(now_ms, world.node.host.accounts)}
    lifted = {job: line.lifted(entry, now_ms) for job, entry in waiting.items()}
    assert set(lifted.values()) <= {LOW}
    assert world.job(later).ready_ms == world.job(after).ready_ms == now_ms


def test_since_when_a_job_could_run_outlives_the_agent():
    world = World()
    blocker = a_job("blocker", cpus=4_000, priority="urgent")
    later = a_job("later", start_ms=world.now_ms + 100)
    world.submit(blocker, later)
    world.pump()
    world.pass_time(100)
    due_ms = world.now_ms
    world.now_ms += AGEING_MS
    world.start_agent()
    assert world.job(later).ready_ms == due_ms
