"""What a node claims is checked by others: who claims more than it has is shown to have failed."""

import json
import os

import pytest

from tests.mesh.boasting_app import CORES
from tests.mesh_lab import Member, MeshLab, awaited

pytestmark = pytest.mark.slow

CAUGHT_S = 240.0  # Three tries are a minute; the machine that tests has other things to do.
# Read by every Python of a member; only its agent heeds it.
INSTEAD = """\
import sys
if sys.orig_argv[1:4] == ["-P", "-m", "distributed_grid.app"]:
    import runpy
    sys.argv = sys.orig_argv[3:]
    runpy.run_module("tests.mesh.boasting_app", run_name="__main__")
    sys.exit(0)
"""


def boaster(lab: MeshLab) -> Member:
    made = lab.member("boaster")
    folder = made.root / "instead"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(INSTEAD)
    made.env["PYTHONPATH"] = f"{folder}{os.pathsep}{made.env['PYTHONPATH']}"
    return made


@pytest.mark.rows("S2-142")
@pytest.mark.skipif(len(os.sched_getaffinity(0)) >= CORES // 2, reason="it could be true")
def test_who_claims_more_cores_than_it_has_is_caught_and_the_others_stay_trusted():
    with MeshLab.on_loopback() as lab:
        honest = [lab.member("desk"), lab.member("attic")]
        lab.form([*honest, boaster(lab)])
        assert honest[0].nodes()["boaster"].cpu_milli_total == CORES * 1_000

        for member in lab.members:  # Itself too: it hears what the others found.
            awaited(lambda member=member: member.nodes()["boaster"].verification == "failed",
                    lambda: [each.events("mesh.verified") for each in lab.members],
                    within_s=CAUGHT_S)  # fmt: skip
            nodes = {
                each["name"]: each for each in json.loads(member.says("nodes", "--json"))["nodes"]
            }
            why = nodes["boaster"]["verification_why"]
            assert why.startswith(f"{CORES} cores are claimed, ")
            assert why.endswith(" worked at once")
            assert {nodes[each.name]["verification"] for each in honest} <= {"claimed", "verified"}
            assert why in " ".join(member.says("nodes").split())
        told = [event.fields for each in honest for event in each.events("mesh.verified")]
        assert {"failed"} == {one["verification"] for one in told if one["name"] == "boaster"}
        assert "failed" not in {one["verification"] for one in told if one["name"] != "boaster"}
