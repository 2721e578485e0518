"""A file of one job, or of a list of them, as specifications.

Lives here: the shape of a job in a file, and what it means. The page for people is
docs/reference/files.md.
"""

from typing import Any

import msgspec

from distributed_grid.config.documents import read_document
from distributed_grid.config.shape import shaped
from distributed_grid.config.words import (
    Bytes,
    ClassWords,
    Command,
    ComputeCapability,
    CpuMilli,
    Custom,
    Flag,
    GpuMilli,
    GpuModel,
    JobIdWord,
    Labels,
    LatencyUs,
    Name,
    Names,
    NodeNames,
)
from distributed_grid.errors import BadInput, BadValue
from distributed_grid.model import ids, milli
from distributed_grid.model.gpus import ANY, GpuRequest
from distributed_grid.model.job import JobSpec, Where, Work
from distributed_grid.model.resources import Request, sorted_amounts


class GpusEntry(msgspec.Struct, frozen=True, kw_only=True):
    """The GPUs a job asks for; `memory` and `compute_capability` are of each device."""

    model: GpuModel = ANY
    count: GpuMilli = milli.WHOLE
    memory: Bytes = 0
    compute_capability: ComputeCapability = 0


class AvoidEntry(msgspec.Struct, frozen=True, kw_only=True):
    """Nodes that are not wanted: those for which any of this holds."""

    node_class: ClassWords = msgspec.field(default=(), name="class")
    labels: Labels = {}
    nodes: NodeNames = ()
    jobs: Names = ()


class WhereEntry(AvoidEntry, frozen=True, kw_only=True):
    """Nodes that are wanted: those for which all of this holds."""

    max_latency_ms: LatencyUs | None = None


class JobEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One job; only its name is needed."""

    name: Name
    id: JobIdWord | None = None
    cpus: CpuMilli = milli.WHOLE  # A process keeps a core busy.
    memory: Bytes = 0
    storage: Bytes = 0
    gpus: GpusEntry | None = None
    custom: Custom = {}
    arch: Name = ""
    features: Names = ()
    require: WhereEntry = WhereEntry()
    prefer: WhereEntry = WhereEntry()
    avoid: AvoidEntry = AvoidEntry()
    avoid_if_possible: AvoidEntry = AvoidEntry()
    battery_safe: Flag = True
    command: Command = ()  # For `grid run --file`.


def read_jobs(file: str) -> tuple[list[JobSpec], bool]:
    """The jobs in a JSON or YAML file, and whether it holds a list."""
    return jobs_of(file, read_document(file))


def jobs_of(file: str, document: Any) -> tuple[list[JobSpec], bool]:
    """The jobs in a document that was read from this file."""
    is_list = isinstance(document, list)
    entries = (
        shaped(file, [_unfolded(entry) for entry in document], tuple[JobEntry, ...])
        if is_list
        else [shaped(file, _unfolded(document), JobEntry)]
    )
    specs = []
    for index, entry in enumerate(entries):
        try:
            specs.append(_spec(entry))
        except BadValue as error:
            path = f"$[{index}]{error.field}" if is_list else f"${error.field}"
            raise BadInput(file, path=path, problem=error.message, remedy=error.remedy) from None
    return specs, is_list


def _unfolded(document: Any) -> Any:
    """`gpus: 2` is short for `gpus: {count: 2}`."""
    if isinstance(document, dict) and isinstance(document.get("gpus"), str | int | float):
        return document | {"gpus": {"count": document["gpus"]}}
    return document


def _spec(entry: JobEntry) -> JobSpec:
    if entry.cpus == 0:
        raise BadValue(
            0, expected="cpus of 0.001 and up", remedy="Leave it out for 1", field=".cpus"
        )
    return JobSpec(
        work=Work(argv=entry.command, cwd="") if entry.command else None,
        id=entry.id or ids.job_id_of(entry.name),
        name=entry.name,
        request=Request(
            cpu_milli=entry.cpus,
            memory_bytes=entry.memory,
            storage_bytes=entry.storage,
            gpus=_gpus(entry.gpus),
            custom=sorted_amounts(entry.custom),
        ),
        require=_where(entry.require),
        prefer=_where(entry.prefer),
        avoid=_where(entry.avoid),
        avoid_if_possible=_where(entry.avoid_if_possible),
        arch=entry.arch,
        features=entry.features,
        battery_safe=entry.battery_safe,
    )


def _gpus(entry: GpusEntry | None) -> GpuRequest | None:
    if entry is None or entry.count == 0:
        return None
    try:
        return GpuRequest(
            milli=entry.count,
            model=entry.model,
            memory_bytes=entry.memory,
            compute_capability=entry.compute_capability,
        )
    except BadValue as error:
        error.field = ".gpus.count"
        raise


def _where(entry: AvoidEntry) -> Where:
    return Where(
        classes=entry.node_class,
        labels=tuple(sorted(entry.labels.items())),
        nodes=entry.nodes,
        jobs=entry.jobs,
        latency_us_max=entry.max_latency_ms if isinstance(entry, WhereEntry) else None,
    )
