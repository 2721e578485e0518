"""What time it is, for an agent: never earlier than it was.

Lives here: reading clocks. Never here: what follows from the time (`kernel`).
Invariant: two readings are in order, whatever happens to the machine's clock, and go on at the pace
of real time.

A clock that is set forward is followed. One that is set back is not, until the agent starts again;
and then not before the newest job that it remembers, unless that is further ahead than a mistake of
the time zone: a machine that once believed it was 2099 need not do so for ever.
"""

import time
from collections.abc import Callable
from typing import Final

FOLLOW_MS_MAX: Final = 86_400_000  # A day.
_MILLI_NS: Final = 1_000_000


def _steady_ns() -> int:
    # The one that goes on while the machine sleeps, where there is one.
    return time.clock_gettime_ns(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


def boot_us() -> int:
    """Since the machine started, sleep included: the clock of leases, as the keeper reads it."""
    return _steady_ns() // 1_000


class SteadyClock:
    """Milliseconds since the epoch."""

    def __init__(
        self,
        *,
        epoch_ns: Callable[[], int] = time.time_ns,
        steady_ns: Callable[[], int] = _steady_ns,
    ) -> None:
        self._epoch_ns, self._steady_ns = epoch_ns, steady_ns
        self._ahead_ns = epoch_ns() - steady_ns()

    def __call__(self) -> int:
        """Now."""
        steady_ns = self._steady_ns()
        self._ahead_ns = max(self._ahead_ns, self._epoch_ns() - steady_ns)
        return (steady_ns + self._ahead_ns) // _MILLI_NS

    def not_before(self, at_ms: int) -> None:
        """From now on it is later than this."""
        if 0 <= at_ms - self() < FOLLOW_MS_MAX:
            self._ahead_ns += (at_ms + 1 - self()) * _MILLI_NS
