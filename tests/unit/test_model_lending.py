"""Hours, days and percents of lending, as people write them."""

import pytest

from distributed_grid.errors import BadValue
from distributed_grid.model.lending import Hours, days, hours, percent

MONDAY, SUNDAY = 0, 6 * 24 * 60


def at(clock: str, day: int = MONDAY) -> int:
    hour, minute = clock.split(":")
    return day + int(hour) * 60 + int(minute)


def test_all_day_is_always_open():
    assert all(Hours().is_open(minute) for minute in range(0, 7 * 24 * 60, 7))
    assert Hours().span == "all day"
    assert Hours().day_names == "mon,tue,wed,thu,fri,sat,sun"


def test_hours_of_one_day_begin_included_and_end_excluded():
    open_ = Hours(from_minute=9 * 60, to_minute=17 * 60, days=(0,))

    assert [open_.is_open(at(clock)) for clock in ("08:59", "09:00", "16:59", "17:00")] == [
        False,
        True,
        True,
        False,
    ]
    assert not open_.is_open(at("10:00", SUNDAY))
    assert open_.span == "09:00-17:00"


def test_hours_over_midnight_belong_to_the_evening_they_begin():
    open_ = Hours(from_minute=22 * 60, to_minute=7 * 60, days=(6,))  # Sunday evening.

    assert not open_.is_open(at("06:00", SUNDAY))
    assert open_.is_open(at("22:00", SUNDAY))
    assert open_.is_open(at("06:59", MONDAY))
    assert not open_.is_open(at("07:00", MONDAY))
    assert not open_.is_open(at("22:00", MONDAY))


@pytest.mark.parametrize(
    ("text", "minutes"),
    [
        ("22:00-07:00", (1_320, 420)),
        (" 9:00 - 17:30 ", (540, 1_050)),
        ("18:00-24:00", (1_080, 0)),
        ("00:00-24:00", (0, 0)),
        ("All day", (0, 0)),
    ],
)
def test_hours_are_read(text, minutes):
    assert hours(text) == minutes


@pytest.mark.parametrize(
    "text",
    [5, "", "22:00", "25:00-07:00", "22:60-07:00", "24:00-07:00", "22:00-24:30", "7-8",
     "22:00-07:00,12:00-13:00"],
)  # fmt: skip
def test_what_are_no_hours_is_refused(text):
    with pytest.raises(BadValue, match="two times of a day"):
        hours(text)


def test_hours_that_end_when_they_begin_are_refused():
    with pytest.raises(BadValue, match="not the beginning"):
        hours("22:00-22:00")


@pytest.mark.parametrize(
    ("value", "numbers"),
    [
        ("mon-fri", (0, 1, 2, 3, 4)),
        ("Sat,Sun", (5, 6)),
        (["sat", "sunday"], (5, 6)),
        ("fri-mon", (0, 4, 5, 6)),
        ("tue", (1,)),
        ("mon-tue,sun", (0, 1, 6)),
    ],
)
def test_days_are_read(value, numbers):
    assert days(value) == numbers


@pytest.mark.parametrize("value", [5, None, "", [], "mo-fr", "mon-wed-fri", ["mon", 3]])
def test_what_are_no_days_is_refused(value):
    with pytest.raises(BadValue, match="of the week"):
        days(value)


def test_percents_are_written_with_a_tenth_where_there_is_one():
    assert (percent(300), percent(305), percent(0)) == ("30 %", "30.5 %", "0 %")
