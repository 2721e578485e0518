"""What people ask of this node about jobs and nodes across the mesh, as far as it knows itself.

Lives here: `AcrossDesk`, one method for each operation. Never here: asking other nodes
(`anywhere`), deciding (`kernel`), files (`shipping`).
"""

import asyncio
import os
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

import msgspec

from distributed_grid.agent.kept_output import Away, KeptOutput, attempt_of
from distributed_grid.agent.mesh import MeshSide
from distributed_grid.agent.peers import peers_of
from distributed_grid.errors import BadValue, MeshUnreachable, NotFound, NotPermitted
from distributed_grid.kernel.across.rooting import is_rootable
from distributed_grid.kernel.finding import node_among
from distributed_grid.kernel.jobs import Attempt, Job
from distributed_grid.kernel.node import Cancel, Drain, Force, Node, NodeEvent, Requeue
from distributed_grid.kernel.placement.snapshot_hash import snapshot_hash
from distributed_grid.kernel.rerunning import rerun_of
from distributed_grid.model.across import HERE
from distributed_grid.model.ids import JobId, NodeId
from distributed_grid.model.job import JobSpec
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
from distributed_grid.wire.api import ENDED, JobView, NodeStatus
from distributed_grid.wire.sharing import Queue, SharingStatus
from distributed_grid.wire.tails import NO_INDEX

EVERYTHING: Final = ("**",)  # As a glob.
LOOK_S: Final = 0.1  # While somebody waits until a node is empty, or a job safe.


class Desk(NamedTuple):
    """What the desk needs of its agent."""

    find: Callable[[str], Awaitable[Job]]
    view: Callable[[Job], JobView]
    decide: Callable[[NodeEvent], Awaitable[None]]
    status: Callable[[], Awaitable[NodeStatus]]
    sharing: Callable[[], Awaitable[SharingStatus]]
    queue: Callable[[int], Awaitable[Queue]]
    submit: Callable[[tuple[JobSpec, ...]], Awaitable[object]]
    clock_ms: Callable[[], int]


class AcrossDesk:
    """The answers of one node."""

    def __init__(self, node: Node, mesh: MeshSide, desk: Desk, kept: KeptOutput) -> None:
        self._node, self._mesh, self._desk, self._kept = node, mesh, desk, kept
        self.pack_files: Callable[[Pack], Awaitable[Packed]] = _no_files
        self.bytes_left: Callable[[Job], int] = lambda _: 0
        self.hurry: Callable[[Job], Awaitable[str]] = _no_hurry
        self.kept_files: Callable[[JobId], Awaitable[tuple[str, ...]]] = _nothing_kept
        self.hand_out_files: Callable[[Outputs, BringOutputs], Awaitable[OutputsBrought]] = _none

    async def requeue(self, word: str) -> JobView:
        """Run a job again that was lost track of; one that is looked after stays as it is."""
        job = await self._desk.find(word)
        if job.has_ended:
            raise NotPermitted(
                f"{job.spec.name} has ended: {job.state}",
                remedy="Submit it again, as a job of its own",
            )
        await self._desk.decide(Requeue(now_ms=self._desk.clock_ms(), job=job.spec.id))
        return self._desk.view(await self._desk.find(f"id:{job.spec.id}"))

    async def rerun(self, word: str, *, new: JobId, only_failed: bool) -> JobView:
        """Submit a job of this node once more, from its directory as it is now."""
        job = await self._desk.find(word)
        self._check_home(job)
        spec = rerun_of(job, new, self._desk.clock_ms(), only_failed=only_failed)
        work = spec.work if is_rootable(spec) else None
        if work is not None and not await asyncio.to_thread(os.path.isdir, work.cwd):
            error = NotFound("directory", work.cwd)
            error.remedy = "Bring it back, or submit the job in another one: grid run"
            raise error
        await self._desk.submit((spec,))
        return self._desk.view(await self._desk.find(f"id:{new}"))

    async def cancel_index(self, word: str, *, index: int) -> JobView:
        """Cancel one index of an array of this node."""
        job = await self._desk.find(word)
        if job.spec.array is None or index not in job.spec.array.indices:
            has_none = job.spec.array is None
            expected = "no index: it is no array" if has_none else "an index of the array"
            raise BadValue(index, expected=expected, remedy="See grid job for what it has")
        self._check_home(job)
        if job.spec.id in self._node.coordinator.jobs:
            cancel = Cancel(now_ms=self._desk.clock_ms(), job=job.spec.id, index=index)
            await self._desk.decide(cancel)
        return self._desk.view(job)

    def _check_home(self, job: Job) -> None:
        """Raise unless this node looks after a job, or did when it ended: others lack its files."""
        home = job.epoch.node
        if self._mesh.is_member and home not in (HERE, self._mesh.mesh.me):
            name = self._mesh.mesh.name_of(home)
            raise MeshUnreachable(name, why=f"only there is what {job.spec.name} needs")

    async def force(self, word: str) -> JobView:
        """Go on with an at-most-once job whose voters are lost, at the risk that it runs twice."""
        job = await self._desk.find(word)
        if not job.spec.at_most_once:
            raise NotPermitted(
                f"{job.spec.name} is no at-most-once job", remedy="Others go on by themselves"
            )
        if not self._is_stuck(job):
            raise NotPermitted(
                f"{job.spec.name} is {job.state}, and not stuck",
                remedy="Wait until its voters have been away for a moment",
            )
        await self._desk.decide(Force(now_ms=self._desk.clock_ms(), job=job.spec.id))
        return self._desk.view(await self._desk.find(f"id:{job.spec.id}"))

    def _is_stuck(self, job: Job) -> bool:
        """Whether its votes do not come, or nobody looks after it who could ask for them."""
        across = self._node.across
        if across is None or job.has_ended:
            return False
        if job.spec.id in self._node.coordinator.jobs:
            return not across.is_cleared(job.spec.id) and not across.lacks(job)
        home = across.peers.get(job.epoch.node)
        return home is None or not home.is_alive

    async def output(self, word: str, *, index: int) -> OutputPlace:
        """Where the output of a job is, of an array that of one index."""
        job = await self._desk.find(word)
        attempt = attempt_of(job, index)
        is_own = job.spec.id in self._node.coordinator.jobs
        if attempt is not None and is_own and attempt.host != HERE and attempt.state == "granted":
            attempt = None  # Its node may not know it yet.
        is_one = job.progress is None and job.spec.gang == 1
        tries = [one for one in job.attempts if is_one and one.started_ms and one is not attempt]
        earlier = tuple(self._place(job, one, NO_INDEX) for one in tries)
        place = (
            OutputPlace(job=job.spec.id) if attempt is None else self._place(job, attempt, index)
        )
        return msgspec.structs.replace(place, is_over=job.state in ENDED, earlier=earlier)

    def _place(self, job: Job, attempt: Attempt, index: int) -> OutputPlace:
        is_here, away = attempt.host == HERE, self._kept.away(job, index, attempt.number)
        was_home = attempt.host == attempt.epoch.node  # There it is called as the job, no guest.
        return OutputPlace(
            job=job.spec.id,
            node="" if is_here else attempt.host,
            word="" if is_here else f"id:{job.spec.id if was_home else attempt.lease}",
            attempt=attempt.number,
            copies=self._copies(job, attempt, away),
        )

    def _copies(self, job: Job, attempt: Attempt, away: Away | None) -> tuple[NodeId, ...]:
        """Who has the end of what it wrote, beside who wrote it."""
        if away is not None and away.is_kept:
            return (self._mesh.mesh.me,)
        # Of what ran at its home, of which only a record is here: the first of its guardians.
        was_at_home = away is not None and attempt.host == job.epoch.node
        return job.guardians[:1] if was_at_home else ()

    async def outputs(self, word: str) -> Outputs:
        """The files that a job of this node left behind elsewhere, or as another's guest here."""
        job, error, job_id = None, None, JobId(word.removeprefix("id:"))
        try:
            job = await self._desk.find(word)
            job_id = job.spec.origin.job if job.spec.origin is not None else job.spec.id
        except NotFound as absent:
            error = absent  # Nobody here knows of it: what it left as a guest may be here.
        kept = await self.kept_files(job_id)
        known = job if job is not None and not job.is_guest else None
        if not kept and (known is None or not known.outputs):
            if job is not None:
                error = NotFound("outputs of", job.spec.name)
                error.remedy = _why_none(job)
            assert error is not None, "there is a job, or why there is none"
            raise error
        hosts = (
            [one.host for one in known.attempts if one.host != HERE] if known is not None else []
        )
        return Outputs(
            job=job_id,
            name=job.spec.name if job is not None else job_id[:12],
            node=self._mesh.mesh.me if self._mesh.is_member else "",
            manifests=tuple(known.outputs) if known is not None else (),
            globs=(job.spec.outputs if job is not None else ()) or EVERYTHING,
            kept=kept,
            nodes=tuple(dict.fromkeys(hosts)),
        )

    async def bring_outputs(self, word: str, wanted: BringOutputs) -> OutputsBrought:
        """Put them into a directory."""
        return await self.hand_out_files(await self.outputs(word), wanted)

    async def hand_out(self, found: Outputs, wanted: BringOutputs) -> OutputsBrought:
        """The same, of what some node has."""
        return await self.hand_out_files(found, wanted)

    async def safe(self, word: str, *, timeout_ms: int) -> Safety:
        """Once the job is on a second machine, or has ended; as it is when the time is over."""
        job = await self._desk.find(word)
        why = await self.hurry(job) if timeout_ms else ""
        for _ in range(max(1, int(timeout_ms / 1_000 / LOOK_S))):
            found = self._safety(job, why)
            if found.is_safe or why:
                return found
            await asyncio.sleep(LOOK_S)
        return self._safety(job, why)

    def _safety(self, job: Job, why: str) -> Safety:
        across, left = self._node.across, self.bytes_left(job)
        copies = across.copies(job.spec.id) if across is not None else 1
        is_safe = job.has_ended or (copies > 1 and not left and self._is_told_unrooted(job))
        why = "" if is_safe else why
        return Safety(id=job.spec.id, copies=copies, bytes_left=left, is_safe=is_safe, why=why)

    def _is_told_unrooted(self, job: Job) -> bool:
        """Whether who would look after it next knows as well that others have its files."""
        across = self._node.across
        is_told = across is None or across.guarding.is_spread(job, self._desk.clock_ms())
        return is_told and not job.rooted

    # Nodes

    async def drain(self, node: str, *, timeout_ms: int, now: bool = False) -> DrainView:
        """Give this node's work away and take no more; durable. Waits until it is empty."""
        self._check(node)
        await self._desk.decide(Drain(now_ms=self._desk.clock_ms(), is_now=now))
        for _ in range(int(timeout_ms / 1_000 / LOOK_S)):
            if self._node.is_drained:
                break
            await asyncio.sleep(LOOK_S)
        return await self._drained()

    async def undrain(self, node: str) -> DrainView:
        """Take work again."""
        self._check(node)
        await self._desk.decide(Drain(now_ms=self._desk.clock_ms(), is_on=False))
        return await self._drained()

    async def _drained(self) -> DrainView:
        status = await self._desk.status()
        is_on = self._node.host.is_draining
        return DrainView(
            id=status.id,
            name=status.name,
            state=("drained" if self._node.is_drained else "draining") if is_on else "open",
            jobs_running=status.jobs_running,
            jobs_waiting=status.jobs_waiting,
            jobs_leaving=self._node.guests_leaving,
        )

    async def snapshot(self) -> MeshSnapshot:
        """The nodes as placement sees them from here."""
        if not self._mesh.is_member:
            raise NotFound("mesh", "this node is in none")
        peers, own = peers_of(self._mesh.mesh, self._mesh.ground.now())
        records = [peer.record for peer in peers.values() if peer.is_alive]
        nodes = tuple(sorted((one for one in (own, *records) if one), key=lambda one: one.id))
        return MeshSnapshot(hash=snapshot_hash(nodes), at_ms=self._desk.clock_ms(), nodes=nodes)

    async def pack(self, wanted: Pack) -> Packed:
        """Take files of this machine as they are now; raises for what may not travel."""
        return await self.pack_files(wanted)

    async def status_of(self, node: str) -> NodeStatus:
        """This node, if it is meant."""
        self._check(node)
        return await self._desk.status()

    async def sharing_of(self, node: str) -> SharingStatus:
        """What it offers, what it does not and why, what is borrowed of it."""
        self._check(node)
        return await self._desk.sharing()

    async def sharing_everywhere(self) -> SharingEverywhere:
        """Of this node alone."""
        return SharingEverywhere(nodes=(await self._desk.sharing(),))

    async def queue_of(self, node: str, *, limit: int) -> Queue:
        """The jobs that wait here, in the order of service."""
        self._check(node)
        return await self._desk.queue(limit)

    def _check(self, word: str) -> None:
        """Whether this node is the one that is meant."""
        me = self._mesh.mesh.me if self._mesh.is_member else NodeId("")
        if node_among(word, {me: self._mesh.name}) is None:
            raise NotFound("node", word)


async def _no_hurry(job: Job) -> str:  # noqa: ARG001
    """An agent without a place for files."""
    return ""


async def _no_files(wanted: Pack) -> Packed:
    """An agent without a place for files."""
    raise NotFound("directory", wanted.directory)


async def _nothing_kept(job: JobId) -> tuple[str, ...]:  # noqa: ARG001
    """An agent without a place for files."""
    return ()


async def _none(found: Outputs, wanted: BringOutputs) -> OutputsBrought:  # noqa: ARG001
    """An agent without a place for files."""
    raise NotFound("outputs of", found.name)


def _why_none(job: Job) -> str:
    if not job.spec.outputs and not job.spec.brings_changes:
        return "Name what is to be kept when you submit it: --output GLOB"
    if not job.has_ended:
        return f"It is {job.state}: they are there when it has ended"
    where = job.spec.work.cwd if job.spec.work else ""
    none = f"Nothing matched {' '.join(job.spec.outputs)}" if job.spec.outputs else "It left none"
    return f"{none}, or it ran in {where} itself"
