"""How busy the owner's machine is for the owner, smoothed over irregular samples.

Lives here: the averages, and whether the machine is under pressure. Never here: what is offered
(`lending`), measuring (`edges.probe`).
Invariant: integers only; a sample counts by the time since the last one: after ten seconds, half.
"""

from typing import Final, Literal

import msgspec

from distributed_grid.model.lending import Sample, Thresholds, Withheld, percent

# An owner who takes all cores is noticed at the third look, ten seconds apart; the start of a
# browser, one look long, is not.
SMOOTHING_MS: Final = 10_000
_FINE: Final = 1_000  # Averages are kept finer than they are told, or rounding would hold them.

Kind = Literal["cpu", "memory", "gpu"]


class Usage:
    """Thousandths of all cores, of memory, and of each GPU that the owner's programs use."""

    def __init__(self) -> None:
        self.latest: Sample | None = None
        self._fine: dict[str, int] = {}

    def add(self, sample: Sample) -> None:
        """Take one sample in. One from before the last counts as made at the same moment."""
        latest = self.latest
        past_ms = 0 if latest is None else max(sample.at_ms - latest.at_ms, 0)
        old, self._fine = self._fine, {}
        for key, now_milli in _uses(sample).items():
            now = now_milli * _FINE
            before = old.get(key, now)
            self._fine[key] = before + (now - before) * past_ms // (SMOOTHING_MS + past_ms)
        self.latest = sample

    def smoothed_milli(self, key: str) -> int:
        """The average of `cpu`, `memory`, or a device; 0 for what was never measured."""
        return self._fine.get(key, 0) // _FINE

    def worse_milli(self, key: str) -> int:
        """The average or the last sample, whichever is higher: a rise counts at once."""
        now = _uses(self.latest).get(key, 0) if self.latest else 0
        return max(now, self.smoothed_milli(key))

    def highest_milli(self, kind: Kind) -> int:
        """The average of a kind; of GPUs, of the busiest one."""
        if kind != "gpu":
            return self.smoothed_milli(kind)
        gpus = self.latest.gpus if self.latest else ()
        return max((self.smoothed_milli(gpu.device) for gpu in gpus), default=0)


class Limits(msgspec.Struct, frozen=True):
    """Between which numbers a kind goes into pressure, and out of it."""

    kind: Kind
    high_key: str  # In the file, as the other.
    high_milli: int
    low_key: str
    low_milli: int


def limits(thresholds: Thresholds, *, is_wary: bool) -> tuple[Limits, ...]:
    """The numbers for each kind; wary: pressure begins where idleness ends.

    Pressure neither begins nor stays below the number at which lending begins: otherwise work
    would be suspended on a machine that counts as idle.
    """
    found = []
    for kind, key, idle_milli, high_milli, low_milli in (
        (
            "cpu",
            "cpu_percent_max",
            thresholds.cpu_used_max_milli,
            thresholds.cpu_pressure_high_milli,
            thresholds.cpu_pressure_low_milli,
        ),
        (
            "memory",
            "memory_percent_max",
            thresholds.memory_used_max_milli,
            thresholds.memory_pressure_high_milli,
            thresholds.memory_pressure_low_milli,
        ),
        (
            "gpu",
            "gpu_utilization_max",
            thresholds.gpu_utilization_max_milli,
            thresholds.gpu_pressure_high_milli,
            thresholds.gpu_pressure_low_milli,
        ),
    ):
        high = idle_milli if is_wary else max(high_milli, idle_milli)
        low = max(low_milli, idle_milli)
        found.append(
            Limits(
                kind=kind,  # type: ignore[arg-type]  # One of Kind.
                high_key=key if high == idle_milli else f"{kind}_pressure_high",
                high_milli=high,
                low_key=key if low == idle_milli or low > high else f"{kind}_pressure_low",
                low_milli=min(low, high),
            )
        )
    return tuple(found)


def pressed(
    use: Usage, numbers: tuple[Limits, ...], before: tuple[Withheld, ...]
) -> tuple[Withheld, ...]:
    """What presses now, given what pressed before: in above `high`, out below `low`."""
    kinds = {item.kind for item in before}
    found = []
    for limit in numbers:
        used = use.highest_milli(limit.kind)
        stays = limit.kind in kinds and used >= limit.low_milli
        if stays or used > limit.high_milli:
            key = limit.low_key if stays else limit.high_key
            bound = percent(limit.low_milli if stays else limit.high_milli)
            found.append(
                Withheld(kind=limit.kind, threshold=key, limit=bound, measured=percent(used))
            )
    return tuple(found)


def _uses(sample: Sample) -> dict[str, int]:
    found = {gpu.device: gpu.utilization_milli for gpu in sample.gpus}
    found["cpu"] = _part(sample.cpu_used_milli, sample.cpu_total_milli)
    found["memory"] = _part(sample.memory_used_bytes, sample.memory_total_bytes)
    return found


def _part(used: int, total: int) -> int:
    return min(used * 1_000 // total, 1_000) if total > 0 else 0
