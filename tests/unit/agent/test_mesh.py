"""The agent's side of the mesh over links in memory: joining, forwarding, leaving, renaming."""

import asyncio

import msgspec
import pytest

from distributed_grid.agent.mesh_metrics import mesh_lines
from distributed_grid.edges.store import StoreFull
from distributed_grid.errors import (
    Ambiguous,
    MeshRefused,
    MeshUnreachable,
    NotFound,
    NotInMesh,
    NotPermitted,
)
from distributed_grid.kernel.mesh.events import MeshReady
from distributed_grid.kernel.mesh.membership import Forward
from distributed_grid.kernel.ready import Happened
from distributed_grid.model.ids import NodeId
from distributed_grid.model.membership import DAY_MS
from distributed_grid.wire.mesh import Redeem, Refused, Renewed, Welcome
from distributed_grid.wire.mesh_api import Leave, MakeTicket, Rename
from distributed_grid.wire.ticket import read_ticket, ticket_text
from tests.unit.agent.mesh_lab import Agent, MeshLab, until


@pytest.mark.rows("S2-57", "S2-148")
async def test_a_ticket_and_a_join_make_a_mesh_of_two():
    async with MeshLab() as lab:
        alpha, beta = await lab.add("alpha"), await lab.add("beta")
        assert (await alpha.desk.nodes()).mesh == ""
        made = await alpha.desk.make_ticket(MakeTicket())
        joined = await beta.join(made.text)
        await until(lambda: "node.joined" in alpha.names())

        assert (joined.name, joined.roles, joined.was_member) == ("beta", ("member",), False)
        assert joined.mesh == (await alpha.desk.nodes()).mesh == (await beta.desk.nodes()).mesh
        assert made.recovery_file == "/recovery"
        assert [view.name for view in alpha.side.views()] == ["alpha", "beta"]
        assert alpha.names()[0] == "mesh.founded"


async def test_before_the_first_ticket_or_join_nobody_listens():
    async with MeshLab() as lab:
        alpha = await lab.add("alpha")
        assert lab.network.ends == {}

        await alpha.ticket()
        assert set(lab.network.ends) == {alpha.id}


async def test_joining_twice_is_harmless_and_says_so():
    async with MeshLab() as lab:
        alpha, beta = await lab.mesh_of("alpha", "beta")
        text = await alpha.ticket()
        joined = await beta.join(text)
        own = await alpha.join(text)

        assert (joined.was_member, own.was_member) == (True, True)
        assert own.nodes == 2


async def test_who_joins_knows_everybody_when_it_is_told_that_it_is_in():
    async with MeshLab() as lab:
        alpha, *_ = await lab.mesh_of("alpha", "beta", "gamma", "delta")
        late = await lab.add("late")
        joined = await late.join(await alpha.ticket())

        assert (joined.nodes, joined.is_all) == (5, True)


async def test_who_has_not_heard_of_everybody_in_time_says_so(monkeypatch):
    monkeypatch.setattr("distributed_grid.agent.mesh_desk.ROSTER_S", 0.05)
    async with MeshLab() as lab:
        alpha, _ = await lab.mesh_of("alpha", "beta")
        late = await lab.add("late")
        text = await alpha.ticket()
        present = alpha.mesh.present
        alpha.mesh.present = lambda: [*present(), "f" * 64]
        joined = await late.join(text)

        assert (joined.nodes <= 3, joined.is_all) == (True, False)


async def test_a_node_of_another_mesh_has_to_leave_that_one_first():
    async with MeshLab() as lab:
        alpha, beta = await lab.add("alpha"), await lab.add("beta")
        await beta.ticket()

        with pytest.raises(NotPermitted, match="in another mesh"):
            await beta.join(await alpha.ticket())


async def test_another_member_passes_a_ticket_on_when_its_issuer_cannot_be_reached():
    async with MeshLab() as lab:
        alpha, beta = await lab.mesh_of("alpha", "beta")
        gamma = await lab.add("gamma", timeout_ms=50)
        await until(lambda: alpha.mesh.contact(beta.id))
        text = await alpha.ticket()
        lab.network.cut(alpha.id, gamma.id)
        joined = await gamma.join(text)

        assert joined.name == "gamma"
        assert gamma.mesh.membership.chain[0].issuer == alpha.id
        assert gamma.linked == {beta.id}


async def test_who_forwards_without_a_link_to_the_issuer_says_that_it_cannot():
    async with MeshLab() as lab:
        alpha, beta = await lab.mesh_of("alpha", "beta")
        gamma = await lab.add("gamma", timeout_ms=50)
        await until(lambda: alpha.mesh.contact(beta.id))
        text = await alpha.ticket()
        await alpha.kill()
        await until(lambda: not beta.side.links.open)

        with pytest.raises(MeshUnreachable, match="issuer-unreachable"):
            await gamma.join(text)


async def test_only_the_issuer_answers_for_a_ticket_that_was_passed_on():
    async with MeshLab() as lab:
        alpha, beta = await lab.mesh_of("alpha", "beta")
        newcomer = NodeId("c" * 64)
        redeem = Redeem(
            mesh=beta.mesh.roster.mesh,
            ticket="",
            issuer=alpha.id,
            node=newcomer,
            name="c",
            mac=b"",
        )
        forward = Forward(issuer=alpha.id, redeem=redeem)
        asked = asyncio.ensure_future(beta.side._forwarding.ask(forward, beta.side.links))
        await asyncio.sleep(0)
        refused = Refused(reason="forged", about=newcomer)
        beta.side._answered("d" * 64, refused)
        beta.side._answered(alpha.id, Welcome(chain=()))
        assert not asked.done()

        beta.side._answered(alpha.id, refused)
        beta.side._answered(alpha.id, refused)
        assert await asked == refused


async def test_a_node_that_cannot_be_reached_is_told_apart_from_one_that_refused():
    async with MeshLab() as lab:
        alpha, beta = await lab.add("alpha"), await lab.add("beta", timeout_ms=50)
        text = await alpha.ticket()
        ticket = read_ticket(text)
        forged = ticket_text(msgspec.structs.replace(ticket, secret=b"x" * 16))
        with pytest.raises(MeshRefused) as refused:
            await beta.join(forged)
        assert refused.value.reason == "ticket-unknown"

        await alpha.kill()
        with pytest.raises(MeshUnreachable, match="nobody is there"):
            await beta.join(text)


async def test_a_join_that_fails_leaves_no_door_open():
    async with MeshLab() as lab:
        alpha, beta = await lab.add("alpha"), await lab.add("beta", timeout_ms=50)
        text = await alpha.ticket()
        await alpha.kill()
        with pytest.raises(MeshUnreachable):
            await beta.join(text)

        assert lab.network.ends == {}
        assert not beta.side.is_member


async def test_an_expired_ticket_is_refused_without_asking_anybody():
    async with MeshLab() as lab:
        alpha, beta = await lab.add("alpha"), await lab.add("beta")
        text = await alpha.ticket(ttl_ms=1_000)
        beta.shift_ms = DAY_MS

        with pytest.raises(MeshRefused) as refused:
            await beta.join(text)
        assert refused.value.reason == "ticket-expired"
        assert set(lab.network.ends) == {alpha.id}


async def test_a_revoked_ticket_is_found_by_its_beginning_and_lets_nobody_in():
    async with MeshLab() as lab:
        alpha, beta = await lab.add("alpha"), await lab.add("beta")
        with pytest.raises(NotFound):
            await alpha.desk.revoke_ticket("abc")
        made = await alpha.desk.make_ticket(MakeTicket())
        assert (await alpha.desk.revoke_ticket(made.id[:6])).state == "revoked"
        with pytest.raises(NotFound):
            await alpha.desk.revoke_ticket("")

        assert [each.state for each in (await alpha.desk.tickets()).tickets] == ["revoked"]
        with pytest.raises(MeshRefused) as refused:
            await beta.join(made.text)
        assert refused.value.reason == "ticket-revoked"


async def test_tickets_show_who_came_in_by_name():
    async with MeshLab() as lab:
        alpha, _ = await lab.mesh_of("alpha", "beta")
        (ticket,) = (await alpha.desk.tickets()).tickets

        assert (ticket.used_by, ticket.uses_max, ticket.state) == (("beta",), 2, "open")
        alone = await lab.add("alone")
        assert (await alone.desk.tickets()).tickets == ()


async def test_a_member_and_the_founder_are_renamed():
    async with MeshLab() as lab:
        alpha, beta = await lab.mesh_of("alpha", "beta")
        assert (await beta.desk.rename(Rename(name="bench"))).name == "bench"
        assert (await alpha.desk.rename(Rename(name="boss"))).name == "boss"
        await until(lambda: [view.name for view in alpha.side.views()] == ["boss", "bench"])
        await until(lambda: [view.name for view in beta.side.views()] == ["bench", "boss"])
        assert (alpha.called, beta.called) == (["boss"], ["beta", "bench"])


async def test_an_admin_that_is_not_linked_is_asked_for_a_name_all_the_same():
    async with MeshLab() as lab:
        alpha, beta = await lab.mesh_of("alpha", "beta")
        await until(lambda: beta.mesh.said.reach(alpha.id))
        alpha.side.links.hang_up(beta.id, "idle")
        await until(lambda: not beta.linked)
        beta.mesh.dialling.due = lambda *_: []  # Nor will it be, before it was asked.

        assert (await beta.desk.rename(Rename(name="bench"))).name == "bench"
        assert not beta.linked


async def test_an_admin_that_is_not_linked_may_refuse():
    async with MeshLab() as lab:
        alpha, beta = await lab.mesh_of("alpha", "beta")
        await until(lambda: beta.mesh.said.reach(alpha.id))
        for side in (alpha, beta):
            side.mesh.dialling.due = lambda *_: []
        alpha.side.links.hang_up(beta.id, "idle")
        await until(lambda: not beta.linked)
        no = Refused(reason="not-permitted", detail="not today")
        alpha.mesh.membership.renewing.renew = lambda *_: no

        with pytest.raises(MeshRefused, match="not today"):
            await beta.desk.rename(Rename(name="bench"))


async def test_without_an_admin_nobody_is_renamed(monkeypatch):
    monkeypatch.setattr("distributed_grid.agent.mesh_desk.RENAMED_S", 0.05)
    async with MeshLab() as lab:
        alone = await lab.add("alone")
        with pytest.raises(NotInMesh):
            await alone.desk.rename(Rename(name="bench"))
        alpha, beta = await lab.mesh_of("alpha", "beta")
        same = beta.mesh.membership.chain
        alpha.mesh.membership.renewing.renew = lambda *_: Renewed(chain=same)
        with pytest.raises(MeshUnreachable, match="no answer"):
            await beta.desk.rename(Rename(name="bench"))
        await alpha.kill()
        await until(lambda: not beta.linked)
        with pytest.raises(MeshUnreachable, match="no answer"):
            await beta.desk.rename(Rename(name="bench"))
        beta.mesh.membership.renewing._who_renews = list
        with pytest.raises(MeshUnreachable, match="none is known"):
            await beta.desk.rename(Rename(name="bench"))


# Starting again, and time


async def test_a_start_goes_on_in_the_mesh_under_the_port_it_had():
    async with MeshLab() as lab:
        alpha, beta = await lab.mesh_of("alpha", "beta")
        beta = await lab.restarted(beta)
        await until(lambda: beta.linked == {alpha.id} and alpha.linked == {beta.id})

        assert beta.kept_ports == [4_433]
        assert beta.side.transport.port == 4_433
        assert alpha.kept_ports == [0]


async def test_an_expired_member_fetches_a_new_certificate_from_an_admin():
    async with MeshLab() as lab:
        alpha, beta = await lab.mesh_of("alpha", "beta")
        await beta.kill()
        lab.agents.remove(beta)
        alpha.shift_ms = 61 * DAY_MS
        await until(
            lambda: alpha.mesh.membership.chain[0].expires_ms > alpha.now().wall_ms + 60 * DAY_MS
        )
        alpha.shift_ms = 125 * DAY_MS
        beta = await lab.add("beta", beta.store, shift_ms=alpha.shift_ms)
        await until(lambda: "mesh.certificate_renewed" in beta.names())
        await until(lambda: beta.linked == {alpha.id})


async def test_who_was_told_no_on_renewing_goes_on():
    async with MeshLab() as lab:
        alpha, beta = await lab.mesh_of("alpha", "beta")
        chain = beta.mesh.membership.chain
        for answer in (None, Refused(reason="busy")):
            beta.side._renewed(alpha.id, answer)

        assert beta.mesh.membership.chain == chain


# Troubles of our own


async def test_a_task_that_fails_ends_the_agent():
    async with MeshLab() as lab:
        alpha, _ = await lab.mesh_of("alpha", "beta")

        def broken(event):
            raise ZeroDivisionError

        alpha.mesh.step = broken
        with pytest.raises(ZeroDivisionError):
            await asyncio.wait_for(alpha.running, 10)
        assert alpha.id not in lab.network.ends


async def test_a_link_on_which_something_cannot_be_handled_is_lost_for_a_while_and_nothing_else():
    async with MeshLab() as lab:
        alpha, beta = await lab.mesh_of("alpha", "beta")
        honest, faults = alpha.mesh.wanted, []

        def broken(entries):
            faults.append(entries)
            raise ZeroDivisionError

        alpha.mesh.wanted = broken
        beta.values["load"] = b"\x00"
        await until(lambda: faults)
        await until(lambda: beta.id not in alpha.side.links.open)
        alpha.mesh.wanted = honest

        (told,) = [event.fields for event in alpha.events if event.name == "mesh.fault"]
        assert (told["node"], told["kind"]) == (beta.id, "Delta")
        assert told["why"].startswith("ZeroDivisionError")
        seen = {node.name: node for node in alpha.side.views()}
        assert "its Delta could not be handled" in seen["beta"].note
        assert not alpha.running.done()


async def test_a_greeting_that_cannot_be_handled_ends_no_agent():
    async with MeshLab() as lab:
        alpha, beta = await lab.mesh_of("alpha", "beta")
        greetings = []

        def broken(*words):
            greetings.append(words)
            raise ZeroDivisionError

        honest, alpha.mesh.greet = alpha.mesh.greet, broken
        beta.side.links.cut(alpha.id, "a test")
        await until(lambda: greetings)
        await until(lambda: [one.fields for one in alpha.events if one.name == "mesh.fault"])
        alpha.mesh.greet = honest
        kinds = {one.fields["kind"] for one in alpha.events if one.name == "mesh.fault"}
        assert kinds == {"greeting"}
        assert not alpha.running.done()


async def test_the_figures_are_in_the_format_of_prometheus():
    async with MeshLab() as lab:
        alone = await lab.add("alone")
        assert list(mesh_lines(alone.side)) == []
        alpha, beta = await lab.mesh_of("alpha", "beta")
        await until(lambda: alpha.mesh.links[beta.id].path == "direct")
        alpha.side.links.refused["busy"] = 3
        lines = list(mesh_lines(alpha.side))

        figures = {}
        kinds = {}
        for line in lines:
            if line.startswith("# TYPE"):
                _, _, name, kind = line.split()
                assert name not in kinds
                kinds[name] = kind
            elif not line.startswith("#"):
                name, value = line.rsplit(" ", 1)
                assert name not in figures
                assert name.partition("{")[0] in kinds
                figures[name] = int(value)
        assert figures['grid_mesh_nodes{health="alive"}'] == 2
        assert figures['grid_mesh_connections{path="direct"}'] == 1
        assert figures['grid_mesh_refused_total{reason="busy"}'] == 3
        assert figures["grid_mesh_heartbeats_sent_total"] > 0
        assert {each for each, kind in kinds.items() if kind == "counter"} == {
            each for each in kinds if each.endswith("_total")
        }


async def test_what_was_for_links_of_before_is_not_sent_but_saved():
    async with MeshLab() as lab:
        _alpha, beta = await lab.mesh_of("alpha", "beta")
        beta.store.gate.clear()
        first = MeshReady(save={"mesh.first": b"1"})
        second = MeshReady(save={"mesh.second": b"2"}, happened=[Happened(name="lost", at_ms=0)])
        beta.side.take(first)
        await asyncio.sleep(0)
        beta.side.take(second)
        await beta.side.close()
        beta.store.gate.set()
        await beta.side.carry_out(MeshReady())

        meta = (await beta.store.load_all()).meta
        assert (meta["mesh.first"], meta["mesh.second"]) == (b"1", b"2")
        assert "lost" not in beta.names()


async def test_the_ticket_that_founds_a_mesh_survives_a_restart():
    async with MeshLab() as lab:
        alpha, beta = await lab.add("alpha"), await lab.add("beta")
        text = await alpha.ticket()
        again = await lab.restarted(alpha)

        assert [ticket.state for ticket in (await again.desk.tickets()).tickets] == ["open"]
        assert (await beta.join(text)).was_member is False


async def test_nothing_overtakes_what_is_being_saved():
    async with MeshLab() as lab:
        alpha, beta, gamma = await lab.mesh_of("alpha", "beta", "gamma")
        alpha.store.gate.clear()
        kicking = asyncio.ensure_future(alpha.desk.kick("gamma"))
        rounds = alpha.mesh.rounds
        await until(lambda: alpha.mesh.rounds > rounds + 5)
        assert gamma.id in beta.mesh.roster.standings  # Not told, for it is not durable.

        alpha.store.gate.set()
        await kicking
        await until(lambda: gamma.id not in beta.mesh.roster.standings)


async def test_whoever_asks_a_member_that_starts_waits_for_its_port():
    async with MeshLab() as lab:
        alpha, _beta = await lab.mesh_of("alpha", "beta")
        await alpha.kill()
        again = Agent(lab, "alpha", alpha.store)
        lab.agents.remove(alpha)
        lab.agents.append(again)
        await again.start()  # Its port is being opened.
        await asyncio.gather(again.desk.make_ticket(MakeTicket()), again.side.open())

        assert len(again.kept_ports) == 1


async def test_a_refused_name_is_told_and_the_own_name_is_no_change():
    async with MeshLab() as lab:
        _alpha, beta = await lab.mesh_of("alpha", "beta")
        assert (await beta.desk.rename(Rename(name="beta"))).name == "beta"
        with pytest.raises(MeshRefused) as refused:
            await beta.desk.rename(Rename(name="x" * 65))

        assert refused.value.reason == "malformed"


async def test_a_full_disk_is_told_at_once_and_nothing_has_changed():
    async with MeshLab() as lab:
        alpha, beta = await lab.mesh_of("alpha", "beta")
        text = await alpha.ticket(uses=5)
        books = len((await alpha.desk.tickets()).tickets)
        for agent in (alpha, beta):
            agent.store.error, agent.store.failures = StoreFull("memory"), 100
            agent.store.fails_on = "mesh.tried"
        gamma = await lab.add("gamma")
        for deed in (
            alpha.desk.make_ticket(MakeTicket()),
            alpha.desk.kick("beta"),
            alpha.desk.leave(Leave(is_forced=True)),
            beta.desk.rename(Rename(name="bench")),
        ):
            with pytest.raises(StoreFull):
                await deed
        with pytest.raises(MeshRefused) as refused:
            await gamma.join(text)

        assert refused.value.reason == "busy"
        assert len((await alpha.desk.tickets()).tickets) == books
        assert {view.name: view.health for view in beta.side.views()} == {
            "beta": "alive",
            "alpha": "alive",
        }


async def test_a_name_that_begins_like_an_id_kicks_nobody():
    async with MeshLab() as lab:
        alpha, beta, _gamma = await lab.mesh_of("alpha", "beta", "gamma")
        await beta.desk.rename(Rename(name=alpha.id[:8]))
        await until(lambda: alpha.id[:8] in {view.name for view in alpha.side.views()})

        with pytest.raises(Ambiguous, match="Write its id"):
            await alpha.desk.kick(alpha.id[:8])


async def test_who_was_kicked_is_told_that_and_nothing_else():
    async with MeshLab() as lab:
        alpha, beta = await lab.mesh_of("alpha", "beta")
        await alpha.desk.kick("beta")
        await until(lambda: beta.mesh.membership.was_revoked)

        for deed in (beta.desk.rename(Rename(name="x")), beta.desk.make_ticket(MakeTicket())):
            with pytest.raises(MeshRefused) as refused:
                await deed
            assert refused.value.reason == "revoked"


async def test_in_a_mesh_a_node_is_called_as_it_is_certified():
    async with MeshLab() as lab:
        alpha, beta = await lab.mesh_of("alpha", "beta")
        await beta.desk.rename(Rename(name="bench"))

        assert (alpha.side.name, beta.side.name) == ("alpha", "bench")
