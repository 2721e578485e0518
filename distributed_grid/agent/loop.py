"""The loop: wait for the world, step the kernel, carry out what it says, in the order it says.

Lives here: the order of durable writes, messages and wake-ups. Never here: deciding anything.
Invariant: nothing is told to anyone before what it rests on is durable.
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, Final

import msgspec

from distributed_grid.agent import listing
from distributed_grid.agent.logs import read_output
from distributed_grid.agent.maps import Maps
from distributed_grid.agent.mesh import MeshSide
from distributed_grid.agent.mesh_desk import MeshDesk
from distributed_grid.agent.mesh_metrics import mesh_lines
from distributed_grid.agent.metrics import metrics_text
from distributed_grid.agent.records import job_of, lease_of, writes_of
from distributed_grid.agent.sharing import NOWHERE, Sharing, Surroundings
from distributed_grid.agent.tidying import remove_folder, remove_output
from distributed_grid.agent.watchers import Watchers
from distributed_grid.edges.runner import Report, Runner
from distributed_grid.edges.store import ForgetFinished, JobFilter, SetMeta, Store, StoreError
from distributed_grid.errors import BadValue
from distributed_grid.kernel.explaining import explain
from distributed_grid.kernel.jobs import Job
from distributed_grid.kernel.launching import Paths, checkpoint_dir, output_dir
from distributed_grid.kernel.node import Cancel, Met, Node, NodeEvent, Reports, Submit, Tick
from distributed_grid.kernel.ready import Happened, Ready
from distributed_grid.kernel.views import job_view
from distributed_grid.model.booking import Booking
from distributed_grid.model.ids import JobId
from distributed_grid.model.job import JobSpec
from distributed_grid.wire.api import Event, Explanation, Jobs, JobView, NodeStatus, Submitted
from distributed_grid.wire.keeper import Quit, Run, Stop
from distributed_grid.wire.sharing import ChangeOffers, Queue, SharingStatus

TICK_S: Final = 1.0  # Dates, the owner, a full store, tidying: a second more or less is fine.
TIDY_TICKS: Final = 300  # Old jobs are forgotten every five minutes.
RETRY_S: Final = 1.0  # A full disk is looked at again this often.


NO_INDEX: Final = -1  # Where an index of an array could stand.

# The named points of carrying something out; tests stop the agent at each of them.
STEPS: Final = ("stepped", "saved", "told", "woken")


def no_step(name: str) -> None:
    """What happens at a named point: nothing, unless a test wants otherwise."""


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
    ) -> None:
        self.node = node
        self.store = store
        self.runner = runner
        self.place = place
        self.watchers = watchers or Watchers()
        self._mesh = mesh
        self._desk = MeshDesk(mesh) if mesh else None
        self.maps = Maps(node.coordinator, submit=self.submit, cancel=self._cancel)
        self._sharing = Sharing(
            node, name=place.status.name, clock_ms=clock_ms, step=self._decide, around=around
        )
        self._clock_ms = clock_ms
        self._at_step = at_step
        self._going = asyncio.Event()
        self._trouble: StoreError | None = None  # While the store cannot write.
        self._ended: Counter[str] = Counter()
        self._tasks: asyncio.TaskGroup | None = None
        self._beside: set[asyncio.Task[None]] = set()
        self._unsaved: Counter[JobId] = Counter()  # Being written: nobody is told their end yet.

    async def restore(self) -> None:
        """Begin where the store left off."""
        remembered = await self.store.load_all()
        jobs = [job_of(row) for row in remembered.jobs]
        leases = {lease: lease_of(record) for lease, record in remembered.leases.items()}
        self.node.restore(jobs, leases, remembered.meta)
        if self._mesh is not None:
            self._mesh.restore(remembered.meta)

    async def run(self) -> None:
        """Until somebody says `down`, or the keeper is gone."""
        await self._meet()
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            listening = tasks.create_task(self._listen())
            ticking = tasks.create_task(self._tick())
            looking = tasks.create_task(self._sharing.look_after_owner())
            meshing = tasks.create_task(self._mesh.run()) if self._mesh else listening
            await self._going.wait()
            for task in (listening, ticking, looking, meshing, *self._beside):
                task.cancel()
        self.watchers.close()
        self.maps.close_all()

    @property
    def mesh(self) -> MeshDesk:
        """The other machines."""
        assert self._desk is not None, "this agent was plugged into none"
        return self._desk

    async def _meet(self) -> None:
        """Greet the keeper: what it repeats and what it runs, before anything is started."""
        hello = self.runner.hello
        repeated: list[Report] = []
        while len(repeated) < hello.unacknowledged and (more := await self.runner.receive()):
            repeated += more
        await self._step(Met(now_ms=self._clock_ms(), hello=hello, reports=tuple(repeated)))
        self.watchers.publish(Happened(name="agent.started", at_ms=self._clock_ms()))

    async def _listen(self) -> None:
        while reports := await self.runner.receive():
            ends = self.maps.ends(reports)
            await self._step(Reports(now_ms=self._clock_ms(), reports=reports))
            self.maps.ended(ends)
        self._going.set()  # The keeper is gone, and its jobs with it; the next one starts us anew.

    async def _tick(self) -> None:
        ticks = 0
        while True:
            await asyncio.sleep(TICK_S)
            await self._step(Tick(now_ms=self._clock_ms()))
            if self._trouble is not None:
                await self._try_store()
            ticks += 1
            if ticks % TIDY_TICKS == 0 and self._trouble is None:
                await self._tidy()

    async def _try_store(self) -> None:
        """Whether the store can write again."""
        with contextlib.suppress(StoreError):
            await self.store.commit([SetMeta("tried_ms", str(self._clock_ms()).encode())])
            self._trouble = None

    async def _tidy(self) -> None:
        """Forget the oldest finished jobs, and their output with them."""
        with contextlib.suppress(StoreError):  # The next time will do.
            await self.store.commit([ForgetFinished(self.place.finished_jobs_max)])
            paths = self.place.paths
            for root in filter(None, (paths.output_root, paths.checkpoint_root)):
                await remove_output(root, self.node.coordinator.jobs, self.store)

    async def _step(self, event: NodeEvent) -> None:
        await self._carry_out(self.node.step(event))

    async def _carry_out_all(self, readies: list[Ready]) -> None:
        for ready in readies:
            await self._carry_out(ready)

    async def _carry_out(self, ready: Ready) -> None:
        while True:
            try:
                await self._save(ready, is_urgent=self._is_awaited(ready))
                break
            except StoreError:
                await asyncio.sleep(RETRY_S)  # Nothing goes on before it is durable.
        await self._tell(ready)

    def _is_awaited(self, ready: Ready) -> bool:
        """Whether a slot idles, or somebody waits, until this is saved."""
        starts = any(isinstance(message, Run) for message in ready.tell)
        return starts or any(self.watchers.is_awaited(job) for job in ready.changed)

    async def _tell(self, ready: Ready) -> None:
        """What follows once everything is durable: messages, then wake-ups, then events."""
        for message in ready.tell:
            await self.runner.send(message)
        self._at_step("told")
        for job in ready.changed:
            self.watchers.wake(job)
        self.maps.changed(ready.changed)
        for happened in ready.happened:
            if happened.name == "job.ended":
                self._ended[happened.fields["state"]] += 1
                self._forget_checkpoint(ready, happened)
            self.watchers.publish(happened)
        self._at_step("woken")

    def _forget_checkpoint(self, ready: Ready, happened: Happened) -> None:
        """What a job saved for its next attempt, when there is none."""
        job = ready.save_jobs.get(happened.job) if happened.job else None
        if job is not None and (folder := checkpoint_dir(self.place.paths, job)):
            self._later(remove_folder(folder))

    async def _save(self, ready: Ready, *, is_urgent: bool = True) -> None:
        self._at_step("stepped")
        writes = writes_of(ready, self.node)
        if not writes:
            return
        self._unsaved.update(ready.save_jobs.keys())
        try:
            await self.store.commit(writes, is_urgent=is_urgent)
        except StoreError as error:
            self._trouble = error
            raise
        finally:
            self._unsaved.subtract(ready.save_jobs.keys())
            self._unsaved += Counter()  # Drops the zeros.
        self._trouble = None
        self._at_step("saved")

    # Operations

    async def submit(self, jobs: tuple[JobSpec, ...]) -> Submitted:
        """Take jobs; returns when they are durable."""
        if self._trouble is not None:
            raise self._trouble
        await self._recall({after.job for spec in jobs for after in spec.after})
        ready = self.node.step(Submit(now_ms=self._clock_ms(), jobs=jobs))
        try:
            await self._save(ready)
        except StoreError:
            # They were not acknowledged: as far as possible they shall not run. One after the
            # other: a keeper does not know an attempt that is to stop before it was started.
            refused = sorted({spec.id for spec in jobs} & set(ready.save_jobs))
            now_ms = self._clock_ms()
            cancels = [self.node.step(Cancel(now_ms=now_ms, job=job)) for job in refused]
            self._later(self._carry_out_all([ready, *cancels]))
            raise
        await self._tell(ready)
        return Submitted(ids=tuple(spec.id for spec in jobs))

    async def _recall(self, wanted: set[JobId]) -> None:
        """Bring finished jobs back from the store that new ones come after."""
        known = self.node.coordinator.jobs
        for job in sorted(job for job in wanted if job not in known):
            if row := await self.store.job(job):
                self.node.coordinator.recall(job_of(row))

    async def jobs(self, *, state: str, name: str, user: str, limit: int, before_ms: int) -> Jobs:
        """A page of jobs, newest first."""
        matching = JobFilter(
            states=(state,) if state else None, name=name or None, user=user or None
        )
        found, more = await listing.page(
            self.node.coordinator, self.store, matching=matching, limit=limit, before_ms=before_ms
        )
        return Jobs(jobs=tuple(self._view(job, with_story=False) for job in found), more=more)

    async def job(self, word: str) -> JobView:
        """One job, whole."""
        return self._view(await self._find(word))

    async def wait(self, word: str, *, timeout_ms: int) -> JobView:
        """The job once it has ended, or as it is when the time is over."""
        job = await self._find(word)
        await self._end_of(job, asyncio.get_running_loop().time() + timeout_ms / 1_000)
        return self._view(job)

    async def wait_many(self, words: tuple[str, ...], *, timeout_ms: int) -> Jobs:
        """Those of the jobs that have ended: all, or as many as the time allows."""
        jobs = [await self._find(word) for word in words]
        until_s = asyncio.get_running_loop().time() + timeout_ms / 1_000
        over = [job for job in jobs if await self._end_of(job, until_s)]
        views = tuple(self._view(job, with_story=False) for job in over)
        return Jobs(jobs=views, more=len(over) < len(jobs))

    async def _end_of(self, job: Job, until_s: float) -> bool:
        """Wait until the job has ended, and that is saved; whether it has in time."""
        if job.has_ended and job.spec.id in self._unsaved:
            await self.store.commit([])  # Its end waits for company to be saved with: here it is.
        while not job.has_ended or job.spec.id in self._unsaved:
            left_s = until_s - asyncio.get_running_loop().time()
            if left_s <= 0 or not await self.watchers.change_of(job.spec.id, timeout_s=left_s):
                return False
        return True

    async def cancel(self, word: str) -> JobView:
        """The job, cancelled or being cancelled."""
        job = await self._find(word)
        if job.spec.id in self.node.coordinator.jobs:
            await self._cancel(job.spec.id)
        return self._view(job)

    async def _cancel(self, job: JobId) -> None:
        ready = self.node.step(Cancel(now_ms=self._clock_ms(), job=job))
        try:
            await self._save(ready)
        except StoreError:
            # What fills the disk may be this very job: it stops now, and that is written later.
            for message in ready.tell:
                if isinstance(message, Stop):
                    await self.runner.send(message)
            self._later(self._carry_out(ready))
            return
        await self._tell(ready)

    async def explain(self, word: str) -> Explanation:
        """Why it is where it is."""
        return explain(self.node.coordinator, await self._find(word), self._clock_ms())

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

    async def _decide(self, event: NodeEvent) -> None:
        """Carry out what somebody wants; returns when it is durable."""
        if self._trouble is not None:
            raise self._trouble
        ready = self.node.step(event)
        try:
            await self._save(ready)
        except StoreError:
            self._later(self._carry_out(ready))  # It has happened; it is written when it can be.
            raise
        await self._tell(ready)

    async def logs(
        self, word: str, *, stream: str, index: int, follow: bool, offset: int
    ) -> AsyncIterator[bytes]:
        """Output as it was written."""
        job = await self._find(word)
        if job.spec.array is not None and index not in job.spec.array.indices:
            raise BadValue(index, expected="an index of the array", remedy="Give one with --index")
        if job.spec.array is None and index != NO_INDEX:
            raise BadValue(index, expected="no index: it is no array", remedy="Leave --index out")
        name = stream if job.spec.array is None else f"{index}.{stream}"
        path = f"{output_dir(self.place.paths, job)}/{name}"
        async for part in read_output(
            path,
            offset=offset,
            follow=follow,
            has_ended=lambda: job.has_ended,
            changed=lambda s: self.watchers.change_of(job.spec.id, timeout_s=s),
        ):
            yield part

    async def status(self) -> NodeStatus:
        """This node."""
        free, coordinator = self.node.ledger.free(), self.node.coordinator
        running = sum(1 for job in coordinator.jobs.values() if job.state == "running")
        return msgspec.structs.replace(
            self.place.status,
            id=self._mesh.mesh.me if self._mesh and self._mesh.is_member else "",
            name=self._mesh.name if self._mesh else self.place.status.name,
            cpu_milli_free=free.cpu_milli,
            memory_bytes_free=free.memory_bytes,
            gpus_free_milli=sum(gpu.share_milli for gpu in free.gpus),
            jobs_waiting=coordinator.unfinished - running,
            jobs_running=running,
        )

    def events(self, *, after: int, follow: bool = True) -> AsyncIterator[Event]:
        """Events with a higher number than this; with `follow` also those to come."""
        return self.watchers.events(after=after, follow=follow)

    def stop(self) -> None:
        """End the loop; jobs go on under the keeper, which starts a new agent."""
        self._going.set()

    async def down(self, *, stop_jobs: bool) -> None:
        """Stop, in a moment: the answer goes out first."""
        self.node.is_leaving = True
        await self.runner.send(Quit(stop_jobs=stop_jobs))
        asyncio.get_running_loop().call_later(0.05, self._going.set)

    def metrics(self) -> bytes:
        """For Prometheus."""
        more = mesh_lines(self._mesh) if self._mesh else ()
        return metrics_text(self.node, ended=self._ended, more=more)

    async def _find(self, word: str) -> Job:
        return await listing.found(word, self.node.coordinator, self.store)

    def _view(self, job: Job, *, with_story: bool = True) -> JobView:
        assert self.node.hello is not None, "nothing is served before the keeper has greeted"
        return job_view(job, limits=self.node.hello.limits, with_story=with_story)

    def _later(self, work: Coroutine[Any, Any, None]) -> None:
        """Run something beside the loop, in its group, so that it ends with it."""
        assert self._tasks is not None, "only while the loop runs"
        task = self._tasks.create_task(work)
        self._beside.add(task)
        task.add_done_callback(self._beside.discard)
