from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributed_grid.errors import BadValue
from distributed_grid.model import moment
from distributed_grid.model.lending import Hours


def ms(text: str) -> int:
    """A moment from ISO text with its zone, by the standard library."""
    return round(datetime.fromisoformat(text).timestamp() * 1_000)


def zone(name: str) -> moment.Offset:
    known = ZoneInfo(name)

    def offset_of(at_ms: int) -> int:
        there = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=at_ms)
        return there.astimezone(known).utcoffset() // timedelta(milliseconds=1)

    return offset_of


BERLIN = zone("Europe/Berlin")
NOW = "2026-11-16T12:00:00+01:00"  # A Monday.


@pytest.mark.parametrize(
    ("text", "means"),
    [
        ("14:30", "2026-11-16T14:30:00+01:00"),
        ("12:00", NOW),
        ("11:59", "2026-11-17T11:59:00+01:00"),
        ("9:05:07", "2026-11-17T09:05:07+01:00"),
        ("today 8:00", "2026-11-16T08:00:00+01:00"),
        ("Tomorrow 8:00", "2026-11-17T08:00:00+01:00"),
        ("2026-12-24 18:00", "2026-12-24T18:00:00+01:00"),
        ("2026-07-01 18:00", "2026-07-01T18:00:00+02:00"),
        ("2028-02-29T00:00:30", "2028-02-29T00:00:30+01:00"),
        ("2026-12-24T18:00:00+01:00", "2026-12-24T18:00:00+01:00"),
        ("2026-12-24T18:00-0930", "2026-12-24T18:00:00-09:30"),
        ("2026-12-24T18:00Z", "2026-12-24T18:00:00+00:00"),
        ("+2h", "2026-11-16T14:00:00+01:00"),
        (" in 90m ", "2026-11-16T13:30:00+01:00"),
        ("+ 1.5d", "2026-11-18T00:00:00+01:00"),
    ],
)
@pytest.mark.rows("S3-105")
def test_a_moment_is_read_as_people_write_it(text, means):
    assert moment.parse(text, ms(NOW), BERLIN) == ms(means)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("25:00", "0:00 to 23:59"),
        ("24:00", "0:00 to 23:59"),
        ("12:60", "0:00 to 23:59"),
        ("12:00:61", "0:00 to 23:59"),
        ("tomorrow 24:00", "0:00 to 23:59"),
        ("2026-12-24 25:00", "0:00 to 23:59"),
        ("2026-02-29 12:00", "day of the calendar"),
        ("2026-13-01 12:00", "day of the calendar"),
        ("2026-00-01 12:00", "day of the calendar"),
        ("2026-04-00 12:00", "day of the calendar"),
        ("1969-12-31 12:00", "year"),
        ("9999-01-01 12:00", "year"),
        ("2026-12-24 18:00+15:00", "zone"),
        ("2026-12-24 18:00+01:60", "zone"),
        ("+2 apples", "a span of time"),
        ("in 900000000h", "a century"),
        ("1735000000", "a moment"),
        ("tomorrow", "a moment"),
        ("2026-12-24", "a moment"),
        ("24.12.2026 18:00", "a moment"),
        ("١٤:٣٠", "a moment"),
        ("in2h", "a moment"),
        ("+", "a moment"),
        ("", "a moment"),
        ("1" * 41, "a moment"),
        (1_735_000_000, "a moment"),
        (None, "a moment"),
    ],
)
def test_what_is_no_moment_is_refused_with_an_example(text, expected):
    with pytest.raises(BadValue, match=expected) as error:
        moment.parse(text, ms(NOW), BERLIN)
    assert error.value.remedy


def test_a_time_that_the_clock_skips_is_as_much_later():
    assert moment.parse("2026-03-29 02:30", 0, BERLIN) == ms("2026-03-29T03:30:00+02:00")
    before = ms("2026-03-28T23:00:00+01:00")
    assert moment.parse("2:30", before, BERLIN) == ms("2026-03-29T03:30:00+02:00")


def test_a_time_that_comes_twice_is_the_first():
    assert moment.parse("2026-10-25 02:30", 0, BERLIN) == ms("2026-10-25T02:30:00+02:00")
    between = ms("2026-10-25T02:10:00+01:00")  # The first 2:30 is over, the second is not.
    assert moment.parse("2:30", between, BERLIN) == ms("2026-10-26T02:30:00+01:00")


@pytest.mark.parametrize(
    "name",
    ["Europe/Berlin", "America/St_Johns", "Australia/Lord_Howe", "Asia/Kathmandu", "Pacific/Apia"],
)
def test_what_is_written_is_read_back_and_agrees_with_the_standard_library(name):
    offset_of = zone(name)

    @given(st.integers(2 * 86_400, ms("2037-12-31T00:00:00+00:00") // 1_000))
    def check(at_s: int) -> None:
        local = datetime.fromtimestamp(at_s, ZoneInfo(name)).replace(tzinfo=None)
        written = moment.text(at_s * 1_000, offset_of)
        assert datetime.fromisoformat(written) == local
        # The library's rule is ours: `fold=0` is the first, and before the gap.
        again = local.replace(tzinfo=ZoneInfo(name), fold=0).timestamp()
        assert moment.parse(written, 0, offset_of) == again * 1_000
        minutes = local.weekday() * 1_440 + local.hour * 60 + local.minute
        assert moment.week_minute(at_s * 1_000, offset_of) == minutes

    check()


@pytest.mark.parametrize("name", ["Europe/Berlin", "America/St_Johns", "Australia/Lord_Howe"])
@pytest.mark.parametrize(("month", "day"), [(3, 7), (3, 28), (4, 4), (10, 3), (10, 24), (10, 31)])
def test_around_the_change_of_clocks_every_time_is_what_the_standard_library_says(name, month, day):
    offset_of = zone(name)
    local = datetime(2026, month, day, tzinfo=ZoneInfo(name))  # Counts wall clocks, not hours.
    for _ in range(3 * 48):
        local += timedelta(minutes=30)
        assert moment.parse(f"{local:%Y-%m-%d %H:%M}", 0, offset_of) == local.timestamp() * 1_000


@given(st.dates(date(1970, 1, 1), date(2199, 12, 31)))
def test_every_day_of_the_calendar_is_itself(day):
    at_ms = moment.parse(f"{day} 00:00", 0, lambda _: 0)

    assert at_ms == (day - date(1970, 1, 1)).days * 86_400_000
    assert moment.text(at_ms, lambda _: 0) == f"{day} 00:00"


def test_the_ends_of_years_are_right():
    for year in range(1970, 2200):
        last = datetime(year, 12, 31, 23, 59, 59, tzinfo=UTC)
        written = moment.text(round(last.timestamp()) * 1_000, lambda _: 0)

        assert written == f"{year}-12-31 23:59:59"


@pytest.mark.parametrize(
    ("text", "means"),
    [
        ("22:00-07:00", Hours(from_minute=1_320, to_minute=420)),
        ("mon-fri 22:00-07:00", Hours(from_minute=1_320, to_minute=420, days=(0, 1, 2, 3, 4))),
        ("8:00-20:00 Sat,Sun", Hours(from_minute=480, to_minute=1_200, days=(5, 6))),
        ("fri-mon", Hours(days=(0, 4, 5, 6))),
    ],
)
def test_opening_hours_are_a_span_days_or_both(text, means):
    assert moment.hours(text) == means


@pytest.mark.parametrize(
    "text",
    ["", "25:00-07:00", "08:00-08:00", "8:00", "funday", "mon tue", "8:00-9:00 9:00-10:00",
     "mon 8:00-9:00 x", "mon " * 20, 8, None],
)  # fmt: skip
def test_hours_that_are_none_are_refused_with_an_example(text):
    with pytest.raises(BadValue) as error:
        moment.hours(text)
    assert error.value.remedy
