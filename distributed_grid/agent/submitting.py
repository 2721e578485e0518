"""Jobs are taken: packed if they must leave, admitted, durable, and on a second disk.

Lives here: what happens between a request and its acknowledgement. Never here: whether a job is
admitted (`kernel.admitting`), how its files are packed (`setting_out`).
Invariant: whoever got an answer has a job that survives this agent; who got an error has none that
runs.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

import msgspec

from distributed_grid.agent.across import AcrossSide
from distributed_grid.agent.carrying import Carrying
from distributed_grid.agent.luggage import Luggage
from distributed_grid.agent.named_nodes import meant
from distributed_grid.agent.records import Unreadable, jobs_of
from distributed_grid.edges.store import Store, StoreError
from distributed_grid.errors import NeverFits, TooFewCopies
from distributed_grid.kernel.across.guarding import read
from distributed_grid.kernel.node import Cancel, Node, Submit
from distributed_grid.kernel.ready import Ready
from distributed_grid.kernel.restarting import recall
from distributed_grid.model.ids import JobId
from distributed_grid.model.job import JobSpec
from distributed_grid.wire.across import Copy
from distributed_grid.wire.api import Submitted
from distributed_grid.wire.job_lane import JobMessage

UNSURE_S: Final = 0.1  # A new member tells what it has within a second or two: news of the mesh.
UNSURE_LOOKS: Final = 20


class Submitting:
    """One agent's counter, over which jobs come in."""

    def __init__(
        self,
        node: Node,
        store: Store,
        hands: Carrying,
        *,
        clock_ms: Callable[[], int],
        cancel: Callable[[JobId], Awaitable[object]],
        across: AcrossSide | None = None,
        luggage: Luggage | None = None,
    ) -> None:
        self._node, self._store, self._hands = node, store, hands
        self._clock_ms, self._cancel = clock_ms, cancel
        self._across, self._luggage = across, luggage
        self.is_abroad: Callable[[JobId], Awaitable[bool]] = is_nowhere

    async def submit(self, jobs: tuple[JobSpec, ...], *, has_files: bool = True) -> Submitted:
        """Take jobs; returns when they are durable."""
        if self._hands.trouble is not None:
            raise self._hands.trouble
        jobs = await self._meant(jobs)
        rooted = frozenset[JobId]()
        if self._luggage is not None:
            jobs, rooted = await self._luggage.taken(jobs, has_files=has_files)
        abroad = await self._recall({after.job for spec in jobs for after in spec.after})
        ready = await self._admitted(Submit(now_ms=0, jobs=jobs, abroad=abroad, rooted=rooted))
        try:
            await self._hands.save(ready)
        except StoreError:
            await self._refuse({spec.id for spec in jobs} & set(ready.save_jobs), ready)
            raise
        await self._hands.tell(ready)
        if self._luggage is not None:
            self._luggage.transplanting.submitted(rooted)
        is_only_here = asyncio.ensure_future(self._is_only_here(rooted))
        try:
            copies = await self._copies(jobs)
            return Submitted(
                ids=tuple(spec.id for spec in jobs),
                copies=copies,
                bytes_left=await self._bytes_left(jobs),
                is_only_here=await is_only_here,
            )
        finally:
            is_only_here.cancel()  # Nobody asks any more; who copies them goes on.

    async def _refuse(self, jobs: set[JobId], ready: Ready) -> None:
        """They were not acknowledged, so they shall not run, here or anywhere.

        What was decided goes on once there is room, without them: `Carrying` starts nothing that
        was cancelled, and nobody else gets a record that does not say so.
        """
        ready.send = [(peer, word) for peer, word in ready.send if not _is_copy_of(word, jobs)]
        now_ms = self._clock_ms()
        cancel = self._hands.door.step
        cancels = [await cancel(Cancel(now_ms=now_ms, job=job)) for job in sorted(jobs)]
        self._hands.later(self._hands.carry_out_all([ready, *cancels]))

    async def _admitted(self, wanted: Submit) -> Ready:
        """Hand them to the kernel; who has just joined is given a moment to tell what it is."""
        step = self._hands.door.step
        for _ in range(UNSURE_LOOKS):
            try:
                return await step(msgspec.structs.replace(wanted, now_ms=self._clock_ms()))
            except NeverFits:
                if self._across is None or not self._across.is_unsure:
                    raise
            await asyncio.sleep(UNSURE_S)
        return await step(msgspec.structs.replace(wanted, now_ms=self._clock_ms()))

    async def _meant(self, jobs: tuple[JobSpec, ...]) -> tuple[JobSpec, ...]:
        """The same with the nodes that they name; who has just joined is known in a moment."""
        found = meant(jobs, self._node)
        for _ in range(UNSURE_LOOKS):
            is_strange = bool(found.wanted or found.avoided)
            if not is_strange or self._across is None or not self._across.is_unsure:
                break
            await asyncio.sleep(UNSURE_S)
            found = meant(jobs, self._node)
        found.check()
        return found.jobs

    async def _is_only_here(self, rooted: frozenset[JobId]) -> bool:
        """Whether directories that nobody named are on this machine only, as far as others know."""
        if not rooted or self._luggage is None or self._across is None:
            return False
        is_elsewhere = await self._luggage.transplanting.hastened(rooted)
        return not (is_elsewhere and await self._across.confirmed(sorted(rooted)))

    async def _bytes_left(self, jobs: tuple[JobSpec, ...]) -> int:
        """Of their files, on this machine only."""
        known = self._node.coordinator.jobs
        shipped = [known[spec.id] for spec in jobs if spec.ship and spec.id in known]
        return await self._luggage.pinning.copied(shipped) if shipped and self._luggage else 0

    async def _copies(self, jobs: tuple[JobSpec, ...]) -> int:
        """On how many disks they are. Raises TooFewCopies if somebody wanted more."""
        if self._across is None:
            return 1
        wanted = max((spec.copies for spec in jobs), default=0)
        copies = await self._across.copies([spec.id for spec in jobs], wanted=wanted)
        if copies < wanted:
            for spec in jobs:
                await self._cancel(spec.id)
            raise TooFewCopies(copies, wanted=wanted)
        return copies

    async def _recall(self, wanted: set[JobId]) -> frozenset[JobId]:
        """Bring finished jobs back that new ones come after; answers those that others know."""
        abroad, unknown = set[JobId](), set[JobId]()
        # More than once if the kernel forgets them meanwhile.
        while left := wanted - self._node.coordinator.jobs.keys() - abroad - unknown:
            for job in sorted(left):
                if row := await self._store.job(job):
                    found, damaged = jobs_of([row])
                    if damaged:
                        raise Unreadable(job)
                    await self._hands.door.opened()
                    recall(self._node.coordinator, found[0])
                else:
                    (abroad if await self.is_abroad(job) else unknown).add(job)
        return frozenset(abroad)


def _is_copy_of(word: JobMessage, jobs: set[JobId]) -> bool:
    record = read(word.record) if isinstance(word, Copy) else None
    return record is not None and record.job in jobs


async def is_nowhere(_job: JobId) -> bool:
    """Without other nodes nobody else knows a job."""
    return False
