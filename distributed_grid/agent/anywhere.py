"""The operations of one agent, for jobs wherever they are: any node answers for any job.

Lives here: `Anywhere`, which asks the node that knows. Never here: who that is (`finding`), how it
is asked (`remote`), waiting (`awaiting_elsewhere`), reading output (`following`), nodes and what
else goes across (`anywhere_across`).
Invariant: in no mesh every operation is the agent's own, at the cost of one look; what this node
looks after itself is never asked elsewhere.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final

import msgspec

from distributed_grid.agent import MapOperations, Operations
from distributed_grid.agent.anywhere_across import AcrossAnywhere
from distributed_grid.agent.awaiting_elsewhere import Awaiting
from distributed_grid.agent.finding import Finding, Known, merged, moved
from distributed_grid.agent.following import Following
from distributed_grid.agent.own_only import OwnOnly
from distributed_grid.agent.remote import Remote
from distributed_grid.errors import GridError, MeshUnreachable, NotFound
from distributed_grid.model.across import HERE
from distributed_grid.model.ids import NodeId
from distributed_grid.model.transit import Transit
from distributed_grid.wire.across_api import OutputPlace
from distributed_grid.wire.api import ENDED, Explanation, Jobs, JobView

READYING_ASKED_MAX: Final = 4  # Of the nodes that make one job ready: a person reads no more,
READYING_S: Final = 1.0  # and does not wait for it.
MEETING_LOOKS, MEETING_S = 40, 0.05  # Two seconds, as long as a job is looked for elsewhere.


class Anywhere(OwnOnly):
    """`Operations` over a whole mesh, around those of its own agent."""

    def __init__(
        self,
        own: Operations,
        remote: Remote,
        *,
        clock_s: Callable[[], float],
        maps: MapOperations | None = None,
    ) -> None:
        super().__init__(own)
        self._maps = maps
        self._remote = remote
        self._around = remote.around
        self._finding = Finding(remote, clock_s=clock_s)
        self._following = Following(own, remote, self.locate, clock_s=clock_s)
        self._awaiting = Awaiting(own, remote, self.locate, clock_s=clock_s)
        self._across = AcrossAnywhere(own, remote, self)

    @property
    def maps(self) -> MapOperations:
        """Maps of Python functions, whose workers may be here and their home elsewhere."""
        return self._maps or self._own.maps

    # Jobs, wherever they are

    async def locate(self, word: str) -> Known:
        """Who knows a job best, and what it says. Raises NotFound or Ambiguous."""
        try:
            view = await self._own.job(word)
        except NotFound:
            if not await self._has_company():
                raise
            return await self._finding.find(word)
        if not self._around.live:
            return Known(self._around.me if self._around.is_member else HERE, view)
        home = NodeId(view.home) or self._around.me
        if home == self._around.me and not view.guest_of:
            return Known(home, view)
        # A copy of its record is here, or an attempt of it: its home knows more.
        named = f"id:{view.guest_of or view.id}"
        with contextlib.suppress(GridError):
            return Known(home, await self._remote.ask(home, "job", JobView, {"job": named}))
        if view.guest_of:
            with contextlib.suppress(GridError):
                return await self._finding.find(named)
        return Known(self._around.me, view)

    def is_here(self, word: str) -> bool:
        """Whether there is nobody else to ask, or no need to."""
        return not self._around.is_member or self._around.is_own(word)

    async def _has_company(self) -> bool:
        """Whether somebody else is there: who has just started meets the others in a moment."""
        for _ in range(MEETING_LOOKS if self._around.is_member else 0):
            if self._around.live:
                break
            await asyncio.sleep(MEETING_S)
        return bool(self._around.live)

    async def job(self, word: str) -> JobView:
        """One job, whole."""
        if self.is_here(word):
            view = await self._own.job(word)
        else:
            view = self._marked((await self.locate(word)).view)
        return await self._moving(view)

    async def _moving(self, view: JobView) -> JobView:
        """The job, with what the node that will run it does with its files."""
        asked = [one for one in view.attempts if one.lease][:READYING_ASKED_MAX]
        if view.transits or not asked or not self._around.live:
            return view
        nodes = {name: node for node, name in self._around.live.items()}
        moving: list[Transit] = []
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(READYING_S):
                for one in asked:
                    words, node = {"job": f"id:{one.lease}"}, nodes.get(one.node, NodeId(""))
                    with contextlib.suppress(GridError):  # It may not know it yet.
                        moving += (await self._remote.ask(node, "job", JobView, words)).transits
        return moved(view, tuple(moving)) if moving else view

    async def jobs(self, *, state: str, name: str, user: str, limit: int, before_ms: int) -> Jobs:
        """A page of the jobs of all nodes, newest first."""
        page = await self._own.jobs(
            state=state, name=name, user=user, limit=limit, before_ms=before_ms
        )
        if not self._around.live:
            return msgspec.structs.replace(page, jobs=page.jobs[:limit])
        heard = await self._remote.ask_all(
            self._around.live,
            "jobs",
            Jobs,
            lambda node: {
                "state": state,
                "name": name,
                "user": self._remote.user_there(user, node),
                "limit": str(limit),
                "before_ms": str(before_ms),
            },
        )
        me = self._around.me
        pages: list[tuple[NodeId, Jobs]] = [(me, page), *heard.answers]
        found = (
            Known(node, view if view.home else msgspec.structs.replace(view, home=node))
            for node, told in pages
            for view in told.jobs
        )
        views = merged(found, answered={node for node, _ in pages})
        more = len(views) > limit or any(told.more for _, told in pages)
        shown = tuple(views[:limit])
        return Jobs(jobs=shown, more=more, missing=heard.missing, damaged=page.damaged)

    async def wait(self, word: str, *, timeout_ms: int) -> JobView:
        """The job once it has ended, or as it is when the time is over."""
        if self.is_here(word):
            return await self._own.wait(word, timeout_ms=timeout_ms)
        return self._marked(await self._awaiting.wait(word, timeout_ms=timeout_ms))

    async def wait_many(self, words: tuple[str, ...], *, timeout_ms: int) -> Jobs:
        """Those of the jobs that have ended: all, or as many as the time allows."""
        if all(self.is_here(word) for word in words):
            return await self._own.wait_many(words, timeout_ms=timeout_ms)
        return await self._awaiting.wait_many(words, timeout_ms=timeout_ms)

    async def cancel(self, word: str) -> JobView:
        """The job, cancelled or being cancelled; any holder of its record takes the word."""
        if self.is_here(word):
            return self._marked(await self._own.cancel(word), is_cancelled=True)
        return self._marked(await self.decided(word, "cancel", self._own.cancel), is_cancelled=True)

    async def decided(
        self, word: str, operation: str, own: Callable[[str], Awaitable[JobView]], **words: str
    ) -> JobView:
        """Somebody's word about a job, at its home or, if that is gone, at who holds its record."""
        known = await self.locate(word)
        job = f"id:{known.view.id}"
        holders = [known.node, *(NodeId(node) for node in known.view.holders)]
        gone: MeshUnreachable | None = None
        for node in dict.fromkeys(holders):
            try:
                if node == self._around.me:
                    return await own(job)
                return await self._remote.ask(node, operation, JobView, {"job": job, **words})
            except MeshUnreachable as error:
                gone = gone or error
        assert gone is not None, "at least one was asked"
        raise gone

    def _marked(self, view: JobView, *, is_cancelled: bool = False) -> JobView:
        """The job, with who cannot be reached of those that run it."""
        is_cancelled = is_cancelled or any(line.what == "cancel asked" for line in view.story)
        if not is_cancelled or view.state in ENDED or not self._around.live:
            return view
        here = {*self._around.live.values(), self._around.name_of(self._around.me)}
        at_work = {one.node for one in view.attempts if one.state in ("granted", "running")}
        gone = sorted(at_work - here)
        if not gone:
            return view
        reason = f"cancelling ({', '.join(gone)} unreachable)"
        return msgspec.structs.replace(view, reason=reason)

    async def explain(self, word: str) -> Explanation:
        """Why it is where it is."""
        if self.is_here(word):
            return await self._own.explain(word)
        known = await self.locate(word)
        job = f"id:{known.view.id}"
        if known.node == self._around.me:
            return await self._own.explain(job)
        return await self._remote.ask(known.node, "explain", Explanation, {"job": job})

    def logs(
        self, word: str, *, stream: str, index: int, follow: bool, offset: int, attempt: int = 0
    ) -> AsyncIterator[bytes]:
        """Output as it was written, from the node that ran it."""
        if not self._around.is_member or attempt:
            return self._own.logs(
                word, stream=stream, index=index, follow=follow, offset=offset, attempt=attempt
            )
        return self._following.read(word, stream=stream, index=index, follow=follow, offset=offset)

    @property
    def across(self) -> AcrossAnywhere:
        """Jobs and nodes across the mesh."""
        return self._across

    async def place(self, word: str, *, index: int) -> OutputPlace:
        """Where the output of a job is."""
        return await self._following.place(word, index=index)
