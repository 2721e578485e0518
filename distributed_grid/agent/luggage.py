"""Everything of one agent that is about files of jobs, put together.

Lives here: what is plugged into what, and what people are told of it. Never here: any part's work.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, NamedTuple

import msgspec

from distributed_grid.agent.bringing import Bringing
from distributed_grid.agent.bulk import Bulk
from distributed_grid.agent.caching import Cache
from distributed_grid.agent.fetching import Fetching
from distributed_grid.agent.finding import moved
from distributed_grid.agent.handing_out import HandingOut
from distributed_grid.agent.housing import Housing
from distributed_grid.agent.mesh import MeshSide
from distributed_grid.agent.pinning import Pinning
from distributed_grid.agent.preparing import Ground
from distributed_grid.agent.setting_out import SettingOut, nothing
from distributed_grid.agent.transits import Transits
from distributed_grid.agent.transplanting import Transplanting
from distributed_grid.agent.values import Values
from distributed_grid.edges.artifacts import Chunks, Files, Pythons
from distributed_grid.edges.runner import Runner
from distributed_grid.kernel.jobs import Job
from distributed_grid.kernel.launching import checkpoint_dir
from distributed_grid.kernel.node import Node, NodeEvent, Told
from distributed_grid.model.across import HERE
from distributed_grid.model.ids import JobId, NodeId
from distributed_grid.model.job import JobSpec
from distributed_grid.wire.across import Report
from distributed_grid.wire.api import Explanation, JobView
from distributed_grid.wire.job_lane import JobMessage


class Store(NamedTuple):
    """What is on the disk of this node."""

    root: str  # Where directories of attempts are.
    chunks: Chunks
    files: Files
    pythons: Pythons
    cache: Cache


class Luggage:
    """The files of jobs: those that leave, those that come, those that come back."""

    def __init__(
        self, node: Node, mesh: MeshSide, runner: Runner, store: Store, clock_ms: Callable[[], int]
    ) -> None:
        self.store = store
        self._node, self._clock_ms, self._broke = node, clock_ms, mesh.broke
        self._step: Callable[[NodeEvent], Awaitable[None]] = nothing
        self._tasks: set[asyncio.Task[None]] = set()
        self.bulk = Bulk(store.chunks, mesh)
        self.fetching = Fetching(self.bulk.shipping, across=lambda: node.across, reach=mesh.reach)
        root = os.path.dirname(store.root)  # noqa: PTH120
        self.values = Values(root, store.files, store.chunks, self.fetching)
        ground = Ground(
            root=store.root,
            files=store.files,
            fetch=self.fetching,
            pythons=store.pythons,
            clock_ms=clock_ms,
        )
        self.runner = Housing(
            runner,
            ground,
            store.chunks,
            job_of=self._job_of,
            broke=mesh.broke,
            state_in=self._state_in,
        )
        self.setting_out = SettingOut(node, store.files, store.chunks, clock_ms=clock_ms)
        self.bringing = Bringing(node, store.files, self.fetching, clock_ms=clock_ms)
        self.handing_out = HandingOut(store.files, self.fetching, me=lambda: mesh.mesh.me)
        self.transits = Transits(
            self.bulk.shipping,
            self.setting_out,
            self.runner,
            self.bringing,
            name_of=lambda node: mesh.mesh.name_of(node) if node != HERE else mesh.name,
        )
        self.pinning = Pinning(node, self.bulk.shipping, self.setting_out, reach=mesh.reach)
        self.transplanting = Transplanting(
            node, self.setting_out, self.pinning, store.files, clock_ms=clock_ms
        )
        self.pinning.rest = self.transplanting.rest = mesh.pace.rest
        self.transplanting.beside = self._beside

    def plug(
        self,
        *,
        step: Callable[[NodeEvent], Awaitable[None]],
        send: Callable[[NodeId, JobMessage], None],
    ) -> None:
        """Whom to tell what has happened, and how to speak to other nodes."""
        self.setting_out.step = self.bringing.step = self._step = step
        self.setting_out.send = send
        self.setting_out.later = self._beside

    async def run(self) -> None:
        """For as long as the agent lives."""
        try:
            await self.runner.tidy()
            self._beside(self.transplanting.run())
            await self.pinning.run()
        finally:
            for task in list(self._tasks):
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            await self.bulk.close()

    async def taken(
        self, jobs: tuple[JobSpec, ...], *, has_files: bool
    ) -> tuple[tuple[JobSpec, ...], frozenset[JobId]]:
        """New jobs with the files that they need; and those whose directory was not packed yet."""
        jobs = await self.setting_out.taken(jobs)
        return jobs, await self.transplanting.rooted(jobs) if has_files else frozenset()

    # What others say

    def reported(self, peer: NodeId, report: Report) -> bool:
        """Whether a report has to wait until its outputs are here; it is told then."""
        if not self.bringing.wants(report):
            return False
        self._beside(self._bring(peer, report))
        return True

    async def _bring(self, peer: NodeId, report: Report) -> None:
        if (begun := self.bringing.back(report)) is not None:
            await self._step(Told(now_ms=self._clock_ms(), peer=peer, message=begun))
        if await self.bringing.brought(peer, report):
            await self._step(Told(now_ms=self._clock_ms(), peer=peer, message=report))

    # What people are told

    def explained(self, explanation: Explanation, job: Job) -> Explanation:
        """The same, with how far its files are."""
        known = [one for one in self.transits.of(job) if one.doing != "copying"]  # Beside the job.
        told = str(known[0]) if known and job.state == "waiting" else ""
        is_one = job.progress is None and job.spec.gang == 1  # Else others of it may still run.
        if known and is_one and known[0].is_after_the_end:
            told = f"its process has ended: {known[0]}"
        return msgspec.structs.replace(explanation, summary=told) if told else explanation

    def viewed(self, view: JobView, job: Job) -> JobView:
        """The same, with how far its files are."""
        under_way = self.transits.of(job)
        return moved(view, under_way) if under_way else view

    def _beside(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._over)

    def _over(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._broke(error)

    def _state_in(self, job: Job) -> str:
        """Where a job saves its state, if there is anywhere for that to go."""
        return checkpoint_dir(self._node.paths, job) if self._node.across is not None else ""

    def _job_of(self, attempt: str) -> Job | None:
        found = self._node.coordinator.attempts.here.get(attempt)
        return self._node.coordinator.jobs.get(found[0]) if found is not None else None
