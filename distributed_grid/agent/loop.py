"""The loop: wait for the world, step the kernel, carry out what it says, in the order it says.

Lives here: what the agent waits for, and what people ask of it. Never here: deciding anything, the
order of writes and messages (`carrying`).
Invariant: whatever happens passes through the kernel, and is carried out whole.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Final

import msgspec

from distributed_grid.agent import listing
from distributed_grid.agent.across import AcrossSide
from distributed_grid.agent.across_desk import AcrossDesk, Desk
from distributed_grid.agent.caching import Cache
from distributed_grid.agent.carrying import Carrying, no_step
from distributed_grid.agent.kept_output import KeptOutput
from distributed_grid.agent.log_files import LogFiles
from distributed_grid.agent.logs import output_name, read_output
from distributed_grid.agent.luggage import Luggage
from distributed_grid.agent.maps import Maps
from distributed_grid.agent.mesh import MeshSide
from distributed_grid.agent.mesh_desk import MeshDesk
from distributed_grid.agent.mesh_metrics import mesh_lines
from distributed_grid.agent.metrics import metrics_text
from distributed_grid.agent.pace import Rest
from distributed_grid.agent.records import held_by, jobs_of
from distributed_grid.agent.recovery import Recovery
from distributed_grid.agent.sharing import NOWHERE, Sharing, Surroundings
from distributed_grid.agent.submitting import Submitting
from distributed_grid.agent.tails import TailKeeper
from distributed_grid.agent.tidying import Remembered, left_out, remove_output, troubles_of
from distributed_grid.agent.watchers import Watchers
from distributed_grid.edges.runner import Report, Runner
from distributed_grid.edges.store import ForgetFinished, JobFilter, SetMeta, Store, StoreError
from distributed_grid.errors import NotFound
from distributed_grid.kernel.across.held import held_job, homeless
from distributed_grid.kernel.explaining import explain
from distributed_grid.kernel.jobs import Job
from distributed_grid.kernel.launching import Paths
from distributed_grid.kernel.node import Cancel, Met, Node, Noted, Reports, Tick
from distributed_grid.kernel.ready import Happened
from distributed_grid.kernel.views import job_view
from distributed_grid.model.across import HERE
from distributed_grid.model.booking import Booking
from distributed_grid.model.ids import JobId, NodeId
from distributed_grid.model.job import JobSpec
from distributed_grid.wire.api import (
    Event,
    EventPlace,
    Explanation,
    Jobs,
    JobView,
    NodeStatus,
    Submitted,
)
from distributed_grid.wire.keeper import Quit, Stop
from distributed_grid.wire.questions import QuestionMessage
from distributed_grid.wire.sharing import ChangeOffers, Queue, SharingStatus

EPOCH: Final = "events.epoch"  # In the store: how often an agent was started.
TICK_S: Final = 1.0  # Dates, the owner, a full store, tidying: a second more or less is fine.
TIDY_TICKS: Final = 300  # Old jobs are forgotten every five minutes.
LATEST: Final = 100  # Jobs that ended before the start: their files may not be written yet.


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where this agent lives, and what it says of itself."""

    paths: Paths
    status: NodeStatus
    finished_jobs_max: int = 10_000


class Agent:
    """Carries out what the kernel decides; `web` and tests ask it through `Operations`."""

    def __init__(
        self,
        node: Node,
        store: Store,
        runner: Runner,
        place: Place,
        *,
        clock_ms: Callable[[], int],
        at_step: Callable[[str], None] = no_step,
        around: Surroundings = NOWHERE,
        watchers: Watchers | None = None,
        mesh: MeshSide | None = None,
        luggage: Luggage | None = None,
    ) -> None:
        self.node, self.store = node, store
        self.runner, self.place = runner, place
        self.watchers = watchers or Watchers()
        self._hands = hands = Carrying(
            node,
            store,
            self.watchers,
            place.paths,
            to_keeper=runner.send,
            clock_ms=clock_ms,
            at_step=at_step,
        )
        self._mesh = mesh
        self._desk = MeshDesk(mesh) if mesh else None
        self._luggage = luggage
        self.kept = KeptOutput(place.paths, self._me)
        self.log_files = LogFiles(place.paths, read=self.logs, note=self._note_files)
        self.tails: TailKeeper | None = None  # Who brings what its jobs wrote elsewhere.
        self._across = self._plugged(mesh, clock_ms) if mesh is not None else None
        self.submitting = Submitting(
            node,
            store,
            hands,
            clock_ms=clock_ms,
            cancel=self._stop_job,
            across=self._across,
            luggage=luggage,
        )
        self.more_metrics: Callable[[], Iterable[str]] = tuple
        hired = partial(self.submit, has_files=False)  # Workers of maps need no directory.
        self.values = luggage.values if luggage is not None else None
        self.maps = Maps(
            lambda: node.coordinator, submit=hired, cancel=self._stop_job, values=self.values
        )
        hands.changed, hands.held = self._changed, self._held
        self._sharing = Sharing(
            node, name=place.status.name, clock_ms=clock_ms, step=hands.decide, around=around
        )
        self._clock_ms = clock_ms
        self._going = asyncio.Event()
        self._recovery = self._ways_back(mesh)
        self.troubles: tuple[str, ...] = ()  # Of the start.

    def _ways_back(self, mesh: MeshSide | None) -> Recovery:
        """What is done at a start, and after a step that broke off."""
        publish = mesh.ground.publish if mesh is not None else self.watchers.publish
        recovery = Recovery(
            self.node, self.store, self._hands.book, clock_ms=self._clock_ms, publish=publish
        )
        recovery.restored = self._sharing.restored
        if self._across is not None:
            recovery.join, recovery.look = self._across.begin, self._across.view

        async def rebuild(error: Exception) -> None:
            for ready in await recovery.rebuild(error):
                self._hands.begin(ready)
            self.watchers.wake_all()

        self._hands.door.rebuild = rebuild
        return recovery

    def _plugged(self, mesh: MeshSide, clock_ms: Callable[[], int]) -> AcrossSide:
        """The other nodes, joined to what this agent does and carries."""
        hands, luggage = self._hands, self._luggage
        across = AcrossSide(
            self.node,
            mesh,
            clock_ms=clock_ms,
            step=hands.hear,
            take_in=hands.take_in,
            carry_out=hands.carry_out,
        )
        across.history = self._history
        across.is_disk_full = lambda: hands.trouble is not None or not self.store.has_room()
        across.read_held = partial(held_by, self.store)
        hands.to_peer = across.send
        if luggage is not None:
            luggage.plug(step=hands.hear, send=across.send)
            hands.to_peer = luggage.setting_out.to_peer
            across.on_report = luggage.reported
            across.has_files = True
        return across

    async def restore(self) -> None:
        """Begin where the store left off."""
        remembered = await self.store.load_all()
        self.watchers.epoch = int(remembered.meta.get(EPOCH, b"0")) + 1
        with contextlib.suppress(StoreError):  # A full disk is told to those who submit.
            await self.store.commit([SetMeta(EPOCH, b"%d" % self.watchers.epoch)])
        is_new = EPOCH not in remembered.meta
        if self._mesh is not None:
            self._mesh.restore(remembered.meta)
        await self._recovery.restore(remembered)
        self.troubles = troubles_of(
            self.place.paths.output_root,
            (),
            is_new=is_new,
            now_ms=self._clock_ms(),
        )

    async def _history(self, wanted: Sequence[JobId]) -> list[Job]:
        """Jobs that are over and have left the memory."""
        rows = await self.store.jobs(JobFilter(ids=tuple(wanted), is_finished=True))
        return jobs_of(rows)[0]

    async def run(self) -> None:
        """Until somebody says `down`, or the keeper is gone."""
        if self.node.hello is None:
            await self.meet()
        latest = await self.store.jobs(JobFilter(is_finished=True), limit=LATEST)
        self.log_files.changed(jobs_of(latest)[0])
        async with asyncio.TaskGroup() as tasks:
            self._hands.run_in(tasks)
            listening = tasks.create_task(self._listen())
            rest = self._sharing.rest = self._mesh.pace.rest if self._mesh else asyncio.sleep
            ticking = tasks.create_task(self._tick(rest))
            looking = tasks.create_task(self._sharing.look_after_owner())
            running = [listening, ticking, looking]
            if self._mesh is not None and self._across is not None:
                work = [self._mesh.run(), self._across.look(), self._across.listen()]
                work += [self._luggage.run()] if self._luggage is not None else []
                work += [self.tails.run()] if self.tails is not None else []
                if self.values is not None:
                    work.append(self.values.tidy(self.maps.is_known))
                running += [tasks.create_task(each) for each in work]
            await self._going.wait()
            for task in running:
                task.cancel()
            self._hands.cancel()
        self.watchers.close()
        self.maps.close_all()

    @property
    def across(self) -> AcrossDesk:
        """Jobs and nodes across the mesh."""
        desk = Desk(
            find=self._find,
            view=self._view,
            decide=self._hands.decide,
            status=self.status,
            sharing=self.sharing,
            queue=lambda limit: self.queue(limit=limit),
            submit=self.submit,
            clock_ms=self._clock_ms,
        )
        made = AcrossDesk(self.node, self.side, desk, self.kept)
        if self._luggage is not None:
            made.pack_files = self._luggage.setting_out.pack
            made.hand_out_files = self._luggage.handing_out.bring
            made.kept_files = self._luggage.runner.kept
            made.bytes_left = self._luggage.pinning.bytes_to_spread
            made.hurry = self._luggage.transplanting.hurry
        return made

    @property
    def side(self) -> MeshSide:
        """This node's side of the mesh."""
        assert self._mesh is not None, "this agent was plugged into none"
        return self._mesh

    def hear_questions(self, hear: Callable[[NodeId, QuestionMessage], None]) -> None:
        """Who deals with what people ask at other nodes."""
        if self._across is not None:
            self._across.on_question = hear

    def _changed(self, jobs: Iterable[JobId]) -> None:
        self.maps.changed(jobs)
        known = self.node.coordinator.jobs
        self.log_files.changed(known[job] for job in jobs if job in known)
        if self.tails is not None:
            self.tails.changed(jobs)

    def _held(self, records: Mapping[JobId, bytes | None]) -> None:
        if self.node.across is not None:
            self.node.across.guarding.shelf.saved(records)
        if self.tails is not None:
            self.tails.held(records)

    @property
    def dropped(self) -> int:
        """How many words of others had no room."""
        return self._across.inbox.dropped if self._across is not None else 0

    def _me(self) -> NodeId:
        """This node in the mesh; in none it has no name."""
        return self._mesh.mesh.me if self._mesh and self._mesh.is_member else HERE

    @property
    def mesh(self) -> MeshDesk:
        """The other machines."""
        assert self._desk is not None, "this agent was plugged into none"
        return self._desk

    @property
    def cache(self) -> Cache:
        """The files that travelled with jobs."""
        assert self._luggage is not None, "this agent was given none"
        return self._luggage.store.cache

    async def meet(self) -> None:
        """Greet the keeper: what it repeats and what it runs, before anything is started or told.

        Nobody is to be served before: what ended meanwhile would be shown as if it ran.
        """
        hello = self.runner.hello
        repeated: list[Report] = []
        while len(repeated) < hello.unacknowledged and (more := await self.runner.receive()):
            repeated += more
        self._hands.book.greeted(hello)
        self._hands.book.heard(tuple(repeated))
        await self._hands.step(Met(now_ms=self._clock_ms(), hello=hello, reports=tuple(repeated)))
        self.watchers.publish(Happened(name="agent.started", at_ms=self._clock_ms()))

    async def _listen(self) -> None:
        while reports := await self.runner.receive():
            self._hands.book.heard(reports)
            ends = self.maps.ends(reports)
            await self._hands.step(Reports(now_ms=self._clock_ms(), reports=reports))
            self.maps.ended(ends)
        if self._mesh is not None:
            self._mesh.farewell = "leaving"  # Nobody shall wait for what ran here.
        self._going.set()  # The keeper is gone, and its jobs with it; the next one starts us anew.

    async def _tick(self, rest: Rest) -> None:
        ticks = 0
        while True:
            await rest(TICK_S)
            await self._hands.step(Tick(now_ms=self._clock_ms()))
            if self._hands.trouble is not None or not self.store.has_room():
                await self._try_store()
            ticks += 1
            if ticks % TIDY_TICKS == 0 and self._hands.trouble is None:
                await self._tidy(ticks // TIDY_TICKS)

    async def _try_store(self) -> None:
        """Whether the store can write again."""
        try:
            await self.store.commit([SetMeta("tried_ms", str(self._clock_ms()).encode())])
            self._hands.trouble = None
        except StoreError as error:
            self._hands.trouble = error

    async def _tidy(self, turn: int) -> None:
        """Forget the oldest finished jobs, and their output with them."""
        with contextlib.suppress(StoreError):  # The next time will do.
            await self.store.commit([ForgetFinished(self.place.finished_jobs_max)])
            paths = self.place.paths
            for root in filter(None, (paths.output_root, paths.checkpoint_root)):
                await remove_output(root, Remembered(self.node), self.store, turn=turn)

    # Operations

    async def submit(self, jobs: tuple[JobSpec, ...], *, has_files: bool = True) -> Submitted:
        """Take jobs; returns when they are durable."""
        return await self.submitting.submit(jobs, has_files=has_files)

    async def jobs(self, *, state: str, name: str, user: str, limit: int, before_ms: int) -> Jobs:
        """A page of jobs, newest first."""
        matching = JobFilter(
            states=(state,) if state else None, name=name or None, user=user or None
        )
        across, coordinator = self.node.across, self.node.coordinator
        held = (
            homeless(across.guarding, across.peers, name=name, user=user, before_ms=before_ms)
            if across is not None
            else ()
        )
        found, more, damaged = await listing.page(
            coordinator, self.store, matching=matching, limit=limit, before_ms=before_ms, held=held
        )
        views = tuple(self._view(job, with_story=False) for job in found)
        return Jobs(jobs=views, more=more, damaged=damaged)

    async def job(self, word: str) -> JobView:
        """One job, whole."""
        job = await self._find(word)
        return await self._sharing.watched(job, self._view(job))

    async def wait(self, word: str, *, timeout_ms: int) -> JobView:
        """The job once it has ended, or as it is when the time is over."""
        job = await self._find(word)
        until_s = asyncio.get_running_loop().time() + timeout_ms / 1_000
        return self._view((await self._end_of(job, until_s))[0])

    async def wait_many(self, words: tuple[str, ...], *, timeout_ms: int) -> Jobs:
        """Those of the jobs that have ended: all, or as many as the time allows."""
        jobs = [await self._find(word) for word in words]
        until_s = asyncio.get_running_loop().time() + timeout_ms / 1_000
        over = [
            job for job, is_over in [await self._end_of(job, until_s) for job in jobs] if is_over
        ]
        views = tuple(self._view(job, with_story=False) for job in over)
        return Jobs(jobs=views, more=len(over) < len(jobs))

    async def _end_of(self, job: Job, until_s: float) -> tuple[Job, bool]:
        """Wait until the job has ended, and that is saved; as it is then, and whether it has."""
        if job.has_ended and self._hands.is_unsaved(job.spec.id):
            await self.store.commit([])  # Its end waits for company to be saved with: here it is.
        while not job.has_ended or self._hands.is_unsaved(job.spec.id):
            left_s = until_s - asyncio.get_running_loop().time()
            if left_s <= 0 or not await self.watchers.change_of(job.spec.id, timeout_s=left_s):
                return self._as_it_is(job), False
            job = self._as_it_is(job)
        await self.log_files.written(job)
        return job, True

    def _as_it_is(self, job: Job) -> Job:
        """The same job, after all that may have happened to it and to the kernel's memory."""
        return self.node.coordinator.jobs.get(job.spec.id, job)

    async def _note_files(self, job: JobId, detail: str) -> None:
        noted = Noted(now_ms=self._clock_ms(), job=job, what="files", detail=detail)
        await self._hands.decide(noted)

    async def cancel(self, word: str) -> JobView:
        """The job, cancelled or being cancelled. Raises StoreError if that may be forgotten."""
        job = await self._find(word)
        if self.node.can_cancel(job.spec.id):
            await self._cancel(job.spec.id)
            job = await self._find(f"id:{job.spec.id}")
        return self._view(job)

    async def _stop_job(self, job: JobId) -> None:
        """Nobody waits to hear whether it was written."""
        with contextlib.suppress(StoreError):
            await self._cancel(job)

    async def _cancel(self, job: JobId) -> None:
        ready = await self._hands.door.step(Cancel(now_ms=self._clock_ms(), job=job))
        try:
            await self._hands.save(ready)
        except StoreError:
            # What fills the disk may be this very job: it stops now, and that is written later.
            for message in ready.tell:
                if isinstance(message, Stop):
                    await self.runner.send(message)
            self._hands.later(self._hands.carry_out(ready))
            raise  # Until then a crash would undo it: that is no answer to rely on.
        await self._hands.tell(ready)

    async def explain(self, word: str) -> Explanation:
        """Why it is where it is."""
        job = await self._find(word)
        found = explain(self.node.coordinator, job, self._clock_ms())
        return self._luggage.explained(found, job) if self._luggage else found

    async def sharing(self) -> SharingStatus:
        """What is offered, what is not and why, what is borrowed and booked."""
        status = await self._sharing.first_status()
        here = {node.name for node in self._mesh.views()} if self._mesh else set()
        left = tuple(name for name in status.not_joined if name not in here)
        return msgspec.structs.replace(status, not_joined=left)

    async def change_offers(self, change: ChangeOffers) -> SharingStatus:
        """The owner's word."""
        return await self._sharing.change(change)

    async def book(self, booking: Booking) -> None:
        """Keep resources; returns when that is durable."""
        await self._sharing.book(booking)

    async def cancel_booking(self, name: str) -> None:
        """Give a booking back."""
        await self._sharing.unbook(name)

    async def queue(self, *, limit: int) -> Queue:
        """The waiting jobs in the order of service."""
        return self._sharing.queue(limit=limit)

    async def logs(
        self, word: str, *, stream: str, index: int, follow: bool, offset: int, attempt: int = 0
    ) -> AsyncIterator[bytes]:
        """Output as it was written."""
        job = await self._find(word)
        name = output_name(job.spec, stream, index)
        path = f"{await self.kept.folder_of(job, index, self._find, attempt)}/{name}"
        async for part in read_output(
            path,
            offset=offset,
            follow=follow,
            has_ended=lambda: self._as_it_is(job).has_ended,
            changed=lambda s: self.watchers.change_of(job.spec.id, timeout_s=s),
        ):
            yield part

    async def status(self) -> NodeStatus:
        """This node."""
        free, coordinator = self.node.ledger.free(), self.node.coordinator
        trouble = self._hands.trouble
        running = sum(1 for job in coordinator.jobs.values() if job.state == "running")
        return msgspec.structs.replace(
            self.place.status,
            id=self._me() or self.place.status.id,
            name=self._mesh.name if self._mesh else self.place.status.name,
            cpu_milli_free=free.cpu_milli,
            memory_bytes_free=free.memory_bytes,
            gpus_free_milli=sum(gpu.share_milli for gpu in free.gpus),
            jobs_waiting=coordinator.unfinished - running,
            jobs_running=running,
            troubles=(
                *self.troubles,
                *left_out(self._recovery.aside),
                *([str(trouble)] if trouble is not None else []),
            ),
        )

    def events(self, *, after: EventPlace, follow: bool = True) -> AsyncIterator[Event]:
        """Events after this one; with `follow` also those to come."""
        return self.watchers.events(after=after, follow=follow)

    def stop(self) -> None:
        """End the loop; jobs go on under the keeper, which starts a new agent."""
        self._going.set()

    async def down(self, *, stop_jobs: bool) -> None:
        """Stop, in a moment: the answer goes out first."""
        self.node.is_leaving = True
        if self._mesh is not None:
            self._mesh.is_going_down = True
            self._mesh.farewell = "leaving" if stop_jobs else self._mesh.farewell
        await self.runner.send(Quit(stop_jobs=stop_jobs))
        asyncio.get_running_loop().call_later(0.05, self._going.set)

    def metrics(self) -> bytes:
        """For Prometheus."""
        more = [*(mesh_lines(self._mesh) if self._mesh else ()), *self.more_metrics()]
        if self._luggage is not None:
            more += [*self._luggage.store.cache.metrics(), *self._luggage.bulk.metrics()]
        return metrics_text(self.node, ended=self._hands.ended, more=more)

    async def _find(self, word: str) -> Job:
        await self._hands.door.opened()
        try:
            return await listing.found(word, self.node.coordinator, self.store)
        except NotFound:
            across = self.node.across
            job = held_job(across.guarding, word) if across is not None else None
            if job is None:
                raise
            return job

    def _view(self, job: Job, *, with_story: bool = True) -> JobView:
        assert self.node.hello is not None, "nothing is served before the keeper has greeted"
        is_held = job.epoch.node and self.node.across and job.epoch.node != self.node.across.me
        home = job.epoch.node if is_held else HERE
        view = job_view(job, limits=self.node.hello.limits, with_story=with_story, home=home)
        view = self.kept.viewed(view, job) if with_story and not is_held else view
        return self._luggage.viewed(view, job) if self._luggage else view
