"""What a node says that another one cannot handle costs it its link, and nobody anything else."""

import os

import pytest

from tests.mesh_jobs import PLAIN, job, once, over, submitted
from tests.mesh_lab import Member, MeshLab, awaited

pytestmark = pytest.mark.slow
# Read by every Python of a member; only its agent heeds it.
INSTEAD = """\
import sys
if sys.orig_argv[1:4] == ["-P", "-m", "distributed_grid.app"]:
    import runpy
    sys.argv = sys.orig_argv[3:]
    runpy.run_module("tests.mesh.poisoned_app", run_name="__main__")
    sys.exit(0)
"""


def poisoned(lab: MeshLab, name: str) -> Member:
    made = lab.member(name, config=PLAIN)
    folder = made.root / "instead"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(INSTEAD)
    made.env["PYTHONPATH"] = f"{folder}{os.pathsep}{made.env['PYTHONPATH']}"
    return made


@pytest.mark.parametrize("word", ["raises", "endless"])
def test_a_word_that_breaks_the_kernel_costs_its_node_the_link_for_a_while(word):
    with MeshLab.on_loopback() as lab:
        desk = poisoned(lab, "desk")
        attic, shed = lab.member("attic", config=PLAIN), lab.member("shed", config=PLAIN)
        lab.form([desk, attic, shed])
        pid = desk.pid()
        own = submitted(desk, "--node", "desk", "sleep", "8")
        guest = submitted(shed, "--node", "desk", "sleep", "8")
        once(shed, guest, "running")

        said = submitted(attic, "--node", "desk", "--name", word, "true")
        faults = awaited(lambda: desk.events("mesh.fault"), lambda: desk.log[-2000:], 30)
        attic.says("cancel", said)

        told = faults[0].fields
        assert (told["name"], told["kind"], told["refused_ms"]) == ("attic", "Reserve", 10_000)
        assert told["why"].startswith("TookTooLong" if word == "endless" else "ZeroDivisionError")
        seen = desk.nodes()["attic"]
        assert (seen.path, seen.faults) == ("none", 1)
        assert "its Reserve could not be handled" in " ".join(desk.says("nodes").split())
        assert "its Reserve could not be handled" in " ".join(desk("doctor").stdout.split())
        assert desk.figure("grid_mesh_faults_total") == 1
        assert desk.nodes()["shed"].path == "direct"

        assert over(desk, own) == over(shed, guest) == {"succeeded"}
        assert len(job(shed, guest)["attempts"]) == 1
        assert desk.pid() == pid
        awaited(lambda: desk.nodes()["attic"].path != "none", desk.nodes, 40)
        assert over(attic, submitted(attic, "--node", "desk", "true")) == {"succeeded"}
        assert len(desk.events("mesh.fault")) == 1


def test_a_record_that_nobody_can_take_over_is_set_aside_and_the_rest_goes_on():
    with MeshLab.on_loopback() as lab:
        desk, attic = poisoned(lab, "desk"), lab.member("attic", config=PLAIN)
        lab.form([desk, attic])
        bad = submitted(attic, "--node", "attic", "--name", "heirless", "sleep", "600")
        good = submitted(
            attic, "--node", "attic", "--node", "desk", "--name", "heired", "sleep", "1"
        )
        awaited(lambda: {bad, good} <= set(held(desk)), lambda: held(desk), 30)
        attic.kill()
        for _ in range(3):
            pid = desk.pid()
            aside = awaited(lambda: desk.events("store.set_aside"), lambda: desk.log[-2000:], 60)
            assert [(event.fields["kind"], event.fields["id"]) for event in aside] == [
                ("record", bad)
            ]
            assert over(desk, good) == {"succeeded"}
            assert desk.pid() == pid
            assert bad in held(desk)
            assert bad in " ".join(desk("doctor").stdout.split())
            desk.down()
            desk.up()


def held(member: Member) -> list[str]:
    from tests.mesh_jobs import disk

    with disk(member) as base:
        return [one for (one,) in base.execute("SELECT id FROM held")]
