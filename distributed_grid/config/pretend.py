"""The `pretend` mapping of a configuration: hardware for demos and tests.

    pretend: {cpus: 16, memory: 64GiB, gpus: [{model: RTX4090, count: 2}], class: laptop,
              battery_percent: 40, load: {cpu_percent: 90, idle_seconds: 5}}

Lives here: reading it, and where `grid probe` looks for it. Never here: laying it over a profile
(`edges.probe.pretend`).
Invariant: a key that nobody knows, and a value that makes no sense, are refused.
"""

import difflib
import os
from collections.abc import Callable, Mapping
from typing import Any, Final

from distributed_grid.errors import BadInput, BadValue
from distributed_grid.kernel.classification import DEVICE_TYPES
from distributed_grid.model import bytesize, milli
from distributed_grid.model.gpus import GPUS_MAX
from distributed_grid.model.node_class import CLASS_NAMES
from distributed_grid.model.pretend import Pretend, PretendGpu, PretendLoad

# Where a configuration is looked for; the first that exists counts.
CONFIG_FILES: Final = ("cluster_config.yaml", "config/cluster_config.yaml")
BANDWIDTH_MBPS_MAX: Final = 10_000_000
TEXT_CHARACTERS_MAX: Final = 100


def read_pretend(mapping: object) -> Pretend:
    """A `Pretend` from plain values; raises BadValue."""
    told = _mapping(mapping, _KEYS, "pretend")
    facts = {
        field: _at(f"pretend.{key}", read, told[key])
        for key, (field, read) in _KEYS.items()
        if key in told
    }
    power = facts.pop("power", None)
    if power is not None:
        facts["on_battery"] = power == "battery"
    if facts.get("device_type") and facts.get("node_class") != "edge":
        raise BadValue(
            told["device_type"],
            expected="pretend.device_type only beside class: edge",
            remedy="Add class: edge, or leave device_type out",
        )
    return Pretend(**facts)


def find_pretend(file: str | None, *, directory: str = ".") -> Pretend | None:
    """What a file pretends: the one that is named, else the configuration of the directory.

    A named file may hold the mapping itself, or a configuration with the key `pretend`.
    """
    if file is not None:
        document = _document(file)
        is_whole = not (isinstance(document, dict) and "pretend" in document)
        return _read_from(file, document if is_whole else document["pretend"], whole=is_whole)
    for name in CONFIG_FILES:
        path = os.path.join(directory, name)  # noqa: PTH118  (pathlib costs this command its start)
        if os.path.exists(path):  # noqa: PTH110
            document = _document(path)
            if isinstance(document, dict) and document.get("pretend") is not None:
                return _read_from(path, document["pretend"], whole=False)
            return None
    return None


def _document(file: str) -> Any:
    # Loading YAML takes 15 ms, a sixth of what a probe may take; only a file is worth it.
    from distributed_grid.config.documents import read_document

    return read_document(file)


def _read_from(file: str, mapping: object, *, whole: bool) -> Pretend:
    try:
        return read_pretend(mapping)
    except BadValue as error:
        raise BadInput(
            file, path="$" if whole else "$.pretend", problem=error.message, remedy=error.remedy
        ) from None


def _mapping(value: object, known: Mapping[str, Any], what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise BadValue(
            value, expected=f"{what} as a mapping", remedy=f"Keys are {', '.join(sorted(known))}"
        )
    for key in value:
        if key not in known:
            near = difflib.get_close_matches(str(key), known, n=1)
            raise BadValue(
                key,
                expected=f"a key of {what}",
                remedy=f"Did you mean {near[0]}?"
                if near
                else f"Keys are {', '.join(sorted(known))}",
            )
    return value


def _at(where: str, read: Callable[[Any], Any], value: object) -> Any:
    """The value, with the name of its key in every complaint."""
    try:
        return read(value)
    except BadValue as error:
        raise BadValue(
            error.value, expected=f"{where}: {error.expected}", remedy=error.remedy
        ) from None


def _cpus(value: object) -> int:
    cores = milli.parse(value, what="cores")
    if cores == 0:
        raise BadValue(value, expected="more than 0 cores", remedy="A node has at least one core")
    return cores


def _whole(least: int, most: int) -> Callable[[object], int]:
    def read(value: object) -> int:
        text = str(value).strip()
        number = int(text) if text.isascii() and text.isdigit() and len(text) <= 12 else None
        if isinstance(value, bool) or number is None or not least <= number <= most:
            raise BadValue(
                value,
                expected=f"a whole number from {least} to {most}",
                remedy=f"Write it like {least}",
            )
        return number

    return read


def _word(*known: str) -> Callable[[object], str]:
    def read(value: object) -> str:
        if not isinstance(value, str) or value.lower() not in known:
            raise BadValue(value, expected=f"one of {', '.join(known)}", remedy="Use one of these")
        return value.lower()

    return read


def _text(value: object) -> str:
    if not isinstance(value, str | int) or isinstance(value, bool):
        raise BadValue(value, expected="a word", remedy="Write it like RTX4090")
    text = str(value).strip()
    if not text or len(text) > TEXT_CHARACTERS_MAX or not text.isprintable():
        raise BadValue(
            value, expected=f"a word of 1 to {TEXT_CHARACTERS_MAX} characters", remedy="Shorten it"
        )
    return text


def _capability(value: object) -> int:
    """8.9 is 89."""
    number = milli.parse(value, what="compute capability")
    if number % 100 or not 1_000 <= number < 100_000:
        raise BadValue(value, expected="a compute capability", remedy="Write it like 8.9")
    return number // 100


def _gpus(value: object) -> tuple[PretendGpu, ...]:
    if not isinstance(value, list):
        raise BadValue(
            value, expected="a list of GPUs", remedy="Write it like [{model: RTX4090, count: 2}]"
        )
    found = tuple(_gpu(item) for item in value)
    if sum(gpu.count for gpu in found) > GPUS_MAX:
        raise BadValue(value, expected=f"at most {GPUS_MAX} GPUs", remedy="Pretend fewer")
    return found


def _gpu(value: object) -> PretendGpu:
    told = _mapping({"model": value} if isinstance(value, str) else value, _GPU_KEYS, "gpus")
    if "model" not in told:
        raise BadValue(value, expected="a GPU with a model", remedy="Add model: RTX4090")
    facts = {
        field: _at(key, read, told[key]) for key, (field, read) in _GPU_KEYS.items() if key in told
    }
    return PretendGpu(**facts)


def _load(value: object) -> PretendLoad:
    told = _mapping(value, _LOAD_KEYS, "load")
    facts = {
        field: _at(key, read, told[key]) for key, (field, read) in _LOAD_KEYS.items() if key in told
    }
    return PretendLoad(**facts)


def _times(factor: int, read: Callable[[object], int]) -> Callable[[object], int]:
    return lambda value: read(value) * factor


IDLE_SECONDS_MAX: Final = 10**9
_LOAD_KEYS: Final[dict[str, tuple[str, Callable[[Any], Any]]]] = {
    "cpu_percent": ("cpu_used_milli", _times(10, _whole(0, 100))),
    "memory_percent": ("memory_used_milli", _times(10, _whole(0, 100))),
    "gpu_percent": ("gpu_used_milli", _times(10, _whole(0, 100))),
    "idle_seconds": ("idle_ms", _times(1_000, _whole(0, IDLE_SECONDS_MAX))),
}
_GPU_KEYS: Final[dict[str, tuple[str, Callable[[Any], Any]]]] = {
    "model": ("model", _text),
    "count": ("count", _whole(1, GPUS_MAX)),
    "memory": ("memory_bytes", bytesize.parse),
    "compute_capability": ("compute_capability", _capability),
}
_KEYS: Final[dict[str, tuple[str, Callable[[Any], Any]]]] = {
    "cpus": ("cpu_milli", _cpus),
    "memory": ("memory_bytes", bytesize.parse),
    "storage": ("storage_bytes", bytesize.parse),
    "gpus": ("gpus", _gpus),
    "class": ("node_class", _word(*CLASS_NAMES)),
    "device_type": ("device_type", _word(*DEVICE_TYPES)),
    "battery_percent": ("battery_percent", _whole(0, 100)),
    "power": ("power", _word("ac", "battery")),
    "bandwidth_mbps": ("bandwidth_mbps", _whole(1, BANDWIDTH_MBPS_MAX)),
    "arch": ("arch", _text),
    "load": ("load", _load),
}
