"""`Job` of seed 002: what is to be distributed, built word by word.

    job = (
        Job.builder()
        .name("training-job")
        .cpu_cores(4.0)
        .memory_gb(16)
        .gpu_count(1)
        .prefer_node_class(NodeClass.DataCenter)
        .build()
    )

Lives here: the seed's words as the wishes of `Cluster.submit`. Never here: what a wish means
(`client.specification`), choosing a node (`distributor`).
Invariant: what `build` returns is a job that an agent would take, if a node has room for it.
"""

from typing import Any, Self, cast

import msgspec

from distributed_grid.client.specification import Command, Wishes, specification
from distributed_grid.errors import BadValue, UnknownName
from distributed_grid.model import milli
from distributed_grid.model.job import JobSpec, Where
from distributed_grid.model.node_class import CLASS_NAMES, NodeClass

_NOTHING = ("true",)  # Stands where a job that is only to be placed has no command.


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """What somebody wants of a node, and what is to run there; without a command nothing runs."""

    spec: JobSpec  # Its `work` is None if there is no command.
    wishes: dict[str, Any] = {}  # The same in the words of `Cluster.submit`.
    command: Any = None

    @staticmethod
    def builder() -> "JobBuilder":
        """Begin with one core and nothing else."""
        return JobBuilder()

    @property
    def name(self) -> str:
        """What people call it."""
        return self.spec.name


class JobBuilder:
    """Collects what a job needs, one word after the other."""

    def __init__(self) -> None:
        self._wishes: dict[str, Any] = {"name": "job"}
        self._command: Command | None = None
        self._classes: set[str] = set()

    def name(self, name: str) -> Self:
        """What to call it."""
        return self._with(name=name)

    def cpu_cores(self, cores: float | str) -> Self:
        """So many cores; a part of one is fine."""
        return self._with(cpus=cores)

    def memory_gb(self, size: float | str) -> Self:
        """So much memory, in GiB."""
        return self._with(memory=_gib(size, "memory_gb"))

    def storage_gb(self, size: float | str) -> Self:
        """So much room on a disk, in GiB."""
        return self._with(storage=_gib(size, "storage_gb"))

    def gpu_count(self, gpus: int) -> Self:
        """So many GPUs."""
        return self._with(gpus=gpus)

    def prefer_node_class(self, node_class: type[NodeClass] | NodeClass | str) -> Self:
        """There if possible: `NodeClass.DataCenter`, or its name; again: one of them."""
        self._classes.add(_class_name(node_class))
        return self

    def command(self, command: Command) -> Self:
        """What to run: a list as it is, a string under a shell. Without one it is only placed."""
        self._command = command
        return self

    def wish(self, **wishes: Any) -> Self:
        """Anything else that `Cluster.submit` takes: `env`, `priority`, `labels` and so on."""
        return self._with(**wishes)

    def build(self) -> Job:
        """The job; raises BadValue for what no agent would take."""
        told = cast("Wishes", self._wishes)
        spec = specification(_NOTHING if self._command is None else self._command, told)
        if self._classes:
            spec = msgspec.structs.replace(spec, prefer=_with_classes(spec.prefer, self._classes))
        if self._command is None:
            spec = msgspec.structs.replace(spec, work=None)
        return Job(spec=spec, wishes=dict(self._wishes), command=self._command)

    def _with(self, **wishes: Any) -> Self:
        self._wishes |= wishes
        return self


def _with_classes(where: Where, classes: set[str]) -> Where:
    return msgspec.structs.replace(where, classes=tuple(sorted(classes)))


def _gib(size: float | str, word: str) -> str:
    if milli.decimal(size) is None:
        raise BadValue(size, expected=f"a number of GiB for {word}", remedy="Write 16", field=word)
    return f"{milli.written(size)}GiB"


def _class_name(told: type[NodeClass] | NodeClass | str) -> str:
    name = told if isinstance(told, str) else getattr(told, "name", "")
    plain = str(name).strip().lower().replace("-", "").replace("_", "").replace(" ", "")
    if plain not in CLASS_NAMES:
        raise UnknownName("class", str(name), known=CLASS_NAMES)
    return plain
