"""A guest whose owner wants the machine back stands still, and both machines say so."""

import pytest

from tests.mesh_lab import MeshLab, awaited

pytestmark = pytest.mark.slow

CONFIG = "pretend: {cpus: 2}\nresource_sharing: {max_offers_per_node: 20}\n"


def test_a_suspended_guest_is_shown_as_such_where_it_runs_and_at_home():
    with MeshLab.on_loopback() as lab:
        desk = lab.member("desk", config=CONFIG).up()
        barn = lab.member("barn", config=CONFIG).up("--join", desk.ticket("--for", "bob"))
        lab.settled(lab.members)
        desk.says("run", "--detach", "--name", "guest", "--node", "barn", "sleep", "600")
        awaited(lambda: "running" in desk.says("jobs"))
        barn.says("offer", "pause")
        for member in (desk, barn):
            awaited(lambda member=member: "suspended" in member.says("jobs"))
            assert "suspended" in member.says("job", "guest").split("command")[0]
            assert "it is suspended" in member.says("explain", "guest")
            assert "lending is paused" in member.says("explain", "guest")
        barn.says("offer", "resume")
        for member in (desk, barn):
            awaited(lambda member=member: "suspended" not in member.says("jobs"))
            assert "running: it runs" in member.says("explain", "guest")
        desk.says("cancel", "guest")
