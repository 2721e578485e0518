"""A file of nodes as records.

Lives here: the shape of a node in a file, and what it means. The page for people is
docs/reference/files.md.
Invariant: what a file does not say is the default of the record, never a guess.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import msgspec

from distributed_grid.config.documents import read_document
from distributed_grid.config.shape import shaped
from distributed_grid.config.words import (
    AgeMs,
    BandwidthKbps,
    Bytes,
    ClassWord,
    ComputeCapability,
    Count,
    CpuMilli,
    Custom,
    Flag,
    GpuMilli,
    GpuModel,
    Labels,
    LatencyUs,
    Name,
    Names,
    NodeIdWord,
    Percent,
    PowerMw,
    PriceMicro,
    TemperatureCenti,
    one_of,
)
from distributed_grid.errors import BadInput, BadValue
from distributed_grid.kernel.classification import classify_capabilities
from distributed_grid.model import milli
from distributed_grid.model.gpus import ANY, Gpu
from distributed_grid.model.ids import NodeId
from distributed_grid.model.node import (
    Network,
    NodeRecord,
    Power,
    Reachability,
    Verification,
    unnamed_gpus,
)
from distributed_grid.model.node_class import AnyNodeClass, DataCenter, Edge, Laptop, Workstation
from distributed_grid.model.resources import Resources, sorted_amounts


class GpuEntry(msgspec.Struct, frozen=True, kw_only=True):
    """Devices of one model. In capacity, memory and capability are those of the capabilities."""

    model: GpuModel
    count: GpuMilli = milli.WHOLE
    memory: Bytes = 0
    compute_capability: ComputeCapability = 0


class AmountsEntry(msgspec.Struct, frozen=True, kw_only=True):
    """How much there is, in all or free."""

    cpu_cores: CpuMilli = 0
    memory: Bytes = 0
    storage: Bytes = 0
    gpus: tuple[GpuEntry, ...] = ()
    custom: Custom = {}


class CapabilitiesEntry(AmountsEntry, frozen=True, kw_only=True):
    """What a node can do at all."""

    arch: Name = ""
    features: Names = ()


class PowerEntry(msgspec.Struct, frozen=True, kw_only=True):
    """Battery, heat, draw."""

    on_battery: Flag = False
    battery_percent: Percent | None = None
    temperature_c: TemperatureCenti | None = None
    watts_idle: PowerMw | None = None
    watts_max: PowerMw | None = None


class NetworkEntry(msgspec.Struct, frozen=True, kw_only=True):
    """How far away it is."""

    bandwidth_mbps: BandwidthKbps | None = None
    latency_ms: LatencyUs | None = None
    reachability: Annotated[Reachability, one_of("direct", "relayed", "unknown")] = "unknown"


class NodeEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One node; only id, name, capabilities and capacity are needed."""

    id: NodeIdWord
    name: Name
    capabilities: CapabilitiesEntry
    capacity: AmountsEntry
    node_class: ClassWord | None = msgspec.field(default=None, name="class")
    labels: Labels = {}
    power: PowerEntry = PowerEntry()
    network: NetworkEntry = NetworkEntry()
    price_per_hour: PriceMicro = 0
    age_seconds: AgeMs = 0
    jobs: Count | None = None
    running: Names = ()
    verification: Annotated[Verification, one_of("claimed", "verified", "failed")] = "claimed"
    pretended: Flag = False


def read_fleet(file: str) -> list[NodeRecord]:
    """The nodes in a JSON or YAML file, in its order."""
    return fleet_of(file, read_document(file))


def fleet_of(file: str, document: Any) -> list[NodeRecord]:
    """The nodes in a document that was read from this file."""
    if not isinstance(document, list):
        raise BadInput(
            file, path="$", problem="expected a list of nodes", remedy="Start with '- id: …'"
        )
    records: list[NodeRecord] = []
    seen: dict[NodeId, int] = {}
    for index, entry in enumerate(shaped(file, document, tuple[NodeEntry, ...])):
        try:
            record = _record(entry)
        except BadValue as error:
            path = f"$[{index}]{error.field}"
            raise BadInput(file, path=path, problem=error.message, remedy=error.remedy) from None
        if record.id in seen:
            raise BadInput(
                file,
                path=f"$[{index}].id",
                problem=f"is the id of $[{seen[record.id]}] too",
                remedy="Give every node an id of its own",
            )
        seen[record.id] = index
        records.append(record)
    return records


def _record(entry: NodeEntry) -> NodeRecord:
    with _in(".capabilities"):
        total = _total(entry.capabilities)
    with _in(".capacity"):
        free = _free(entry.capacity, total)
        return _filled(entry, total, free)


@contextmanager
def _in(step: str) -> Iterator[None]:
    """Where an error stands that does not know it."""
    try:
        yield
    except BadValue as error:
        error.field = step + error.field
        raise


def _filled(entry: NodeEntry, total: Resources, free: Resources) -> NodeRecord:
    power = Power(
        on_battery=entry.power.on_battery,
        battery_percent=entry.power.battery_percent,
        temperature_centi=entry.power.temperature_c,
        idle_mw=entry.power.watts_idle,
        max_mw=entry.power.watts_max,
    )
    return NodeRecord(
        id=entry.id,
        name=entry.name,
        total=total,
        free=free,
        node_class=_node_class(entry, total, power),
        labels=entry.labels,
        arch=entry.capabilities.arch,
        features=entry.capabilities.features,
        power=power,
        network=Network(
            bandwidth_kbps=entry.network.bandwidth_mbps,
            latency_us=entry.network.latency_ms,
            reachability=entry.network.reachability,
        ),
        price_micro_per_hour=entry.price_per_hour,
        age_ms=entry.age_seconds,
        jobs=len(entry.running) if entry.jobs is None else entry.jobs,
        running=entry.running,
        verification=entry.verification,
        pretended=entry.pretended,
    )


def _total(entry: CapabilitiesEntry) -> Resources:
    gpus: list[Gpu] = []
    for gpu in entry.gpus:
        if gpu.count % milli.WHOLE or gpu.count == 0:
            raise BadValue(
                milli.number(gpu.count),
                expected="whole GPUs in capabilities",
                remedy="Shares belong into capacity",
                field=".gpus",
            )
        if gpu.model == ANY or gpu.model in {other.model for other in gpus}:
            raise BadValue(
                gpu.model,
                expected="each GPU model by its name, once",
                remedy="Add the counts up",
                field=".gpus",
            )
        gpus += unnamed_gpus(
            gpu.model,
            gpu.count // milli.WHOLE,
            memory_bytes=gpu.memory,
            compute_capability=gpu.compute_capability,
        )
    return Resources(
        cpu_milli=entry.cpu_cores,
        memory_bytes=entry.memory,
        storage_bytes=entry.storage,
        gpus=tuple(sorted(gpus)),
        custom=sorted_amounts(entry.custom),
    )


def _free(entry: AmountsEntry, total: Resources) -> Resources:
    free: list[Gpu] = []
    for gpu in entry.gpus:
        devices = [device for device in total.gpus if device.model == gpu.model]
        if gpu.count > len(devices) * milli.WHOLE or any(gpu.model == g.model for g in free):
            raise BadValue(
                f"{milli.text(gpu.count)} {gpu.model}",
                expected=f"at most the {len(devices)} {gpu.model} of the capabilities, listed once",
                remedy="List the GPU in capabilities too",
                field=".gpus",
            )
        whole, share = divmod(gpu.count, milli.WHOLE)
        free += devices[:whole]
        if share:
            free.append(msgspec.structs.replace(devices[whole], share_milli=share))
    return Resources(
        cpu_milli=entry.cpu_cores,
        memory_bytes=entry.memory,
        storage_bytes=entry.storage,
        gpus=tuple(sorted(free)),
        custom=sorted_amounts(entry.custom),
    )


def _node_class(entry: NodeEntry, total: Resources, power: Power) -> AnyNodeClass:
    gpu_count = len(total.gpus)
    bandwidth_kbps = entry.network.bandwidth_mbps
    bandwidth_mbps = None if bandwidth_kbps is None else bandwidth_kbps // 1_000
    match entry.node_class:
        case "datacenter":
            return DataCenter(gpus=gpu_count, bandwidth=bandwidth_mbps)
        case "workstation":
            return Workstation(gpu_capable=gpu_count > 0)
        case "laptop":
            return Laptop(battery_level=power.battery_percent)
        case "edge":
            return Edge()
    return classify_capabilities(
        cpu_milli=total.cpu_milli,
        memory_bytes=total.memory_bytes,
        gpu_count=gpu_count,
        bandwidth_mbps=bandwidth_mbps,
        arch=entry.capabilities.arch,
        on_battery=power.on_battery,
        battery_percent=power.battery_percent,
    )
