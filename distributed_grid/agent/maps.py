"""The maps of this agent: their queues, who holds them, which jobs are their workers.

Lives here: waiting for calls and for outcomes. Never here: who gets which call (`kernel.calls`).
Invariant: a map whose client is gone ends, and its workers with it; the number of maps is bounded.

A map lives in memory only. After a crash of the agent its client begins it again, with the calls
that have no outcome; its workers are jobs like any other, and go on meanwhile.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import Final, NamedTuple

import msgspec

from distributed_grid.agent.kept_map import Abroad, KeptMap, worker_name
from distributed_grid.agent.values import Values
from distributed_grid.edges.runner import Report
from distributed_grid.errors import NotFound, NotPermitted, Overloaded
from distributed_grid.kernel.coordinator import Coordinator
from distributed_grid.kernel.jobs import PENDING, RUNNING, Job
from distributed_grid.model.artifact import ManifestId
from distributed_grid.model.ids import JobId, NodeId
from distributed_grid.model.job import JobSpec
from distributed_grid.wire.api import Submitted
from distributed_grid.wire.keeper import Ended
from distributed_grid.wire.maps import (
    FeedMap,
    MapNews,
    OpenMap,
    TakeCalls,
    TakenCalls,
    ValueHere,
    WantValue,
)

MAPS_MAX: Final = 64  # At once; each may hold 16 MiB of calls and as much of results.
OVER_KEPT: Final = 1_000  # Ids of maps that are over: a worker that starts too late is told so.
HOLD_GRACE_S: Final = 1.0  # A client that lost its connection, not its life, is back by then.
WAIT_MS_MAX: Final = 60_000


class End(NamedTuple):
    """A worker process is gone."""

    job: JobId
    worker: str
    is_peaceful: bool
    note: str


class Maps:
    """All maps; `web` asks it, the loop tells it what became of workers."""

    def __init__(
        self,
        coordinator: Callable[[], Coordinator],
        *,
        submit: Callable[[tuple[JobSpec, ...]], Awaitable[Submitted]],
        cancel: Callable[[JobId], Awaitable[None]],
        values: Values | None = None,
    ) -> None:
        self._kernel = coordinator
        self._submit = submit
        self._cancel = cancel
        self._values = values
        self._maps: dict[str, KeptMap] = {}
        self._of_job: dict[JobId, KeptMap] = {}
        self._over: dict[str, None] = {}
        self._ending: set[asyncio.Task[None]] = set()

    @property
    def _coordinator(self) -> Coordinator:
        return self._kernel()  # Another one after a step that broke off.

    # What clients ask

    async def open(self, wanted: OpenMap) -> None:
        """Begin a map, or bring more workers to it."""
        kept = self._maps.get(wanted.map)
        if kept is None:
            if len(self._maps) >= MAPS_MAX:
                raise Overloaded("maps", most=MAPS_MAX)
            kept = self._maps[wanted.map] = KeptMap(wanted.map)
        kept.jobs[wanted.workers.id] = None
        self._of_job[wanted.workers.id] = kept
        try:
            await self._submit((self._avoiding(kept, wanted.workers),))
        except BaseException:
            kept.jobs.pop(wanted.workers.id, None)
            self._of_job.pop(wanted.workers.id, None)
            if not kept.jobs:
                await self._end(kept)
            raise
        self._expect_holder(kept)

    async def feed(self, map_id: str, fed: FeedMap) -> MapNews:
        """Take calls; answers when there are outcomes, or the time is over."""
        kept = self._find(map_id)
        calls = kept.calls
        if fed.function is not None:
            calls.begin(fed.function)
        calls.client_bytes = fed.held_bytes
        calls.add(fed.calls)
        found = calls.outcomes(after=fed.after)  # Reading makes room: workers may go on.
        kept.work.ring()
        until_s = _until_s(fed.wait_ms)
        while not (found or calls.failure or kept.is_over):
            if calls.waiting and self._workers(kept) < fed.workers:
                break
            left_s = until_s - _now_s()
            if left_s <= 0:
                break
            await kept.news.heard(left_s)
            found = calls.outcomes(after=fed.after)
        return MapNews(
            outcomes=found,
            workers=self._workers(kept),
            waiting=calls.waiting,
            failure=calls.failure,
            unable=tuple(kept.unable.values()),
        )

    async def hold(self, map_id: str) -> AsyncIterator[bytes]:
        """Says nothing, for as long as the map lives; who stops listening lets go of it."""
        kept = self._find(map_id)
        kept.holders += 1
        try:
            yield b"\n"
            while not kept.is_over:
                await kept.news.heard(WAIT_MS_MAX / 1_000)
        finally:
            kept.holders -= 1
            self._expect_holder(kept)

    async def close(self, map_id: str) -> None:
        """End a map; its workers end at once, or are stopped."""
        if map_id in self._maps:
            await self._end(self._maps[map_id])

    # What workers ask

    async def take(self, map_id: str, wanted: TakeCalls) -> TakenCalls:
        """Take outcomes; answers with calls, or with nothing when the time is over."""
        if map_id in self._over:
            return TakenCalls()
        kept = self._find(map_id)
        self._know(kept, wanted.job)
        calls = kept.calls
        calls.finish(wanted.outcomes)
        calls.give_back(wanted.worker, wanted.returned)
        if wanted.outcomes:
            kept.news.ring()
        if wanted.returned:
            kept.work.ring()
        until_s = _until_s(wanted.wait_ms)
        while wanted.most and not kept.is_over:
            given = calls.take(wanted.worker, wanted.most)
            if given:
                function = calls.function
                known = function is None or function.number == wanted.function
                return TakenCalls(calls=given, function=None if known else function)
            left_s = until_s - _now_s()
            if left_s <= 0:
                break
            await kept.work.heard(left_s)
        return TakenCalls()

    async def take_far(self, node: NodeId, map_id: str, wanted: TakeCalls) -> TakenCalls:
        """The same for a worker on another node, which must be one that this node let run there.

        Raises NotPermitted: nobody else hears what a map computes.
        """
        names = self._workers_on(node, wanted.job)
        if map_id not in self._maps and map_id not in self._over:
            raise NotFound("map", map_id)
        if wanted.worker not in names:
            raise _stranger()
        kept = self._maps.get(map_id)
        if wanted.unable and kept is not None:
            kept.unable.setdefault(node, (names[wanted.worker], wanted.unable))
        if kept is not None and node in kept.unable:
            wanted = msgspec.structs.replace(wanted, most=0)
        return await self.take(map_id, wanted)

    async def value(self, map_id: str, wanted: WantValue) -> ValueHere:
        """Where a large value is that a client of this machine has."""
        self._find(map_id)
        if self._values is None:
            raise NotFound("value", wanted.value)
        return ValueHere(path=self._values.path(map_id, wanted.value))

    async def value_far(self, node: NodeId, map_id: str, wanted: WantValue) -> ManifestId:
        """The same for a worker on another node, to be fetched. Raises NotPermitted."""
        kept = self._find(map_id)
        if wanted.job not in kept.jobs or not self._workers_on(node, wanted.job):
            raise _stranger()
        if self._values is None:
            raise NotFound("value", wanted.value)
        return await self._values.packed(map_id, wanted.value)

    def _workers_on(self, node: NodeId, job_id: JobId) -> dict[str, str]:
        """The workers that this node let run on another: their names, and its name."""
        job = self._coordinator.jobs.get(job_id)
        return {
            worker_name(attempt.id, index): attempt.node
            for attempt in (job.attempts if job is not None else ())
            if attempt.host == node
            for index in attempt.indices
        }

    def is_known(self, map_id: str) -> bool:
        """Whether there is such a map."""
        return map_id in self._maps

    # What the loop tells

    def ends(self, reports: Iterable[Report]) -> list[End]:
        """The workers whose end these reports tell; ask before the kernel forgets their leases."""
        found = []
        for report in reports:
            if not self._of_job or not isinstance(report, Ended):
                continue
            job_id, attempt = self._coordinator.attempts.here.get(report.attempt, (None, None))
            if attempt is None or job_id not in self._of_job:
                continue
            note = report.note or f"{report.how} {report.code}"
            indices = attempt.indices if report.index < 0 else (report.index,)
            names = [worker_name(attempt.id, index) for index in indices]
            found += [End(job_id, name, report.code == 0, note) for name in names]
        return found

    def ended(self, ends: list[End]) -> None:
        """These workers are gone."""
        for end in ends:
            kept = self._of_job.get(end.job)
            if kept is None:
                continue
            if end.is_peaceful:
                kept.calls.left(end.worker)
            else:
                kept.calls.died(end.worker, end.note)
            kept.work.ring()
            kept.news.ring()

    def changed(self, jobs: Iterable[JobId]) -> None:
        """Jobs changed; one of workers that was cancelled, or lost, takes its map along."""
        for job_id in jobs if self._of_job else ():
            kept, job = self._of_job.get(job_id), self._coordinator.jobs.get(job_id)
            if kept is None or job is None:
                continue
            self._look_abroad(kept, job)
            if not job.has_ended:
                continue
            kept.abroad.pop(job_id, None)
            del self._of_job[job_id]
            kept.jobs.pop(job_id, None)
            if job.state != "succeeded" and not kept.is_over:
                kept.calls.failure = f"the job of its workers ended {job.state}: {job.reason}"
            kept.news.ring()

    def _look_abroad(self, kept: KeptMap, job: Job) -> None:
        """Workers on other nodes end with reports of their owners, or with their nodes."""
        is_news = False
        for gone in kept.abroad.setdefault(job.spec.id, Abroad()).look(job):
            is_news = True
            if gone.how == "peaceful":
                kept.calls.left(gone.worker)
            elif gone.how == "died":
                kept.calls.died(gone.worker, gone.note)
            else:
                kept.calls.lost(gone.worker, gone.note)
        if is_news:
            kept.work.ring()
            kept.news.ring()

    def close_all(self) -> None:
        """The agent goes; nobody is kept waiting."""
        for kept in self._maps.values():
            kept.is_over = True
            kept.news.ring()
            kept.work.ring()

    # Inside

    def _avoiding(self, kept: KeptMap, workers: JobSpec) -> JobSpec:
        """The job of workers, not where others of them could not run the function."""
        known = self._coordinator.jobs.get(workers.id)
        if known is not None:
            return known.spec  # Submitted before, perhaps with fewer to avoid.
        if not kept.unable:
            return workers
        nodes = tuple(sorted({*workers.avoid.nodes, *kept.unable}))
        avoid = msgspec.structs.replace(workers.avoid, nodes=nodes)
        return msgspec.structs.replace(workers, avoid=avoid)

    def _find(self, map_id: str) -> KeptMap:
        if map_id not in self._maps:
            raise NotFound("map", map_id)
        return self._maps[map_id]

    def _know(self, kept: KeptMap, job_id: JobId) -> None:
        """A worker that an earlier agent started belongs to the map too."""
        job = self._coordinator.jobs.get(job_id)
        if job_id not in kept.jobs and job is not None and not job.has_ended:
            kept.jobs[job_id] = None
            self._of_job[job_id] = kept

    def _workers(self, kept: KeptMap) -> int:
        jobs = (self._coordinator.jobs.get(job) for job in kept.jobs)
        return sum(_left_of(job) for job in jobs if job is not None)

    def _expect_holder(self, kept: KeptMap) -> None:
        """Unless somebody holds it again in a moment, it ends."""

        def look() -> None:
            if not kept.holders and not kept.is_over:
                task = asyncio.ensure_future(self._end(kept))
                self._ending.add(task)
                task.add_done_callback(self._ending.discard)

        asyncio.get_running_loop().call_later(HOLD_GRACE_S, look)

    async def _end(self, kept: KeptMap) -> None:
        kept.is_over = True
        self._maps.pop(kept.id, None)
        self._over[kept.id] = None
        if len(self._over) > OVER_KEPT:
            del self._over[next(iter(self._over))]
        kept.work.ring()  # Those that wait for work end by themselves.
        kept.news.ring()
        for job_id in list(kept.jobs):
            job = self._coordinator.jobs.get(job_id)
            is_busy = kept.calls.out or kept.calls.failure
            if job is not None and (is_busy or not _all_run(job)):
                await self._cancel(job_id)
        if self._values is not None:
            await self._values.forget(kept.id)


def _stranger() -> NotPermitted:
    return NotPermitted("only workers of a map take its calls", remedy="Its workers start new ones")


def _left_of(job: Job) -> int:
    if job.has_ended or job.progress is None:
        return 0
    return job.progress.count(PENDING) + job.progress.count(RUNNING)


def _all_run(job: Job) -> bool:
    """Whether each worker that is left runs, and so can hear that it is over."""
    return all(a.state == "running" for a in job.live_attempts) and not (
        job.progress and job.progress.count(PENDING)
    )


def _now_s() -> float:
    return asyncio.get_running_loop().time()


def _until_s(wait_ms: int) -> float:
    return _now_s() + min(max(wait_ms, 0), WAIT_MS_MAX) / 1_000
