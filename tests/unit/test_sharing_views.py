"""What stands in the way of who waits, the queue, and lending as others see it."""

import pytest

from distributed_grid.kernel.explaining import explain
from distributed_grid.kernel.inventory import Inventory
from distributed_grid.kernel.node import Book, Lend, Sampled
from distributed_grid.kernel.queueing import queue
from distributed_grid.kernel.sharing_views import sharing_status
from distributed_grid.model.booking import Booking
from distributed_grid.model.gpus import Gpu, GpuRequest
from distributed_grid.model.job import After, Array, Preempt, Work
from distributed_grid.model.lending import GpuUse, Sample, Terms
from distributed_grid.model.resources import Request
from tests.node_world import World, a_job

GIB = 1 << 30
HOUR_MS = 3_600_000
NEVER = Preempt(is_forbidden=True)
MACHINE = Inventory(
    cores=tuple((core, 0) for core in range(4)),
    cpu_milli=4_000,
    memory_bytes=32 * GIB,
    storage_bytes=100 * GIB,
    gpus=tuple(Gpu(device=f"gpu{n}", model="H100", memory_bytes=80 * GIB) for n in range(2)),
    custom=(("tpu", 2_000),),
)


def a_sample(world: World, *, cpu: int = 0) -> Sample:
    return Sample(
        at_ms=world.now_ms,
        local_minute=0,
        cpu_total_milli=4_000,
        cpu_used_milli=cpu,
        memory_total_bytes=32 * GIB,
        memory_used_bytes=0,
        storage_free_bytes=100 * GIB,
        gpus=tuple(
            GpuUse(device=f"gpu{n}", utilization_milli=0, memory_free_bytes=80 * GIB,
                   memory_total_bytes=80 * GIB)
            for n in range(2)
        ),
        idle_ms=HOUR_MS,
    )  # fmt: skip


@pytest.fixture
def world():
    made = World(MACHINE)
    made.step(Lend(now_ms=made.now_ms, terms=Terms(offers_max=20)))
    made.step(Sampled(now_ms=made.now_ms, sample=a_sample(made)))
    return made


def told(world: World, spec):
    return explain(world.node.coordinator, world.job(spec), world.now_ms)


def entries(world: World, limit: int = 100):
    return queue(world.node.coordinator, limit=limit, now_ms=world.now_ms).entries


def status(world: World):
    return sharing_status(
        world.node.coordinator, node="lab", not_joined=("gpu1",), now_ms=world.now_ms
    )


def booked(name: str, *, cpus: int, from_ms: int, until_ms: int) -> Booking:
    return Booking(name=name, request=Request(cpu_milli=cpus), from_ms=from_ms, until_ms=until_ms)


def test_the_queue_says_for_each_what_it_waits_for(world):
    before = a_job("before", cpus=4_000, preempt=NEVER)
    tpus = Request(custom=(("tpu", 2_000),))
    world.submit(before, a_job("holds", request=tpus))
    world.submit(
        a_job("cores", cpus=2_000, project="vision"),
        a_job("same", cpus=2_000, project="vision"),
        a_job("tpus", request=tpus),
        a_job("huge", cpus=9_000, wait_for_capacity=True),
        a_job("later", start_ms=world.now_ms + HOUR_MS),
        a_job("after", after=(After(job=before.id),)),
    )
    world.now_ms += 5_000
    found = {entry.name: entry for entry in entries(world)}

    assert found["cores"].waits == found["same"].waits == "2 cores, 0 cores free"
    assert found["tpus"].waits == "2 tpu, 0 tpu free"
    assert found["huge"].waits == "a larger machine"
    assert found["later"].waits == "its start time"
    assert found["after"].waits == "jobs that it comes after"
    assert (found["cores"].waited_ms, found["cores"].project) == (5_000, "vision")
    assert [entry.position for entry in found.values()] == [1, 2, 3, 4, 5, 6]
    assert {entry.lifted for entry in found.values()} == {"medium"}
    limited = queue(world.node.coordinator, limit=2, now_ms=world.now_ms)
    assert (len(limited.entries), limited.total) == (2, 6)


def test_waiting_lifts_and_the_explanation_shows_it(world):
    world.submit(a_job("holder", cpus=4_000, preempt=NEVER))
    low = a_job("low", cpus=4_000, priority="low", user="ada", project="vision")
    world.submit(low)
    world.now_ms += HOUR_MS
    explained = told(world, low)

    assert (explained.priority, explained.lifted) == ("low", "medium")
    assert (explained.position, explained.share_milli) == (1, 0)
    assert (explained.user, explained.project) == ("ada", "vision")
    assert entries(world)[0].lifted == "medium"


def test_a_borrower_hears_which_threshold_stands_in_its_way(world):
    world.step(Sampled(now_ms=world.now_ms, sample=a_sample(world, cpu=2_000)))
    borrower = a_job("borrower", cpus=1_000, is_shared=True)
    world.submit(borrower)
    explained = told(world, borrower)
    (entry,) = entries(world)

    assert "cpu_percent_max is 30 %, measured 50 %" in explained.summary
    assert explained.is_shared
    assert entry.waits.startswith("an offer: cpu_percent_max is 30 %")


def test_a_borrower_hears_of_a_pause_and_of_a_device(world):
    world.step(Lend(now_ms=world.now_ms, terms=Terms(offers_max=20, reserved_gpus=2)))
    gpus = a_job("gpus", request=Request(gpus=GpuRequest()), is_shared=True)
    world.submit(gpus)
    reserved = told(world, gpus).summary
    world.step(Lend(now_ms=world.now_ms, pause_until_ms=0))

    assert "reserve.gpus is the first 2 of 2, measured number 1 (gpu0)" in reserved
    assert told(world, gpus).summary.endswith("lending is paused")


def test_what_is_booked_stands_in_the_way_of_others(world):
    now_ms = world.now_ms
    window = booked("lecture", cpus=3_000, from_ms=now_ms, until_ms=now_ms + HOUR_MS)
    world.step(Book(now_ms=now_ms, booking=window))
    outside = a_job("outside", cpus=2_000)
    world.submit(outside)
    explained = told(world, outside)

    assert explained.summary == "what is free now is booked by others"
    assert explained.shortfall
    assert entries(world)[0].waits == "the end of a booking"
    assert status(world).bookings == (window,)


def test_what_would_run_into_a_booking_waits_for_it(world):
    now_ms = world.now_ms
    window = booked("lecture", cpus=4_000, from_ms=now_ms + 1_000, until_ms=now_ms + HOUR_MS)
    world.step(Book(now_ms=now_ms, booking=window))
    work = Work(argv=("true",), cwd="/", timeout_ms=60_000)
    long, inside = a_job("long", work=work), a_job("inside", booking="lecture")
    world.submit(long, inside)

    assert "when a booking begins, and leave it too little: lecture" in told(world, long).summary
    assert entries(world)[0].waits == "booking lecture"
    assert told(world, inside).start_ms == window.from_ms
    assert told(world, inside).summary == "its time has not come yet"


def test_a_job_whose_time_has_not_come_says_when(world):
    later = a_job("later", start_ms=world.now_ms + HOUR_MS)
    world.submit(later)

    assert told(world, later).start_ms == world.now_ms + HOUR_MS


def test_others_who_give_way_are_told_and_shown(world):
    victim = a_job("victim", cpus=4_000, priority="low")
    world.submit(victim)
    world.pump()
    urgent = a_job("urgent", cpus=4_000, priority="urgent")
    world.submit(urgent)

    assert told(world, urgent).summary == "others were told to give way for it"
    assert "it was told to give way to job" in told(world, victim).summary
    assert entries(world)[0].waits == "others to give way"


def test_what_fits_and_is_not_granted_waits_for_its_turn(world):
    world.submit(a_job("first", cpus=4_000, preempt=NEVER))
    low = a_job("low", cpus=1_000, priority="low")
    world.node.is_leaving = True  # Nothing is granted any more.
    world.end(a_job("first"))
    world.submit(low)

    assert told(world, low).summary == "it would fit, and waits for its turn"
    assert entries(world)[-1].waits == ""


def test_the_status_shows_offers_loans_and_what_the_owner_uses(world):
    all_kinds = Request(
        cpu_milli=1_000, memory_bytes=GIB, storage_bytes=GIB, gpus=GpuRequest(milli=2_000),
        custom=(("tpu", 500),),
    )  # fmt: skip
    world.submit(
        a_job("borrower", request=all_kinds, is_shared=True, user="ada"),
        a_job("owner", cpus=1_000),
    )
    world.pump()
    shown = status(world)

    assert (shown.node, shown.state, shown.not_joined) == ("lab", "open", ("gpu1",))
    assert {offer.kind for offer in shown.offers} == {"cpu", "memory", "storage", "tpu"}
    assert [(one.kind, one.amount, one.devices) for one in shown.allocations] == [
        ("cpu", 1_000, ()),
        ("memory", GIB, ()),
        ("storage", GIB, ()),
        ("gpu", 2_000, ("gpu0", "gpu1")),
        ("tpu", 500, ()),
    ]
    assert {(one.name, one.user, one.expires_ms) for one in shown.allocations} == {
        ("borrower", "ada", None)
    }
    assert shown.owner is not None
    assert (shown.owner.cpu_used_milli, shown.owner.idle_ms) == (0, HOUR_MS)
    assert shown.owner.gpu_used_milli == (("gpu0", 0), ("gpu1", 0))
    assert shown.paused_until_ms is None


def test_a_loan_with_an_end_says_when_and_a_pause_suspends_it(world):
    world.step(Lend(now_ms=world.now_ms, terms=Terms(offers_max=20, allocation_ms_max=600_000)))
    borrower = a_job("borrower", cpus=1_000, is_shared=True)
    world.submit(borrower)
    world.pump()
    until_ms = world.now_ms + HOUR_MS
    world.step(Lend(now_ms=world.now_ms, pause_until_ms=until_ms))
    shown = status(world)
    (loan,) = shown.allocations

    assert (loan.is_suspended, loan.expires_ms) == (True, loan.allocated_ms + 600_000)
    assert (shown.state, shown.paused_until_ms, shown.offers) == ("paused", until_ms, ())
    assert told(world, borrower).summary.startswith("it is suspended, the owner is back")
    world.step(Lend(now_ms=world.now_ms, pause_until_ms=0))
    assert status(world).paused_until_ms is None


def test_of_those_who_share_a_lease_the_one_that_runs_has_it(world):
    for number in range(8):  # Jobs of this shape were short so far.
        short = a_job(f"short-{number}", is_shared=True)
        world.submit(short)
        world.end(short)
    specs = [a_job(f"row-{number}", is_shared=True) for number in range(8)]
    world.submit(*specs)
    world.pump()
    leases = {attempt.lease for spec in specs for attempt in world.job(spec).live_attempts}
    shown = {one.name for one in status(world).allocations}

    assert len(leases) == len(shown) < sum(bool(world.job(spec).live_attempts) for spec in specs)
    assert shown == {spec.name for spec in specs if world.state(spec) == "running"}


def test_a_borrower_to_whom_it_is_offered_waits_for_its_turn(world):
    world.node.is_leaving = True  # Nothing is granted any more.
    borrower = a_job("borrower", is_shared=True)
    world.submit(borrower)

    assert told(world, borrower).summary == "it would fit, and waits for its turn"


def test_an_array_borrows_with_each_of_its_chunks(world):
    array = a_job("array", cpus=2_000, is_shared=True, array=Array(start=0, stop=4))
    world.submit(array)
    world.pump()

    assert [one.name for one in status(world).allocations] == ["array", "array"]


def test_before_the_first_sample_nothing_is_known_of_the_owner():
    fresh = World(MACHINE)

    assert status(fresh).owner is None
