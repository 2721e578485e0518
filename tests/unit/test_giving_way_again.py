"""What the simulation found: victims, crashes and windows that come together."""

from distributed_grid.kernel.calendar import Calendar
from distributed_grid.kernel.entry import AGEING_MS
from distributed_grid.kernel.host import OVERTAKING_MS_MAX
from distributed_grid.kernel.node import Book, Lend, Sampled
from distributed_grid.model.booking import Booking
from distributed_grid.model.ids import JobId
from distributed_grid.model.job import Array
from distributed_grid.model.resources import Request
from distributed_grid.wire import keeper
from tests.node_world import World, a_job
from tests.unit.test_giving_way import a_lender, borrowed, idle, told


def give_way(world: World) -> None:
    """Everybody who was told to go has gone."""
    for message in told(world, keeper.Preempt):
        if message.attempt in world.keeper.runs:
            world.keeper.preempt(message.attempt)
    world.pump()


def test_an_array_that_got_one_place_asks_for_the_next():
    world = a_lender()
    world.submit(*(borrowed(f"loan-{number}", cpus=2_000) for number in range(2)))
    world.pump()
    world.submit(a_job("many", cpus=2_000, array=Array(start=0, stop=8)))
    give_way(world)
    give_way(world)
    assert len(world.job(a_job("many")).live_attempts) == 2


def test_a_victim_that_waited_for_longer_does_not_take_its_room_back():
    world = World()
    victim = a_job("victim", cpus=4_000, priority="low")
    world.submit(victim)
    world.pump()
    world.pass_time(3 * AGEING_MS)
    world.submit(a_job("urgent", cpus=4_000, priority="urgent"))
    give_way(world)
    assert world.job(a_job("urgent")).live_attempts
    assert world.state(victim) == "waiting"


def test_what_is_low_evicts_nobody_while_it_could_not_start():
    world = a_lender()
    world.submit(a_job("owner's", cpus=3_000))
    world.submit(borrowed("loan"))
    world.pump()
    world.submit(a_job("large", cpus=4_000), a_job("small", priority="low"))
    assert len(told(world, keeper.Preempt)) == 0


def test_a_loan_that_was_suspended_before_a_crash_goes_on_after_the_first_sample():
    world = a_lender()
    world.submit(borrowed("loan"))
    world.pump()
    world.step(Lend(now_ms=world.now_ms, pause_until_ms=0))
    world.step(Lend(now_ms=world.now_ms, pause_until_ms=world.now_ms + 1))
    world.now_ms += 5
    world.start_agent()
    world.pass_time(1)
    assert not told(world, keeper.Resume)
    world.step(Sampled(now_ms=world.now_ms, sample=idle(world)))
    assert len(told(world, keeper.Resume)) == 1
    world.pass_time(1)
    assert len(told(world, keeper.Resume)) == 1


def test_a_stop_that_was_lost_in_a_crash_is_told_again():
    world = World()
    job = a_job("long")
    world.submit(job)
    world.pump()
    world.cancel(job)
    world.start_agent()
    assert len(told(world, keeper.Stop)) == 2


def test_a_large_loan_is_not_overtaken_for_ever():
    world = a_lender()
    world.submit(borrowed("first", cpus=2_000))
    world.pump()
    world.submit(borrowed("large", cpus=4_000))
    world.submit(borrowed("quick"))
    assert world.job(borrowed("quick")).live_attempts, "for a while it may"
    world.now_ms += OVERTAKING_MS_MAX + 1
    world.step(Sampled(now_ms=world.now_ms, sample=idle(world)))
    world.submit(borrowed("late"))
    assert not world.job(borrowed("late")).live_attempts


def test_two_windows_get_their_room_side_by_side():
    world = World()
    world.submit(*(a_job(f"filler-{number}") for number in range(3)))
    world.pump()
    now_ms = world.now_ms
    for name in ("one", "two"):
        window = Booking(
            name=name,
            request=Request(cpu_milli=1_000),
            from_ms=now_ms + 10,
            until_ms=now_ms + 1_000_000,
            user=name,
        )
        world.step(Book(now_ms=now_ms, booking=window))
    world.pass_time(10)
    assert len(told(world, keeper.Preempt)) == 1
    world.pass_time(5_000)
    assert len(told(world, keeper.Preempt)) == 1, "who leaves already is counted"


def test_dates_that_do_not_matter_any_more_are_not_kept():
    calendar = Calendar()
    for number in range(100):
        calendar.add(JobId(str(number)), 1_000 + number)
    for number in range(99):
        calendar.forget(JobId(str(number)))
    assert len(calendar._dates) <= 2
    assert calendar.due(2_000) == ["99"]
