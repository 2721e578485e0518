"""An ordinary project: some sources among what nobody wants on another machine, and a secret.

Lives here: making one, cheaply: what is large is a hole. Never here: what is measured.
"""

from pathlib import Path
from random import Random

SECRET = "AWS_SECRET_ACCESS_KEY=abc123-of-the-first-hour"  # noqa: S105  (looked for elsewhere)
MIB = 1 << 20
IGNORED = ".env\n.venv/\ndata/\nnode_modules/\n"
SOURCES = 100
# What is made of the files that stay at home, of each ten.
VENV, MODULES = 3, 6


def ordinary_project(root: Path, *, files: int = 20_000, megabytes: int = 500) -> Path:
    """So many files, of which 2 MB are wanted in a hundred; the rest is of git, pip, npm, data."""
    root.mkdir(parents=True)
    new_sources(root, seed=1)
    (root / ".gitignore").write_text(IGNORED)
    (root / ".env").write_text(f"{SECRET}\n")
    rest = files - SOURCES
    many(root / ".venv/lib/python3/site-packages", rest * VENV // 10)
    many(root / "node_modules", rest * MODULES // 10)
    many(root / ".git/objects", rest - rest * VENV // 10 - rest * MODULES // 10)
    (root / ".venv/pyvenv.cfg").write_text("home = /usr/bin\n")
    (root / ".venv/bin").mkdir()
    (root / ".venv/bin/python").symlink_to("python3")
    (root / ".venv/bin/python3").symlink_to("/usr/bin/python3")
    (root / ".git/HEAD").write_text("ref: refs/heads/main\n")
    (root / "data").mkdir()
    hole(root / ".venv/lib/libtorch.so", megabytes * 3 // 5)
    hole(root / "data/raw.bin", megabytes * 2 // 5)
    return root


def new_sources(root: Path, *, seed: int) -> None:
    """The 2 MB, other ones for each seed."""
    dice = Random(seed)
    for number in range(SOURCES):
        file = root / f"src/part{number % 10}/module{number}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(dice.randbytes(20_000))


def many(root: Path, count: int) -> None:
    """So many files in folders of fifty."""
    for number in range(count):
        if number % 50 == 0:
            folder = root / f"package{number // 50}"
            folder.mkdir(parents=True)
        (folder / f"{number}.js").touch()


def hole(file: Path, megabytes: int) -> None:
    """So large, and without a block on the disk."""
    with file.open("wb") as opened:
        opened.truncate(megabytes * MIB)
