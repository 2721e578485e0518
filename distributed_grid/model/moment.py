"""Moments as people write them: `14:30`, `tomorrow 8:00`, `2026-12-24 18:00`, `+2h`.

Lives here: text to milliseconds since 1970, and back. Never here: reading a clock, or knowing where
we are: both come as arguments.
Invariant: the same text, moment and zone give the same moment. A local time that does not exist,
because clocks go forward over it, is as much later as they go; one that exists twice is the first.
"""

import re
from collections.abc import Callable
from typing import Final

from distributed_grid.errors import BadValue
from distributed_grid.model import duration, lending

# The difference between local time and UTC at a moment: both in milliseconds, east is positive.
Offset = Callable[[int], int]

EXAMPLES: Final = "Write it like 14:30, tomorrow 8:00, 2026-12-24 18:00 or +2h"
CHARACTERS_MAX: Final = 40  # A longer one is no time.
YEAR_MIN: Final = 1970
YEAR_MAX: Final = 2199  # Beyond this somebody mistyped; a century from now is before it.

_SECOND_MS: Final = 1_000
_MINUTE_MS: Final = 60_000
_DAY_MS: Final = 86_400_000
_CLOCK: Final = r"([0-9]{1,2}):([0-9]{2})(?::([0-9]{2}))?"
_SPAN = re.compile(r"(?:\+|in\s)\s*(\S.*)")
_TIME = re.compile(rf"(?:(today|tomorrow)\s+)?{_CLOCK}")
_DATE = re.compile(
    rf"([0-9]{{4}})-([0-9]{{2}})-([0-9]{{2}})[t\s]\s*{_CLOCK}(z|[+-][0-9]{{2}}:?[0-9]{{2}})?"
)
_DAYS_BEFORE: Final = (0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334)


def parse(text: object, now_ms: int, offset_of: Offset) -> int:
    """The moment that somebody means, in milliseconds since 1970.

    A time alone is its next occurrence. Other moments may lie in the past: the caller knows
    whether that makes sense.
    """
    word = text.strip().lower() if isinstance(text, str) and len(text) <= CHARACTERS_MAX else ""
    if match := _SPAN.fullmatch(word):
        return now_ms + duration.parse(match[1])
    if match := _TIME.fullmatch(word):
        return _next(match, now_ms, offset_of)
    if match := _DATE.fullmatch(word):
        return _dated(match, offset_of)
    raise BadValue(text, expected="a moment", remedy=EXAMPLES)


def text(at_ms: int, offset_of: Offset) -> str:
    """A moment in local time, as `parse` reads it: 2026-12-24 18:00, with seconds if there are."""
    days, rest_ms = divmod(at_ms + offset_of(at_ms), _DAY_MS)
    year, month, day = _civil(days)
    minutes, seconds = divmod(rest_ms // _SECOND_MS, 60)
    tail = f":{seconds:02d}" if seconds else ""
    return f"{year:04d}-{month:02d}-{day:02d} {lending.clock(minutes)}{tail}"


def week_minute(at_ms: int, offset_of: Offset) -> int:
    """The minutes since Monday 00:00, local time."""
    days, rest_ms = divmod(at_ms + offset_of(at_ms), _DAY_MS)
    return (days + 3) % 7 * lending.DAY_MINUTES + rest_ms // _MINUTE_MS  # 1970 began on a Thursday.


def hours(text: object) -> lending.Hours:
    """Opening hours: `22:00-07:00`, `mon-fri 22:00-07:00`, `22:00-07:00 sat,sun` or `sat,sun`."""
    words = text.lower().split() if isinstance(text, str) and len(text) <= CHARACTERS_MAX else []
    spans = [word for word in words if ":" in word]
    days = [word for word in words if ":" not in word]
    if not 1 <= len(words) <= 2 or len(spans) > 1 or len(days) > 1:
        raise BadValue(
            text,
            expected="hours and days",
            remedy="Write it like 22:00-07:00, mon-fri 22:00-07:00 or sat,sun",
        )
    from_minute, to_minute = lending.hours(spans[0]) if spans else (0, 0)
    open_days = {"days": lending.days(days[0])} if days else {}
    return lending.Hours(from_minute=from_minute, to_minute=to_minute, **open_days)


def _next(match: re.Match[str], now_ms: int, offset_of: Offset) -> int:
    """A time of today, of tomorrow, or the next one."""
    clock_ms = _clock_ms(match[0], match[2], match[3], match[4])
    today = (now_ms + offset_of(now_ms)) // _DAY_MS
    if match[1] != "tomorrow":
        at_ms = _local((today * _DAY_MS) + clock_ms, offset_of)
        if match[1] == "today" or at_ms >= now_ms:
            return at_ms
    return _local((today + 1) * _DAY_MS + clock_ms, offset_of)


def _dated(match: re.Match[str], offset_of: Offset) -> int:
    year, month, day = int(match[1]), int(match[2]), int(match[3])
    if not YEAR_MIN <= year <= YEAR_MAX:
        raise BadValue(
            match[0], expected=f"a year from {YEAR_MIN} to {YEAR_MAX}", remedy="Check the year"
        )
    days = _days(year, month, day) if 1 <= month <= 12 else 0
    if _civil(days) != (year, month, day):
        raise BadValue(match[0], expected="a day of the calendar", remedy="Check month and day")
    wall_ms = days * _DAY_MS + _clock_ms(match[0], match[4], match[5], match[6])
    zone = match[7]
    if not zone:
        return _local(wall_ms, offset_of)
    if zone == "z":
        return wall_ms
    ahead_hours, ahead_minutes = int(zone[1:3]), int(zone[-2:])
    if ahead_hours > 14 or ahead_minutes > 59:
        raise BadValue(
            match[0], expected="a zone of at most 14 hours", remedy="Write it like Z or +01:00"
        )
    ahead_ms = (ahead_hours * 60 + ahead_minutes) * _MINUTE_MS
    return wall_ms - ahead_ms if zone[0] == "+" else wall_ms + ahead_ms


def _clock_ms(whole: str, hour: str, minute: str, second: str | None) -> int:
    if int(hour) > 23 or int(minute) > 59 or int(second or 0) > 59:
        raise BadValue(
            whole, expected="a time from 0:00 to 23:59", remedy="Midnight is 0:00 of the next day"
        )
    return (int(hour) * 60 + int(minute)) * _MINUTE_MS + int(second or 0) * _SECOND_MS


def _local(wall_ms: int, offset_of: Offset) -> int:
    """The moment at which clocks here show this: the first of two, or after a gap."""
    # No zone changes its clocks twice within two days, so one of these two offsets holds.
    before_ms = offset_of(wall_ms - _DAY_MS)
    after_ms = offset_of(wall_ms + _DAY_MS)
    for offset_ms in (before_ms, after_ms):
        if offset_of(wall_ms - offset_ms) == offset_ms:
            return wall_ms - offset_ms
    return wall_ms - before_ms


def _days(year: int, month: int, day: int) -> int:
    """Days since 1970-01-01 of a day in the calendar that we use."""
    before = year - (month <= 2)  # The years of which the leap day has been.
    leap_days = before // 4 - before // 100 + before // 400 - 477  # So many until 1970.
    return (year - 1970) * 365 + leap_days + _DAYS_BEFORE[month - 1] + day - 1


def _civil(days: int) -> tuple[int, int, int]:
    """Year, month and day of a number of days since 1970-01-01."""
    year = 1970 + days * 400 // 146_097  # Four centuries have so many days: at most one off.
    while _days(year, 1, 1) > days:
        year -= 1
    while _days(year + 1, 1, 1) <= days:
        year += 1
    month = max(month for month in range(1, 13) if _days(year, month, 1) <= days)
    return year, month, days - _days(year, month, 1) + 1
