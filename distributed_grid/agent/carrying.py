"""Carrying out what the kernel says: written, then told, then woken, in this order.

Lives here: the order of durable writes, messages and wake-ups, and what runs beside the loop.
Never here: deciding anything, waiting for the world (`loop`).
Invariant: nothing is told to anyone before what it rests on is durable; questions rest on nothing.
What was cancelled before it was told to begin does not begin, however long a full disk delays that.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from typing import Any, Final

from distributed_grid.agent.blast_door import BlastDoor
from distributed_grid.agent.keeper_book import KeeperBook
from distributed_grid.agent.records import writes_of
from distributed_grid.agent.tidying import remove_folder
from distributed_grid.agent.unsaved import Unsaved
from distributed_grid.agent.watchers import Watchers
from distributed_grid.edges.store import Store, StoreError, Write
from distributed_grid.kernel.launching import Paths, checkpoint_dir
from distributed_grid.kernel.node import Node, NodeEvent, Reports
from distributed_grid.kernel.ready import Happened, Ready
from distributed_grid.model.ids import JobId, NodeId
from distributed_grid.wire.across import Copied, Start
from distributed_grid.wire.job_lane import JobMessage
from distributed_grid.wire.keeper import Run, ToKeeper, untold_end
from distributed_grid.wire.register import RegisterMessage

RETRY_S: Final = 1.0  # A full disk is looked at again this often.
# What nobody waits for waits so long to be synced with others, or until somebody comes: a sync for
# each end of a job would double what the next submission has to wait for.
COMPANY_S: Final = 0.005
# Later copies of records: while one is not answered its home sends no other, so what happens to a
# job from its start to its end costs one copy, and not one for each step.
COPIES_S: Final = 0.03
WAITING_MAX: Final = 1_000  # Steps that wait beside the loop for room on the disk.
HELD_BYTES_MAX: Final = 1 << 20  # Of records in one step: with more, the next one waits for it.

# The named points of carrying something out; tests stop the agent at each of them.
STEPS: Final = ("stepped", "saved", "told", "woken")


def no_step(name: str) -> None:
    """What happens at a named point: nothing, unless a test wants otherwise."""


class Carrying:
    """One agent's hands."""

    def __init__(
        self,
        node: Node,
        store: Store,
        watchers: Watchers,
        paths: Paths,
        *,
        to_keeper: Callable[[ToKeeper], Awaitable[None]],
        clock_ms: Callable[[], int],
        at_step: Callable[[str], None] = no_step,
    ) -> None:
        self._node, self._store, self._watchers, self._paths = node, store, watchers, paths
        self._at_step, self._clock_ms = at_step, clock_ms
        self.door = BlastDoor(node)
        self.book = KeeperBook()
        self._to_keeper = to_keeper
        self.to_peer: Callable[[NodeId, JobMessage], None] = lambda _peer, _message: None
        self.changed: Callable[[Iterable[JobId]], None] = lambda _jobs: None
        self.held: Callable[[Mapping[JobId, bytes | None]], None] = lambda _records: None
        self.trouble: StoreError | None = None  # While the store cannot write.
        self.ended: Counter[str] = Counter()  # Jobs, by how.
        self._tasks: asyncio.TaskGroup | None = None
        self._beside: set[asyncio.Task[None]] = set()
        self._early: list[Coroutine[Any, Any, None]] = []  # Before there was a loop to run them.
        self._unsaved = Unsaved(self._say)  # Being written: nobody is told their end yet.

    async def step(self, event: NodeEvent) -> None:
        """Something has happened: what follows from it, durable and told."""
        await self.carry_out(await self.door.step(event))

    async def hear(self, event: NodeEvent) -> None:
        """The same for what others say: they are answered also while the disk is full."""
        ready = await self.door.step(event)
        try:
            await self.save(ready, within_s=self._patience_s(ready))
        except StoreError:
            if len(self._beside) < WAITING_MAX:
                self.later(self.carry_out(ready))
            else:
                await self.carry_out(ready)
            return
        await self.tell(ready)

    async def take_in(self, event: NodeEvent) -> None:
        """What others say: the next of them is heard while this is being written.

        A start would else wait behind copies, for which nobody hurries.
        """
        ready = await self.door.step(event)
        held_bytes = sum(len(record or b"") for record in ready.save_held.values())
        if len(self._beside) < WAITING_MAX and held_bytes < HELD_BYTES_MAX:
            self.begin(ready)
        else:
            await self.carry_out(ready)

    def begin(self, ready: Ready) -> None:
        """Have it carried out beside the loop, as things stand now: what comes next may break."""
        self.later(self.carry_out(ready, self._writes(ready)))

    async def decide(self, event: NodeEvent) -> None:
        """Carry out what somebody wants; returns when it is durable."""
        if self.trouble is not None:
            raise self.trouble
        ready = await self.door.step(event)
        try:
            await self.save(ready)
        except StoreError:
            self.later(self.carry_out(ready))  # It has happened; it is written when it can be.
            raise
        await self.tell(ready)

    async def carry_out(self, ready: Ready, writes: list[Write] | None = None) -> None:
        """All of it; waits until the disk has room."""
        while True:
            try:
                await self.save(ready, within_s=self._patience_s(ready), writes=writes)
                break
            except StoreError:
                writes = None
                await asyncio.sleep(RETRY_S)  # Nothing goes on before it is durable.
        await self.tell(ready)

    async def carry_out_all(self, readies: list[Ready]) -> None:
        """One after the other."""
        for ready in readies:
            await self.carry_out(ready)

    def _patience_s(self, ready: Ready) -> float:
        """How long this may wait to be saved; not if a slot idles, or somebody waits, for it."""
        starts = any(isinstance(message, Run) for message in ready.tell)
        words = any(isinstance(message, RegisterMessage | Start) for _, message in ready.send)
        is_awaited = ready.is_awaited or any(map(self._watchers.is_awaited, ready.changed))
        if starts or words or is_awaited:
            return 0
        are_copies = not (ready.tell or ready.save_jobs)
        if are_copies and all(isinstance(message, Copied) for _, message in ready.send):
            return COPIES_S
        return COMPANY_S

    def _writes(self, ready: Ready) -> list[Write]:
        """Ask what rests on nothing, and say what is to be written; nothing of an earlier life."""
        if self._is_lost(ready):
            ready.changed, ready.happened = {}, []
            return []
        for peer, question in ready.ask:
            self.to_peer(peer, question)
        ready.ask = []  # Asked once, also if this must be tried again.
        self._at_step("stepped")
        return writes_of(ready, self._node)

    def _is_lost(self, ready: Ready) -> bool:
        """Whether the kernel has forgotten the step, as if the agent had died after it."""
        return ready.life != self._node.life

    async def save(
        self, ready: Ready, *, within_s: float = 0, writes: list[Write] | None = None
    ) -> None:
        """Make it durable. Raises StoreError."""
        if writes is None:
            await self.door.opened()
            writes = self._writes(ready)
        if not writes:
            return
        self._unsaved.begin(ready)
        jobs, is_saved = tuple(ready.save_jobs), False
        try:
            await self._store.commit(writes, within_s=within_s)
            is_saved = True
        except StoreError as error:
            self.trouble = error
            raise
        finally:
            self._unsaved.end(jobs, is_saved=is_saved)
        self.trouble = None
        self._at_step("saved")

    def _say(self, peer: NodeId, word: JobMessage) -> None:
        self.to_peer(peer, word)

    def is_unsaved(self, job: JobId) -> bool:
        """Whether its latest change is still being written."""
        return job in self._unsaved

    async def tell(self, ready: Ready) -> None:
        """What follows once everything is durable: messages, then wake-ups, then events."""
        await self.door.opened()
        if self._is_lost(ready):
            ready.tell, ready.send = [], []
        unwanted = [one for one in ready.tell if isinstance(one, Run) and self._is_unwanted(one)]
        for message in ready.tell:
            if message not in unwanted:
                await self.to_keeper(message)
        for peer, word in ready.send:
            if not (isinstance(word, Start) and self._is_unwanted(word)):
                self.to_peer(peer, word)
        if unwanted:
            self.later(self._never_started(unwanted))
        self._at_step("told")
        for job in ready.changed:
            self._watchers.wake(job)
        self.changed(ready.changed)
        self.held(ready.save_held)
        for happened in ready.happened:
            if happened.name == "job.ended":
                self.ended[happened.fields["state"]] += 1
                self._forget_checkpoint(ready, happened)
            self._watchers.publish(happened)
        self._at_step("woken")

    def _is_unwanted(self, word: Run | Start) -> bool:
        """Whether somebody has cancelled it while this was being written: it shall not begin."""
        return not self._node.is_wanted(word)

    async def to_keeper(self, message: ToKeeper) -> None:
        """Tell it, and remember that it was told."""
        self.book.told(message)
        await self._to_keeper(message)

    async def _never_started(self, runs: list[Run]) -> None:
        """Nobody but this knows that they never began; the keeper does not know them at all."""
        now_ms = self._clock_ms()
        ends = tuple(untold_end(run.attempt, "stopped", now_ms) for run in runs)
        await self.step(Reports(now_ms=now_ms, reports=ends))

    def _forget_checkpoint(self, ready: Ready, happened: Happened) -> None:
        """What a job saved for its next attempt, when there is none."""
        job = ready.save_jobs.get(happened.job) if happened.job else None
        if job is not None and (folder := checkpoint_dir(self._paths, job)):
            self.later(remove_folder(folder))

    def run_in(self, tasks: asyncio.TaskGroup) -> None:
        """Where things run beside the loop, so that they end with it."""
        self._tasks = tasks
        early, self._early = self._early, []
        for work in early:
            self.later(work)

    def later(self, work: Coroutine[Any, Any, None]) -> None:
        """Run something beside the loop; before that runs, once it does."""
        if self._tasks is None:
            self._early.append(work)
            return
        task = self._tasks.create_task(work)
        self._beside.add(task)
        task.add_done_callback(self._beside.discard)

    def cancel(self) -> None:
        """End what runs beside the loop."""
        for task in self._beside:
            task.cancel()
