"""The owner's terms of lending, from the words of a file or of `grid offer set`.

Lives here: which key is which term, what must hold between two of them, changing one. Never here:
what a key may hold (`sharing_file`).
Invariant: terms that were read can be lived with: no pressure ends above where it begins.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, TypeVar

import msgspec

from distributed_grid.config.cluster_file import ClusterFile
from distributed_grid.config.shape import shaped
from distributed_grid.errors import BadInput
from distributed_grid.model import duration
from distributed_grid.model.lending import Terms, Thresholds
from distributed_grid.model.settings import Origin

SECTION: Final = "resource_sharing"
_PREFIX: Final = f"{SECTION}."

# Key below `resource_sharing` -> where its value is shown, below `Settings.terms`.
KEYS: Final[dict[str, str]] = {
    "enabled": "is_enabled",
    "mode": "mode",
    "policy": "policy",
    "check_interval": "check_interval_ms",
    "offer_expiry": "offer_expiry_ms",
    "max_offers_per_node": "offers_max",
    "monitoring_interval_seconds": "monitoring_interval_ms",
    "allocation_timeout_minutes": "allocation_ms_max",
    "thresholds.gpu_utilization_max": "thresholds.gpu_utilization_max_milli",
    "thresholds.gpu_memory_min_mb": "thresholds.gpu_memory_min_bytes",
    "thresholds.memory_percent_max": "thresholds.memory_used_max_milli",
    "thresholds.memory_min_gb": "thresholds.memory_min_bytes",
    "thresholds.cpu_percent_max": "thresholds.cpu_used_max_milli",
    "thresholds.cpu_min_cores": "thresholds.cpu_min_milli",
    "thresholds.cpu_pressure_high": "thresholds.cpu_pressure_high_milli",
    "thresholds.cpu_pressure_low": "thresholds.cpu_pressure_low_milli",
    "thresholds.memory_pressure_high": "thresholds.memory_pressure_high_milli",
    "thresholds.memory_pressure_low": "thresholds.memory_pressure_low_milli",
    "thresholds.gpu_pressure_high": "thresholds.gpu_pressure_high_milli",
    "thresholds.gpu_pressure_low": "thresholds.gpu_pressure_low_milli",
    "reserve.cpus": "reserved_cpu_milli",
    "reserve.memory": "reserved_memory_bytes",
    "reserve.gpus": "reserved_gpus",
    "hours": "hours.span",
    "days": "hours.day_names",
    "battery_min_percent": "battery_min_percent",
    "temperature_max": "temperature_max_centi",
    "quiet": "quiet_ms",
    "yield": "yield_to",
    "suspended_max": "suspended_ms_max",
    "allow_urgent": "allow_urgent",
    "allow_no_preempt": "allow_no_preempt",
}
TOLD_BY: Final = "grid offer set"
# Below `resource_sharing`, but only as a word of `grid offer`: several terms at once.
PRESET: Final = "preset"
_IDLE: Final = Terms()
_ANY_MILLI: Final = 1_001  # All of it in use is below this.
PRESETS: Final[dict[str, dict[str, Any]]] = {
    "mine": {"mode": "offload_only"},
    "idle": {name: getattr(_IDLE, name) for name in ("is_enabled", "mode", "policy", "thresholds")},
    "all": {
        "is_enabled": True,
        "mode": "share_and_offload",
        "policy": "aggressive",
        "offers_max": 1_000,
        "reserved_cpu_milli": 0,
        "reserved_memory_bytes": 0,
        "reserved_gpus": 0,
        "quiet_ms": 0,
        "thresholds": Thresholds(
            gpu_utilization_max_milli=_ANY_MILLI,
            gpu_memory_min_bytes=0,
            memory_used_max_milli=_ANY_MILLI,
            memory_min_bytes=0,
            cpu_used_max_milli=_ANY_MILLI,
            cpu_min_milli=0,
        ),
    },
    "nothing": {"is_enabled": False},
}
T = TypeVar("T", bound=msgspec.Struct)


def stored(key: str, value: Any) -> dict[str, Any]:
    """The fields of `Terms` that a key below `resource_sharing` sets."""
    if key == "hours":
        return {"hours.from_minute": value[0], "hours.to_minute": value[1]}
    if key == "days":
        return {"hours.days": value}
    return {KEYS[key]: value}


def changed(thing: T, changes: Mapping[str, Any]) -> T:
    """A value with some of its fields, and of those below it, replaced: dotted names."""
    here: dict[str, Any] = {}
    below: dict[str, dict[str, Any]] = {}
    for path, value in changes.items():
        name, _, rest = path.partition(".")
        if rest:
            below.setdefault(name, {})[rest] = value
        else:
            here[name] = value
    for name, inner in below.items():
        here[name] = changed(getattr(thing, name), inner)
    return msgspec.structs.replace(thing, **here)


def with_terms(terms: Terms, words: Iterable[tuple[str, str]], *, told_by: str = TOLD_BY) -> Terms:
    """The terms with some as somebody wrote them: `thresholds.cpu_percent_max`, `50`.

    Raises BadInput for a key that is none, for what it cannot hold, and if they contradict.
    """
    key = ""
    for told, text in words:
        key = told.removeprefix(_PREFIX)
        terms = _with_term(terms, key, text, told_by)
    check(terms, {_PREFIX + key: Origin(source="flag", name=told_by)})
    return terms


def _with_term(terms: Terms, key: str, text: str, told_by: str) -> Terms:
    if key == PRESET and text in PRESETS:
        return changed(terms, PRESETS[text])
    document: Any = text
    for part in reversed([SECTION, *key.split(".")]):
        document = {part: document}
    found = at(shaped(told_by, document, ClusterFile), _PREFIX + key)
    if key not in KEYS:
        raise BadInput(
            told_by,
            path=f"$.{_PREFIX}{key}",
            problem="is no term of lending in this version",
            remedy=f"Terms are {', '.join(KEYS)}, and {PRESET}: {', '.join(PRESETS)}",
        )
    return changed(terms, stored(key, found))


def at(parsed: Any, key: str) -> Any:
    """What a parsed file, or anything else with such attributes, has at a dotted key."""
    for part in key.split("."):
        # A word of Python cannot name an attribute.
        parsed = getattr(parsed, "yield_to" if part == "yield" else part)
    return parsed


def check(terms: Terms, origins: Mapping[str, Origin]) -> None:
    """Refuse terms that contradict each other, at a key that somebody wrote."""
    for keys, problem, remedy in _contradictions(terms):
        written = [_PREFIX + key for key in keys if _PREFIX + key in origins]
        key = written[0] if written else _PREFIX + keys[0]
        origin = origins.get(key, Origin())
        raise BadInput(
            origin.file or origin.name or SECTION,
            path=f"$.{key}",
            problem=problem,
            remedy=remedy,
            line=origin.line,
        )


def _contradictions(terms: Terms) -> Iterator[tuple[tuple[str, str], str, str]]:
    for kind in ("cpu", "memory", "gpu"):
        low = getattr(terms.thresholds, f"{kind}_pressure_low_milli")
        high = getattr(terms.thresholds, f"{kind}_pressure_high_milli")
        if low >= high:
            keys = f"thresholds.{kind}_pressure_low", f"thresholds.{kind}_pressure_high"
            told = f"the low number, {low}/1000, is not below the high one, {high}/1000"
            yield keys, told, "Let pressure end below where it begins: 0.3 and 0.8"
    if terms.offer_expiry_ms < terms.check_interval_ms:
        expiry, interval = map(duration.text, (terms.offer_expiry_ms, terms.check_interval_ms))
        told = f"offers end after {expiry}, before the next look after {interval}"
        yield ("offer_expiry", "check_interval"), told, "Let offers live longer than check_interval"
