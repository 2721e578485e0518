"""Links between agents: one for each peer, junk, who does not read, saved before sent."""

import asyncio

import msgspec
import pytest

from distributed_grid.edges.store import StoreFull
from distributed_grid.edges.transport import LinkClosed
from distributed_grid.edges.transport.memory import MemoryTransport
from distributed_grid.errors import MeshRefused
from distributed_grid.kernel.accounts import LIMITS, Allowance
from distributed_grid.kernel.mesh.events import MeshReady
from distributed_grid.kernel.mesh.rules import MeshRules
from distributed_grid.model.membership import Contact
from distributed_grid.wire.mesh import JOBS, Hello, Refused, Remember, decode, encode
from distributed_grid.wire.mesh_api import MakeTicket
from tests.unit.agent.mesh_lab import LOAD, MeshLab, until


def contact(agent) -> Contact:
    return Contact(node=agent.id, addresses=("memory",))


async def stranger(lab, name: str = "stranger") -> MemoryTransport:
    made = MemoryTransport(lab.keys.make(name).public, lab.network)
    await made.open()
    return made


@pytest.mark.rows("S0-43")
async def test_dials_that_cross_leave_one_link_which_both_keep():
    async with MeshLab() as lab:
        alpha, beta = await lab.mesh_of("alpha", "beta")
        for _ in range(5):
            alpha.side.links.dial(contact(beta))
            beta.side.links.dial(contact(alpha))
        await until(lambda: all(len(lab.network.ends[a.id].links) == 1 for a in (alpha, beta)))

        held = [agent.side.links.open for agent in (alpha, beta)]
        ends = held[0][beta.id].link, held[1][alpha.id].link
        assert ends[0].other is ends[1]
        assert alpha.linked == {beta.id}
        assert beta.linked == {alpha.id}


async def test_a_peer_that_started_again_takes_the_place_of_its_old_link():
    async with MeshLab() as lab:
        alpha, beta = await lab.mesh_of("alpha", "beta")
        old = alpha.side.links.open[beta.id]
        lab.network.cut(alpha.id, beta.id)  # Alpha does not hear that it went.
        lab.network.ends.pop(beta.id)
        again = await lab.add("beta", beta.store)
        lab.network.heal()
        await until(lambda: alpha.side.links.open.get(beta.id) not in (None, old))

        assert alpha.side.links.open[beta.id].hello.nonce == again.mesh.start.nonce
        await until(old.link.closed.is_set)


@pytest.mark.parametrize("junk", [b"", b"\xc1", b"\x82\xa4type\xa7goodbye\xa6reason\xa1\xff"])
async def test_junk_from_a_member_closes_its_link_and_counts(junk):
    async with MeshLab() as lab:
        alpha, beta = await lab.mesh_of("alpha", "beta")
        link = alpha.side.links.open[beta.id].link
        await beta.side.links.open[alpha.id].link.send(junk)
        await until(link.closed.is_set)

        assert (alpha.side.links.junk, link.why_closed) == (1, "malformed")
        await until(lambda: alpha.linked == {beta.id})  # It may try again.


@pytest.mark.parametrize("junk", [b"\xc1", b"\x82\xa4type\xa7goodbye\xa6reason\xa1\xff"])
async def test_junk_from_a_stranger_closes_its_link_and_counts(junk):
    async with MeshLab() as lab:
        (alpha,) = await lab.mesh_of("alpha")
        link = await (await stranger(lab)).dial(contact(alpha), timeout_ms=1_000)
        await link.send(junk)
        await until(link.closed.is_set)

        assert alpha.side.links.junk == 1


@pytest.mark.rows("S2-140")
async def test_a_stranger_is_told_why_and_sent_away():
    async with MeshLab() as lab:
        (alpha,) = await lab.mesh_of("alpha")
        outside = await stranger(lab)
        for said, why in (
            (Hello(mesh=alpha.mesh.id, chain=()), "stranger"),
            (Remember(generation=1), "malformed"),
        ):
            link = await outside.dial(contact(alpha), timeout_ms=1_000)
            await link.send(encode(said))
            _, body = await link.receive()
            assert decode(body).reason == why
            await until(link.closed.is_set)

        assert alpha.side.links.refused == {"stranger": 1, "malformed": 1}
        assert alpha.linked == set()


async def test_who_says_nothing_is_closed(monkeypatch):
    monkeypatch.setattr("distributed_grid.agent.mesh_links.GREETING_S", 0.05)
    async with MeshLab() as lab:
        (alpha,) = await lab.mesh_of("alpha")
        link = await (await stranger(lab)).dial(contact(alpha), timeout_ms=1_000)
        await until(link.closed.is_set)

        assert link.why_closed == "no greeting"


async def test_who_knocks_too_often_is_told_to_come_later():
    async with MeshLab() as lab:
        alpha, _beta = await lab.mesh_of("alpha", "beta")
        outside = await stranger(lab)
        alpha.side.parts.doorman.admit_peer = lambda *_: "busy"
        link = await outside.dial(contact(alpha), timeout_ms=1_000)
        await link.send(encode(Hello(mesh=alpha.mesh.id, chain=())))
        _, body = await link.receive()

        assert decode(body) == Refused(reason="busy")


async def test_who_refuses_us_is_noted_as_having_refused():
    async with MeshLab() as lab:
        alpha, beta = await lab.mesh_of("alpha", "beta")
        alpha.mesh.greet = lambda *_: Refused(reason="busy")
        lab.network.break_links(alpha.id, beta.id)
        await until(lambda: alpha.id in beta.mesh.refused_by or beta.id in alpha.mesh.refused_by)

        assert {*beta.mesh.refused_by.values(), *alpha.mesh.refused_by.values()} == {"busy"}


async def test_who_does_not_read_is_let_go():
    async with MeshLab() as lab:
        alpha, beta = await lab.mesh_of("alpha", "beta")
        link = alpha.side.links.open[beta.id].link
        lab.network.cut(alpha.id, beta.id, is_one_way=True)
        for _ in range(2_000):
            alpha.side.links.send(beta.id, Remember(generation=1))
        await until(link.closed.is_set)

        assert link.why_closed == "does not read"


async def test_who_is_hung_up_on_gets_what_was_sent_before_and_the_reason():
    async with MeshLab() as lab:
        alpha, beta = await lab.mesh_of("alpha", "beta")
        link = alpha.side.links.open[beta.id].link
        alpha.side.links.send(beta.id, Remember(generation=70))
        alpha.side.links.hang_up(beta.id, "idle")
        alpha.side.links.hang_up(beta.id, "idle")
        alpha.side.links.hang_up("f" * 64, "idle")
        await until(link.closed.is_set)

        assert link.why_closed == "idle"
        await until(lambda: beta.mesh.replica.generation > 70)


async def test_who_is_hung_up_on_is_not_waited_for(monkeypatch):
    monkeypatch.setattr("distributed_grid.agent.mesh_links.FAREWELL_S", 0.01)
    async with MeshLab() as lab:
        alpha, beta = await lab.mesh_of("alpha", "beta")
        link = alpha.side.links.open[beta.id].link
        lab.network.cut(alpha.id, beta.id)
        for _ in range(200):  # More than may be on its way: the writer waits.
            alpha.side.links.send(beta.id, Refused(reason="busy", detail="x" * 4_000))
        alpha.side.links.hang_up(beta.id, "enough")
        await until(link.closed.is_set)
        assert link.why_closed == "enough"
        await until(lambda: beta.id not in alpha.linked)


async def test_a_message_too_large_to_be_read_ends_the_link_and_not_the_agent():
    async with MeshLab() as lab:
        alpha, beta = await lab.mesh_of("alpha", "beta")
        link = alpha.side.links.open[beta.id].link
        alpha.side.links.send(beta.id, Refused(reason="busy", detail="x" * (1 << 17)))
        await until(link.closed.is_set)

        assert not alpha.running.done()


# Jobs


def hearing(agent) -> list[bytes]:
    """What an agent hears on the job lane from now on."""
    heard: list[bytes] = []
    agent.side.on_job = lambda _peer, body: heard.append(body) is None
    return heard


async def test_thousands_of_words_about_jobs_in_one_step_all_arrive_on_the_same_link():
    async with MeshLab() as lab:
        alpha, beta = await lab.mesh_of("alpha", "beta")
        link, heard = alpha.side.links.open[beta.id].link, hearing(beta)
        words = [b"%d" % number for number in range(3_000)]

        taken = [alpha.side.send_job(beta.id, word) for word in words]
        alpha.side.links.send(beta.id, Remember(generation=70))

        await until(lambda: beta.mesh.replica.generation > 70)
        await until(lambda: len(heard) == len(words))
        assert heard == words
        assert set(taken) == {True}
        assert not link.closed.is_set()


async def test_words_about_jobs_for_which_there_is_no_room_are_lost_and_the_link_stays(monkeypatch):
    monkeypatch.setattr("distributed_grid.agent.mesh_links.JOBS_BYTES_MAX", 1_000)
    async with MeshLab() as lab:
        alpha, beta = await lab.mesh_of("alpha", "beta")
        link, heard = alpha.side.links.open[beta.id].link, hearing(beta)

        taken = [alpha.side.send_job(beta.id, bytes(size)) for size in (2_000, 1, 500)]
        assert taken == [True, False, False]
        await until(lambda: len(heard) == 1)
        assert alpha.side.send_job(beta.id, b"again")
        await until(lambda: heard[1:] == [b"again"])
        assert not link.closed.is_set()


async def test_when_all_others_read_slowly_little_is_still_said_to_each(monkeypatch):
    few = Allowance(0, 0, 0, total=3_000, assured=1_000)
    monkeypatch.setitem(LIMITS, "going out", few)
    async with MeshLab() as lab:
        alpha, beta, gamma = await lab.mesh_of("alpha", "beta", "gamma")
        assert alpha.side.send_job(beta.id, bytes(2_500))

        taken = [alpha.side.send_job(gamma.id, bytes(400)) for _ in range(3)]

        assert taken == [True, True, False]
        assert not alpha.side.send_job(beta.id, bytes(100_000))


async def test_a_long_record_of_a_job_arrives_and_one_too_long_harms_nobody_else():
    async with MeshLab() as lab:
        alpha, beta = await lab.mesh_of("alpha", "beta")
        link, heard = alpha.side.links.open[beta.id].link, hearing(beta)
        too_long = link.limits.job_bytes + 1

        for size in (1 << 20, too_long, 3):
            alpha.side.send_job(beta.id, bytes(size))
        await until(lambda: len(heard) == 2)

        assert list(map(len, heard)) == [1 << 20, 3]
        assert alpha.side.links.oversized == 1
        assert not link.closed.is_set()


# What is saved before what is sent


async def test_nothing_is_sent_before_what_it_rests_on_is_saved(monkeypatch):
    monkeypatch.setattr("distributed_grid.agent.mesh.RETRY_S", 0.5)
    async with MeshLab() as lab:
        alpha, _beta = await lab.mesh_of("alpha", "beta")
        sent = []
        alpha.side.links.send = lambda peer, message: sent.append(message)
        alpha.store.error, alpha.store.failures = StoreFull("memory"), 1_000
        alpha.store.fails_on = "mesh.known"
        kicking = asyncio.ensure_future(alpha.desk.kick("beta"))
        await until(lambda: alpha.store.failures < 1_000)
        before = len(sent)
        for _ in range(100):
            await asyncio.sleep(0.001)
        assert not kicking.done()
        assert len(sent) == before

        alpha.store.failures = 0
        await kicking
        await until(lambda: len(sent) > before)


async def test_what_a_node_says_does_not_wait_for_the_copy_of_what_all_say(monkeypatch):
    monkeypatch.setattr("distributed_grid.agent.mesh.RETRY_S", 0.01)
    async with MeshLab() as lab:
        alpha, beta = await lab.mesh_of("alpha", "beta")
        alpha.store.error, alpha.store.failures = StoreFull("memory"), 1_000_000
        alpha.store.fails_on = "mesh.known"
        for copy in (b"older", b"newer"):
            alpha.side.take(MeshReady(save={"mesh.known": copy}))
        await until(lambda: alpha.store.failures < 999_990)  # It is tried again and again,
        full = msgspec.structs.replace(LOAD, is_disk_full=True)
        alpha.values["load"] = msgspec.msgpack.encode(full)
        alpha.side.say()
        await until(lambda: beta.mesh.said.load(alpha.id) == full)

        alpha.log.clear()
        alpha.store.failures = 0
        await until(lambda: alpha.log)
        assert {"mesh.known": b"older"} not in [kept for _, kept in alpha.log]  # but the newer.


async def test_a_ticket_is_answered_only_when_its_use_is_saved(monkeypatch):
    monkeypatch.setattr("distributed_grid.agent.mesh.RETRY_S", 0.5)
    async with MeshLab() as lab:
        alpha, beta = await lab.add("alpha"), await lab.add("beta")
        text = await alpha.ticket()
        alpha.store.error, alpha.store.failures = StoreFull("memory"), 1
        alpha.store.fails_on = "mesh.tickets"
        joining = asyncio.ensure_future(beta.join(text))
        await until(lambda: not alpha.store.failures)
        await asyncio.sleep(0.05)
        assert not joining.done()

        await joining
        used = [kept for what, kept in alpha.log if what == "saved" and "mesh.tickets" in kept]
        assert beta.id.encode() in used[-1]["mesh.tickets"]


async def test_heartbeats_do_not_wait_for_a_disk():
    async with MeshLab() as lab:
        alpha, beta = await lab.mesh_of("alpha", "beta")
        alpha.store.gate.clear()
        ticket = asyncio.ensure_future(alpha.desk.make_ticket(MakeTicket()))
        sent, heard = alpha.mesh.liveness.sent, beta.mesh.liveness.received
        await until(lambda: alpha.mesh.liveness.sent >= sent + 40)
        await until(lambda: beta.mesh.liveness.received >= heard + 30)

        assert not ticket.done()
        assert "node.suspect" not in beta.names()
        alpha.store.gate.set()
        await ticket


async def test_a_book_of_tickets_is_never_replaced_by_an_older_one(monkeypatch):
    monkeypatch.setattr("distributed_grid.agent.mesh.RETRY_S", 0.05)
    async with MeshLab() as lab:
        alpha = await lab.add("alpha")
        alpha.store.error, alpha.store.failures = StoreFull("memory"), 1
        alpha.store.fails_on = "mesh.tickets"
        books = (MeshReady(save={"mesh.tickets": book}) for book in (b"older", b"newer"))
        await asyncio.gather(*map(alpha.side.carry_out, books))

        assert alpha.store.failures == 0
        assert (await alpha.store.load_all()).meta["mesh.tickets"] == b"newer"


async def test_of_two_that_show_one_use_at_once_one_comes_in():
    async with MeshLab() as lab:
        alpha, beta, gamma = [await lab.add(name) for name in ("alpha", "beta", "gamma")]
        text = await alpha.ticket(uses=1)
        ends = await asyncio.gather(beta.join(text), gamma.join(text), return_exceptions=True)

        assert sorted(type(end).__name__ for end in ends) == ["Joined", "MeshRefused"]
        (refused,) = [end for end in ends if isinstance(end, MeshRefused)]
        assert refused.reason == "ticket-used-up"


async def test_a_start_saves_its_generation_before_it_says_anything():
    async with MeshLab() as lab:
        _alpha, beta = await lab.mesh_of("alpha", "beta")
        before = beta.mesh.replica.generation
        beta.log.clear()
        beta = await lab.restarted(beta)
        await until(lambda: beta.linked)

        first = next(kept for what, kept in beta.log if what == "saved")
        assert int.from_bytes(first["mesh.generation"], "big") == before + 1


async def test_a_member_that_knows_no_jobs_is_told_nothing_of_them():
    """Its version would take what comes on that lane for junk, and hang up."""
    async with MeshLab() as lab:
        alpha, beta = await lab.mesh_of("alpha", "beta", rules=MeshRules(jobs=0))
        heard = []
        for agent in (alpha, beta):
            agent.side.on_job = lambda peer, body: not heard.append((peer, body))
        alpha.side.links.open[beta.id].hello = msgspec.structs.replace(
            alpha.side.links.open[beta.id].hello, jobs=JOBS
        )
        assert beta.side.send_job(alpha.id, b"not this")
        assert alpha.side.send_job(beta.id, b"but this")
        await until(lambda: heard)

        assert heard == [(alpha.id, b"but this")]


@pytest.mark.rows("S0-108")
async def test_what_is_bulky_waits_on_a_lane_of_its_own():
    async with MeshLab() as lab:
        alpha, beta = await lab.mesh_of("alpha", "beta")
        came, links = [], []
        beta.side.on_bulk = lambda peer, body: not came.append((peer, len(body)))
        alpha.side.on_link = lambda peer, is_up: links.append((peer, is_up))
        assert await alpha.side.send_bulk(beta.id, bytes(1 << 19))
        await until(lambda: came == [(alpha.id, 1 << 19)])

        link = alpha.side.links.open[beta.id].link
        gate, send = asyncio.Event(), link.send

        async def slow(message, *, lane="control"):
            if lane == "bulk":
                await gate.wait()
            await send(message, lane=lane)

        link.send = slow
        waiting = asyncio.ensure_future(alpha.side.send_bulk(beta.id, b"later"))
        alpha.side.links.send(beta.id, Remember(generation=90))
        await until(lambda: beta.mesh.replica.generation > 90)
        assert not waiting.done()
        gate.set()
        assert await waiting

        alpha.side.links.hang_up(beta.id, "idle")
        assert not await alpha.side.send_bulk(beta.id, b"it is leaving")
        await until(lambda: (beta.id, False) in links)
        link.send = send
        await until(lambda: (beta.id, True) in links)  # It was dialled, for the next time.
        assert not await alpha.side.send_bulk("f" * 64, b"nobody")


async def test_a_link_that_closes_under_something_bulky_is_told():
    async with MeshLab() as lab:
        alpha, beta = await lab.mesh_of("alpha", "beta")
        link = alpha.side.links.open[beta.id].link

        async def closed(message, *, lane="control"):
            raise LinkClosed(beta.id, "gone")

        link.send = closed
        assert not await alpha.side.send_bulk(beta.id, b"x")


async def test_junk_on_the_bulk_lane_closes_the_link():
    async with MeshLab() as lab:
        alpha, beta = await lab.mesh_of("alpha", "beta")
        beta.side.on_bulk = lambda _peer, _body: False
        link = alpha.side.links.open[beta.id].link
        assert await alpha.side.send_bulk(beta.id, b"junk")
        await until(link.closed.is_set)

        assert link.why_closed == "malformed"


async def test_heartbeats_may_wait_among_many_but_not_once_somebody_is_suspected():
    async with MeshLab() as lab:
        alpha, beta, *_ = await lab.mesh_of("alpha", "beta", "c", "d", "e", "f")
        await until(lambda: len(alpha.linked) == 5)
        told = []
        alpha.side.transport.take_in = lambda *, is_patient: told.append(is_patient)
        await until(lambda: True in told)
        for other in alpha.linked:
            lab.network.cut(beta.id, other)
        lab.network.cut(alpha.id, beta.id)
        await until(lambda: alpha.mesh.liveness.health(beta.id).health == "suspect")
        told.clear()
        await until(lambda: told)

        assert told[0] is False


async def test_two_nodes_never_wait_for_each_others_heartbeats():
    async with MeshLab() as lab:
        alpha, _beta = await lab.mesh_of("alpha", "beta")
        told = []
        alpha.side.transport.take_in = lambda *, is_patient: told.append(is_patient)
        await until(lambda: len(told) > 2)

        assert not any(told)
