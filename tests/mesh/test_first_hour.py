"""The first hour: a person with two machines and an ordinary project, played on real agents.

The times are printed; `benchmarks.first_hour` measures them on a machine that does nothing else.
"""

import json
import time
from pathlib import Path

import pytest

from benchmarks.ordinary import SECRET, ordinary_project
from tests.mesh_lab import Member, MeshLab

pytestmark = pytest.mark.slow

LAPTOP = "pretend: {cpus: 4, memory: 8GiB, class: laptop, gpus: []}\n"
DESK = "pretend: {cpus: 8, memory: 32GiB, class: workstation, gpus: [{model: RTX4090}]}\n"
TRAIN = """\
import os, pathlib
print("training on", os.environ["GRID_NODE"], len(list(pathlib.Path("src").rglob("*.py"))))
pathlib.Path("results").mkdir(exist_ok=True)
pathlib.Path("results/model.bin").write_bytes(b"model")
with open("log.txt", "a") as log:
    log.write("trained\\n")
"""
LONG_S = 60.0  # Nothing of it takes as long, however busy the machine.


class Clock:
    """How long each step took, from Enter to the prompt."""

    def __init__(self, member: Member, project: Path) -> None:
        self._member, self._project = member, project
        self.took_s: dict[str, float] = {}

    def run(self, step: str, *words: str):
        begin = time.monotonic()
        done = self._member("run", "--cwd", str(self._project), *words)
        self.took_s[step] = time.monotonic() - begin
        assert done.returncode == 0, (step, done.stdout, done.stderr)
        return done


def holding(root: Path, text: bytes) -> list[Path]:
    """Files below a directory with these bytes in them, also in what is kept of other files."""
    files = [path for path in root.rglob("*") if path.is_file() and not path.is_symlink()]
    return [path for path in files if text in path.read_bytes()]


def test_the_first_hour_with_an_ordinary_project_and_two_machines():
    with MeshLab.on_wire(("laptop", "desk"), config={"laptop": LAPTOP, "desk": DESK}) as lab:
        laptop, desk = lab["laptop"], lab["desk"]
        lab.form([laptop, desk])
        project = ordinary_project(laptop.dir / "project", files=2_500, megabytes=100)
        (project / "train.py").write_text(TRAIN)
        clock = Clock(laptop, project)

        clock.run("hello here", "--node", "laptop", "--", "echo", "hi")
        listed = json.loads(clock.run("dry run", "--dry-run", "--json").stdout)
        train = ("--gpus", "1", "--", "python3", "train.py")
        first = clock.run("first job elsewhere", *train)
        again = clock.run("second job elsewhere", *train)

        names = {path for path, _ in listed["files"]}
        assert "train.py" in names
        assert len(names) == 102  # A hundred sources, train.py and .gitignore.
        assert listed["size_bytes"] < 3_000_000
        for done in (first, again):
            assert done.stdout == "training on desk 100\n"
            assert not done.stderr, "nothing to remark"
        assert (project / "results/model.bin").read_bytes() == b"model"
        assert (project / "log.txt").read_text() == "trained\ntrained\n"
        secret = SECRET.encode()
        assert holding(project, secret) == [project / ".env"]
        assert holding(desk.root, secret) == []
        assert holding(laptop.home, secret) == []
        assert not list(desk.root.rglob("node_modules")), "what git ignores stays, too"
        for step, took_s in clock.took_s.items():
            print(f"{step}: {took_s:.2f} s")
        assert max(clock.took_s.values()) < LONG_S
