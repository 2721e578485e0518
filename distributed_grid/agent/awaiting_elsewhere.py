"""Waiting for jobs that other nodes look after, while who looks after them may change.

Lives here: one wait over many nodes, links that break, homes that are taken over. Never here: who
knows a job (`finding`), waiting on this node (`loop`).
Invariant: a wait ends when its time is over, or its jobs have ended; a node that goes meanwhile
only costs the time until another has taken its jobs over.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

import msgspec

from distributed_grid.agent import Operations
from distributed_grid.agent.finding import Known
from distributed_grid.agent.remote import Remote
from distributed_grid.errors import MeshUnreachable, NotFound
from distributed_grid.model.ids import JobId, NodeId
from distributed_grid.wire.api import ENDED, Jobs, JobView, WaitMany

SLICE_MS: Final = 30_000  # Of one question that waits: a node that forgot it is noticed by then.
AGAIN_S: Final = 0.5  # Before somebody else is looked for who knows a job.
TAKEOVER_S: Final = 15.0  # Nobody knows a job that was known: its guardians take over meanwhile.
IDS_MAX: Final = 256  # In one question: 17 kB.
LOOKS_MAX: Final = 8  # Jobs that are looked for at once: each may be 64 questions.

T = TypeVar("T")
W = TypeVar("W")


class Awaiting:
    """Waits for one agent's clients."""

    def __init__(
        self,
        own: Operations,
        remote: Remote,
        locate: Callable[[str], Awaitable[Known]],
        *,
        clock_s: Callable[[], float],
    ) -> None:
        self._own, self._remote, self._locate, self._clock_s = own, remote, locate, clock_s
        self._around = remote.around

    async def wait(self, word: str, *, timeout_ms: int) -> JobView:
        """The job once it has ended, or as it is when the time is over."""
        until_s = self._clock_s() + timeout_ms / 1_000
        known = await self._locate(word)
        while known.view.state not in ENDED:
            left_ms = int((until_s - self._clock_s()) * 1_000)
            if left_ms <= 0:
                break
            known = await self._waited(known, min(left_ms, SLICE_MS))
        return known.view

    async def _waited(self, known: Known, timeout_ms: int) -> Known:
        """Once more at who knows it; who knows it may change meanwhile."""
        job = f"id:{known.view.id}"
        try:
            if known.node != self._around.me:
                words = {"job": job, "timeout_ms": str(timeout_ms)}
                view = await self._remote.ask(
                    known.node, "wait", JobView, words, wait_ms=timeout_ms
                )
                return Known(known.node, view)
            if self._around.is_own(job):  # It was taken over, by this node.
                return Known(known.node, await self._own.wait(job, timeout_ms=timeout_ms))
        except MeshUnreachable:
            pass
        await asyncio.sleep(min(AGAIN_S, timeout_ms / 1_000))
        return await self._again(known.view.id)

    async def _again(self, job: JobId) -> Known:
        """Who knows a job now; while a takeover may be under way, as it was."""
        until_s = self._clock_s() + TAKEOVER_S
        while True:
            try:
                return await self._locate(f"id:{job}")
            except NotFound:
                if self._clock_s() >= until_s:
                    raise
            await asyncio.sleep(AGAIN_S)

    async def wait_many(self, words: tuple[str, ...], *, timeout_ms: int) -> Jobs:
        """Those of the jobs that have ended: all, or as many as the time allows."""
        until_s = self._clock_s() + timeout_ms / 1_000
        located = await _all(self._located, words)
        where = dict(located)  # Job -> who is asked for it.
        over: dict[JobId, JobView] = {}
        while len(over) < len(where):
            left_ms = max(int((until_s - self._clock_s()) * 1_000), 0)
            left = {job: node for job, node in where.items() if job not in over}
            views, unanswered = await self._over(left, min(left_ms, SLICE_MS))
            over.update(views)
            if left_ms <= 0:
                break
            if unanswered:
                await asyncio.sleep(min(AGAIN_S, left_ms / 1_000))
                for known in await _all(self._again, unanswered):
                    where[known.view.id] = known.node
                    if known.view.state in ENDED:
                        over[known.view.id] = msgspec.structs.replace(known.view, story=())
        return Jobs(
            jobs=tuple(over[job] for job in where if job in over), more=len(over) < len(where)
        )

    async def _located(self, word: str) -> tuple[JobId, NodeId]:
        if self._around.is_own(word):
            return JobId(word.removeprefix("id:")), self._around.me
        known = await self._locate(word)
        return known.view.id, known.node

    async def _over(
        self, left: dict[JobId, NodeId], timeout_ms: int
    ) -> tuple[dict[JobId, JobView], list[JobId]]:
        """Those that have ended, of each node in one go; and those that nobody said anything of."""
        by_node: dict[NodeId, list[JobId]] = {}
        for job, node in left.items():
            by_node.setdefault(node, []).append(job)
        groups = [
            (node, jobs[start : start + IDS_MAX])
            for node, jobs in by_node.items()
            for start in range(0, len(jobs), IDS_MAX)
        ]
        pages = await asyncio.gather(*(self._over_at(*group, timeout_ms) for group in groups))
        views = {view.id: view for page in pages if page for view in page.jobs}
        unanswered = [job for (_, jobs), page in zip(groups, pages, strict=True) if page is None
                      for job in jobs]  # fmt: skip
        return {job: view for job, view in views.items() if view.state in ENDED}, unanswered

    async def _over_at(self, node: NodeId, jobs: list[JobId], timeout_ms: int) -> Jobs | None:
        words = tuple(f"id:{job}" for job in jobs)
        try:
            if node != self._around.me:
                body = WaitMany(ids=words, timeout_ms=timeout_ms)
                return await self._remote.ask(
                    node, "wait_many", Jobs, wait_ms=timeout_ms, body=body
                )
            if all(self._around.is_own(word) for word in words):
                return await self._own.wait_many(words, timeout_ms=timeout_ms)
        except (MeshUnreachable, NotFound):
            pass
        return None  # Only a copy is here, or whoever was asked is gone: ask around again.


async def _all(look: Callable[[W], Awaitable[T]], words: Sequence[W]) -> list[T]:
    """Every one of them looked for, some at a time; the first error ends it."""
    turns = asyncio.Semaphore(LOOKS_MAX)

    async def one(word: W) -> T:
        async with turns:
            return await look(word)

    tasks = [asyncio.create_task(one(word)) for word in words]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
