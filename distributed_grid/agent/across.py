"""Jobs across machines, in an agent: the kernel sees the other nodes, and they hear what it says.

Lives here: views and beats for the kernel, messages each way. Never here: decisions
(`kernel.across`), connections (`mesh_links`), carrying out a step (`carrying`).
Invariant: nothing is looked at twice that has not changed; without a mesh nothing happens at all.
"""

import asyncio
import contextlib
import secrets
from collections.abc import Awaitable, Callable, Sequence
from functools import lru_cache
from typing import Final

from msgspec import structs

from distributed_grid.agent.blast_door import Faulty
from distributed_grid.agent.gang_meeting import meeting_place
from distributed_grid.agent.inbox import Inbox
from distributed_grid.agent.mesh import MeshSide
from distributed_grid.agent.peer_book import PeerBook
from distributed_grid.edges.clock import boot_us
from distributed_grid.errors import UnknownName
from distributed_grid.kernel.across.balancing import POWER
from distributed_grid.kernel.across.machine import Across
from distributed_grid.kernel.across.once import Senses
from distributed_grid.kernel.across.shelf import ReadHeld
from distributed_grid.kernel.jobs import Job
from distributed_grid.kernel.node import Beat, Node, NodeEvent, Told, View
from distributed_grid.kernel.placement import Rules
from distributed_grid.kernel.placement.power import PowerPolicy
from distributed_grid.kernel.placement.registry import policy_named
from distributed_grid.kernel.ready import Ready
from distributed_grid.model.ids import JobId, NodeId
from distributed_grid.wire.across import Copied, NotCopied, Report
from distributed_grid.wire.job_lane import JobMessage, decode, encode
from distributed_grid.wire.mesh import JUNK
from distributed_grid.wire.questions import QuestionMessage

LOOK_S: Final = 0.1  # Whether this node has joined a mesh; in one, its pulse counts.
COPIES: Final = 2  # Of a record, before a submission is acknowledged,
COPIED_S: Final = 1.0  # if there are so many within a second.
BEAT_MS: Final = 500  # What was not answered is said again after half a second.
FRESH_MS: Final = 5_000  # What is only measured is looked at also if nothing changes.


@lru_cache(maxsize=64)
def rules_of(policy: str, power: PowerPolicy = POWER) -> Rules:
    """How nodes are chosen for jobs that name a policy; unknown ones count as none."""
    try:
        return Rules(policy=policy_named(policy) if policy else None, power=power)
    except UnknownName:
        return Rules(power=power)


async def no_history(_jobs: Sequence[JobId]) -> list[Job]:
    """Nothing is remembered beyond what is in memory."""
    return []


class AcrossSide:
    """One agent's part in running jobs on many nodes."""

    def __init__(
        self,
        node: Node,
        mesh: MeshSide,
        *,
        clock_ms: Callable[[], int],
        step: Callable[[NodeEvent], Awaitable[None]],
        take_in: Callable[[NodeEvent], Awaitable[None]],
        carry_out: Callable[[Ready], Awaitable[None]],
    ) -> None:
        self._node, self._mesh = node, mesh
        self._clock_ms, self._step, self._carry_out = clock_ms, step, carry_out
        self._take_in = take_in
        self._seen = -1  # The state of the mesh that the kernel knows.
        self._joined: Across | None = None
        self._book = PeerBook()
        self.inbox = Inbox(node.rank_of)
        self._news = asyncio.Event()  # A copy was taken, or not.
        self.is_disk_full: Callable[[], bool] = lambda: False
        self.read_held: ReadHeld = lambda _: None
        self.has_files = False  # Directories of jobs can be packed.
        self.on_question: Callable[[NodeId, QuestionMessage], None] = lambda _peer, _word: None
        self.history: Callable[[Sequence[JobId]], Awaitable[list[Job]]] = no_history
        self.on_report: Callable[[NodeId, Report], bool] = lambda _peer, _report: False
        mesh.on_job = self._heard

    def begin(self) -> int:
        """Before anything is placed: a member does not run alone what others may be running.

        Answers for how many milliseconds it was away. Begun again, it was not, unless what followed
        from that was not settled yet.
        """
        if not self._mesh.is_member:
            return 0
        was_settled = self._joined is not None and not self._joined.guarding.is_in_doubt
        self._join(self._mesh.mesh.me)
        return 0 if was_settled else self._mesh.mesh.membership.away_ms

    def view(self) -> View | None:
        """The other nodes, as they are now."""
        if self._node.across is None:
            return None
        peers, own = self._book.look(self._mesh.mesh, self._mesh.ground.now())
        return View(now_ms=self._clock_ms(), peers=peers, own=own)

    def _join(self, me: NodeId) -> None:
        power = self._node.power
        across = self._node.join(
            me,
            senses=Senses(boot_us, secrets.randbelow),
            rules_of=lambda policy: rules_of(policy, power),
        )
        self._joined, self._seen = across, -1
        across.holds.meeting = lambda: meeting_place(self._mesh)
        across.has_files = self.has_files
        across.guarding.shelf.read = self.read_held

    async def look(self) -> None:
        """For ever: what changes in the mesh is shown to the kernel."""
        beat_ms = fresh_ms = self._clock_ms()
        while True:
            if not self._mesh.is_member:
                if self._node.across is not None:
                    await self._carry_out(self._node.part(self._clock_ms()))
                await asyncio.sleep(LOOK_S)
                continue
            await self._mesh.pulse()
            mesh, now_ms = self._mesh.mesh, self._clock_ms()
            if self._node.across is None or self._node.across.me != mesh.me:
                self._join(mesh.me)
            if mesh.turns != self._seen or now_ms >= fresh_ms:
                self._seen, fresh_ms = mesh.turns, now_ms + FRESH_MS
                peers, own = self._book.look(mesh, self._mesh.ground.now())
                across = self._node.across
                if across is None or peers is not across.peers:  # What has not changed is known.
                    await self._step(View(now_ms=self._clock_ms(), peers=peers, own=own))
            across = self._node.across
            if now_ms >= beat_ms or (across is not None and across.once.is_busy):
                beat_ms = now_ms + BEAT_MS
                self._find_disk()  # So that others hear of it though nobody asks for anything.
                await self._step(Beat(now_ms=self._clock_ms()))

    @property
    def is_unsure(self) -> bool:
        """Whether somebody is there of whom the kernel does not know yet what it has.

        That may be this node itself: it tells once it listens, a moment after people are answered.
        """
        if not self._mesh.is_member or self._node.across is None:
            return False
        peers = self._node.across.peers.values()
        is_late = self._mesh.mesh.turns != self._seen or self._node.across.asking.own is None
        return is_late or any(peer.is_alive and peer.record is None for peer in peers)

    async def listen(self) -> None:
        """For ever: what others say is told to the kernel, and what came meanwhile with it.

        So the busier a node is, the more share one step, one record of a job and one sync.
        """
        while True:
            some = await self.inbox.some()
            words = [word for word in some if not self._is_refused_or_put_off(*word)]
            if not words:
                continue
            self._find_disk()
            await self._tell(words)
            if any(isinstance(word, Copied | NotCopied) for _, word in words):
                self._news.set()
                self._news = asyncio.Event()

    async def _tell(self, words: list[tuple[NodeId, JobMessage]]) -> None:
        """What breaks the kernel's step costs whoever said it its link, and only that one."""
        (peer, message), *more = words
        now_ms = self._clock_ms()
        try:
            told = Told(now_ms=now_ms, peer=peer, message=message, more=tuple(more))
            await self._take_in(await self._recalled(told))
        except Faulty as fault:
            if not more:
                self._mesh.blame(peer, type(message).__name__, str(fault))
                return
            for word in words:  # Each alone: it was one of them.
                if not self._mesh.is_refused(word[0]):
                    await self._tell([word])

    async def _recalled(self, told: Told) -> Told:
        """The same with what the disk has of jobs that the kernel has forgotten."""
        across = self._node.across
        words = ((told.peer, told.message), *told.more)
        jobs = [job for word in words for job in across.forgotten(*word)] if across else []
        return structs.replace(told, recalled=tuple(await self.history(jobs))) if jobs else told

    def _find_disk(self) -> None:
        if self._node.across is not None:
            self._node.across.find_disk(is_full=self.is_disk_full())

    def _is_refused_or_put_off(self, peer: NodeId, message: JobMessage) -> bool:
        """Whether it was said before its sender lost its link, or is told later."""
        return self._mesh.is_refused(peer) or self._is_put_off(peer, message)

    def _is_put_off(self, peer: NodeId, message: JobMessage) -> bool:
        """Whether it is told later, when what it names is here."""
        return isinstance(message, Report) and self.on_report(peer, message)

    async def copies(self, jobs: Sequence[JobId], *, wanted: int) -> int:
        """On how many disks all of these are, when it is enough, or a second has passed."""
        across = self._node.across
        if across is None:
            return 1
        others = sum(peer.is_alive for peer in across.peers.values())
        enough = min(max(wanted, COPIES), 1 + others)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(COPIED_S):
                while self._least(across, jobs) < enough:
                    await self._news.wait()
        return self._least(across, jobs)

    async def confirmed(self, jobs: Sequence[JobId]) -> bool:
        """Whether a second disk has all that is known of these now, after a second at most."""
        across = self._node.across
        if across is None:
            return True
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(COPIED_S):
                while not self._is_confirmed(across, jobs):
                    await self._news.wait()
        return self._is_confirmed(across, jobs)

    def _is_confirmed(self, across: Across, jobs: Sequence[JobId]) -> bool:
        now_ms, known = self._clock_ms(), self._node.coordinator.jobs
        return all(
            across.guarding.is_told(job, now_ms)
            for one in jobs
            if (job := known.get(one)) is not None and not job.has_ended
        )

    @staticmethod
    def _least(across: Across, jobs: Sequence[JobId]) -> int:
        return min((across.copies(job) for job in jobs), default=1)

    def _heard(self, peer: NodeId, body: bytes) -> bool:
        try:
            message = decode(body)
        except JUNK:
            return False
        if isinstance(message, QuestionMessage):
            self.on_question(peer, message)
            return True
        self.inbox.put(peer, message, len(body))
        return True

    def send(self, peer: NodeId, message: JobMessage) -> None:
        """To another member; whom there is no link with is dialled, and told the next time."""
        self._mesh.send_job(peer, encode(message))
