"""What a node must have for a job: capability (can it ever), capacity (can it now), the rest.

Lives here: every filter, once, in words that mean the same for one node and for all of them
(`view`). The mask over a fleet and the reasons for one node come from this one list.
Invariant: equal is enough; a check that a job does not ask for is not in the list.

An amount is one check: what is free never exceeds what there is, so a node with enough free has
the capability too. Where it falls short, the reason tells which of the two is lacking.
"""

from collections.abc import Callable, Iterator
from typing import Any, Literal, NamedTuple

from distributed_grid.kernel.placement.rules import Rules
from distributed_grid.kernel.placement.view import Truth, View
from distributed_grid.model.gpus import ANY, GpuRequest
from distributed_grid.model.job import JobSpec, Where
from distributed_grid.model.node import NodeRecord

Kind = Literal["capability", "capacity", "policy", "stale"]
Deficit = tuple[Kind, Any]  # The kind, and what the node has instead.


class Check(NamedTuple):
    """One demand on a node: what, how much, whether it holds, and what is wrong if it does not."""

    what: str
    wanted: Any
    holds: Truth
    deficit: Callable[[NodeRecord], Deficit]  # Asked only of a node that failed.


def checks(job: JobSpec, rules: Rules, view: View) -> Iterator[Check]:
    """Every demand of the job and the rules on a node."""
    yield from _amounts(job, view)
    yield from _descriptions(job, view)
    yield from _paths(job.require, view)
    yield from _avoid(job.avoid, view)
    yield from _power(job, rules, view)
    if not rules.last_known:
        most = rules.age_ms_max
        yield Check("age_ms", most, view.age_ms <= most, lambda node: ("stale", node.age_ms))


def _amounts(job: JobSpec, view: View) -> Iterator[Check]:
    request = job.request
    if cpu := request.cpu_milli:
        yield Check("cpu_milli", cpu, view.cpu_free >= cpu, _short("cpu_milli", cpu))
    if memory := request.memory_bytes:
        holds = view.memory_free >= memory
        yield Check("memory_bytes", memory, holds, _short("memory_bytes", memory))
    if storage := request.storage_bytes:
        holds = view.storage_free >= storage
        yield Check("storage_bytes", storage, holds, _short("storage_bytes", storage))
    if gpus := request.gpus:
        what = "gpu_milli" if gpus.model == ANY else f"gpu_milli.{gpus.model}"
        yield Check(what, gpus.milli, view.gpu_free(gpus) >= gpus.milli, _short_of_gpus(gpus))
    for kind, amount in request.custom:
        holds = view.custom_free(kind) >= amount
        yield Check(f"custom.{kind}", amount, holds, _short_of_custom(kind, amount))


def _descriptions(job: JobSpec, view: View) -> Iterator[Check]:
    """What a node is, whatever is free on it."""
    if job.arch:
        holds = view.has_arch(job.arch)
        yield Check("arch", job.arch, holds, lambda node: ("capability", node.arch or None))
    for feature in job.needs:
        holds = view.has_feature(feature)
        yield Check(f"features.{feature}", True, holds, lambda _: ("capability", False))
    if classes := job.require.classes:
        holds = view.in_class(classes)
        yield Check(
            "class", list(classes), holds, lambda node: ("capability", node.node_class.name)
        )
    for key, value in job.require.labels:
        yield Check(f"labels.{key}", value, view.has_label(key, value), _label("capability", key))


def _paths(require: Where, view: View) -> Iterator[Check]:
    """Where the job's own words let it run, apart from what nodes are."""
    if require.nodes:
        yield Check("nodes", list(require.nodes), view.is_named(require.nodes), _name)
    if require.jobs:
        yield Check("jobs", list(require.jobs), view.runs(require.jobs), _running)
    if (most := require.latency_us_max) is not None:
        holds = view.latency_us <= most
        yield Check("latency_us", most, holds, lambda node: ("policy", node.network.latency_us))


def _avoid(avoid: Where, view: View) -> Iterator[Check]:
    if avoid.classes:
        yield _not("class", avoid.classes, view.in_class(avoid.classes), _class)
    for key, value in avoid.labels:
        yield _not(f"labels.{key}", (value,), view.has_label(key, value), _label("policy", key))
    if avoid.nodes:
        yield _not("nodes", avoid.nodes, view.is_named(avoid.nodes), _name)
    if avoid.jobs:
        yield _not("jobs", avoid.jobs, view.runs(avoid.jobs), _running)


def _not(
    what: str, unwanted: tuple[str, ...], is_so: Truth, deficit: Callable[[NodeRecord], Deficit]
) -> Check:
    # `== False` and not `not`: it means the same for a truth and for an array of them.
    return Check(f"avoid.{what}", {"not": list(unwanted)}, is_so == False, deficit)  # noqa: E712


def _power(job: JobSpec, rules: Rules, view: View) -> Iterator[Check]:
    if job.battery_safe:
        least = rules.power.battery_percent_min
        holds = view.on_ac | (view.battery_percent >= least)
        yield Check(
            "battery_percent", least, holds, lambda node: ("policy", node.power.battery_percent)
        )
    else:
        yield Check("on_battery", False, view.on_ac, lambda _: ("policy", True))
    most = rules.power.temperature_centi_max
    holds = view.temperature_centi <= most
    yield Check(
        "temperature_centi", most, holds, lambda node: ("policy", node.power.temperature_centi)
    )


def _lacking(wanted: int, total: int, free: int) -> Deficit:
    return ("capability", total) if total < wanted else ("capacity", free)


def _short(field: str, wanted: int) -> Callable[[NodeRecord], Deficit]:
    return lambda node: _lacking(wanted, getattr(node.total, field), getattr(node.free, field))


def _short_of_gpus(gpus: GpuRequest) -> Callable[[NodeRecord], Deficit]:
    available = gpus.available_milli
    return lambda node: _lacking(gpus.milli, available(node.total.gpus), available(node.free.gpus))


def _short_of_custom(kind: str, wanted: int) -> Callable[[NodeRecord], Deficit]:
    return lambda node: _lacking(
        wanted, dict(node.total.custom).get(kind, 0), dict(node.free.custom).get(kind, 0)
    )


def _label(kind: Kind, key: str) -> Callable[[NodeRecord], Deficit]:
    return lambda node: (kind, node.labels.get(key))


def _class(node: NodeRecord) -> Deficit:
    return "policy", node.node_class.name


def _name(node: NodeRecord) -> Deficit:
    return "policy", node.name


def _running(node: NodeRecord) -> Deficit:
    return "policy", list(node.running)
