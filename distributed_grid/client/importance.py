"""How important a job is, when it runs and how it gives way, from the words of people.

Lives here: signals, graces, moments, names of projects and bookings. Never here: what follows from
them (`kernel`).
"""

import signal
import time
from typing import Final, Protocol

from distributed_grid.errors import BadValue
from distributed_grid.model import duration

SIGNAL_DEFAULT: Final = 15  # SIGTERM: what programs handle already.
GRACE_MS_DEFAULT: Final = 10_000  # As long as a cancelled job has.
GRACE_MS_MAX: Final = 86_400_000  # A day: who waits for the room has a right to it at some time.
NAME_CHARACTERS_MAX: Final = 253


class HasTimestamp(Protocol):
    """A datetime, without importing that for every `grid run`."""

    def timestamp(self) -> float:
        """Seconds since 1970, in UTC."""
        ...


Moment = str | HasTimestamp


def signal_of(told: int | str | None) -> int:
    """`SIGUSR1`, `usr1`, `10` or 10."""
    if told is None:
        return SIGNAL_DEFAULT
    plain = str(told).strip().upper()
    if plain.isascii() and plain.isdigit() and 1 <= int(plain[:4]) < signal.NSIG:
        return int(plain)
    found = getattr(signal, f"SIG{plain.removeprefix('SIG')}", None)
    if isinstance(found, signal.Signals):
        return int(found)
    raise BadValue(told, expected="a signal", remedy="Write it like SIGUSR1, USR1 or 10")


def grace_ms(told: float | str | None) -> int:
    """How long a job may take to give way."""
    span_ms = GRACE_MS_DEFAULT if told is None else duration.parse(told)
    if span_ms > GRACE_MS_MAX:
        raise BadValue(
            told, expected="a grace of at most a day", remedy="Save its state more often"
        )
    return span_ms


def window(start_at: Moment | None, deadline: Moment | None) -> tuple[int, int]:
    """When a job may start and must have ended, in milliseconds; 0: not told."""
    start_ms, deadline_ms = moment_ms(start_at), moment_ms(deadline)
    if deadline_ms and deadline_ms <= max(start_ms, now_ms()):
        raise BadValue(
            str(deadline),
            expected="a deadline after the start and after now",
            remedy="Check both times",
        )
    return start_ms, deadline_ms


def moment_ms(told: Moment | None, *, after_ms: int | None = None) -> int:
    """A moment in milliseconds since 1970, counted from now or another one; 0 for none."""
    if told is None:
        return 0
    if not isinstance(told, str):
        return int(told.timestamp() * 1_000)
    from distributed_grid.model.moment import parse  # Few jobs name a time.

    return parse(told, now_ms() if after_ms is None else after_ms, _offset_ms)


def now_ms() -> int:
    """This moment."""
    return time.time_ns() // 1_000_000


def _offset_ms(at_ms: int) -> int:
    """How far clocks here are ahead of UTC at a moment."""
    return time.localtime(at_ms // 1_000).tm_gmtoff * 1_000


def word(told: str, what: str) -> str:
    """A name that can be shown on one line; empty for none."""
    if not isinstance(told, str) or not told.isprintable() or len(told) > NAME_CHARACTERS_MAX:
        raise BadValue(
            told,
            expected=f"a {what} of at most {NAME_CHARACTERS_MAX} printable characters",
            remedy="Write a shorter, plain name",
        )
    return told
