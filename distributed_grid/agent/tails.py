"""The end of what a job wrote on another node, brought to its home: so it outlives that machine.

What it wrote at its home is brought to the first of its guardians, by the same way.
Lives here: who is asked when, and what it answers. Never here: files (`kept_output`,
`logs`), questions themselves (`questions`).
Invariant: nobody waits for this; what waits to be brought is bounded, and given up for newer ones.
"""

import asyncio
import os
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import msgspec

from distributed_grid.agent.kept_output import Away, KeptOutput
from distributed_grid.agent.logs import output_name, read_tail
from distributed_grid.agent.questions import Asker
from distributed_grid.agent.records import jobs_of
from distributed_grid.agent.remote import Remote
from distributed_grid.edges.store import JobFilter, Store
from distributed_grid.errors import BadValue, GridError
from distributed_grid.kernel.accounts import LIMITS, ByteAccounts
from distributed_grid.kernel.across.record import has_ended
from distributed_grid.kernel.across.record_jobs import job_of as held_job_of
from distributed_grid.kernel.jobs import Attempt, Job
from distributed_grid.kernel.launching import Paths, output_dir
from distributed_grid.kernel.node import Node
from distributed_grid.model.ids import JobId, NodeId
from distributed_grid.wire.mesh import JUNK
from distributed_grid.wire.questions import Question
from distributed_grid.wire.tails import (
    ANSWER_BYTES,
    ANSWER_BYTES_MAX,
    STREAMS,
    TAIL_BYTES,
    TAILS,
    TOGETHER_MAX,
    AskTails,
    Stream,
    Tail,
    TailOf,
    Tails,
)

LINGER_S: Final = 1.0  # Jobs that end within a second are asked for together.
AGAIN_S: Final = 10.0  # An owner that did not answer has other worries.
TRIES_MAX: Final = 30  # Five minutes of wrong answers: an older version has none.
AT_ONCE: Final = 4  # Owners that are asked at a time: 8 MiB in memory.
WANTED_MAX: Final = 10_000  # As many as a store keeps finished jobs; some 5 MB.
RECALLED_MAX: Final = 1_000  # Looked at after a start: those of its last moments are among them.
NO_NODE: Final = NodeId("")  # Its own jobs are on nobody's account.
SLICE: Final = 50  # Of them at a time: a few milliseconds.


class _Wanted:
    """A copy that is to be made."""

    def __init__(self, found: Away, called: str, sender: NodeId) -> None:
        self.host, self.folder, self.sender = found.attempt.host, found.folder, sender
        self.of = TailOf(called, found.index)
        self.due_s, self.tries = 0.0, 0


class TailKeeper:
    """A home's side: asks for what its jobs wrote elsewhere, once they have ended."""

    def __init__(
        self,
        node: Node,
        store: Store,
        kept: KeptOutput,
        remote: Remote,
        *,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._node, self._store, self._kept, self._remote = node, store, kept, remote
        self._clock_s = clock_s
        self._wanted: dict[str, _Wanted] = {}  # By the folder of the copy, the oldest first.
        self._accounts = ByteAccounts(LIMITS["logs"])
        self._sizes: dict[str, tuple[NodeId, int]] = {}  # Of copies of other homes' jobs.
        self._news = asyncio.Event()

    def changed(self, jobs: Iterable[JobId]) -> None:
        """Something happened to these, and is durable."""
        known = self._node.coordinator.jobs
        for job_id in jobs:
            job = known.get(job_id)
            is_tried_again = job is not None and job.progress is None and len(job.attempts) > 1
            if job is not None and (job.has_ended or is_tried_again):
                self._want(job)

    def held(self, jobs: Iterable[JobId]) -> None:
        """Records of other homes' jobs were written here.

        Of one that ran at its home nobody else has what it wrote: the first of its guardians keeps
        the end of it.
        """
        across = self._node.across
        if across is None:
            return
        for job_id in jobs:
            goes_on = job_id in across.guarding.shelf.unfinished
            record = None if goes_on else across.guarding.find(job_id)
            if record is None or record.is_summary or not has_ended(record):
                continue
            if record.home == across.me or record.guardians[:1] != (across.me,):
                continue
            if not self._has_room(sender := self._node.sender_of(job_id)):
                continue
            job = held_job_of(record)
            for found in self._kept.lacking(job):
                if found.attempt.host == record.home:
                    self._bring(found, _called(job, found.attempt), sender)

    def _has_room(self, sender: NodeId) -> bool:
        """Whether one more may be kept for it; what was removed since makes room."""
        rank = self._node.rank_of(sender)
        if not self._accounts.has_room(sender, rank, 1):
            for folder in [one for one in self._sizes if not os.path.isdir(one)]:  # noqa: PTH112
                self._charge(folder, sender, 0)
        return self._accounts.has_room(sender, rank, 1)

    def _charge(self, folder: str, sender: NodeId, size: int) -> None:
        on_whose, before = self._sizes.pop(folder, (sender, 0))
        self._accounts.add(on_whose, -before)
        self._accounts.add(sender, size)
        if size:
            self._sizes[folder] = (sender, size)

    async def run(self) -> None:
        """For ever."""
        if self._node.across is not None:
            await self._recall()
        while True:
            self._news.clear()
            if not self._wanted:
                await self._news.wait()
            await asyncio.sleep(LINGER_S)
            if not await self._ask_all():
                await self._pause()

    def __len__(self) -> int:
        return len(self._wanted)

    def _want(self, job: Job) -> None:
        if job.is_guest:
            return
        for found in self._kept.lacking(job):
            self._bring(found, found.attempt.lease)

    def _bring(self, found: Away, called: str, sender: NodeId = NO_NODE) -> None:
        """Have a copy made of what is called so where it was written."""
        if found.folder in self._wanted:
            return
        self._wanted[found.folder] = _Wanted(found, called, sender)
        self._news.set()
        if len(self._wanted) > WANTED_MAX:
            del self._wanted[next(iter(self._wanted))]

    async def _recall(self) -> None:
        """Those that ended shortly before this agent started, and what is kept for others."""
        shelf = self._node.across.guarding.shelf if self._node.across is not None else None
        for one in list(shelf.whole()) if shelf is not None else ():
            if shelf is not None and one.job not in shelf.unfinished:
                for folder, size in await asyncio.to_thread(self._kept.sizes, one.job):
                    self._charge(folder, one.sender, size)
        rows = await self._store.jobs(JobFilter(is_finished=True), limit=RECALLED_MAX)
        for at, job in enumerate(jobs_of(rows)[0]):
            self._want(job)
            if at % SLICE == 0:
                await asyncio.sleep(0)

    async def _pause(self) -> None:
        """Until there is something new, or those that did not answer may be asked again."""
        try:
            async with asyncio.timeout(AGAIN_S):
                await self._news.wait()
        except TimeoutError:
            pass

    async def _ask_all(self) -> bool:
        """Everyone who can be asked now; whether there was anyone."""
        live, now_s = self._remote.around.live, self._clock_s()
        of: dict[NodeId, list[_Wanted]] = {}
        for one in self._wanted.values():
            if one.host in live and one.due_s <= now_s:
                of.setdefault(one.host, []).append(one)
        turns = asyncio.Semaphore(AT_ONCE)

        async def ask(host: NodeId, wanted: list[_Wanted]) -> None:
            async with turns:
                await self._ask(host, wanted)

        async with asyncio.TaskGroup() as tasks:
            for host, wanted in of.items():
                tasks.create_task(ask(host, wanted))
        return bool(of)

    async def _ask(self, host: NodeId, wanted: list[_Wanted]) -> None:
        """One question after the other, until all of it is here or something is wrong."""
        while wanted:
            now = wanted[:TOGETHER_MAX]
            try:
                told = await self._told(host, [one.of for one in now])
            except (GridError, *JUNK):
                for one in wanted:
                    self._put_off(one)
                return
            name = self._remote.around.name_of(host)
            unkept = await asyncio.to_thread(_keep_all, now, told, name)
            for one, tail in zip(now, told, strict=False):
                if one in unkept:
                    self._put_off(one)
                    continue
                self._wanted.pop(one.folder, None)
                if one.sender:
                    size = sum(len(stream.data) for stream in tail.streams)
                    self._charge(one.folder, one.sender, size)
            wanted = wanted[len(told) :]

    async def _told(self, host: NodeId, asked: list[TailOf]) -> Sequence[Tail]:
        body = msgspec.msgpack.encode(AskTails(tuple(asked)))
        said = await self._remote.ask_bytes(host, TAILS, {}, body, bytes_max=ANSWER_BYTES_MAX)
        told = msgspec.msgpack.decode(said, type=Tails).tails
        if not told or [one.of for one in told] != asked[: len(told)]:
            raise BadValue(len(told), expected="what was asked for", remedy="It is asked again")
        return told

    def _put_off(self, one: _Wanted) -> None:
        one.tries += 1
        one.due_s = self._clock_s() + AGAIN_S
        if one.tries >= TRIES_MAX:
            self._wanted.pop(one.folder, None)


class TailAnswers:
    """The other side: says what it has of jobs that it ran, for others or as their home."""

    def __init__(self, node: Node, store: Store, paths: Paths) -> None:
        self._node, self._store, self._paths = node, store, paths

    async def answer(self, asker: Asker, question: Question) -> bytes:
        """The ends of what these wrote."""
        try:
            wanted = msgspec.msgpack.decode(question.body, type=AskTails).of
        except JUNK as error:
            raise BadValue(str(error)[:100], expected="an AskTails", remedy="Ask again") from None
        paths = [await self._paths_of(asker, one) for one in wanted]
        return await asyncio.to_thread(_read_all, wanted, paths)

    async def _paths_of(self, asker: Asker, wanted: TailOf) -> tuple[str, ...]:
        """The files of its streams; none: it is unknown, or none of the asker's business."""
        job = await self._job(wanted.lease)
        if job is None or not job.has_ended or not self._is_theirs(asker, job):
            return ()
        try:
            names = [output_name(job.spec, stream, wanted.index) for stream in STREAMS]
        except BadValue:
            return ()
        return tuple(f"{output_dir(self._paths, job)}/{name}" for name in names)

    async def _job(self, called: str) -> Job | None:
        """A guest by its lease, or a job of this node by its id."""
        job = self._node.coordinator.jobs.get(JobId(called))
        if job is None and (row := await self._store.job(called)):
            job = next(iter(jobs_of([row])[0]), None)
        return job

    def _is_theirs(self, asker: Asker, job: Job) -> bool:
        """Members read each other's output; guests of the mesh that of their own jobs.

        What this node's own wrote is for those who look after it next.
        """
        origin = job.spec.origin
        if not job.is_guest:
            return asker.node in job.guardians
        return not asker.is_guest or (origin is not None and origin.home == asker.node)


def _called(job: Job, attempt: Attempt) -> str:
    """What an attempt is called at the job's home: as the job, unless it was a guest there."""
    is_guest = job.spec.gang > 1 or attempt.host != attempt.epoch.node
    return attempt.lease if is_guest else job.spec.id


def _keep_all(wanted: Sequence[_Wanted], told: Sequence[Tail], node: str) -> list[_Wanted]:
    """Write the copies of those that were told of; answers which could not be written."""
    unkept = []
    for one, tail in zip(wanted, told, strict=False):
        if tail.is_known:
            try:
                KeptOutput.keep(one.folder, one.of.index, tail.streams, node=node)
            except OSError:  # Its disk is full, say: the next one may be shorter.
                unkept.append(one)
    return unkept


def _read_all(wanted: Sequence[TailOf], paths: Sequence[tuple[str, ...]]) -> bytes:
    tails: list[Tail] = []
    left = ANSWER_BYTES
    for one, files in zip(wanted, paths, strict=True):
        streams = _streams(files)
        left -= sum(len(stream.data) for stream in streams)
        if left < 0 and tails:
            break
        tails.append(Tail(one, streams, is_known=bool(files)))
    return msgspec.msgpack.encode(Tails(tuple(tails)))


def _streams(files: Sequence[str]) -> tuple[Stream, ...]:
    found = zip(STREAMS, (read_tail(path, TAIL_BYTES) for path in files), strict=False)
    return tuple(Stream(name, start, data) for name, (start, data) in found if data)
