"""What the doctor says about the mesh."""

import json

import pytest

from distributed_grid.cli.examination import EXPIRY_MS_NEAR, mesh_finding
from distributed_grid.kernel.mesh.views import KEYLESS
from distributed_grid.model.membership import DAY_MS
from distributed_grid.wire.mesh_api import Nodes
from tests.agent_stand_in import CannedAgent, serving
from tests.mesh_stand_in import CannedMesh, Lobby, a_node

NOW_MS = 1_800_000_000_000
FINE_MS = NOW_MS + 60 * DAY_MS


def found(own=None, *others):
    own = own or a_node("desk", is_self=True, roles=("admin",), expires_ms=FINE_MS)
    return mesh_finding(Nodes(mesh="ab" * 32, nodes=(own, *others)), now_ms=NOW_MS)


def test_two_admins_are_fine():
    finding = found(None, a_node("attic", roles=("admin",)), a_node("pi"))

    assert (finding.what, finding.state, finding.remedy) == ("mesh", "ok", "")
    assert finding.detail == "abababab, 3 nodes, 2 admins"


@pytest.mark.parametrize(
    ("others", "detail"),
    [
        ((), "1 nodes, 1 admins; if that one is lost, nobody can be let in"),
        ((a_node("attic", roles=("admin",), health="left"),), "1 nodes, 1 admins"),
        ((a_node("pi"),), "2 nodes, 1 admins"),
    ],
)
def test_fewer_than_two_admins_are_worth_a_warning(others, detail):
    finding = found(None, *others)

    assert finding.state == "warn"
    assert detail in finding.detail
    assert "grid ticket --role admin" in finding.remedy


def test_no_admin_at_all_is_said_so():
    finding = found(a_node("desk", is_self=True, expires_ms=FINE_MS))

    assert "nobody lets others in" in finding.detail


@pytest.mark.parametrize(
    ("left_ms", "state", "words"),
    [(EXPIRY_MS_NEAR, "ok", ""), (EXPIRY_MS_NEAR - 1, "warn", "in 13 days"), (-5, "warn", "in 0")],
)
def test_a_certificate_that_ends_soon_is_worth_a_warning(left_ms, state, words):
    own = a_node("desk", is_self=True, roles=("admin",), expires_ms=NOW_MS + left_ms)
    finding = found(own, a_node("attic", roles=("admin",)))

    assert finding.state == state
    assert words in finding.detail


@pytest.mark.parametrize(
    ("note", "remedy"),
    [
        ("two machines use this key; on the copy: …", "grid up --new-identity"),
        ("revoked by an admin of the mesh", "a new ticket"),
        ("its certificate has expired; no admin was there to renew it", "an admin's machine"),
        (KEYLESS, "Copy the recovery key to mesh-authority.key"),
    ],
)
def test_what_keeps_this_node_out_comes_with_a_remedy(note, remedy):
    own = a_node("desk", is_self=True, roles=("admin",), expires_ms=FINE_MS, note=note)
    finding = found(own, a_node("attic", roles=("admin",)))

    assert finding.state == "warn"
    assert note in finding.detail
    assert remedy in finding.remedy


def test_the_doctor_asks_the_agent(grid, tmp_path, clean_env):
    home = tmp_path / "g"
    home.mkdir()
    agent = CannedAgent()
    agent.mesh = CannedMesh("desk", Lobby())
    with serving(agent, home / "agent.sock"):
        done = grid("doctor", "--json", env={"GRID_HOME": str(home)})
    alone = grid("doctor", "--json", env={"GRID_HOME": str(tmp_path / "other")})

    finding = {each["what"]: each for each in json.loads(done.stdout)}["mesh"]
    assert finding["detail"]
    missing = {each["what"]: each for each in json.loads(alone.stdout)}["mesh"]
    assert (missing["state"], bool(missing["remedy"])) == ("warn", True)
