"""Other Pythons on this machine, each with what the placement kernel needs.

    python -m scripts.pythons           make the environments, and print one interpreter a line

Lives here: finding interpreters, and one small virtual environment for each under
$XDG_CACHE_HOME/distributed-grid/python-X.Y. Never here: what is run with them.
Invariant: an environment that is there is complete (a stamp is written last); without a network
what is there is used, and the rest is left out.
"""

import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

NEEDED = ("msgspec", "numpy", "pyyaml")
OLDEST = (3, 11)
ASK_VERSION = "import sys; print(sys.version_info[0], sys.version_info[1])"


def cache() -> Path:
    """Where the environments live: outside the checkout, and kept."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "distributed-grid"


def candidates() -> list[Path]:
    """Every interpreter of another version that is new enough, one for each version."""
    names = [Path(f"python3.{minor}") for minor in range(OLDEST[1], OLDEST[1] + 9)]
    folders = [Path(folder) for folder in os.environ.get("PATH", "").split(os.pathsep) if folder]
    found = [folder / name for folder in folders for name in names]
    found += sorted(Path.home().glob(".pyenv/versions/*/bin/python"))
    chosen: dict[tuple[int, int], Path] = {sys.version_info[:2]: Path(sys.executable)}
    for path in found:
        told = version_of(path)
        if told is not None and told >= OLDEST:
            chosen.setdefault(told, path)
    return [chosen[told] for told in sorted(chosen) if told != sys.version_info[:2]]


def version_of(python: Path) -> tuple[int, int] | None:
    """What an interpreter says it is; None if it does not run (a shim of pyenv may not)."""
    if not python.exists():
        return None
    done = subprocess.run(
        [python, "-I", "-c", ASK_VERSION], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        return None
    major, minor = map(int, done.stdout.split())
    return major, minor


def equipped(python: Path) -> Path | None:
    """The interpreter of an environment with all that is needed; None if it cannot be made."""
    told = version_of(python)
    if told is None:
        return None
    folder = cache() / f"python-{told[0]}.{told[1]}"
    inside, stamp = folder / "bin" / "python", folder / ".complete"
    wanted = "\n".join(f"{name}=={version(name)}" for name in NEEDED)
    if stamp.exists() and stamp.read_text(encoding="utf-8") == wanted and version_of(inside):
        return inside
    stamp.unlink(missing_ok=True)
    commands = (
        [str(python), "-m", "venv", "--clear", str(folder)],
        [str(inside), "-m", "pip", "install", "--quiet", "--only-binary=:all:", *wanted.split()],
    )
    for command in commands:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            told_why = (done.stderr.strip() or "no reason given").splitlines()[-1]
            print(f"{python} is left out: {told_why}", file=sys.stderr)
            return None
    stamp.write_text(wanted, encoding="utf-8")
    return inside


def main() -> int:
    """Make what can be made."""
    for python in candidates():
        if (inside := equipped(python)) is not None:
            print(inside)
    return 0


if __name__ == "__main__":
    sys.exit(main())
