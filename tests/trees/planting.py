"""Grows the file tree of a machine from its TOML file.

Lives here: reading `tests/trees/*.toml` and writing the files they describe. Never here: what a
probe should make of them (each TOML says so itself, under `class` and `expect`).
"""

import tomllib
from pathlib import Path
from typing import Any

TREES = Path(__file__).parent
NAMES = tuple(sorted(path.stem for path in TREES.glob("*.toml")))


def description(name: str) -> dict[str, Any]:
    return tomllib.loads((TREES / f"{name}.toml").read_text(encoding="utf-8"))


def plant(name: str, root: Path) -> Path:
    """Write the tree of one machine below `root`, and hand back the root."""
    told = description(name)
    files: dict[str, str] = dict(told.get("files", {}))
    for part in told.get("repeat", []):
        for values in part["values"]:
            for path, text in part["files"].items():
                files[path.format(**values)] = text.format(**values)
    if "processors" in told:
        files["/proc/cpuinfo"] = _cpuinfo(**told["processors"])
    for path, text in files.items():
        place = root / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, encoding="utf-8")
    for path in told.get("directories", []):
        (root / path.lstrip("/")).mkdir(parents=True, exist_ok=True)
    for path, target in told.get("links", {}).items():
        place = root / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(target)
    return root


def _cpuinfo(*, packages: int, cores: int, threads: int, text: str) -> str:
    """Blocks in the order of Linux: all cores of all packages, then their sibling threads."""
    order = [
        (package, core)
        for _ in range(threads)
        for package in range(packages)
        for core in range(cores)
    ]
    return "\n".join(
        text.format(n=n, package=package, core=core, cores=cores, siblings=cores * threads)
        for n, (package, core) in enumerate(order)
    )
