"""Until when attempts may run that must not run twice at once anywhere.

Lives here: the moments, and the clock they are on. Never here: ending an attempt (`attempts`), how
long a lease lasts (`kernel.across.register_lease`): the agent only moves a deadline, upwards.
Invariant: the clock goes on while the machine sleeps. What waits for a moment of it must look each
`LOOK_NS`: timers stand still in a sleep, so after a wake an attempt is gone within one look.
"""

import time
from typing import Final

LOOK_NS: Final = 100_000_000
_CLOCK: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def boot_us() -> int:
    """Now, in microseconds since the machine started, sleep included."""
    return time.clock_gettime_ns(_CLOCK) // 1_000


class Deadlines:
    """By attempt."""

    def __init__(self) -> None:
        self.until_us: dict[str, int] = {}

    def set(self, attempt: str, until_us: int) -> None:
        """It may run until then, if that is later than it might before."""
        self.until_us[attempt] = max(until_us, self.until_us.get(attempt, 0))

    def take_due(self) -> list[str]:
        """Attempts whose time is over; told once."""
        if not self.until_us:
            return []
        now_us = boot_us()
        due = [attempt for attempt, until_us in self.until_us.items() if now_us >= until_us]
        for attempt in due:
            del self.until_us[attempt]
        return due

    def forget(self, attempt: str) -> None:
        """It is over."""
        self.until_us.pop(attempt, None)

    def __bool__(self) -> bool:
        return bool(self.until_us)
