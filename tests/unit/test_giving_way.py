"""Whose work gives way: to urgent work, to the owner, to whoever booked; and what becomes of it."""

import msgspec
import pytest

from distributed_grid.errors import NotPermitted
from distributed_grid.kernel.entry import AGEING_MS
from distributed_grid.kernel.giving_way import AGAIN_MS
from distributed_grid.kernel.inventory import Inventory
from distributed_grid.kernel.node import Cancel, Lend, Sampled
from distributed_grid.model.gpus import Gpu, GpuRequest
from distributed_grid.model.job import Array, Preempt
from distributed_grid.model.lending import GpuUse, Sample, Terms, Thresholds
from distributed_grid.model.resources import Request
from distributed_grid.wire import keeper
from tests.node_world import FOUR_CORES, World, a_job, fill, told

LENDS_ALL = Terms(
    reserved_memory_bytes=0,
    policy="aggressive",
    allow_urgent=True,
    thresholds=Thresholds(cpu_min_milli=0),
)


def idle(world: World, **what_matters) -> Sample:
    fields = dict(
        at_ms=world.now_ms, local_minute=0, cpu_total_milli=4_000, cpu_used_milli=0,
        memory_total_bytes=1 << 40, memory_used_bytes=0, storage_free_bytes=1 << 40,
        idle_ms=10**9,
        gpus=tuple(
            GpuUse(device=gpu.device, utilization_milli=0, memory_free_bytes=0, memory_total_bytes=0)
            for gpu in world.node.ledger.total.gpus
        ),
    )  # fmt: skip
    return Sample(**{**fields, **what_matters})


LARGE = msgspec.structs.replace(FOUR_CORES, memory_bytes=1 << 40)


def a_lender(terms: Terms = LENDS_ALL, inventory: Inventory = LARGE) -> World:
    """Four cores, all of them offered."""
    world = World(inventory)
    world.step(Lend(now_ms=world.now_ms, terms=terms))
    world.step(Sampled(now_ms=world.now_ms, sample=idle(world)))
    return world


def borrowed(name: str, **what_matters):
    return a_job(name, is_shared=True, **what_matters)


# --- Urgent work


def test_urgent_work_evicts_the_youngest_of_the_least_important():
    world = World()
    old = a_job("old", priority="low")
    world.submit(old)
    world.pass_time(10)
    young = a_job("young", priority="low")
    world.submit(young, a_job("important", priority="high"), a_job("middle"))
    world.pump()
    world.pass_time(10)
    urgent = a_job("urgent", priority="urgent", preempt=Preempt(grace_ms=5))
    world.submit(urgent)
    [message] = told(world, keeper.Preempt)
    assert message.attempt == world.job(young).live_attempts[0].id
    world.keeper.preempt(message.attempt)
    world.pump()
    assert world.state(urgent) == "running"
    assert world.state(young) == "waiting"
    assert world.job(young).preemptions == 1
    assert world.job(young).failures == world.job(young).losses == 0
    world.node.check()


def test_the_victim_gets_its_own_signal_grace_and_command():
    world = World()
    gentle = Preempt(signal=10, grace_ms=77, command=("save", "me"))
    fill(world, priority="low", preempt=gentle)
    world.submit(a_job("urgent", priority="urgent"))
    [message] = told(world, keeper.Preempt)
    assert (message.signal, message.grace_ms, message.command) == (10, 77, ("save", "me"))


def test_a_victim_runs_again_in_its_old_place_and_knows_where_it_saved_its_state():
    world = World()
    fill(world, count=3)
    victim = a_job("victim", priority="low", preempt=Preempt(command=("save",)))
    world.submit(victim)
    world.pump()
    urgent = a_job("urgent", priority="urgent")
    world.submit(urgent)
    world.keeper.preempt(world.job(victim).live_attempts[0].id)
    world.pump()
    world.end(urgent)
    world.pump()
    assert world.state(victim) == "running"
    runs = [m for m in told(world, keeper.Run) if m.job == victim.id]
    assert len(runs) == 2
    assert runs[0].env["GRID_CHECKPOINT_DIR"] == runs[1].env["GRID_CHECKPOINT_DIR"]
    assert runs[0].checkpoint_dir == runs[1].checkpoint_dir != ""


def test_nobody_is_evicted_in_vain():
    world = World()
    fill(world, count=2, priority="low")
    world.submit(a_job("forbidden", preempt=Preempt(is_forbidden=True), priority="low"))
    world.pump()
    world.submit(a_job("urgent", priority="urgent", cpus=4_000))
    assert not told(world, keeper.Preempt)


def test_urgent_does_not_evict_urgent_nor_what_waited_so_long_that_it_counts_as_such():
    world = World()
    fill(world, priority="urgent")
    world.submit(a_job("urgent", priority="urgent"))
    assert not told(world, keeper.Preempt)
    aged = World()
    blocker = a_job("blocker", cpus=4_000, priority="urgent")
    aged.submit(blocker)
    aged.submit(*(a_job(f"patient-{n}", priority="low") for n in range(4)))
    aged.pass_time(3 * AGEING_MS)
    aged.end(blocker)
    aged.submit(a_job("late", priority="urgent"))
    assert not told(aged, keeper.Preempt)


def test_high_work_has_first_choice_but_evicts_nobody():
    world = World()
    fill(world, priority="low")
    world.submit(a_job("high", priority="high"))
    assert not told(world, keeper.Preempt)


def test_while_others_give_way_nobody_snatches_the_room():
    world = World()
    low = fill(world, priority="low")
    urgent = a_job("urgent", priority="urgent", cpus=2_000)
    world.submit(urgent)
    assert len(told(world, keeper.Preempt)) == 2
    world.submit(a_job("small", priority="high"))
    first = told(world, keeper.Preempt)[0].attempt
    world.keeper.preempt(first)
    world.pump()
    assert world.state(a_job("small")) == "waiting"
    world.keeper.preempt(told(world, keeper.Preempt)[1].attempt)
    world.pump()
    assert world.state(urgent) == "running"
    assert sum(world.state(job) == "running" for job in low) == 2


def test_a_chunk_of_an_array_gives_way_and_its_indices_run_later():
    world = World()
    array = a_job("array", cpus=4_000, priority="low", array=Array(start=0, stop=3))
    world.submit(array)
    world.pump()
    urgent = a_job("urgent", priority="urgent")
    world.submit(urgent)
    [message] = told(world, keeper.Preempt)
    world.keeper.preempt(message.attempt)
    world.pump()
    assert world.state(urgent) == "running"
    world.drain()
    assert world.state(array) == "succeeded"
    assert world.job(array).losses == 0


def test_nothing_that_helps_is_looked_for_again_only_after_a_while():
    world = World()
    fill(world, preempt=Preempt(is_forbidden=True), count=3)
    low = a_job("low", priority="low")
    world.submit(low)
    world.pump()
    urgent = a_job("urgent", priority="urgent", cpus=2_000)
    world.submit(urgent)
    assert not told(world, keeper.Preempt)
    world.end(a_job("filler-0"))
    world.pass_time(AGAIN_MS)
    assert [m.attempt for m in told(world, keeper.Preempt)] == [world.job(low).live_attempts[0].id]


def test_who_was_looked_at_in_vain_and_has_gone_is_forgotten():
    world = World()
    fill(world, count=2, priority="low")
    world.submit(a_job("forbidden", preempt=Preempt(is_forbidden=True), priority="low"))
    world.pump()
    urgent = [a_job(f"urgent-{n}", priority="urgent", cpus=4_000) for n in range(2)]
    for job in urgent:
        world.submit(job)
        world.step(Cancel(now_ms=world.now_ms, job=job.id))
    last = a_job("last", priority="urgent", cpus=4_000)
    world.submit(last)

    assert world.node.coordinator.giving_way._looked_ms.keys() == {last.id}


def test_a_victim_that_is_cancelled_meanwhile_is_cancelled():
    world = World()
    low = fill(world, priority="low")
    world.submit(a_job("urgent", priority="urgent"))
    [message] = told(world, keeper.Preempt)
    victim = next(job for job in low if world.job(job).live_attempts[0].id == message.attempt)
    world.cancel(victim)
    world.keeper.preempt(message.attempt)
    world.pump()
    assert world.state(victim) == "cancelled"


# --- Borrowers and the owner


def test_borrowers_get_what_is_offered_and_the_owner_gets_all():
    world = a_lender(msgspec.structs.replace(LENDS_ALL, reserved_cpu_milli=3_000))
    one, two = borrowed("one"), borrowed("two")
    world.submit(one, two)
    world.pump()
    assert sorted([world.state(one), world.state(two)]) == ["running", "waiting"]
    fill(world, count=3)
    assert world.state(a_job("filler-2")) == "running"


def test_nothing_is_lent_before_anything_was_measured():
    world = World()
    world.submit(borrowed("early"))
    world.pump()
    assert world.state(borrowed("early")) == "waiting"


def test_the_owner_evicts_borrowers_of_any_priority():
    world = a_lender()
    loans = [borrowed(f"loan-{number}", priority="high") for number in range(4)]
    world.submit(*loans)
    world.pump()
    mine = a_job("mine", priority="low")
    world.submit(mine)
    [message] = told(world, keeper.Preempt)
    world.keeper.preempt(message.attempt)
    world.pump()
    assert world.state(mine) == "running"


def test_what_borrowers_give_up_for_low_work_is_not_lent_when_more_important_work_comes_too():
    world = a_lender()
    half = Request(cpu_milli=1_000, memory_bytes=(1 << 39) + 1)
    loans = [borrowed(f"loan-{number}") for number in range(3)]
    other = borrowed("other", user="bob")
    world.submit(a_job("mine", request=half))
    world.submit(*loans)
    world.submit(other)
    world.pump()
    world.submit(a_job("low", priority="low", cpus=2_000))
    assert len(told(world, keeper.Preempt)) == 2
    world.submit(a_job("hungry", request=half))  # Nobody can give way for it.
    world.keeper.preempt(told(world, keeper.Preempt)[0].attempt)
    world.pump()
    assert world.state(other) == "waiting"


def test_an_urgent_borrower_evicts_borrowers_only():
    world = a_lender()
    mine, loan = a_job("mine", cpus=3_000, priority="low"), borrowed("loan", priority="low")
    world.submit(mine, loan)
    world.pump()
    urgent = borrowed("urgent", priority="urgent")
    world.submit(urgent)
    [message] = told(world, keeper.Preempt)
    assert message.attempt == world.job(loan).live_attempts[0].id
    larger = a_lender()
    larger.submit(mine, loan)
    larger.pump()
    larger.submit(borrowed("too large", priority="urgent", cpus=2_000))
    assert not told(larger, keeper.Preempt)


@pytest.mark.parametrize(
    ("terms", "spec"),
    [
        (Terms(), borrowed("x", priority="urgent")),
        (Terms(), borrowed("x", preempt=Preempt(is_forbidden=True))),
        (Terms(is_enabled=False), borrowed("x")),
    ],
)
def test_what_the_owner_does_not_allow_is_refused_at_once(terms, spec):
    world = a_lender(terms)
    with pytest.raises(NotPermitted, match="not permitted"):
        world.submit(spec)


def test_a_loan_that_may_refuse_to_give_way_does():
    terms = msgspec.structs.replace(LENDS_ALL, allow_no_preempt=True)
    world = a_lender(terms)
    world.submit(borrowed("loan", cpus=4_000, preempt=Preempt(is_forbidden=True)))
    world.pump()
    world.submit(a_job("mine"))
    assert not told(world, keeper.Preempt)


def test_when_the_owner_is_back_loans_are_suspended_and_go_on_when_he_has_gone():
    world = a_lender()
    loan, mine = borrowed("loan"), a_job("mine")
    world.submit(loan, mine)
    world.pump()
    for _ in range(20):
        world.now_ms += 10_000
        busy = idle(world, cpu_used_milli=4_000)
        world.step(Sampled(now_ms=world.now_ms, sample=busy))
    [message] = told(world, keeper.Suspend)
    assert message.attempt == world.job(loan).live_attempts[0].id
    assert "suspended" in [line.what for line in world.job(loan).story]
    for _ in range(20):
        world.now_ms += 10_000
        world.step(Sampled(now_ms=world.now_ms, sample=idle(world)))
    assert [m.attempt for m in told(world, keeper.Resume)] == [message.attempt]
    world.end(loan)
    assert world.state(loan) == "succeeded"


def test_busy_cores_suspend_what_is_lent_but_gpus_with_a_core_each():
    gpus = tuple(Gpu(device=f"gpu{n}", model="H100") for n in range(2))
    world = a_lender(inventory=msgspec.structs.replace(LARGE, gpus=gpus))
    one = GpuRequest(milli=1_000)
    spared = borrowed("spared", request=Request(cpu_milli=1_000, gpus=one))
    greedy = borrowed("greedy", request=Request(cpu_milli=2_000, gpus=one))
    world.submit(spared, greedy)
    world.pump()
    for _ in range(20):
        world.now_ms += 10_000
        busy = idle(world, cpu_used_milli=4_000)
        world.step(Sampled(now_ms=world.now_ms, sample=busy))

    suspended = [message.attempt for message in told(world, keeper.Suspend)]
    assert suspended == [world.job(greedy).live_attempts[0].id]
    assert world.state(spared) == "running"


def test_a_pause_suspends_loans_and_a_long_one_stops_them():
    world = a_lender()
    loan = borrowed("loan")
    world.submit(loan)
    world.pump()
    world.step(Lend(now_ms=world.now_ms, pause_until_ms=0))
    assert told(world, keeper.Suspend)
    world.pass_time(86_400_000)
    [message] = told(world, keeper.Preempt)
    world.keeper.preempt(message.attempt)
    world.pump()
    assert world.state(loan) == "waiting"
    world.start_agent()
    assert world.node.host.lending.paused_until_ms == 0, "the owner's word outlives the agent"
    world.step(Lend(now_ms=world.now_ms, is_resumed=True))
    assert world.node.host.lending.paused_until_ms is None


def test_a_loan_that_is_over_is_taken_back():
    world = a_lender(msgspec.structs.replace(LENDS_ALL, allocation_ms_max=5_000))
    loan = borrowed("loan")
    world.submit(loan)
    world.pump()
    world.pass_time(5_000)
    assert not told(world, keeper.Preempt)
    world.pass_time(1)
    assert told(world, keeper.Preempt)
    world.pass_time(1)
    assert len(told(world, keeper.Preempt)) == 1, "a lease is told once"


def test_who_stands_in_the_row_of_a_victim_waits_elsewhere():
    world = World()
    short = a_job("short", priority="low")
    world.submit(short)
    world.end(short)
    fill(world, priority="low")
    following = a_job("following", priority="low")
    world.submit(following)
    assert len(world.keeper.runs) == 5
    world.submit(*(a_job(f"urgent-{n}", priority="urgent") for n in range(4)))
    for message in told(world, keeper.Preempt):
        world.keeper.preempt(message.attempt)
    world.pump()
    world.pump()
    assert world.state(following) == "waiting"
    assert all(world.state(a_job(f"urgent-{n}")) == "running" for n in range(4))
    world.node.check()


def test_the_books_of_what_is_borrowed_are_checked():
    world = a_lender()
    world.submit(borrowed("loan"))
    world.pump()
    world.node.check()
    assert world.node.host.borrowed.cpu_milli == 1_000


def test_a_borrower_who_has_nothing_that_is_wanted_stays():
    terms = msgspec.structs.replace(LENDS_ALL, reserved_cpu_milli=0)
    world = a_lender(terms)
    large = borrowed("large", cpus=3_000, priority="low")
    world.submit(large)
    world.pump()
    world.now_ms += 10
    small = borrowed("small", cpus=1_000, priority="low")
    world.submit(small)
    world.pump()
    world.submit(borrowed("urgent", priority="urgent", cpus=3_000))
    assert [m.attempt for m in told(world, keeper.Preempt)] == [
        world.job(large).live_attempts[0].id
    ]


def test_a_giant_in_the_line_does_not_keep_the_owner_from_his_cores():
    world = a_lender()
    loan = borrowed("loan", cpus=4_000)
    world.submit(loan)
    world.pump()
    world.submit(a_job("giant", cpus=64_000, wait_for_capacity=True))
    world.submit(a_job("mine", priority="low"))
    assert told(world, keeper.Preempt)
