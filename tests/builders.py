"""Nodes, jobs and rules for tests: good defaults, so that a test sets only what matters to it.

Lives here: `a_node`, `a_job`, ids, and hypothesis strategies for records, jobs and rules.
Never here: what the right answer is (`reference`).
Invariant: strategies draw from few values, so that ties, equal boundaries and unknown facts are
common and not once in a million.
"""

from collections.abc import Mapping
from itertools import combinations
from typing import Any

import msgspec
from hypothesis import strategies as st

from distributed_grid.kernel.placement import PowerPolicy, Rules
from distributed_grid.kernel.placement.policies import POLICIES
from distributed_grid.kernel.placement.registry import own_policy
from distributed_grid.model.bytesize import GIB
from distributed_grid.model.gpus import ANY, Gpu, GpuRequest
from distributed_grid.model.ids import JobId, NodeId, job_id_of
from distributed_grid.model.job import JobSpec, Where
from distributed_grid.model.node import Network, NodeRecord, Power, unnamed_gpus
from distributed_grid.model.node_class import DataCenter, Edge, Laptop, Workstation
from distributed_grid.model.resources import Request, Resources, sorted_amounts

CLASSES = {
    "datacenter": DataCenter(),
    "workstation": Workstation(),
    "laptop": Laptop(),
    "edge": Edge(),
}


def an_id(number: int) -> NodeId:
    """A node id whose last digits are this number."""
    return NodeId(f"{number:064x}")


def a_node(number: int = 1, **what_matters: Any) -> NodeRecord:
    """A workstation of 16 cores, 64 GiB and 1 TiB, all of it free.

    `cpus`, `memory`, `storage`, `gpus` (a count or devices) and `custom` are what it has;
    `free_cpus` and so on what is free of it, by default everything. The rest are fields of
    NodeRecord, Power or Network by their own names; `node_class` may be a word.
    """
    total, free = _amounts("", what_matters), _amounts("free_", what_matters)
    power = {k: what_matters.pop(k) for k in Power.__struct_fields__ if k in what_matters}
    network = {k: what_matters.pop(k) for k in Network.__struct_fields__ if k in what_matters}
    node_class = what_matters.pop("node_class", "workstation")
    fields = {
        "id": an_id(number),
        "name": f"node-{number}",
        "total": Resources(**total),
        "free": Resources(**{**total, **free}),
        "node_class": CLASSES.get(node_class, node_class),
        "power": Power(**power),
        "network": Network(**network),
    }
    return NodeRecord(**{**fields, **what_matters})


def _amounts(prefix: str, what_matters: dict[str, Any]) -> dict[str, Any]:
    found = {} if prefix else {"cpu_milli": 16_000, "memory_bytes": 64 * GIB}
    if not prefix:
        found |= {"storage_bytes": 1 << 40}
    for word, field, read in (
        ("cpus", "cpu_milli", lambda cores: round(cores * 1_000)),
        ("memory", "memory_bytes", int),
        ("storage", "storage_bytes", int),
        ("gpus", "gpus", devices),
        ("custom", "custom", sorted_amounts),
    ):
        if prefix + word in what_matters:
            found[field] = read(what_matters.pop(prefix + word))
    return found


def devices(gpus: int | tuple[Gpu, ...]) -> tuple[Gpu, ...]:
    """So many RTX 4090, or these devices."""
    return unnamed_gpus("RTX4090", gpus, memory_bytes=24 * GIB) if isinstance(gpus, int) else gpus


def a_job(name: str = "job", **what_matters: Any) -> JobSpec:
    """A job of one core.

    `cpus`, `memory`, `storage`, `gpus` (a number or a GpuRequest) and `custom` are what it asks
    for; `require`, `prefer`, `avoid`, `avoid_if_possible` may be dicts of the fields of Where.
    """
    gpus = what_matters.pop("gpus", None)
    if isinstance(gpus, int | float):
        gpus = GpuRequest(milli=round(gpus * 1_000))
    request = Request(
        cpu_milli=round(what_matters.pop("cpus", 1) * 1_000),
        memory_bytes=what_matters.pop("memory", 0),
        storage_bytes=what_matters.pop("storage", 0),
        gpus=gpus,
        custom=sorted_amounts(what_matters.pop("custom", {})),
    )
    for word in ("require", "prefer", "avoid", "avoid_if_possible"):
        if isinstance(what_matters.get(word), Mapping):
            what_matters[word] = Where(**what_matters[word])
    return JobSpec(**{"id": job_id_of(name), "name": name, "request": request, **what_matters})


# --- Strategies ----------------------------------------------------------------------------------

MODELS = ("H100", "RTX4090", "A100")
LABEL_KEYS = ("ssd", "zone")
NAMES = ("attic", "cellar", "lab")
KINDS = ("fpga", "licence:matlab", "tpu")
FEATURES = ("avx2", "sve")
ARCHES = ("x86_64", "aarch64")
CPU_MILLI = st.sampled_from([0, 500, 1_000, 2_000, 4_000])
BYTES = st.sampled_from([0, 1, GIB - 1, GIB, 4 * GIB, 1 << 60])
CUSTOM_MILLI = st.sampled_from([0, 1_000, 1_500, 4_000])
SHARES = st.sampled_from([250, 500, 1_000])
LATENCIES = st.none() | st.sampled_from([0, 4_000, 50_000, 50_001])
AGES = st.sampled_from([0, 60_000, 60_001, 10**9])


def _id_numbers() -> st.SearchStrategy[int]:
    """Ids that agree in long prefixes, and ids that do not."""
    few = st.integers(0, 15)
    return st.one_of(
        few,
        st.builds(lambda high, low: high << 252 | low, few, few),
        st.builds(lambda high, low: high << 204 | low << 190, few, few),
        st.integers(0, (1 << 256) - 1),
    )


node_ids = _id_numbers().map(an_id)
job_ids = _id_numbers().map(lambda number: JobId(f"{number:064x}"))


def _subsets(things: tuple[str, ...]) -> list[tuple[str, ...]]:
    return [subset for size in range(3) for subset in combinations(things, size)]


# Pools of whole facts: one draw each, where a draw for every number would take all the time.
GPU_SETS = [
    tuple(
        gpu
        for model in models
        for gpu in unnamed_gpus(
            model, count, memory_bytes=memory_bytes, compute_capability=capability
        )
    )
    for models in [(), ("H100",), ("RTX4090",), ("A100", "H100"), ("H100", "RTX4090")]
    for count in (1, 3)
    for memory_bytes, capability in [(0, 0), (24 * GIB, 80), (80 * GIB, 90)]
]
CUSTOM_SETS = [
    sorted_amounts(dict(zip(kinds, amounts, strict=False)))
    for kinds in _subsets(KINDS)
    for amounts in [(1_000, 1_500), (4_000, 4_000)]
]
LABEL_SETS = [
    dict(zip(keys, values, strict=False))
    for keys in _subsets(LABEL_KEYS)
    for values in [("home", "true"), ("true", "home")]
]
POWERS = [
    Power(
        on_battery=on_battery,
        battery_percent=percent,
        temperature_centi=centi,
        idle_mw=idle_mw,
        max_mw=max_mw,
    )
    for on_battery in (False, True)
    for percent in (None, 0, 19, 20, 100)
    for centi in (None, 5_500, 8_500, 8_501)
    for idle_mw, max_mw in [(None, None), (0, 450_000), (60_000, 0), (None, 10**9), (0, 10**9)]
]
CALM_POWERS = [p for p in POWERS if p.battery_percent == 100 and p.temperature_centi is None]
NETWORKS = [
    Network(latency_us=latency_us, reachability=reachability)
    for latency_us in (None, 0, 4_000, 50_000, 50_001)
    for reachability in ("direct", "relayed", "unknown")
]


@st.composite
def resources(draw: st.DrawFn) -> Resources:
    """Everything a machine may have."""
    return Resources(
        cpu_milli=draw(CPU_MILLI),
        memory_bytes=draw(BYTES),
        storage_bytes=draw(BYTES),
        gpus=draw(st.sampled_from(GPU_SETS)),
        custom=draw(st.sampled_from(CUSTOM_SETS)),
    )


@st.composite
def part_of(draw: st.DrawFn, whole: Resources) -> Resources:
    """What may be free of, or granted from, these resources."""
    shares = draw(st.permutations([0, 250, 500, 1_000, 1_000, 1_000]))
    gpus = [
        msgspec.structs.replace(gpu, share_milli=min(share, gpu.share_milli))
        for gpu, share in zip(whole.gpus, shares, strict=False)
        if share
    ]
    most = draw(CUSTOM_MILLI)
    return Resources(
        cpu_milli=min(draw(CPU_MILLI), whole.cpu_milli),
        memory_bytes=min(draw(BYTES), whole.memory_bytes),
        storage_bytes=min(draw(BYTES), whole.storage_bytes),
        gpus=tuple(gpus),
        custom=sorted_amounts({kind: min(amount, most) for kind, amount in whole.custom}),
    )


@st.composite
def records(
    draw: st.DrawFn, ids: st.SearchStrategy[NodeId] = node_ids, *, calm: bool = False
) -> NodeRecord:
    """Any node: equal ones, empty ones, stale, hot, on battery, relayed, caught lying.

    A calm one is fresh and cool and has room for a core, so that calm jobs fit on it.
    """
    total = draw(resources())
    free = draw(st.just(total) | part_of(total))
    if calm:
        total = msgspec.structs.replace(total, cpu_milli=4_000)
        free = msgspec.structs.replace(free, cpu_milli=draw(st.sampled_from([1_000, 4_000])))
    return NodeRecord(
        id=draw(ids),
        name=draw(st.sampled_from(NAMES)),
        total=total,
        free=free,
        node_class=draw(st.sampled_from(list(CLASSES.values()))),
        labels=draw(st.sampled_from(LABEL_SETS)),
        arch=draw(st.sampled_from(["", *ARCHES])),
        features=draw(st.sampled_from(_subsets(FEATURES))),
        power=draw(st.sampled_from(CALM_POWERS if calm else POWERS)),
        network=draw(st.sampled_from(NETWORKS)),
        price_micro_per_hour=draw(st.sampled_from([0, 9_999, 350_000, 10**12])),
        age_ms=0 if calm else draw(AGES),
        jobs=draw(st.sampled_from([0, 1, 2, 10**6])),
        running=draw(st.sampled_from(_subsets(NAMES))),
        verification=draw(st.sampled_from(["claimed", "verified", "failed"])),
    )


def fleets(*, calm: bool = False) -> st.SearchStrategy[list[NodeRecord]]:
    return st.lists(
        records(calm=calm), min_size=3 * calm, max_size=7, unique_by=lambda record: record.id
    )


@st.composite
def wheres(draw: st.DrawFn, ids: tuple[str, ...] = ()) -> Where:
    """A description of nodes with several parts."""
    return Where(
        classes=draw(st.sampled_from(_subsets(tuple(sorted(CLASSES))))),
        labels=tuple(sorted(draw(st.sampled_from(LABEL_SETS)).items())),
        nodes=draw(st.sampled_from(_subsets(tuple(sorted([*NAMES, *ids]))))),
        jobs=draw(st.sampled_from(_subsets(NAMES))),
        latency_us_max=draw(LATENCIES),
    )


@st.composite
def gpu_requests(draw: st.DrawFn) -> GpuRequest:
    """Shares and whole devices, of any or one model, with and without demands on them."""
    return GpuRequest(
        milli=draw(SHARES | st.sampled_from([1_000, 2_000, 3_000])),
        model=draw(st.sampled_from([ANY, *MODELS, "4090"])),
        memory_bytes=draw(st.sampled_from([0, 24 * GIB, 80 * GIB])),
        compute_capability=draw(st.sampled_from([0, 0, 80])),
    )


@st.composite
def requests(draw: st.DrawFn) -> Request:
    """Amounts that equal those of the nodes more often than not."""
    return Request(
        cpu_milli=draw(CPU_MILLI),
        memory_bytes=draw(BYTES),
        storage_bytes=draw(BYTES),
        gpus=draw(st.none() | gpu_requests()),
        custom=draw(st.just(()) | st.sampled_from(CUSTOM_SETS)),
    )


@st.composite
def jobs(draw: st.DrawFn, ids: tuple[str, ...] = (), *, calm: bool = False) -> JobSpec:
    """Any job; a calm one has wishes but no demands, so that it is the order that matters."""
    nowhere = st.just(Where())
    wishes = {
        "prefer": draw(nowhere | wheres(ids)),
        "avoid_if_possible": draw(nowhere | wheres(ids)),
    }
    if calm:
        request = Request(cpu_milli=draw(st.sampled_from([0, 500, 1_000])))
        return JobSpec(id=draw(job_ids), name="job", request=request, **wishes)
    return JobSpec(
        id=draw(job_ids),
        name="job",
        request=draw(st.just(Request()) | requests()),
        require=draw(nowhere | wheres(ids)),
        avoid=draw(nowhere | wheres(ids)),
        arch=draw(st.sampled_from(["", "", *ARCHES])),
        features=draw(st.sampled_from(_subsets(FEATURES))),
        battery_safe=draw(st.booleans()),
        **wishes,
    )


@st.composite
def cases(draw: st.DrawFn) -> tuple[JobSpec, list[NodeRecord], Rules]:
    """A job, nodes and rules. The mood of a case is drawn first: much of one thing finds more."""
    calm = draw(st.booleans())
    nodes = draw(fleets(calm=calm))
    job = draw(jobs(tuple(node.id for node in nodes[:2]), calm=calm))
    return job, nodes, draw(rules())


def tidiness(job: JobSpec, node: NodeRecord) -> dict[str, int]:
    """Somebody's own policy, with two parts."""
    return {"letters": len(node.name), "features": len(node.features) + len(job.name)}


def not_in_the_lab(job: JobSpec, node: NodeRecord) -> str | None:
    """Somebody's own filter."""
    return f"{job.name} makes noise" if node.name == "lab" else None


OWN = own_policy("tidiness", tidiness)


def rules() -> st.SearchStrategy[Rules]:
    return st.builds(
        Rules,
        policy=st.none() | st.sampled_from([*POLICIES, OWN]),
        rank=st.sampled_from(["even", "xor"]),
        cluster_size=st.sampled_from([1, 2, 3, 20]),
        age_ms_max=st.sampled_from([0, 60_000]),
        last_known=st.booleans(),
        power=st.builds(
            PowerPolicy,
            battery_percent_min=st.sampled_from([0, 20, 100]),
            prefer_ac_power=st.booleans(),
            temperature_centi_max=st.sampled_from([5_500, 8_500]),
        ),
        filters=st.sampled_from([{}, {"quiet": not_in_the_lab}]),
    )
