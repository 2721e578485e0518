"""The agent's part in jobs across machines: a full disk, a long absence, older versions."""

import asyncio
from contextlib import asynccontextmanager

import msgspec

from distributed_grid.agent import carrying
from distributed_grid.agent.across import AcrossSide, rules_of
from distributed_grid.agent.carrying import Carrying
from distributed_grid.agent.peers import peers_of
from distributed_grid.agent.watchers import Watchers
from distributed_grid.edges.store.memory import MemoryStore
from distributed_grid.kernel.across.record_bytes import encode as record_bytes
from distributed_grid.kernel.across.record_writing import record_of
from distributed_grid.kernel.across.shelf import GRACE_MS
from distributed_grid.kernel.jobs import Job
from distributed_grid.kernel.node import Node, Told, View
from distributed_grid.kernel.placement import PowerPolicy, Rules
from distributed_grid.model.across import Epoch, Fence
from distributed_grid.wire.across import Copied, Copy, Holding, Inquiry, NotCopied
from distributed_grid.wire.job_lane import encode
from distributed_grid.wire.mesh import JOBS, Goodbye
from distributed_grid.wire.mesh_records import NodeLoad
from tests.node_world import PATHS, World, a_job
from tests.unit.agent.mesh_lab import PROFILE, MeshLab, until
from tests.unit.agent.test_loop import Full

NEW = msgspec.structs.replace(PROFILE, jobs=JOBS)


class Guardian:
    """A node that others may ask to hold a copy, and what it answered."""

    def __init__(self, side, store: MemoryStore | None = None) -> None:
        self.side = side
        self.store, self.said = store or Full(), []
        self.world = World()
        self.hands = Carrying(
            self.world.node,
            self.store,
            Watchers(),
            PATHS,
            to_keeper=_nothing,
            clock_ms=lambda: 1_000,
        )
        self.hands.to_peer = lambda _peer, message: self.said.append(message)
        self.across = AcrossSide(
            self.world.node,
            side,
            clock_ms=lambda: 1_000,
            step=self.hands.hear,
            take_in=self.hands.take_in,
            carry_out=self.hands.carry_out,
        )
        self.across.is_disk_full = lambda: self.hands.trouble is not None

    @asynccontextmanager
    async def listening(self):
        self.across.begin()
        async with asyncio.TaskGroup() as tasks:
            self.hands.run_in(tasks)
            peers, own = peers_of(self.side.mesh, self.side.ground.now())
            await self.hands.hear(View(now_ms=1_000, peers=peers, own=own))
            listens = tasks.create_task(self.across.listen())
            yield
            listens.cancel()
            self.hands.cancel()


async def _nothing(_message) -> None:
    pass


def a_copy(home: str, name: str) -> bytes:
    job = Job(spec=a_job(name), submitted_ms=1, epoch=Epoch(1, home))
    return encode(Copy(record=record_bytes(record_of(job, Fence(Epoch(1, home), 1)))))


async def test_a_guardian_whose_disk_is_full_refuses_and_acknowledges_only_what_is_written(
    monkeypatch,
):
    monkeypatch.setattr(carrying, "RETRY_S", 0.01)
    monkeypatch.setattr(carrying, "WAITING_MAX", 1)
    async with MeshLab() as lab:
        alpha, beta = await lab.mesh_of("alpha", "beta", profile=NEW)
        guardian = Guardian(beta.side)
        async with guardian.listening():
            guardian.store.is_full = True
            assert beta.side.on_job(alpha.id, a_copy(alpha.id, "one"))
            await until(lambda: guardian.hands.trouble)
            assert beta.side.on_job(alpha.id, a_copy(alpha.id, "two"))
            await until(lambda: guardian.said)
            assert [(type(one), one.job) for one in guardian.said] == [(NotCopied, a_job("two").id)]
            guardian.said.clear()
            guardian.store.is_full = False
            await until(lambda: guardian.said)

            assert [(type(one), one.job) for one in guardian.said] == [(Copied, a_job("one").id)]
            assert (await guardian.store.load_all()).held == {a_job("one").id: alpha.id}


class Slow(MemoryStore):
    """Writes when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = asyncio.Event()
        self.gate.set()
        self.asked = 0

    async def commit(self, writes, *, within_s: float = 0) -> None:
        self.asked += 1
        await self.gate.wait()
        await super().commit(writes, within_s=within_s)


async def test_whoever_speaks_next_is_heard_while_something_is_being_written():
    async with MeshLab() as lab:
        alpha, beta = await lab.mesh_of("alpha", "beta", profile=NEW)
        guardian = Guardian(beta.side, Slow())
        async with guardian.listening():
            guardian.store.gate.clear()
            guardian.store.asked = 0
            assert beta.side.on_job(alpha.id, a_copy(alpha.id, "one"))
            await until(lambda: guardian.store.asked)
            assert beta.side.on_job(alpha.id, encode(Inquiry(jobs=(a_job("two").id,))))
            await until(lambda: guardian.said)
            assert [type(one) for one in guardian.said] == [Holding]

            guardian.store.gate.set()
            await until(lambda: len(guardian.said) > 1)
            assert [type(one) for one in guardian.said] == [Holding, Copied]


async def test_who_comes_back_after_the_grace_knows_how_long_it_was_away():
    async with MeshLab() as lab:
        _alpha, beta = await lab.mesh_of("alpha", "beta", profile=NEW)
        assert Guardian(beta.side).across.begin() == 0
        await until(lambda: any(what.get("mesh.known") for how, what in beta.log if how == "saved"))
        back = await lab.restarted(beta, shift_ms=GRACE_MS + 60_000)

        assert Guardian(back.side).across.begin() > GRACE_MS
        assert Guardian((await lab.add("alone")).side).across.begin() == 0


async def test_a_node_that_does_not_know_yet_what_it_is_itself_says_so():
    """Its agent has just started: it answers people, and does not listen to others yet."""
    async with MeshLab() as lab:
        _alpha, beta = await lab.mesh_of("alpha", "beta", profile=NEW)
        guardian = Guardian(beta.side)
        async with guardian.listening():
            looks = asyncio.ensure_future(guardian.across.look())
            await until(lambda: not guardian.across.is_unsure)
            peers = guardian.world.node.across.peers
            await guardian.hands.hear(View(now_ms=1_000, peers=peers, own=None))

            assert guardian.across.is_unsure
            looks.cancel()


async def test_jobs_see_those_who_know_of_them_and_who_is_expected_back():
    async with MeshLab() as lab:
        alpha, beta, old = await lab.mesh_of("alpha", "beta", "old", profile=NEW)
        old.values["profile"] = msgspec.msgpack.encode(PROFILE)
        await until(lambda: set(peers_of(alpha.mesh, alpha.now())[0]) == {beta.id})
        beta.side.links.send(alpha.id, Goodbye(reason="restarting"))
        await until(lambda: peers_of(alpha.mesh, alpha.now())[0][beta.id].restarting_until_ms)


async def test_what_a_node_tells_of_itself_is_what_placement_reads():
    profile = msgspec.structs.replace(
        NEW, features="sse2 avx", price_micro_per_hour=7, idle_mw=1_000, max_mw=9_000
    )
    load = NodeLoad(cpu_milli_free=0, memory_bytes_free=0, running=("serve", "train"))
    async with MeshLab() as lab:
        alpha, beta = await lab.mesh_of("alpha", "beta", profile=profile)
        for node in (alpha, beta):
            node.values["load"] = msgspec.msgpack.encode(load)

        def record():
            peers, _own = peers_of(alpha.mesh, alpha.now())
            return peers[beta.id].record

        await until(lambda: record() is not None and record().running)
        seen = record()
        assert (seen.running, seen.features) == (("serve", "train"), ("avx", "sse2"))
        assert seen.price_micro_per_hour == 7
        assert (seen.power.idle_mw, seen.power.max_mw) == (1_000, 9_000)
        await until(lambda: peers_of(alpha.mesh, alpha.now())[1] is not None)
        assert peers_of(alpha.mesh, alpha.now())[1].network.latency_us == 0


def test_the_limits_of_the_owner_are_those_of_every_policy():
    power = PowerPolicy(battery_percent_min=50)

    assert rules_of("BestFit", power).power == rules_of("", power).power == power
    assert rules_of("no such policy", power) == Rules(power=power)
    assert rules_of("BestFit").power == PowerPolicy()


class Poisoned(Node):
    """Cannot bear to be asked about one job; hears of all others."""

    def step(self, event):
        words = [event.message, *(word for _, word in event.more)] if type(event) is Told else []
        if any(a_job("poison").id in word.jobs for word in words if isinstance(word, Inquiry)):
            raise ZeroDivisionError
        return super().step(event)


async def test_of_words_that_were_told_together_only_who_said_the_bad_one_loses_its_link():
    async with MeshLab() as lab:
        alpha, beta, gamma = await lab.mesh_of("alpha", "beta", "gamma", profile=NEW)
        guardian = Guardian(beta.side)
        guardian.world.node.__class__ = Poisoned
        rebuilt = []

        async def rebuild(error):
            rebuilt.append(error)

        guardian.hands.door.rebuild = rebuild
        async with guardian.listening():
            bad, good = a_job("poison").id, a_job("two").id
            for peer, job in ((alpha.id, bad), (gamma.id, good), (alpha.id, bad)):
                assert beta.side.on_job(peer, encode(Inquiry(jobs=(job,))))
            await until(lambda: guardian.said)
            await until(lambda: alpha.id not in beta.side.links.open)
            assert beta.side.on_job(alpha.id, encode(Inquiry(jobs=(bad,))))
            assert beta.side.on_job(gamma.id, encode(Inquiry(jobs=(good,))))
            await until(lambda: len(guardian.said) == 2)

        assert len(rebuilt) == 2, "together, and alone"
        (fault,) = [one.fields for one in beta.events if one.name == "mesh.fault"]
        assert (fault["node"], fault["kind"]) == (alpha.id, "Inquiry")
        assert gamma.id in beta.side.links.open
        assert [type(one) for one in guardian.said] == [Holding, Holding]
