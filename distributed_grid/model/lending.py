"""Lending: what an owner's machine measures, offers to others, and under which terms.

Lives here: the nouns. Never here: turning measurements into offers (`kernel.lending`), measuring
(`edges.probe`).
Invariant: percents are thousandths of one (`_milli`), like cores; times are milliseconds.
"""

import re
from typing import Any, Final, Literal

import msgspec

from distributed_grid.errors import BadValue
from distributed_grid.model.bounds import Bytes, Moment, Name, Story

OfferKind = Name  # gpu, memory, cpu, storage, or the name of a custom kind.
KINDS: Final = ("gpu", "memory", "cpu", "storage")

Mode = Literal["offload_only", "share_and_offload", "dynamic_balancing"]
SharingPolicy = Literal["conservative", "balanced", "aggressive", "predictive"]
YieldTo = Literal["suspend", "stop", "ignore"]

DAY_MINUTES: Final = 24 * 60
WEEK_MINUTES: Final = 7 * DAY_MINUTES
DAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_SPAN: Final = re.compile(r"([01]?\d|2[0-4]):([0-5]\d)\s*-\s*([01]?\d|2[0-4]):([0-5]\d)")


class Thresholds(msgspec.Struct, frozen=True, kw_only=True):
    """When a machine counts as idle, and when it is busy.

    The first six are seed 003's: use strictly below `max`, at least `min` free. Above
    `pressure_high` borrowed work gives way; below `pressure_low` again it goes on.
    """

    gpu_utilization_max_milli: int = 200
    gpu_memory_min_bytes: int = 1_024 << 20
    memory_used_max_milli: int = 500
    memory_min_bytes: int = 2 << 30
    cpu_used_max_milli: int = 300
    cpu_min_milli: int = 1_000
    cpu_pressure_high_milli: int = 800
    cpu_pressure_low_milli: int = 300
    memory_pressure_high_milli: int = 800
    memory_pressure_low_milli: int = 300
    gpu_pressure_high_milli: int = 800
    gpu_pressure_low_milli: int = 300


class Hours(msgspec.Struct, frozen=True, kw_only=True):
    """When lending is open: minutes since midnight, local time; from > to goes over midnight."""

    from_minute: int = 0
    to_minute: int = 0  # Equal to `from_minute`: all day.
    days: tuple[int, ...] = (0, 1, 2, 3, 4, 5, 6)  # Monday is 0; of the evening it begins.

    def is_open(self, week_minute: int) -> bool:
        """Whether a minute since Monday 00:00 is inside."""
        day, minute = divmod(week_minute % WEEK_MINUTES, DAY_MINUTES)
        if self.from_minute < self.to_minute:
            return day in self.days and self.from_minute <= minute < self.to_minute
        # Over midnight, or all day: what began on the evening before may still be open.
        began_today = day in self.days and minute >= self.from_minute
        return began_today or ((day - 1) % 7 in self.days and minute < self.to_minute)

    @property
    def span(self) -> str:
        """As people write it: 22:00-07:00."""
        if self.from_minute == self.to_minute:
            return "all day"
        return f"{clock(self.from_minute)}-{clock(self.to_minute)}"

    @property
    def day_names(self) -> str:
        """As people write them: mon,tue,fri."""
        return ",".join(DAYS[day] for day in self.days)


class Terms(msgspec.Struct, frozen=True, kw_only=True):
    """What the owner decided about lending."""

    is_enabled: bool = True
    mode: Mode = "dynamic_balancing"
    policy: SharingPolicy = "balanced"
    check_interval_ms: int = 60_000
    monitoring_interval_ms: int = 10_000  # While something is lent: the owner must not wait.
    offer_expiry_ms: int = 300_000
    offers_max: int = 5
    thresholds: Thresholds = Thresholds()
    reserved_cpu_milli: int = 0  # Never lent, whatever is idle.
    reserved_memory_bytes: int = 1 << 30  # A desktop without memory is no desktop.
    reserved_gpus: int = 0
    hours: Hours = Hours()
    battery_min_percent: int = 101  # Lent on battery from this level; 101: only on mains.
    temperature_max_centi: int = 8_500
    # How long no key and no terminal must have been touched; 0: not looked at; None: as the
    # policy has it.
    quiet_ms: int | None = None
    yield_to: YieldTo = "suspend"
    # Suspended for so long it is stopped, and waits for another chance; None: as the policy has it.
    suspended_ms_max: int | None = None
    allocation_ms_max: int = 0  # A loan ends after this; 0: when the job ends.
    allow_urgent: bool = False  # May borrowers preempt each other?
    allow_no_preempt: bool = False  # May borrowed work refuse to give way?


class GpuUse(msgspec.Struct, frozen=True, kw_only=True):
    """One GPU at one moment."""

    device: str
    utilization_milli: int
    memory_free_bytes: int
    memory_total_bytes: int


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """What the machine does for its owner at one moment; the use of Grid's jobs is not in it."""

    at_ms: int
    local_minute: int  # Since Monday 00:00, local time.
    cpu_total_milli: int
    cpu_used_milli: int  # By others than Grid's jobs.
    memory_total_bytes: int
    memory_used_bytes: int  # By others than Grid's jobs.
    storage_free_bytes: int
    gpus: tuple[GpuUse, ...] = ()
    is_on_battery: bool = False
    battery_percent: int | None = None
    temperature_centi: int | None = None
    idle_ms: int | None = None  # Since the last key or terminal input; None: cannot be seen.


class Offer(msgspec.Struct, frozen=True, kw_only=True):
    """An advertisement: so much of a kind, until then, unless the owner comes back."""

    kind: OfferKind
    amount: Bytes  # Free to be borrowed: milli for cpu, gpu and custom kinds, bytes for the others.
    total: Bytes  # Of the whole machine, in the same unit.
    made_ms: Moment
    expires_ms: Moment
    device: Name = ""  # Of a GPU.
    memory_free_bytes: Bytes = 0  # Of a GPU.
    memory_total_bytes: Bytes = 0  # Of a GPU.


class Withheld(msgspec.Struct, frozen=True, kw_only=True):
    """Why something is not offered: what stands in the way, with both numbers."""

    kind: OfferKind  # `all` if it is about the machine.
    threshold: Story  # As in the file: cpu_percent_max, memory_min_gb, hours, paused, …
    limit: Story  # As people write it: 30 %, 2 GiB, 22:00-07:00.
    measured: Story
    device: Name = ""


def hours(text: object) -> tuple[int, int]:
    """The two minutes of `22:00-07:00`; `all day` is (0, 0)."""
    word = text.strip().lower() if isinstance(text, str) else ""
    if word in {"all day", "always"}:
        return 0, 0
    match = _SPAN.fullmatch(word)
    begins, ends = (_minute(match[1], match[2]), _minute(match[3], match[4])) if match else (0, 0)
    if match is None or max(begins, ends) > DAY_MINUTES or begins == DAY_MINUTES:
        raise BadValue(text, expected="two times of a day", remedy="Write it like 22:00-07:00")
    if begins == ends:
        raise BadValue(
            text,
            expected="an end that is not the beginning",
            remedy="Write it like 22:00-07:00, or 'all day'",
        )
    return begins, ends % DAY_MINUTES


def days(value: object) -> tuple[int, ...]:
    """The days of `mon-fri`, `sat,sun` or `[sat, sun]`; `fri-mon` goes over Sunday."""
    parts: Any = value.split(",") if isinstance(value, str) else value
    found: set[int] = set()
    if isinstance(parts, list):
        for part in parts:
            found |= _days(part)
    if not found:
        raise BadValue(value, expected="days of the week", remedy="Write them like mon-fri,sun")
    return tuple(sorted(found))


def clock(minute: int) -> str:
    """A minute of the day as people write it."""
    return f"{minute // 60:02d}:{minute % 60:02d}"


def percent(milli: int) -> str:
    """Thousandths as people write them: 305 is 30.5 %."""
    whole, tenth = divmod(milli, 10)
    return f"{whole}.{tenth} %" if tenth else f"{whole} %"


def _minute(hour: str, minute: str) -> int:
    return int(hour) * 60 + int(minute)


def _days(part: object) -> set[int]:
    names = str(part).strip().lower().split("-")
    # `monday` is understood; `mo` is not, because it is another language's word too.
    numbers = [DAYS.index(name[:3]) for name in names if name[:3] in DAYS]
    if len(numbers) != len(names) or len(numbers) > 2:
        raise BadValue(part, expected="a day of the week", remedy="Write it like mon or mon-fri")
    first, last = numbers[0], numbers[-1]
    return {(first + step) % 7 for step in range((last - first) % 7 + 1)}
