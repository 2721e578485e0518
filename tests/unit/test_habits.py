"""What is expected of an hour of the week."""

import pytest

from distributed_grid.kernel.habits import HOURS, UNKNOWN, Habits

MINUTE_MS = 60_000


def watch(habits: Habits, *, hour: int, active_minutes: int, minutes: int = 60) -> None:
    """One hour, a look each minute, and the first look of the next."""
    for minute in range(minutes + 1):
        at = hour * 60 + minute
        is_active = 0 < minute <= active_minutes
        habits.watched(at % (HOURS * 60), at * MINUTE_MS, is_active=is_active)


@pytest.mark.parametrize(("minutes", "expected"), [(0, 0), (59, 1_000), (30, 508)])
def test_an_hour_expects_what_was_seen_in_it(minutes, expected):
    habits = Habits()
    watch(habits, hour=5, active_minutes=minutes)

    assert habits.expected_milli(5 * 60 + 17) == expected
    assert habits.expected_milli(6 * 60) is None


def test_a_new_habit_outvotes_an_old_one_after_two_weeks():
    habits = Habits()
    seen = []
    for week in range(4):
        watch(habits, hour=week * HOURS + 5, active_minutes=0 if week else 59)
        seen.append(habits.expected_milli(5 * 60))

    assert seen == [1_000, 666, 444, 296]


def test_a_new_week_counts_a_third():
    habits = Habits()
    watch(habits, hour=5, active_minutes=0)
    watch(habits, hour=HOURS + 5, active_minutes=59)

    assert habits.expected_milli(5 * 60) == 333


def test_an_hour_that_was_hardly_watched_teaches_nothing():
    habits = Habits()
    watch(habits, hour=0, active_minutes=20, minutes=20)
    watch(habits, hour=3, active_minutes=20, minutes=1)

    assert habits.bins == (UNKNOWN,) * HOURS


def test_what_was_saved_is_what_was_learned_and_junk_is_nothing():
    habits = Habits()
    watch(habits, hour=0, active_minutes=59)

    assert Habits(habits.bins).bins == habits.bins
    assert Habits((5_000,) * HOURS).bins == Habits((1, 2)).bins == (UNKNOWN,) * HOURS
