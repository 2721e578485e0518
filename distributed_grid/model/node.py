"""A node as others know it: who it is, what it can do, what is free, how it is doing.

Lives here: the record that placement reads. Never here: measuring it (`edges.probe`), spreading
it (`kernel.mesh.replica`), judging it (`kernel.placement`).
Invariant: what is free is never more than what there is; every number has bounds, so that no
record, whoever wrote it, can overflow a score or crash a decision.
"""

from typing import Literal

import msgspec

from distributed_grid.errors import BadValue
from distributed_grid.model.bounds import Count, Most, Name, Signed, Table
from distributed_grid.model.gpus import Gpu
from distributed_grid.model.ids import NodeId
from distributed_grid.model.node_class import AnyNodeClass, Workstation
from distributed_grid.model.resources import Resources

Reachability = Literal["direct", "relayed", "unknown"]
Verification = Literal["claimed", "verified", "failed"]

LABELS_MAX = 64  # Of one node; they are typed by people.
JOBS_MAX = 10**6
POWER_MW_MAX = 10**9  # A megawatt.
BANDWIDTH_KBPS_MAX = 10**11
LATENCY_US_MAX = 10**10  # Hours; a satellite is at a second.
PRICE_MICRO_MAX = 10**12  # A million an hour.
AGE_MS_MAX = 10**13  # Three hundred years.


def _check(what: str, value: int | None, high: int, *, low: int = 0) -> None:
    # Above its callers: the defaults of the fields below are made while this file is read.
    if value is not None and not low <= value <= high:
        raise BadValue(value, expected=f"{what} from {low} to {high}", remedy="Check the number")


class Power(msgspec.Struct, frozen=True, kw_only=True):
    """Where the power comes from, how hot it is, what it draws. None: nobody measured."""

    on_battery: bool = False
    battery_percent: Count | None = None
    temperature_centi: Signed | None = None  # Hundredths of a degree Celsius.
    idle_mw: Count | None = None
    max_mw: Count | None = None

    def __post_init__(self) -> None:
        _check("battery_percent", self.battery_percent, 100)
        _check("temperature_centi", self.temperature_centi, 100_000, low=-27_315)
        _check("idle_mw", self.idle_mw, POWER_MW_MAX)
        _check("max_mw", self.max_mw, POWER_MW_MAX)


class Network(msgspec.Struct, frozen=True, kw_only=True):
    """How far away it is, as measured by whoever holds the record."""

    bandwidth_kbps: Count | None = None
    latency_us: Count | None = None
    reachability: Reachability = "unknown"

    def __post_init__(self) -> None:
        _check("bandwidth_kbps", self.bandwidth_kbps, BANDWIDTH_KBPS_MAX)
        _check("latency_us", self.latency_us, LATENCY_US_MAX)


class NodeRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that placement may know about one node."""

    id: NodeId
    name: Name
    total: Resources  # Capability: what it can do at all.
    free: Resources  # Capacity: what of it is free now.
    node_class: AnyNodeClass = Workstation()
    labels: Table[Name, Name] = {}
    arch: Name = ""  # Empty: not known.
    features: Most[Name] = ()  # Sorted: cpu features and others that jobs may ask for.
    power: Power = Power()
    network: Network = Network()
    price_micro_per_hour: Count = 0
    age_ms: Signed = 0  # Since the node itself last said so.
    jobs: Count = 0  # How many run there now.
    running: Most[Name] = ()  # The names of those that others may want to be near to.
    verification: Verification = "claimed"
    pretended: bool = False

    def __post_init__(self) -> None:
        _check("price_micro_per_hour", self.price_micro_per_hour, PRICE_MICRO_MAX)
        _check("age_ms", self.age_ms, AGE_MS_MAX)
        _check("jobs", self.jobs, JOBS_MAX)
        if not self.total.covers(self.free):
            raise BadValue(
                self.name,
                expected="a capacity within the capabilities",
                remedy=_excess(self.total, self.free),
            )
        if len(self.labels) > LABELS_MAX:
            raise BadValue(
                len(self.labels), expected=f"at most {LABELS_MAX} labels", remedy="Use fewer labels"
            )


def unnamed_gpus(
    model: str, count: int, *, memory_bytes: int = 0, compute_capability: int = 0
) -> tuple[Gpu, ...]:
    """Devices that no driver has named: `H100#0`, `H100#1`, …; all of them whole."""
    return tuple(
        Gpu(
            device=f"{model}#{index:03d}",  # Padded: devices sort as text.
            model=model,
            memory_bytes=memory_bytes,
            compute_capability=compute_capability,
        )
        for index in range(count)
    )


def _excess(total: Resources, free: Resources) -> str:
    for what, has, limit in (
        ("cpu_cores", free.cpu_milli, total.cpu_milli),
        ("memory", free.memory_bytes, total.memory_bytes),
        ("storage", free.storage_bytes, total.storage_bytes),
    ):
        if has > limit:
            return f"Its free {what} exceed what it has"
    return "Its free gpus or custom kinds exceed what it has"
