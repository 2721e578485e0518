"""The operations of `AcrossOperations`, for jobs and nodes wherever they are.

Lives here: which node is asked. Never here: what it does (its own agent).
"""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, Protocol

import msgspec

from distributed_grid.agent import Operations
from distributed_grid.agent.finding import Known
from distributed_grid.agent.handing_out import merged
from distributed_grid.agent.remote import Remote, find_node
from distributed_grid.errors import GridError, NotFound
from distributed_grid.model.ids import JobId, NodeId
from distributed_grid.wire.across_api import (
    BringOutputs,
    DrainView,
    MeshSnapshot,
    OutputPlace,
    Outputs,
    OutputsBrought,
    Pack,
    Packed,
    Safety,
    SharingEverywhere,
)
from distributed_grid.wire.api import JobView, NodeStatus
from distributed_grid.wire.sharing import Queue, SharingStatus

KEPT_MS: Final = 600_000  # A node packs what it kept when it is asked for it.
SLICE_MS: Final = 30_000  # Of one question that waits; whoever waits longer asks again.


class Jobs(Protocol):
    """What is needed of `Elsewhere`."""

    def is_here(self, word: str) -> bool:
        """Whether there is nobody else to ask, or no need to."""
        ...

    async def locate(self, word: str) -> Known:
        """Who knows a job best."""
        ...

    async def decided(
        self, word: str, operation: str, own: Callable[[str], Awaitable[JobView]], **words: str
    ) -> JobView:
        """Somebody's word about a job, where it counts."""
        ...

    async def place(self, word: str, *, index: int) -> OutputPlace:
        """Where its output is."""
        ...


class AcrossAnywhere:
    """`AcrossOperations` over a whole mesh, around those of its own agent."""

    def __init__(self, own: Operations, remote: Remote, jobs: Jobs) -> None:
        self._own, self._remote, self._jobs = own, remote, jobs
        self._around = remote.around

    async def requeue(self, word: str) -> JobView:
        """Run a job that is untracked."""
        if self._jobs.is_here(word):
            return await self._own.across.requeue(word)
        return await self._jobs.decided(word, "requeue", self._own.across.requeue)

    async def rerun(self, word: str, *, new: JobId, only_failed: bool) -> JobView:
        """Submit a job that has ended once more, where it was submitted."""
        own = partial(self._own.across.rerun, new=new, only_failed=only_failed)
        if self._jobs.is_here(word):
            return await own(word)
        failed = "1" if only_failed else ""
        return await self._jobs.decided(word, "rerun", own, id=new, failed=failed)

    async def cancel_index(self, word: str, *, index: int) -> JobView:
        """Cancel one index of an array."""
        own = partial(self._own.across.cancel_index, index=index)
        if self._jobs.is_here(word):
            return await own(word)
        return await self._jobs.decided(word, "cancel_index", own, index=str(index))

    async def force(self, word: str) -> JobView:
        """Go on with an at-most-once job."""
        if self._jobs.is_here(word):
            return await self._own.across.force(word)
        return await self._jobs.decided(word, "force", self._own.across.force)

    async def output(self, word: str, *, index: int) -> OutputPlace:
        """Where the output of a job is."""
        if self._jobs.is_here(word):
            return await self._own.across.output(word, index=index)
        return await self._jobs.place(word, index=index)

    async def outputs(self, word: str) -> Outputs:
        """The files a job left behind, and who has them."""
        if self._jobs.is_here(word):
            return await self._own.across.outputs(word)
        known = await self._jobs.locate(word)
        job = f"id:{known.view.id}"
        if known.node == self._around.me:
            return await self._own.across.outputs(job)
        return await self._remote.ask(known.node, "outputs", Outputs, {"job": job}, wait_ms=KEPT_MS)

    async def bring_outputs(self, word: str, wanted: BringOutputs) -> OutputsBrought:
        """Put them into a directory of this machine, with what stayed where it ran."""
        error: NotFound | None = None
        found: list[Outputs] = []
        try:
            found.append(await self.outputs(word))
        except NotFound as absent:
            error = absent
        kept = [one for one in await self._kept(word, found) if one.kept]
        if error is not None and not kept:
            raise error
        told = [await self.hand_out(one, wanted) for one in [*found, *kept]]
        return merged(told)

    async def _kept(self, word: str, found: list[Outputs]) -> list[Outputs]:
        """What other nodes still have of a job that ran there: more than comes back by itself."""
        if not self._around.live:
            return []
        job = f"id:{found[0].job if found else await self._id_of(word)}"
        known = {one.node for one in found}
        asked: list[Awaitable[Outputs]] = [
            self._remote.ask(node, "outputs", Outputs, {"job": job}, wait_ms=KEPT_MS)
            for node in self._around.live
            if node not in known
        ]
        if self._around.me not in known:
            asked.append(self._own.across.outputs(job))
        heard = await asyncio.gather(*asked, return_exceptions=True)
        for one in heard:
            if isinstance(one, BaseException) and not isinstance(one, GridError):
                raise one
        others = [one for one in heard if isinstance(one, Outputs)]
        return [msgspec.structs.replace(one, manifests=(), nodes=()) for one in others]

    async def _id_of(self, word: str) -> str:
        if self._jobs.is_here(word):
            return (await self._own.job(word)).id
        return (await self._jobs.locate(word)).view.id

    async def hand_out(self, found: Outputs, wanted: BringOutputs) -> OutputsBrought:
        """The same, of what some node has."""
        return await self._own.across.hand_out(found, wanted)

    async def safe(self, word: str, *, timeout_ms: int) -> Safety:
        """Once the job is on a second machine."""
        if self._jobs.is_here(word):
            return await self._own.across.safe(word, timeout_ms=timeout_ms)
        known = await self._jobs.locate(word)
        job, wait_ms = f"id:{known.view.id}", min(timeout_ms, SLICE_MS)
        if known.node == self._around.me:
            return await self._own.across.safe(job, timeout_ms=wait_ms)
        words = {"job": job, "timeout_ms": str(wait_ms)}
        return await self._remote.ask(known.node, "safe", Safety, words, wait_ms=wait_ms)

    async def drain(self, node: str, *, timeout_ms: int, now: bool = False) -> DrainView:
        """Give a node's work away."""
        found, wait_ms = self._other(node), min(timeout_ms, SLICE_MS)
        if found is None:
            return await self._own.across.drain(node, timeout_ms=wait_ms, now=now)
        words = {"node": found, "timeout_ms": str(wait_ms), **({"now": "1"} if now else {})}
        return await self._remote.ask(found, "drain", DrainView, words, wait_ms=wait_ms)

    async def undrain(self, node: str) -> DrainView:
        """Let a node take work again."""
        found = self._other(node)
        if found is None:
            return await self._own.across.undrain(node)
        return await self._remote.ask(found, "undrain", DrainView, {"node": found})

    async def snapshot(self) -> MeshSnapshot:
        """The nodes as placement sees them from here."""
        return await self._own.across.snapshot()

    async def pack(self, wanted: Pack) -> Packed:
        """Take files of this machine."""
        return await self._own.across.pack(wanted)

    async def status_of(self, node: str) -> NodeStatus:
        """A node."""
        found = self._other(node)
        if found is None:
            return await self._own.across.status_of(node)
        return await self._remote.ask(found, "status", NodeStatus)

    async def sharing_of(self, node: str) -> SharingStatus:
        """What a node offers."""
        found = self._other(node)
        if found is None:
            return await self._own.across.sharing_of(node)
        return await self._remote.ask(found, "sharing", SharingStatus)

    async def sharing_everywhere(self) -> SharingEverywhere:
        """What every node offers, in a bounded time."""
        own = await self._own.across.sharing_everywhere()
        live = self._around.live
        if not live:
            return own
        heard = await self._remote.ask_all(live, "sharing", SharingStatus, lambda _: {})
        others = sorted((said for _, said in heard.answers), key=lambda said: said.node)
        return SharingEverywhere(nodes=(*own.nodes, *others), missing=heard.missing)

    async def queue_of(self, node: str, *, limit: int) -> Queue:
        """The jobs that wait on a node."""
        found = self._other(node)
        if found is None:
            return await self._own.across.queue_of(node, limit=limit)
        return await self._remote.ask(found, "queue", Queue, {"limit": str(limit)})

    def _other(self, word: str) -> NodeId | None:
        """The node that is meant; None: this one, or there is no other."""
        if not self._around.live:
            return None
        found = find_node(word, self._around)
        return None if found == self._around.me else found
