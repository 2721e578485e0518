"""What somebody waits for, here or on another node, is written at once."""

import asyncio

import pytest

from distributed_grid.agent.carrying import COMPANY_S, COPIES_S, HELD_BYTES_MAX, Carrying
from distributed_grid.agent.watchers import Watchers
from distributed_grid.edges.store import StoreFull
from distributed_grid.edges.store.memory import MemoryStore
from distributed_grid.kernel.launching import Paths
from distributed_grid.kernel.ledger import Ledger
from distributed_grid.kernel.node import Beat, Node
from distributed_grid.kernel.ready import Ready
from distributed_grid.model.across import Epoch, Fence
from distributed_grid.model.ids import NodeId
from distributed_grid.wire.across import Confirmed, Copied, Reserve, Start
from tests.node_world import FOUR_CORES, a_job

PATHS = Paths(output_root="/out", scratch_root="/scratch")
OTHER = NodeId("b" * 64)
JOB = a_job("job")
FIRST = Fence(Epoch(1, OTHER), 1)


class Watched(MemoryStore):
    """Remembers how it was asked."""

    def __init__(self) -> None:
        super().__init__()
        self.waited_s: list[float] = []

    async def commit(self, writes, *, within_s: float = 0) -> None:
        self.waited_s.append(within_s)
        await super().commit(writes)


def a_carrier(store: MemoryStore, sent: list) -> Carrying:
    async def heard(_message) -> None:
        pass

    node = Node(name="here", ledger=Ledger(FOUR_CORES), paths=PATHS, new_lease_id=lambda: "x")
    hands = Carrying(node, store, Watchers(), PATHS, to_keeper=heard, clock_ms=lambda: 1_000)
    hands.to_peer = lambda peer, message: sent.append((peer, message))
    return hands


@pytest.mark.parametrize(
    ("word", "within_s"),
    [
        (Start(job=JOB.id, epoch=Epoch(), number=1, lease="x", spec=JOB, attempt=1), 0),
        (Copied(job=JOB.id, version=FIRST), COPIES_S),
        (Confirmed(job=JOB.id, lease="x", ends=1), COMPANY_S),
    ],
)
async def test_what_another_node_waits_for_does_not_wait_for_company(word, within_s):
    store, sent = Watched(), []
    hands = a_carrier(store, sent)

    await hands.carry_out(Ready(save_held={JOB.id: b"record"}, send=[(OTHER, word)]))

    assert store.waited_s == [within_s]
    assert sent == [(OTHER, word)]


async def test_a_copy_that_a_submission_waits_for_does_not_wait_for_company():
    store, word = Watched(), Copied(job=JOB.id, version=FIRST)
    held = Ready(save_held={JOB.id: b"record"}, send=[(OTHER, word)], is_awaited=True)

    await a_carrier(store, []).carry_out(held)

    assert store.waited_s == [0]


@pytest.mark.parametrize(("size", "is_waited_for"), [(1, False), (HELD_BYTES_MAX, True)])
async def test_what_writes_much_is_waited_for_before_more_is_heard(size, is_waited_for):
    store = MemoryStore()
    hands = a_carrier(store, [])
    hands._node.step = lambda _event: Ready(save_held={JOB.id: bytes(size)})

    await hands.take_in(Beat(now_ms=1))

    assert (store.held(JOB.id) is not None) == is_waited_for
    for work in hands._early:
        work.close()


class Failing(MemoryStore):
    """Its disk is full the first time."""

    def __init__(self, sent: list) -> None:
        super().__init__()
        self.had_sent: list[list] = []
        self._sent = sent

    async def commit(self, writes, *, within_s: float = 0) -> None:
        self.had_sent.append(list(self._sent))
        if len(self.had_sent) == 1:
            raise StoreFull("grid.db")
        await super().commit(writes)


async def test_questions_do_not_wait_for_the_disk_and_are_asked_once(monkeypatch):
    monkeypatch.setattr("distributed_grid.agent.carrying.RETRY_S", 0)
    sent: list = []
    store = Failing(sent)
    question = (OTHER, Reserve(job=JOB.id, epoch=Epoch(), number=1, spec=JOB))
    promise = (OTHER, Copied(job=JOB.id, version=FIRST))

    await a_carrier(store, sent).carry_out(
        Ready(ask=[question], save_held={JOB.id: b"record"}, send=[promise])
    )

    assert store.had_sent == [[question], [question]]
    assert sent == [question, promise]


async def test_what_is_to_run_beside_the_loop_before_there_is_one_runs_once_there_is():
    hands, ran = a_carrier(MemoryStore(), []), asyncio.Event()

    async def work() -> None:
        ran.set()

    hands.later(work())
    async with asyncio.TaskGroup() as tasks:
        hands.run_in(tasks)
    assert ran.is_set()


async def test_a_step_that_the_kernel_has_forgotten_is_neither_written_nor_told():
    store, sent = Watched(), []
    hands = a_carrier(store, sent)
    word = (OTHER, Confirmed(job=JOB.id, lease="x", ends=1))
    lost = Ready(save_held={JOB.id: b"record"}, send=[word], ask=[word])
    hands._node.forget()
    await hands.carry_out(lost)
    assert (sent, store.waited_s) == ([], [])


async def test_what_was_handed_to_the_disk_before_the_kernel_forgot_it_is_told_to_nobody_either():
    store, sent = Watched(), []
    hands = a_carrier(store, sent)
    word = (OTHER, Confirmed(job=JOB.id, lease="x", ends=1))
    ready = Ready(save_held={JOB.id: b"record"}, send=[word], changed={JOB.id: None})
    waiting = asyncio.create_task(hands._watchers.change_of(JOB.id, timeout_s=5))
    await asyncio.sleep(0)
    await hands.save(ready)
    hands._node.forget()
    await hands.tell(ready)

    assert set((await store.load_all()).held) == {JOB.id}
    assert sent == []
    assert await waiting, "who waits for the job looks again"
