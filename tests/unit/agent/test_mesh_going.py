"""The agent's side of leaving a mesh: by oneself, and thrown out by another."""

import msgspec
import pytest

from distributed_grid.errors import (
    Ambiguous,
    BadValue,
    MeshRefused,
    MeshUnreachable,
    NotFound,
    NotInMesh,
    NotPermitted,
)
from distributed_grid.wire.mesh_api import Leave
from tests.unit.agent.mesh_lab import MeshLab, until


async def test_who_leaves_says_goodbye_and_listens_nowhere():
    async with MeshLab() as lab:
        alpha, beta = await lab.mesh_of("alpha", "beta")
        assert (await beta.desk.leave(Leave())).is_heard
        await until(lambda: "node.left" in alpha.names())

        assert alpha.side.views()[1].why == "it said goodbye"
        assert set(lab.network.ends) == {alpha.id}
        assert beta.names()[-1] == "mesh.left"
        assert beta.authorities_set_aside == 1
        assert not (await beta.store.load_all()).meta["mesh.own"]
        with pytest.raises(NotInMesh):
            await beta.desk.leave(Leave())


async def test_who_leaves_right_after_a_start_waits_until_somebody_has_heard_it():
    async with MeshLab() as lab:
        alpha, beta = await lab.mesh_of("alpha", "beta")
        await beta.kill()
        await until(lambda: not alpha.linked)
        back = await lab.restarted(beta)
        parted = await back.desk.leave(Leave())

        assert parted.is_heard
        assert alpha.side.views()[1].health == "left"


async def test_who_leaves_unheard_is_told(monkeypatch):
    monkeypatch.setattr("distributed_grid.agent.mesh_desk.FAREWELL_TICKS", 3)
    async with MeshLab() as lab:
        alpha, beta = await lab.mesh_of("alpha", "beta")
        lab.network.cut(alpha.id, beta.id)
        parted = await beta.desk.leave(Leave())

        assert not parted.is_heard
        assert not beta.side.is_member
        assert alpha.side.views()[1].health == "alive"


async def test_who_leaves_a_mesh_of_its_own_waits_for_nobody(monkeypatch):
    monkeypatch.setattr("distributed_grid.agent.mesh_desk.FAREWELL_TICKS", 1)
    async with MeshLab() as lab:
        alone = await lab.add("alone")
        await alone.ticket()

        assert (await alone.desk.leave(Leave(is_forced=True))).is_heard


async def test_who_left_may_come_back():
    async with MeshLab() as lab:
        alpha, beta = await lab.mesh_of("alpha", "beta")
        await beta.desk.leave(Leave())
        joined = await beta.join(await alpha.ticket())
        await until(lambda: alpha.side.views()[1].health == "alive" and alpha.linked == {beta.id})

        assert not joined.was_member


async def test_the_last_admin_goes_only_by_force_and_its_own_ticket_is_void_then():
    async with MeshLab() as lab:
        alpha, _ = await lab.mesh_of("alpha", "beta")
        text = await alpha.ticket()
        with pytest.raises(NotPermitted, match="nobody else"):
            await alpha.desk.leave(Leave())

        await alpha.desk.leave(Leave(is_forced=True))
        assert not alpha.side.is_member
        with pytest.raises((MeshUnreachable, MeshRefused)):
            await alpha.join(text)


async def test_who_is_kicked_is_let_go_and_knows_it():
    async with MeshLab() as lab:
        alpha, beta, gamma = await lab.mesh_of("alpha", "beta", "gamma")
        seen = await alpha.desk.kick("beta")
        await until(lambda: beta.mesh.membership.was_revoked and not beta.linked)
        await until(lambda: gamma.linked == {alpha.id})

        assert seen.name == "beta"
        assert beta.side.views()[0].note == "revoked by an admin of the mesh"
        assert [view.name for view in gamma.side.views()] == ["gamma", "alpha"]


async def test_a_node_to_kick_is_found_by_name_or_by_the_beginning_of_its_id():
    async with MeshLab() as lab:
        alone = await lab.add("alone")
        with pytest.raises(NotInMesh):
            await alone.desk.kick("beta")
        alpha, beta = await lab.mesh_of("alpha", "beta")
        with pytest.raises(NotFound):
            await alpha.desk.kick("nobody")
        with pytest.raises(NotFound):
            await alpha.desk.kick(beta.id[:3])
        with pytest.raises(BadValue, match="another node"):
            await alpha.desk.kick("alpha")
        same = msgspec.structs.replace(alpha.mesh.roster.standings[beta.id], name="alpha")
        alpha.mesh.roster.standings[beta.id] = same
        with pytest.raises(Ambiguous, match="means 2 nodes"):
            await alpha.desk.kick("alpha")

        assert (await alpha.desk.kick(beta.id[:8].upper())).id == beta.id


async def test_who_is_told_to_stop_reads_down_also_where_there_is_no_link_with_it():
    async with MeshLab() as lab:
        alpha, beta, _ = await lab.mesh_of("alpha", "beta", "gamma")
        lab.network.cut(alpha.id, beta.id)
        for one, other in ((alpha, beta), (beta, alpha)):
            one.side.links.hang_up(other.id, "cut")
            await until(lambda one=one, other=other: other.id not in one.linked)
        beta.side.is_going_down = True
        await beta.kill()

        def health() -> str:
            return next(each.health for each in alpha.side.views() if each.id == beta.id)

        await until(lambda: health() == "down")
