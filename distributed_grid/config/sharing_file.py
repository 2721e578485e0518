"""The sections of a configuration file about lending and fair shares.

Lives here: their keys, with what each may hold. Never here: the rest of the file (`cluster_file`),
what a value becomes (`terms`).
Invariant: what is None was not written.
"""

from typing import Annotated, Any

import msgspec

from distributed_grid.config import words
from distributed_grid.config.shape import Word
from distributed_grid.errors import BadValue
from distributed_grid.model import duration, lending
from distributed_grid.model.gpus import GPUS_MAX
from distributed_grid.model.priority import WEIGHT_MILLI_MAX

SECONDS_MAX = 1_000_000  # Eleven days; a machine that is looked at less often is not looked at.
AGEING_MS_MIN = 60_000  # Faster than that the classes would mean nothing.
_WEIGHT = words.scaled("a weight", factor=1_000, high=WEIGHT_MILLI_MAX // 1_000, example="2")


def _seconds(least: int, example: int) -> Word:
    """Whole seconds, as milliseconds."""
    return words.whole(least, SECONDS_MAX, example, factor=1_000)


def _weights(value: Any) -> dict[str, int]:
    if not isinstance(value, dict) or len(value) > words.NAMES_MAX:
        raise BadValue(value, expected="a mapping of names to weights", remedy="Write {ada: 2}")
    found = {words.name(key): _WEIGHT.parse(weight) for key, weight in value.items()}
    for key, weight in found.items():
        if weight == 0:
            raise BadValue(
                value[key],
                expected="a weight above 0",
                remedy="Weights are shares: 0.5, 1 or 2",
                field=f".{key}",
            )
    return found


def _ageing(value: Any) -> int:
    span_ms = duration.parse(value)
    if span_ms < AGEING_MS_MIN:
        least = duration.text(AGEING_MS_MIN)
        raise BadValue(value, expected=f"{least} or more", remedy="Write it like 1h")
    return span_ms


PercentMilli = Annotated[int, words.scaled("percent", factor=10, high=100, example="30")]
PartMilli = Annotated[int, words.scaled("a part", factor=1_000, high=1, example="0.8")]
Megabytes = Annotated[int, words.scaled("megabytes", factor=1 << 20, high=10**8, example="1024")]
Gigabytes = Annotated[int, words.scaled("gigabytes", factor=1 << 30, high=10**6, example="2")]
WeightByName = Annotated[dict[str, int], Word(_weights)]


class Thresholds(msgspec.Struct, frozen=True, kw_only=True):
    """When a node is idle enough to lend."""

    gpu_utilization_max: PercentMilli | None = None
    gpu_memory_min_mb: Megabytes | None = None
    memory_percent_max: PercentMilli | None = None
    memory_min_gb: Gigabytes | None = None
    cpu_percent_max: PercentMilli | None = None
    cpu_min_cores: words.CpuMilli | None = None
    cpu_pressure_high: PartMilli | None = None
    cpu_pressure_low: PartMilli | None = None
    memory_pressure_high: PartMilli | None = None
    memory_pressure_low: PartMilli | None = None
    gpu_pressure_high: PartMilli | None = None
    gpu_pressure_low: PartMilli | None = None
    excess_threshold: PartMilli | None = None


class AutoOffload(msgspec.Struct, frozen=True, kw_only=True):
    """When work leaves a busy node by itself."""

    enabled: words.Flag | None = None
    head_only_mode: words.Flag | None = None
    cpu: PercentMilli | None = None
    memory: PercentMilli | None = None
    gpu: PercentMilli | None = None
    check_interval_seconds: words.Positive | None = None
    cooldown_seconds: words.Natural | None = None


class Reserve(msgspec.Struct, frozen=True, kw_only=True):
    """What is never lent."""

    cpus: words.CpuMilli | None = None
    memory: words.Bytes | None = None
    gpus: Annotated[int, words.whole(0, GPUS_MAX, 1)] | None = None


class ResourceSharing(msgspec.Struct, frozen=True, kw_only=True):
    """Lending."""

    enabled: words.Flag | None = None
    mode: (
        Annotated[str, words.word_of("offload_only", "share_and_offload", "dynamic_balancing")]
        | None
    ) = None
    policy: (
        Annotated[str, words.word_of("conservative", "balanced", "aggressive", "predictive")] | None
    ) = None
    check_interval: Annotated[int, _seconds(10, 60)] | None = None
    offer_expiry: Annotated[int, _seconds(60, 300)] | None = None
    max_offers_per_node: words.Positive | None = None
    monitoring_interval_seconds: Annotated[int, _seconds(1, 10)] | None = None
    rebalance_interval_seconds: words.Positive | None = None
    allocation_timeout_minutes: Annotated[int, words.whole(1, 10**6, 10, factor=60_000)] | None = (
        None
    )
    thresholds: Thresholds | None = None
    auto_offload: AutoOffload | None = None
    reserve: Reserve | None = None
    hours: Annotated[tuple[int, int], Word(lending.hours)] | None = None
    days: Annotated[tuple[int, ...], Word(lending.days)] | None = None
    battery_min_percent: Annotated[int, words.whole(0, 101, 50)] | None = None  # 101: never.
    temperature_max: (
        Annotated[int, words.scaled("degrees Celsius", factor=100, low=30, high=120, example="85")]
        | None
    ) = None
    quiet: words.SpanMs | None = None
    yield_to: Annotated[str, words.word_of("suspend", "stop", "ignore")] | None = msgspec.field(
        name="yield", default=None
    )
    suspended_max: words.SpanMs | None = None
    allow_urgent: words.Flag | None = None
    allow_no_preempt: words.Flag | None = None


class FairShare(msgspec.Struct, frozen=True, kw_only=True):
    """Who gets how much when not everybody can have what he asks for."""

    users: WeightByName | None = None
    projects: WeightByName | None = None
    ageing: Annotated[int, Word(_ageing)] | None = None
