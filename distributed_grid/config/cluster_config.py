"""`ClusterConfig`: a `cluster_config.yaml` as a Python program holds it (seed 003).

Lives here: reading every shape people have, the variables that override it, and writing it again.
Never here: what a key may hold (`cluster_file`), the agent's own settings (`settings`).
Invariant: what was read and is not an attribute here is still written by `to_yaml`.
"""

import copy
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Self

import msgspec

from distributed_grid.config import variables
from distributed_grid.config.cluster_file import ClusterFile
from distributed_grid.config.cluster_sections import (
    ExecutionConfig,
    HealthCheckConfig,
    LoggingConfig,
    MetricsConfig,
    NodeConfig,
    RayConfig,
    ResourceSharingConfig,
    Section,
    SshConfig,
    SyncConfig,
)
from distributed_grid.config.documents import read_located
from distributed_grid.config.shape import shaped
from distributed_grid.config.variants import normalised
from distributed_grid.errors import BadInput, BadValue, UnknownName
from distributed_grid.model.bounds import Most, Name, Sentence

# Words that mean the same in any case.
_LOWER: Final = ("logging.format", "resource_sharing.mode", "resource_sharing.policy")
_UPPER: Final = ("logging.level", "ray.log_level")
_OWN: Final = frozenset({"told", "notes", "source"})  # About the file, not in it.


class ClusterConfig(Section, frozen=True, kw_only=True, omit_defaults=True):
    """A cluster: its machines, how jobs run, what is lent. No machines listed: this one."""

    name: Name = "grid"
    nodes: Most[NodeConfig] = ()
    execution: ExecutionConfig = ExecutionConfig()
    logging: LoggingConfig = LoggingConfig()
    resource_sharing: ResourceSharingConfig = ResourceSharingConfig()
    metrics: MetricsConfig = MetricsConfig()
    ssh: SshConfig = SshConfig()
    health_check: HealthCheckConfig = HealthCheckConfig()
    sync: SyncConfig = SyncConfig()
    ray: RayConfig = RayConfig()
    remote_root: Sentence = "~/grid_workspace"
    # What the file and the variables said, in the one shape of all.
    told: dict[str, Any] = msgspec.field(default_factory=dict)
    notes: Most[Sentence] = ()  # What a person should know about the file.
    source: Sentence = ""  # The file.

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "nodes", tuple(self.nodes))  # A list is fine too.
        names = [node.name for node in self.nodes]
        for name in names:
            if names.count(name) > 1:
                raise BadValue(name, expected="each node once", remedy="Give it another name")

    @classmethod
    def from_yaml(
        cls, path: str | os.PathLike[str], *, environ: Mapping[str, str] | None = None
    ) -> Self:
        """The configuration in a file; variables (`GRID_CLUSTER_NAME`, …) override it.

        Raises BadInput with the path inside the file for whatever it cannot use.
        """
        file = os.fspath(path)
        document, lines = read_located(file)
        found = normalised(file, document, lines)
        shaped(file, found.document, ClusterFile, lines=found.lines)
        told = _without_empty(found.document)
        _override(told, os.environ if environ is None else environ)
        return cls._made(told, notes=tuple(found.notes), source=file)

    @classmethod
    def from_dict(cls, document: Mapping[str, Any], *, source: str = "a mapping") -> Self:
        """The same from a mapping, as a file would hold it."""
        found = normalised(source, dict(document), {})
        shaped(source, found.document, ClusterFile, lines=found.lines)
        return cls._made(_without_empty(found.document), notes=tuple(found.notes), source="")

    @classmethod
    def _made(cls, told: dict[str, Any], *, notes: tuple[str, ...], source: str) -> Self:
        document = copy.deepcopy(told)
        for key in _LOWER:
            _change(document, key, str.lower)
        for key in _UPPER:
            _change(document, key, str.upper)
        for node in document.get("nodes") or ():
            if "role" in node:
                node["role"] = node["role"].lower()
        fields = {key: value for key, value in document.items() if key not in _OWN}
        try:
            # The words were checked already; here they only become numbers and flags.
            made = msgspec.convert(fields, cls, strict=False)
            return msgspec.structs.replace(made, told=told, notes=notes, source=source)
        except (msgspec.ValidationError, BadValue) as error:
            raise BadInput(
                source or "the configuration",
                path="$",
                problem=str(error),
                remedy="Mend this value",
            ) from None

    def to_yaml(self, path: str | os.PathLike[str] | None = None) -> str:
        """The configuration as text; written to a file too, if one is named."""
        import yaml

        whole = {k: v for k, v in msgspec.to_builtins(self).items() if k not in _OWN}
        merged = _merged(self.told, whole)
        text = yaml.safe_dump(merged, sort_keys=False, allow_unicode=True)
        if path is not None:
            try:
                Path(path).write_text(text, encoding="utf-8")
            except OSError as error:
                raise BadInput(
                    os.fspath(path),
                    path="$",
                    problem=f"cannot be written: {error.strerror}",
                    remedy="Check the directory and your rights",
                ) from error
        return text

    def get_node_by_name(self, name: str) -> NodeConfig | None:
        """The machine of this name, if it is listed."""
        return next((node for node in self.nodes if node.name == name), None)

    def get_nodes_by_tag(self, tag: str) -> list[NodeConfig]:
        """The machines with this tag, in the order of the file."""
        return [node for node in self.nodes if tag in node.tags]

    def is_set(self, key: str) -> bool:
        """Whether somebody chose this value: `execution.timeout_seconds`."""
        section, _, field = key.partition(".")
        if section not in self.__struct_fields__ or section in _OWN:
            raise UnknownName("section", section, known=sorted({*self.__struct_fields__} - _OWN))
        written = self.told.get(section)
        if not field:
            return section in self.told or getattr(self, section) != getattr(type(self)(), section)
        value = getattr(self, section)
        if isinstance(written, dict) and field in written:
            return True
        return bool(getattr(value, field) != getattr(type(value)(), field))


def _override(told: dict[str, Any], environ: Mapping[str, str]) -> None:
    """Let the variables win over the file."""
    for variable, key in variables.VARIABLES.items():
        section, _, field = key.partition(".")
        value = environ.get(variable)
        if not value or section not in ClusterConfig.__struct_fields__:
            continue
        shaped(variable, {section: {field: value} if field else value}, ClusterFile)
        if field:
            told[section] = {**(told.get(section) or {}), field: value}
        else:
            told[section] = value


def _without_empty(document: dict[str, Any]) -> dict[str, Any]:
    """`key:` without a value says nothing."""
    return {
        key: _without_empty(value) if isinstance(value, dict) else value
        for key, value in document.items()
        if value is not None
    }


def _change(document: dict[str, Any], key: str, how: Any) -> None:
    section, _, field = key.partition(".")
    inside = document.get(section)
    if isinstance(inside, dict) and isinstance(inside.get(field), str):
        inside[field] = how(inside[field])


def _plain(value: Any) -> Any:
    """Text that is a number or a flag without its quotes, if that says the same."""
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    flags = {"true": True, "false": False}
    if not isinstance(value, str) or value in flags:
        return flags.get(value, value) if isinstance(value, str) else value
    for kind in (int, float):
        try:
            if str(kind(value)) == value:
                return kind(value)
        except ValueError:
            continue
    return value


def _merged(told: dict[str, Any], whole: dict[str, Any]) -> dict[str, Any]:
    """What was told, with our numbers for its words, and what was set in a program."""
    merged = {key: _plain(value) for key, value in told.items()}
    for key, value in whole.items():
        before = told.get(key)
        merged[key] = _merged(before, value) if isinstance(before, dict) else value
    return merged
