"""A kernel's step that breaks off: the agent and its jobs go on, from what is on disk."""

import asyncio
import threading
import time

import pytest

from distributed_grid.agent import blast_door
from distributed_grid.agent.blast_door import BlastDoor, Faulty
from distributed_grid.agent.watchdog import TookTooLong, limited
from distributed_grid.edges.runner.memory import MemoryRunner
from distributed_grid.edges.store.memory import MemoryStore
from distributed_grid.errors import Conflict
from distributed_grid.kernel.ledger import Ledger
from distributed_grid.kernel.node import Met, Node, Noted, Submit, Tick, Told
from distributed_grid.model.ids import NodeId
from distributed_grid.wire.across import Inquiry
from tests.node_world import FOUR_CORES, PATHS, a_job
from tests.unit.agent.test_loop import made, running, work

PEER = NodeId("p" * 64)
WORD = Told(now_ms=1, peer=PEER, message=Inquiry(jobs=()))


class Breaking(Node):
    """Breaks off at what it is told to, after it has forgotten what it holds."""

    breaks_at: type | tuple = ()
    left = 1

    def step(self, event):
        ready = super().step(event)
        if isinstance(event, self.breaks_at) and self.left:
            self.left -= 1
            self.ledger = Ledger(FOUR_CORES)
            self.coordinator.jobs.clear()
            raise ZeroDivisionError
        return ready


def breaking(at, times: int = 1) -> type[Breaking]:
    return type("Breaking", (Breaking,), {"breaks_at": at, "left": times})


@pytest.mark.parametrize("at", [Submit, Noted, Tick, Met])
async def test_a_job_that_runs_goes_on_and_who_waits_for_it_hears_of_its_end(
    tmp_path, monkeypatch, at
):
    monkeypatch.setattr("distributed_grid.agent.loop.TICK_S", 0)
    agent = made(MemoryStore(), MemoryRunner(), tmp_path, kernel=breaking(at))
    async with running(agent):
        (job,) = (await agent.submit((a_job("long", work=work("sleep", "9")),))).ids
        waiting = asyncio.create_task(agent.wait("long", timeout_ms=5_000))
        await agent._note_files(job, "a note")
        while agent.node.left:
            await asyncio.sleep(0)
        assert (await agent.job("long")).state in ("waiting", "running")
        await agent.cancel("long")

        assert (await waiting).state == "cancelled"
        assert agent._hands.door.faults == 1
        assert len((await agent.job("long")).attempts) <= 1


async def test_what_breaks_off_again_is_told_to_who_asked_for_it_and_harms_nobody_else(tmp_path):
    agent = made(MemoryStore(), MemoryRunner(), tmp_path, kernel=breaking(Submit, 2))
    async with running(agent):
        with pytest.raises(ZeroDivisionError):
            await agent.submit((a_job("one", work=work("true")),))
        await agent.submit((a_job("two", work=work("true")),))
        assert (await agent.wait("two", timeout_ms=5_000)).state == "succeeded"


async def test_a_step_of_our_own_that_breaks_off_again_ends_the_agent(tmp_path, monkeypatch):
    monkeypatch.setattr("distributed_grid.agent.loop.TICK_S", 0)
    agent = made(MemoryStore(), MemoryRunner(), tmp_path, kernel=breaking(Tick, 9))
    await agent.restore()
    with pytest.raises(ExceptionGroup) as ended:
        await agent.run()
    assert ended.group_contains(ZeroDivisionError)


async def test_a_refusal_is_no_fault(tmp_path):
    agent = made(MemoryStore(), MemoryRunner(), tmp_path)
    async with running(agent):
        await agent.submit((a_job("one", work=work("sleep", "9")),))
        with pytest.raises(Conflict):
            await agent.submit((a_job("one", work=work("sleep", "8")),))
        assert agent._hands.door.faults == 0
        await agent.cancel("one")


class Slow(Node):
    """Never comes to an end with what others say."""

    def step(self, event):
        while isinstance(event, Told):
            pass
        return super().step(event)


async def test_what_a_peer_says_is_broken_off_after_its_time(monkeypatch):
    monkeypatch.setattr(blast_door, "PEER_S", 0.02)
    door = BlastDoor(
        Slow(name="x", ledger=Ledger(FOUR_CORES), paths=PATHS, new_lease_id=lambda: "")
    )
    rebuilt = []

    async def rebuild(error):
        rebuilt.append(error)

    door.rebuild = rebuild
    with pytest.raises(Faulty, match="TookTooLong"):
        await door.step(WORD)
    assert [type(error) for error in rebuilt] == [TookTooLong]


async def test_nobody_steps_while_the_memory_is_being_built(monkeypatch):
    node = breaking(Told)(name="x", ledger=Ledger(FOUR_CORES), paths=PATHS, new_lease_id=str)
    door, gate, order = BlastDoor(node), asyncio.Event(), []

    async def rebuild(_error):
        await gate.wait()
        order.append("rebuilt")

    async def tick():
        await door.step(Tick(now_ms=1))
        order.append("ticked")

    door.rebuild = rebuild
    told = asyncio.create_task(door.step(WORD))
    await asyncio.sleep(0)
    ticked = asyncio.create_task(tick())
    await asyncio.sleep(0)
    gate.set()
    with pytest.raises(Faulty, match=r"ZeroDivisionError.*test_blast_door\.py"):
        await told
    await ticked
    assert order == ["rebuilt", "ticked"]


def test_a_step_during_which_the_machine_did_something_else_has_not_worked_so_long():
    with limited(0.02):
        assert not threading.Event().wait(0.6)


async def test_in_other_threads_nothing_is_limited():
    def busy():
        with limited(0.01):
            until_s = time.monotonic() + 0.6
            while time.monotonic() < until_s:
                pass

    await asyncio.to_thread(busy)
