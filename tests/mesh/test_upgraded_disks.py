"""A mesh of the version before is upgraded with its disks: nothing is lost, or runs twice."""

import io
import json
import subprocess
import tarfile
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.mesh_jobs import ENDED, PLAIN, Gate, disk, job, once, over, submitted, unfinished
from tests.mesh_lab import Member, MeshLab, awaited

pytestmark = pytest.mark.slow

BEFORE = "e32dbf9"  # What was before bounds, rights and accounts.


@pytest.fixture(scope="module")
def older(tmp_path_factory) -> Path:
    """The package as it was, from the history."""
    folder = tmp_path_factory.mktemp("older")
    argv = ["git", "-C", str(ROOT), "archive", BEFORE, "distributed_grid"]
    done = subprocess.run(argv, capture_output=True, check=False)
    if done.returncode:
        pytest.skip(f"this checkout has no history: {done.stderr.decode()}")
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
        archive.extractall(folder, filter="data")
    return folder


def upgrade(member: Member) -> None:
    """The new version is installed, and takes over from the agent that runs."""
    member.env["PYTHONPATH"] = str(ROOT)
    member.up("--replace")


def runs(file: Path) -> list[str]:
    """What wrote a line into it when it began."""
    return sorted(file.read_text().split())


class Before:
    """What two machines of the version before have been given to do."""

    def __init__(self, lab: MeshLab, folder: Path) -> None:
        self.desk, self.attic = lab.members
        self.gate, self.begun = Gate(folder / "gate"), folder / "begun"
        self.begun.touch()
        self.good = submitted(self.desk, "--node", "attic", "echo", "good")
        self.bad = submitted(self.desk, "--", "sh", "-c", "echo bad; exit 3")
        script = "echo index $GRID_ARRAY_INDEX; test $GRID_ARRAY_INDEX != 7"
        self.array = submitted(self.desk, "--array", "0-15", "--", "sh", "-c", script)
        for word, state in ((self.good, "succeeded"), (self.bad, "failed"), (self.array, "failed")):
            assert over(self.desk, word) == {state}
        self.there = self.held(self.desk, "there", 4, "--node", "attic")
        self.ends = {  # State and exit code of what has not ended yet.
            self.there: ("failed", 4),
            self.held(self.desk, "here", 0, "--node", "desk"): ("succeeded", 0),
            self.held(self.desk, "once", 5, "--node", "attic", "--at-most-once"): ("failed", 5),
            self.held(self.desk, "half", 0, "--node", "desk", "--array", "0-3%1"): ("succeeded", 0),
        }
        for word in self.ends:
            once(self.desk, word, "running")
        last = self.held(self.desk, "last", 0, "--after", f"{self.there}:failed")
        wide = self.held(self.desk, "wide", 6, "--cpus", "2", "--node", "desk")
        self.waiting = {last: ("succeeded", 0), wide: ("failed", 6)}
        awaited(
            lambda: runs(self.begun) == ["half0", "here", "once", "there"],
            lambda: (runs(self.begun), unfinished(self.desk)),
        )

    def held(self, member: Member, name: str, code: int, *words: str) -> str:
        """A job that says that it began, and ends when the gate is open."""
        script = f"echo {name}$GRID_ARRAY_INDEX >> {self.begun}; flock --shared {self.gate.file} :"
        shell = ("--", "sh", "-c", f"{script}; echo told by {name}; exit {code}")
        return submitted(member, *words, *shell)


@pytest.fixture
def lab(older):
    with MeshLab.on_wire(("desk", "attic"), PLAIN) as made:
        for member in made.members:
            member.env["PYTHONPATH"] = str(older)
        made.form(made.members)
        yield made


def test_all_jobs_and_the_mesh_of_the_version_before_are_there_and_go_on(lab, tmp_path):
    before = Before(lab, tmp_path)
    desk, attic = lab.members
    desk.says("offer", "set", "thresholds.cpu_percent_max", "77")
    nodes = {name: node.id for name, node in desk.nodes().items()}
    jobs = {word: job(desk, word) for word in (before.good, before.bad, before.array)}
    for member in lab.members:
        upgrade(member)
        lab.settled(lab.members)
        once(desk, before.there, "running")  # As soon as its owner has said so again.

    assert {name: node.id for name, node in desk.nodes().items()} == nodes
    same = ("state", "exit_code", "submitted_ms", "ended_ms", "argv", "array")
    for word, was in jobs.items():
        now = job(desk, word)
        assert {key: now[key] for key in same} == {key: was[key] for key in same}
    assert {job(attic, word)["state"] for word in before.waiting} == {"waiting"}
    before.gate.open()
    for member in lab.members:
        for word, end in (before.ends | before.waiting).items():
            ended = once(member, word, *ENDED)
            assert (ended["state"], ended["exit_code"]) == end, ended
    each = ["half0", "half1", "half2", "half3", "here", "last", "once", "there", "wide"]
    assert runs(before.begun) == each, "each once"

    assert desk.says("logs", before.good) == attic.says("logs", before.good) == "good\n"
    assert desk.says("logs", before.there) == "told by there\n"
    told = json.loads(attic.says("logs", before.array, "--all", "--json"))
    assert [one["stdout"] for one in told] == [f"index {at}\n" for at in range(16)]
    assert "thresholds.cpu_percent_max 77" in desk.says("offer")
    for member in lab.members:
        assert "Traceback" not in member.log
        with disk(member) as base:
            assert base.execute("PRAGMA quick_check").fetchall() == [("ok",)]
