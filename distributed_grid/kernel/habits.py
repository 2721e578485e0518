"""When the owner is usually at the machine: one number for each hour of the week.

Lives here: learning from samples, and what is expected of an hour. Never here: what follows from
it (`lending`).
Invariant: an hour that was never watched for half of its length expects nothing.
"""

from typing import Final

HOURS: Final = 7 * 24
UNKNOWN: Final = -1
_HOUR_MS: Final = 3_600_000
_WATCHED_MS_MIN: Final = _HOUR_MS // 2  # Less says little about an hour.
_GAP_MS_MAX: Final = 5 * 60_000  # A longer pause between samples is a machine that slept.
# A new week counts a third: after two weeks of a new habit the old one is outvoted.
_WEIGHT_OF_OLD: Final = 2
BUSY_MILLI: Final = 500  # Expected to be active for more than half of the hour.


class Habits:
    """Learns at which hours of the week the owner is active."""

    def __init__(self, bins: tuple[int, ...] = ()) -> None:
        fits = len(bins) == HOURS and all(UNKNOWN <= part <= 1_000 for part in bins)
        self._bins = list(bins) if fits else [UNKNOWN] * HOURS
        self._hour = 0
        self._watched_ms = self._active_ms = 0
        self._at_ms: int | None = None

    @property
    def bins(self) -> tuple[int, ...]:
        """What to save: thousandths of each hour, Monday 00:00 first; UNKNOWN where not watched."""
        return tuple(self._bins)

    def watched(self, week_minute: int, at_ms: int, *, is_active: bool) -> None:
        """One look at the owner. The time since the last look counts as what is seen now."""
        hour = week_minute // 60 % HOURS
        if hour != self._hour:
            self._fold()
            self._hour = hour
        gap_ms = 0 if self._at_ms is None else max(at_ms - self._at_ms, 0)
        self._at_ms = at_ms
        if gap_ms <= _GAP_MS_MAX:
            self._watched_ms += gap_ms
            self._active_ms += gap_ms if is_active else 0

    def expected_milli(self, week_minute: int) -> int | None:
        """For how much of this hour the owner is usually active; None: not known yet."""
        known = self._bins[week_minute // 60 % HOURS]
        return None if known == UNKNOWN else known

    def _fold(self) -> None:
        if self._watched_ms >= _WATCHED_MS_MIN:
            new = self._active_ms * 1_000 // self._watched_ms
            old = self._bins[self._hour]
            if old != UNKNOWN:
                new = (old * _WEIGHT_OF_OLD + new) // (_WEIGHT_OF_OLD + 1)
            self._bins[self._hour] = new
        self._watched_ms = self._active_ms = 0
