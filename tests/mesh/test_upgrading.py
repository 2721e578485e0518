"""Agents of the previous version become new ones in turn, while jobs run."""

import os

import pytest

from tests.mesh_jobs import PLAIN, Gate, job, once, over, submitted
from tests.mesh_lab import Member, MeshLab, awaited

pytestmark = pytest.mark.slow

NAMES = ("desk", "attic", "barn")
# Read by every Python of a member; only its agent heeds it, as long as the file is there.
INSTEAD = """\
import os, sys
here = os.path.dirname(__file__)
if sys.orig_argv[1:4] == ["-P", "-m", "distributed_grid.app"] and os.path.exists(here + "/old"):
    import runpy
    sys.argv = sys.orig_argv[3:]
    runpy.run_module("tests.mesh.older_app", run_name="__main__")
    sys.exit(0)
"""


def made_old(member: Member) -> None:
    folder = member.root / "instead"
    folder.mkdir()
    (folder / "old").touch()
    (folder / "sitecustomize.py").write_text(INSTEAD)
    member.env["PYTHONPATH"] = f"{folder}{os.pathsep}{member.env['PYTHONPATH']}"


def upgrade(member: Member) -> None:
    """Its keeper starts the new one, and keeps its jobs meanwhile."""
    (member.root / "instead" / "old").unlink()
    before = member.pids("agent")
    member.kill("agent")
    awaited(lambda: member.nodes() and member.pids("agent") != before)


def test_a_mesh_is_upgraded_in_turn_and_jobs_flow_as_soon_as_two_can(tmp_path):
    gate = Gate(tmp_path / "gate")
    with MeshLab.on_wire(NAMES, PLAIN) as lab:
        for member in lab.members:
            made_old(member)
        lab.form(lab.members)
        desk, attic, barn = lab.members
        own = [submitted(member, *gate.words("echo", "own")) for member in lab.members]

        upgrade(desk)
        lab.settled(lab.members)
        assert submitted(desk, "--wait-for-capacity", "--node", "attic", "true")
        assert over(desk, submitted(desk, "true")) == {"succeeded"}
        upgrade(attic)
        lab.settled(lab.members)
        there = submitted(desk, "--node", "attic", *gate.words("echo", "there"))
        once(desk, there, "running")
        assert over(attic, submitted(attic, "--array", "0-9", "true")) == {"succeeded"}
        upgrade(barn)
        lab.settled(lab.members)
        gate.open()

        back = submitted(barn, "--node", "desk", "--cpus", "2", "echo", "back")
        for word in (*own, there, back):
            for member in lab.members:
                assert over(member, word) == {"succeeded"}, job(member, word)
        assert barn.says("logs", there) == "there\n"
        for member in lab.members:
            assert member.figure("grid_mesh_junk_total") == 0
            assert not member.events("mesh.refused")
    gate.open()
