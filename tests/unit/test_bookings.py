import msgspec
import pytest

from distributed_grid.errors import (
    BadValue,
    BookingConflict,
    Conflict,
    NotFound,
    Overloaded,
)
from distributed_grid.kernel import bookings as bookings_module
from distributed_grid.kernel.bookings import Bookings, Claim, Holder
from distributed_grid.kernel.roominess import devices_beside, left_of, missing_for, without
from distributed_grid.model.booking import Booking
from distributed_grid.model.gpus import Gpu, GpuRequest
from distributed_grid.model.resources import Request, Resources

GPUS = (Gpu(device="a", model="H100"), Gpu(device="b", model="RTX4090"))
MACHINE = Resources(
    cpu_milli=8_000, memory_bytes=64, storage_bytes=64, gpus=GPUS, custom=(("tpu", 4_000),)
)
ANYBODY = Claim(user="eve")


def a_booking(name: str = "exam", *, begins: int = 100, ends: int = 200, **what) -> Booking:
    whose = {key: what.pop(key) for key in ("user", "project") if key in what}
    wanted = Request(**(what or {"cpu_milli": 6_000}))
    return Booking(name=name, request=wanted, from_ms=begins, until_ms=ends, **whose)


def a_calendar(*bookings: Booking, total: Resources = MACHINE) -> Bookings:
    calendar = Bookings(total)
    for booking in bookings:
        calendar.add(booking, now_ms=0)
        calendar.check()
    return calendar


def holder(claim: Claim, *, until_ms: int | None = None, **resources) -> Holder:
    return Holder(claim=claim, resources=Resources(**resources), until_ms=until_ms)


# --- The noun ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["", "-x", "two words", "x" * 64, "\x1b[31m", "ä"])
def test_a_booking_has_a_name_that_can_be_typed(name):
    with pytest.raises(BadValue, match="a name of letters"):
        a_booking(name)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"begins": 100, "ends": 100}, "after the beginning"),
        ({"cpu_milli": 0}, "something to keep"),
    ],
)
def test_a_booking_keeps_something_for_some_time(changes, expected):
    with pytest.raises(BadValue, match=expected):
        a_booking(**changes)


@pytest.mark.parametrize(
    ("whose", "claim", "may"),
    [
        ({}, Claim(booking="exam"), True),
        ({}, Claim(user="ann"), False),
        ({}, Claim(user="ann", booking="other"), False),
        ({"user": "ann"}, Claim(user="ann"), True),
        ({"user": "ann"}, Claim(user="ann", booking="exam"), True),
        ({"user": "ann"}, Claim(user="ann", booking="other"), False),
        ({"user": "ann"}, Claim(user="bob", booking="exam"), False),
        ({"project": "p"}, Claim(user="bob", project="p"), True),
        ({"project": "p"}, Claim(user="bob", project="q", booking="exam"), False),
        ({"user": "ann", "project": "p"}, Claim(user="ann", project="q"), False),
    ],
)
def test_a_booking_is_for_whom_it_names_or_for_whoever_names_it(whose, claim, may):
    assert claim.may_use(a_booking(**whose)) is may


# --- Keeping them --------------------------------------------------------------------------------


@pytest.mark.rows("S3-104")
def test_bookings_that_do_not_fit_side_by_side_are_refused_with_whom_and_how_much():
    calendar = a_calendar(
        a_booking("first", cpu_milli=3_000), a_booking("second", begins=150, cpu_milli=3_000)
    )
    with pytest.raises(BookingConflict) as refused:
        calendar.add(a_booking("third", begins=120, cpu_milli=3_000), now_ms=0)

    assert refused.value.others == ("first", "second")
    assert refused.value.missing == (("cpu_milli", 9_000, 8_000),)
    assert [one.name for one in calendar] == ["first", "second"]
    calendar.add(a_booking("third", begins=120, ends=150, cpu_milli=3_000), now_ms=0)
    calendar.add(a_booking("after", begins=200, ends=300, cpu_milli=8_000), now_ms=0)
    calendar.check()
    assert len(calendar) == 4


def test_a_booking_larger_than_the_machine_is_refused_with_nobody_to_blame():
    with pytest.raises(BookingConflict, match="on this machine") as refused:
        a_calendar(a_booking(cpu_milli=9_000, custom=(("fpga", 1_000), ("tpu", 5_000))))

    assert refused.value.others == ()
    assert refused.value.missing == (
        ("cpu_milli", 9_000, 8_000),
        ("custom.fpga", 1_000, 0),
        ("custom.tpu", 5_000, 4_000),
    )


def test_the_same_again_changes_nothing_and_another_under_its_name_is_refused():
    calendar = a_calendar(a_booking(), a_booking())
    assert "exam" in calendar
    assert len(calendar) == 1
    with pytest.raises(Conflict):
        calendar.add(a_booking(cpu_milli=1), now_ms=0)


def test_what_is_over_vanishes_and_cannot_be_booked():
    calendar = a_calendar(a_booking("old"), a_booking("later", begins=300, ends=400))
    assert calendar.expire(now_ms=199) == []
    assert [one.name for one in calendar.expire(now_ms=200)] == ["old"]
    assert [one.name for one in calendar] == ["later"]
    with pytest.raises(BadValue, match="in the future"):
        calendar.add(a_booking("old"), now_ms=200)
    calendar.add(a_booking("again", begins=500, ends=600), now_ms=400)
    assert "later" not in calendar


def test_a_booking_can_be_given_back_once():
    calendar = a_calendar(a_booking())
    assert calendar.remove("exam").name == "exam"
    with pytest.raises(NotFound):
        calendar.remove("exam")


def test_there_are_only_so_many(monkeypatch):
    monkeypatch.setattr(bookings_module, "BOOKINGS_MAX", 2)
    calendar = a_calendar(a_booking("a", cpu_milli=1), a_booking("b", cpu_milli=1))
    with pytest.raises(Overloaded):
        calendar.add(a_booking("c", cpu_milli=1), now_ms=0)


def test_only_so_many_hold_at_once(monkeypatch):
    monkeypatch.setattr(bookings_module, "TOGETHER_MAX", 2)
    calendar = a_calendar(a_booking("a", cpu_milli=1), a_booking("b", cpu_milli=1))
    calendar.add(a_booking("later", begins=200, ends=300, cpu_milli=1), now_ms=0)
    with pytest.raises(Overloaded, match="at one moment"):
        calendar.add(a_booking("c", begins=150, ends=300, cpu_milli=1), now_ms=0)


def test_a_promise_outlives_the_device_it_was_made_for():
    calendar = a_calendar(total=Resources(cpu_milli=4_000))
    assert calendar.restore(a_booking("small", cpu_milli=3_000)) is None
    lost = calendar.restore(a_booking("large"))
    calendar.check()

    assert (lost.others, lost.missing) == (("small",), (("cpu_milli", 9_000, 4_000),))
    (due,) = calendar.due(100, Resources(cpu_milli=4_000), [])
    assert (due.booking, due.missing) == ("large", (("cpu_milli", 6_000, 4_000),))
    calendar.remove("large")
    calendar.check()
    assert calendar.due(100, Resources(cpu_milli=4_000), []) == ()


def test_a_booking_holds_from_its_beginning_until_before_its_end():
    calendar = a_calendar(a_booking())
    held = {now_ms: len(calendar.active(now_ms)) for now_ms in (99, 100, 199, 200)}

    assert held == {99: 0, 100: 1, 199: 1, 200: 0}
    assert [calendar.next_ms(now_ms) for now_ms in (0, 100, 199, 200)] == [100, 200, 200, None]


# --- What others leave free ----------------------------------------------------------------------


def test_what_is_kept_for_others_is_held_back_now_and_not_before():
    calendar = a_calendar(a_booking(user="ann"))

    assert calendar.held_back(99, ANYBODY, []) == ()
    assert calendar.held_back(100, ANYBODY, []) == (Request(cpu_milli=6_000),)
    assert calendar.held_back(100, Claim(user="ann"), []) == ()


def test_what_the_jobs_of_a_booking_hold_is_not_kept_once_more():
    calendar = a_calendar(a_booking(user="ann", cpu_milli=6_000, memory_bytes=32))
    running = [
        holder(Claim(user="ann"), cpu_milli=4_000, memory_bytes=48),
        holder(ANYBODY, cpu_milli=2_000),
    ]
    assert calendar.held_back(100, ANYBODY, running) == (Request(cpu_milli=2_000),)
    more = [*running, holder(Claim(user="ann"), cpu_milli=2_000)]
    assert calendar.held_back(100, ANYBODY, more) == ()


def test_a_job_with_several_bookings_draws_on_one_after_the_other():
    calendar = a_calendar(
        a_booking("a", user="ann", cpu_milli=2_000),
        a_booking("b", user="ann", cpu_milli=2_000),
    )
    choosy = holder(Claim(user="ann", booking="a"), cpu_milli=1_000)
    either = holder(Claim(user="ann"), cpu_milli=2_000)

    assert calendar.held_back(100, ANYBODY, [either, choosy]) == (Request(cpu_milli=1_000),)


def test_of_two_booked_gpus_a_job_may_hold_one_and_a_half():
    booked = Request(gpus=GpuRequest(milli=2_000))
    half = Gpu(device="a", model="H100", share_milli=500)
    assert left_of([booked], Resources(gpus=(half,))) == (
        (Request(gpus=GpuRequest(milli=1_000)), Request(gpus=GpuRequest(milli=500))),
        Resources(),
    )
    assert left_of([booked], Resources(gpus=GPUS)) == ((), Resources())
    assert left_of([Request(gpus=GpuRequest(milli=500))], Resources(gpus=GPUS)) == (
        (),
        Resources(gpus=(Gpu(device="a", model="H100", share_milli=500), GPUS[1])),
    )


def test_a_device_of_another_model_meets_no_demand():
    booked = Request(cpu_milli=1, gpus=GpuRequest(model="H100"))
    assert left_of([booked], Resources(cpu_milli=1, gpus=GPUS[1:])) == (
        (Request(gpus=GpuRequest(model="H100")),),
        Resources(gpus=GPUS[1:]),
    )


def test_nothing_is_taken_of_what_is_not_there():
    less = Resources(cpu_milli=500, memory_bytes=7, gpus=GPUS[:1], custom=(("tpu", 1_000),))
    assert without(less, MACHINE) == Resources()
    assert without(MACHINE, Resources()) == MACHINE


@pytest.mark.parametrize(
    ("wanted", "missing"),
    [
        ([GpuRequest(), GpuRequest(model="H100")], ()),
        (
            [GpuRequest(model="H100"), GpuRequest(model="H100", milli=1)],
            (("gpu_milli.H100", 1, 0),),
        ),
        ([GpuRequest(milli=2_000), GpuRequest(milli=500)], (("gpu_milli", 500, 0),)),
        ([GpuRequest(milli=500), GpuRequest(milli=500), GpuRequest()], ()),
        ([GpuRequest(milli=700)] * 3, (("gpu_milli", 700, 300),)),
        ([GpuRequest()] * 4, (("gpu_milli", 2_000, 0),)),
    ],
)
def test_gpus_are_tried_on_the_choosiest_first(wanted, missing):
    assert missing_for([Request(gpus=one) for one in wanted], MACHINE) == missing


def test_a_job_stays_off_the_devices_that_others_need():
    held = [Request(gpus=GpuRequest(model="H100"))]
    share = Request(gpus=GpuRequest(milli=250))

    assert devices_beside(Request(gpus=GpuRequest()), held, MACHINE) == {"b"}
    assert devices_beside(Request(gpus=GpuRequest()), [Request(cpu_milli=1)], MACHINE) is None
    assert devices_beside(Request(cpu_milli=1), held, MACHINE) is None
    half = [Request(gpus=GpuRequest(milli=500))]
    assert devices_beside(share, half, MACHINE) == {"a", "b"}


# --- Running into one ----------------------------------------------------------------------------


@pytest.mark.rows("S3-104")
def test_a_job_with_a_known_end_must_not_run_into_a_booking_without_leaving_it_room():
    calendar = a_calendar(a_booking())
    wanted = Request(cpu_milli=4_000)

    def blocked(until_ms, claim=ANYBODY, running=(), request=wanted):
        return calendar.blocks(request, until_ms, 0, claim, running)

    assert blocked(101).bookings == ("exam",)
    assert blocked(101).at_ms == 100
    assert blocked(101).missing == (("cpu_milli", 10_000, 8_000),)
    assert blocked(100) is None  # Over in time.
    assert blocked(None) is None  # Gives way.
    assert blocked(101, claim=Claim(booking="exam")) is None
    assert blocked(101, request=Request(cpu_milli=2_000)) is None


def test_of_those_who_run_only_those_count_who_will_still_be_there():
    calendar = a_calendar(a_booking(user="ann"))

    def blocked(*running):
        return calendar.blocks(Request(cpu_milli=2_000), 150, 0, ANYBODY, running)

    assert blocked(holder(ANYBODY, cpu_milli=1_000, until_ms=100)) is None
    assert blocked(holder(ANYBODY, cpu_milli=1_000)) is None
    assert blocked(holder(Claim(user="ann"), cpu_milli=1_000, until_ms=101)) is None
    assert blocked(holder(ANYBODY, cpu_milli=1_000, until_ms=101)) is not None


def test_a_later_booking_counts_too():
    calendar = a_calendar(
        a_booking("soon", cpu_milli=1_000), a_booking("late", begins=150, cpu_milli=7_000)
    )
    found = calendar.blocks(Request(cpu_milli=1_000), 180, 0, ANYBODY, [])

    assert (found.at_ms, found.bookings) == (150, ("soon", "late"))


def test_when_a_window_begins_what_is_missing_is_told():
    calendar = a_calendar(
        a_booking("first", user="ann", cpu_milli=4_000),
        a_booking("second", user="bob", cpu_milli=3_000),
        a_booking("third", cpu_milli=1_000),
    )
    free = Resources(cpu_milli=5_000)
    running = [holder(Claim(user="eve"), cpu_milli=3_000)]

    assert calendar.due(99, free, running) == ()
    (found,) = calendar.due(100, free, running)
    assert (found.booking, found.rest) == ("second", (Request(cpu_milli=3_000),))
    assert found.missing == (("cpu_milli", 7_000, 5_000),)
    assert calendar.due(100, MACHINE, []) == ()


def test_check_notices_what_must_not_be():
    calendar = a_calendar(a_booking())
    calendar._bookings["other"] = a_booking("other")
    with pytest.raises(AssertionError, match="out of order"):
        calendar.check()
    calendar._ordered = tuple(calendar._bookings.values())
    with pytest.raises(AssertionError, match="overbooked"):
        calendar.check()
    gpus = a_calendar(a_booking("a", gpus=GpuRequest(milli=2_000)))
    gpus.total = msgspec.structs.replace(MACHINE, gpus=GPUS[:1])
    with pytest.raises(AssertionError, match="overbooked"):
        gpus.check()
