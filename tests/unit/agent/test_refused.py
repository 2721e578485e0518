"""What was refused, or cancelled, while the disk was full: it does not run once there is room."""

import asyncio

import msgspec
import pytest

from distributed_grid.agent.carrying import Carrying
from distributed_grid.agent.submitting import Submitting
from distributed_grid.agent.watchers import Watchers
from distributed_grid.edges.runner.memory import MemoryRunner
from distributed_grid.edges.store import StoreFull
from distributed_grid.kernel.across.peers import Peer
from distributed_grid.kernel.across.record_bytes import decode as record_from
from distributed_grid.kernel.across.record_bytes import encode as record_bytes
from distributed_grid.kernel.across.record_writing import record_of
from distributed_grid.kernel.inventory import Inventory
from distributed_grid.kernel.jobs import Job
from distributed_grid.kernel.node import Told, View
from distributed_grid.model.across import Epoch, Fence
from distributed_grid.model.ids import NodeId
from distributed_grid.wire.across import Copy, Start
from distributed_grid.wire.keeper import Run
from tests.across_world import Room
from tests.node_world import PATHS, SENSES, a_job
from tests.unit.agent.test_loop import SECOND_MS, Full, made, running, work

ME, HOME = NodeId("a" * 64), NodeId("b" * 64)
NO_CORE = Inventory(cores=((0, 0),), cpu_milli=1_000, memory_bytes=1 << 30)


class Heard(MemoryRunner):
    """Remembers what it was told."""

    def __init__(self) -> None:
        self.heard: list = []
        super().__init__()

    async def send(self, message) -> None:
        self.heard.append(message)
        await super().send(message)

    def begun(self) -> set:
        return {message.job for message in self.heard if isinstance(message, Run)}


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch):
    monkeypatch.setattr("distributed_grid.agent.carrying.RETRY_S", 0)
    monkeypatch.setattr("distributed_grid.agent.loop.TICK_S", 0)


async def test_a_refused_job_never_runs(tmp_path):
    store, runner = Full(), Heard()
    refused, taken = a_job("refused", work=work("true")), a_job("taken", work=work("true"))
    async with running(made(store, runner, tmp_path)) as agent:
        store.is_full = True
        with pytest.raises(StoreFull):
            await agent.submit((refused,))
        store.is_full = False
        assert (await agent.wait("refused", timeout_ms=5_000)).state == "cancelled"
        while agent._hands.trouble is not None:
            await asyncio.sleep(0)
        await agent.submit((taken,))
        assert (await agent.wait("taken", timeout_ms=5_000)).state == "succeeded"
        agent.node.check()

    assert runner.begun() == {taken.id}


async def test_a_job_whose_start_waits_for_room_on_the_disk_can_be_cancelled(tmp_path):
    store, runner = Full(), Heard()
    long = a_job("long", cpus=4_000, work=work("sleep", "9"))
    next_one = a_job("next", work=work("sleep", "9"))
    async with running(made(store, runner, tmp_path)) as agent:
        await agent.submit((long,))
        while (await agent.job("long")).state != "running":
            await asyncio.sleep(0)
        await agent.submit((next_one,))
        store.is_full = True
        with pytest.raises(StoreFull):
            await agent.cancel("long")  # It stops all the same, and makes room for the next.
        while not agent.node.coordinator.jobs[next_one.id].live_attempts:
            await asyncio.sleep(0)
        with pytest.raises(StoreFull):
            await agent.cancel("next")
        store.is_full = False
        view = await agent.wait("next", timeout_ms=5_000)
        agent.node.check()

    assert (view.state, next_one.id in runner.begun()) == ("cancelled", False)


async def test_a_cancel_that_is_not_on_disk_is_not_answered_also_when_it_is_said_again(tmp_path):
    store, runner = Full(), MemoryRunner()
    job = a_job("later", start_ms=SECOND_MS + 10**9, work=work("true"))
    async with running(made(store, runner, tmp_path)) as agent:
        await agent.submit((job,))
        store.is_full = True
        for _ in range(2):
            with pytest.raises(StoreFull):
                await agent.cancel("later")
        store.is_full = False
        assert (await agent.cancel("later")).state == "cancelled"
        assert (await store.job(job.id)).state == "cancelled"


async def test_nobody_else_gets_a_record_of_a_refused_job_that_does_not_say_so():
    room, store, sent = Room(3, NO_CORE), Full(), []

    async def to_keeper(_message) -> None:
        pass

    hands = Carrying(
        room[0].node, store, Watchers(), PATHS, to_keeper=to_keeper, clock_ms=lambda: 1_000
    )
    hands.to_peer = lambda _peer, message: sent.append(message)
    counter = Submitting(room[0].node, store, hands, clock_ms=lambda: 1_000, cancel=to_keeper)
    store.is_full = True
    with pytest.raises(StoreFull):
        await counter.submit((a_job("big", cpus=4_000, work=work("true")),))
    store.is_full = False
    async with asyncio.TaskGroup() as tasks:
        hands.run_in(tasks)

    copies = [record_from(word.record) for word in sent if isinstance(word, Copy)]
    assert all(record.cancel for record in copies)
    assert not [word for word in sent if isinstance(word, Start)]


async def test_a_start_elsewhere_that_waited_for_the_disk_is_not_said_of_a_cancelled_job():
    room, sent = Room(2, NO_CORE), []
    job = a_job("big", cpus=4_000, work=work("true"))

    async def to_keeper(_message) -> None:
        pass

    node = room[0].node
    hands = Carrying(node, Full(), Watchers(), PATHS, to_keeper=to_keeper, clock_ms=lambda: 1_000)
    hands.to_peer = lambda _peer, message: sent.append(message)
    room[0].submit(job)
    room.settle()
    start = room[0].said(Start)[0]
    await hands.tell(msgspec.structs.replace(node._ready, send=[(room[1].me, start)]))
    assert sent == [start]
    room[0].cancel(job)
    await hands.tell(msgspec.structs.replace(node._ready, send=[(room[1].me, start)]))
    assert sent == [start]


async def test_a_holder_takes_the_word_for_a_job_whose_home_is_gone(tmp_path):
    store = Full()
    async with running(made(store, MemoryRunner(), tmp_path)) as agent:
        node = agent.node
        node.join(ME, senses=SENSES)
        peers = {HOME: Peer(id=HOME, name="home")}
        node.step(View(now_ms=SECOND_MS, peers=peers))
        job = Job(spec=a_job("held"), submitted_ms=1, epoch=Epoch(1, HOME))
        body = record_bytes(record_of(job, Fence(Epoch(1, HOME), 1)))
        node.step(Told(now_ms=SECOND_MS, peer=HOME, message=Copy(record=body)))

        store.is_full = True
        for _ in range(2):  # Said again it is still not on disk.
            with pytest.raises(StoreFull):
                await agent.cancel("held")
        store.is_full = False
        await agent.cancel("held")

        held = store.held(job.spec.id)
        assert record_from(held).cancel
