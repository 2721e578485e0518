"""Settings from, in rising order: defaults, a file, the environment, flags.

Lives here: finding the file, merging, and remembering where each value came from. Never here: the
shape of a file (`cluster_file`), its variants (`variants`), the list of variables (`variables`).
Invariant: a key is used, kept for later, or refused; none is ignored.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from distributed_grid.config import mesh_file, terms, variables
from distributed_grid.config.cluster_file import ClusterFile
from distributed_grid.config.documents import read_located
from distributed_grid.config.shape import shaped
from distributed_grid.config.variants import normalised
from distributed_grid.errors import BadInput
from distributed_grid.model.resources import sorted_amounts
from distributed_grid.model.settings import Origin, Settings

FILE_NAMES: Final = ("cluster_config.yaml", "cluster_config.yml", "cluster_config.toml")

# Key -> where it is in Settings. Every other key of a file is kept for later.
USED: Final[dict[str, str]] = {
    "data_dir": "data_dir",
    "node.name": "name",
    "node.labels": "labels",
    "node.resources": "resources",
    "node.price_per_hour": "costs.price_micro_per_hour",
    "node.watts_idle": "costs.idle_mw",
    "node.watts_max": "costs.max_mw",
    "pretend": "pretend",
    "logging.level": "log_level",
    "logging.format": "log_format",
    "jobs.log_bytes": "job_log_bytes",
    "jobs.grace": "grace_ms",
    "jobs.finished_max": "finished_jobs_max",
    "jobs.queue_max": "queue_jobs_max",
    "http.request_bytes_max": "request_bytes_max",
    **{f"{terms.SECTION}.{key}": f"terms.{field}" for key, field in terms.KEYS.items()},
    "fair_share.users": "weights.users",
    "fair_share.projects": "weights.projects",
    "fair_share.ageing": "ageing_ms",
    **mesh_file.KEYS,
}
HIDDEN: Final = "(secret)"


class Later(msgspec.Struct, frozen=True, kw_only=True):
    """A value that is known and checked, and that this version does not use yet."""

    key: str
    value: Any  # As it was written.
    origin: Origin
    comes_with: str = ""  # What it waits for, if that is known.


class Loaded(msgspec.Struct, frozen=True, kw_only=True):
    """The settings, and everything that can be said about them."""

    settings: Settings
    origins: dict[str, Origin]  # By key, of every setting.
    later: tuple[Later, ...] = ()  # Sorted by key.
    notes: tuple[str, ...] = ()  # What a person should know, one sentence each.
    file: str | None = None


def load_settings(
    environ: Mapping[str, str],
    *,
    file: str | None = None,
    directory: str = ".",
    config_dir: str | None = None,
    flags: Mapping[str, tuple[str, Any]] | None = None,
) -> Loaded:
    """Everything that was set.

    `file` is the one that somebody named; else GRID_CONFIG, else the first that exists in the
    directory, its `config/`, and `config_dir`. `flags` are key -> (flag, value).
    """
    merge = _Merge()
    chosen = file or environ.get(variables.CONFIG) or find_file(directory, config_dir)
    if chosen is not None:
        merge.add_file(chosen)
    merge.add_environment(environ)
    for key, (flag, value) in (flags or {}).items():
        merge.add(flag, key, value, Origin(source="flag", name=flag))
    settings = terms.changed(Settings(), merge.values)
    terms.check(settings.terms, merge.origins)
    mesh_file.check(settings.mesh, merge.origins)
    return Loaded(
        settings=settings,
        origins={key: merge.origins.get(key, Origin()) for key in USED},
        later=tuple(merge.later[key] for key in sorted(merge.later)),
        notes=(*merge.notes, *_unlike_what_was_asked(settings, merge.later)),
        file=chosen,
    )


def find_file(directory: str = ".", config_dir: str | None = None) -> str | None:
    """The configuration of a directory, else of the person."""
    places = [Path(directory), Path(directory, "config")]
    if config_dir is not None:
        places.append(Path(config_dir))
    found = (place / name for place in places for name in FILE_NAMES)
    return next((str(path) for path in found if path.exists()), None)


class _Merge:
    """What was told so far; later words replace earlier ones, key by key."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}  # By where it is in Settings, with dots.
        self.origins: dict[str, Origin] = {}
        self.later: dict[str, Later] = {}
        self.notes: list[str] = []

    def add_file(self, file: str) -> None:
        document, lines = read_located(file)
        found = normalised(file, document, lines)
        mesh_file.refuse_twice(file, found.document, found.lines)
        self.notes += found.notes
        self._take(
            shaped(file, found.document, ClusterFile, lines=found.lines),
            found.document,
            lambda key: Origin(source="file", file=file, line=found.lines.get(f"$.{key}", 0)),
        )

    def add_environment(self, environ: Mapping[str, str]) -> None:
        for variable, key in variables.VARIABLES.items():
            if environ.get(variable):  # An empty one counts as not set, as in most programs.
                self.add(
                    variable, key, environ[variable], Origin(source="environment", name=variable)
                )
        if environ.get(variables.HOME):
            where = Origin(source="environment", name=variables.HOME)
            self.add(variables.HOME, "data_dir", environ[variables.HOME], where)
        for variable in (*variables.SECRETS, *variables.OTHERS):
            if environ.get(variable):
                shown = HIDDEN if variable in variables.SECRETS else environ[variable]
                self.later[variable] = Later(
                    key=variable,
                    value=shown,
                    origin=Origin(source="environment", name=variable),
                )
        self.notes += variables.unknown(environ)

    def add(self, told_by: str, key: str, value: Any, origin: Origin) -> None:
        """One value, from a variable or a flag."""
        if key == "data_dir":
            if not str(value).startswith("/"):
                raise BadInput(
                    told_by,
                    path=key,
                    problem=f"is not an absolute path: {value}",
                    remedy="Begin it with /",
                )
            self.values[key], self.origins[key] = str(value), origin
            return
        document = value
        for part in reversed(key.split(".")):
            document = {part: document}
        self._take(shaped(told_by, document, ClusterFile), document, lambda _: origin)

    def _take(self, parsed: ClusterFile, document: Any, origin_of: Any) -> None:
        for key, written in _leaves(document):
            if written is None:
                continue  # `key:` without a value says nothing.
            ours = mesh_file.SAME.get(key, key)
            if ours in USED and not mesh_file.is_later(key, terms.at(parsed, key)):
                self.values |= _settings(ours, terms.at(parsed, key))
                self.origins[ours] = origin_of(key)
                self._forget_later(ours)
            else:
                comes_with = mesh_file.COMES_WITH.get(key, "")
                self.later[key] = Later(
                    key=key, value=written, origin=origin_of(key), comes_with=comes_with
                )

    def _forget_later(self, ours: str) -> None:
        """A word that was kept for later does not count any more: somebody said another."""
        for key in [key for key in self.later if mesh_file.SAME.get(key, key) == ours]:
            del self.later[key]


def _unlike_what_was_asked(settings: Settings, later: Mapping[str, Later]) -> Iterator[str]:
    """A sentence where something else counts than what somebody wrote."""
    for told in later.values():
        if told.comes_with == mesh_file.TOPOLOGY:
            counts = settings.mesh.topology
            yield f"{told.origin}: the topology '{told.value}' comes later; until then it is {counts}"


def _leaves(document: dict[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Every value by its key; a mapping that is one setting stays whole."""
    for name, value in document.items():
        key = f"{above}{name}"
        if isinstance(value, dict) and key not in USED and key != "execution.environment":
            yield from _leaves(value, f"{key}.")
        else:
            yield key, value


def _settings(key: str, value: Any) -> dict[str, Any]:
    """What a key sets, by where it is in Settings."""
    if key.startswith(f"{terms.SECTION}."):
        fields = terms.stored(key.removeprefix(f"{terms.SECTION}."), value)
        return {f"terms.{field}": told for field, told in fields.items()}
    if key == "node.labels":
        value = tuple(sorted(value.items()))
    elif key == "node.resources":
        value = sorted_amounts(value)
    return {USED[key]: value}
