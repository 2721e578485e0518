"""Files leave with a job: taken when somebody names them, or when it is about to run elsewhere.

Lives here: packing at home, and putting what was packed into what other nodes are told. Never here:
how a directory is packed (`edges.artifacts`), sending it (`shipping`).
Invariant: a job whose files were named starts with them as they were at that moment; one whose
directory was not named starts elsewhere with its directory as it was after it was submitted. A
directory that may not travel is never looked at for a job that stays here.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from itertools import count
from typing import Any, Final

import msgspec

from distributed_grid.agent.looking import Looking
from distributed_grid.edges.artifacts import (
    ArtifactError,
    CacheError,
    CannotShip,
    Chunks,
    Files,
    Refused,
)
from distributed_grid.edges.artifacts import Packed as PackedFiles
from distributed_grid.errors import GridError, NotFound
from distributed_grid.kernel.jobs import Job
from distributed_grid.kernel.node import Bound, Node, NodeEvent, Noted, Packed
from distributed_grid.model.artifact import ASKED, UNASKED, Amount, ManifestId, is_id
from distributed_grid.model.ids import JobId, NodeId
from distributed_grid.model.job import JobSpec, Shipment
from distributed_grid.wire.across import Start
from distributed_grid.wire.across_api import Pack, Travelling
from distributed_grid.wire.across_api import Packed as PackedAnswer
from distributed_grid.wire.job_lane import JobMessage

HOLD_S: Final = 300.0  # What was packed waits so long for the job that it is for.
LOOKS_MAX: Final = 1_000  # Directories whose last look is remembered,
REFUSED_MS: Final = 10_000  # if it was refused, for so long.
NOTHING: Final = "nothing"
STAY_AT_HOME: Final = "links that lead outside stay at home:"


class Look(msgspec.Struct):
    """One look at a directory, for every job that was submitted before it."""

    began_ms: int
    packing: "asyncio.Task[Shipment | GridError | None]"


class SettingOut:
    """What leaves this node with its jobs."""

    def __init__(
        self,
        node: Node,
        files: Files,
        chunks: Chunks,
        *,
        clock_ms: Callable[[], int],
    ) -> None:
        self._node, self._files, self._chunks = node, files, chunks
        self._clock_ms = clock_ms
        self.looking = Looking()
        self.step: Callable[[NodeEvent], Awaitable[None]] = nothing
        self.send: Callable[[NodeId, JobMessage], None] = lambda _peer, _message: None
        self.later: Callable[[Coroutine[Any, Any, None]], None] = lambda work: work.close()
        self.bare: set[JobId] = set()  # Jobs with nothing in their directory, which nobody named.
        self.left: list[JobId] = []  # Jobs that were packed to leave: they are to be copied, too.
        self.pinned: set[tuple[ManifestId, str]] = set()  # Of jobs that `pinning` may not know yet.
        self._waiting: dict[JobId, list[tuple[NodeId, Start]]] = {}
        self._found: dict[JobId, Shipment | None] = {}  # Not told to the kernel yet.
        self._is_telling = False
        self._looks: dict[str, Look] = {}
        self._notes: dict[str, str] = {}  # For the stories of jobs that leave with these files.
        self._numbers = count()

    # Somebody names files

    async def pack(self, wanted: Pack) -> PackedAnswer:
        """Take files as they are now. Raises CannotShip, TooMuch, BadValue, BadInput."""
        if wanted.is_dry:
            return PackedAnswer(travelling=await asyncio.to_thread(self._listed, wanted))
        ship, described = None, ""
        if wanted.is_nothing:
            owner = self._owner()
            found = await asyncio.to_thread(self._files.pack_nothing, owner=owner)
            self._hold(found.id, owner)
            ship = shipment_of(found, is_named=True)
        elif wanted.paths or wanted.ship_ignored or not wanted.python_env:
            found = await self._pack(
                wanted.directory, amount_of(wanted), wanted.paths, are_sent=wanted.ship_ignored
            )
            ship = shipment_of(found, is_named=True)
        if wanted.python_env:
            owner = self._owner()
            found = await asyncio.to_thread(
                self._files.pack_recipe, wanted.directory, wanted.python_env, owner=owner
            )
            self._hold(found.id, owner)
            described = found.id
        return PackedAnswer(ship=ship, python_env=described)

    def _listed(self, wanted: Pack) -> Travelling:
        why = "you said so" if wanted.is_nothing else ""
        if not why and not wanted.paths:
            why = self._files.why_nothing(wanted.directory)
        if why:
            return Travelling(note=nothing_of(wanted.directory, why))
        return self._files.listed(
            wanted.directory,
            amount=amount_of(wanted),
            paths=wanted.paths,
            are_ignored_sent=wanted.ship_ignored,
        )

    async def _pack(
        self,
        directory: str,
        amount: Amount,
        paths: tuple[str, ...] = (),
        *,
        are_sent: bool = False,
    ) -> PackedFiles:
        owner = self._owner()
        found = await asyncio.to_thread(
            self._files.pack,
            directory,
            owner=owner,
            amount=amount,
            paths=paths,
            are_ignored_sent=are_sent,
        )
        if found.links_outside:
            self._note(found.id, f"{STAY_AT_HOME} {', '.join(found.links_outside)}")
        if found.entries:
            self._hold(found.id, owner)
        else:
            self._chunks.unpin(found.id, owner)
        return found

    async def _packed_unasked(self, directory: str) -> PackedFiles | None:
        """A directory that nobody named; None: nothing is in it, or nothing that travels."""
        is_filled = await self.looking.at(directory, self._files.may_travel)
        if is_filled is None:
            refused = [Refused(".", "its disk does not answer")]
            raise CannotShip(directory, refused=refused)
        if not is_filled:
            if why := await asyncio.to_thread(self._files.why_nothing, directory):
                self._note(directory, nothing_of(directory, why))
            return None  # Seen in a moment; what is packed leaves a trace on the disk.
        found = await self._pack(directory, UNASKED)
        return found if found.entries else None

    def _note(self, files: str, note: str) -> None:
        """What people should know of a manifest, or of a directory of which there is none."""
        if len(self._notes) >= LOOKS_MAX:
            self._notes.clear()
        self._notes[files] = note

    def _owner(self) -> str:
        return f"packed:{next(self._numbers)}"

    def _hold(self, manifest: ManifestId, owner: str) -> None:
        loop = asyncio.get_running_loop()
        loop.call_later(HOLD_S, self._chunks.unpin, manifest, owner)

    # A job is submitted

    async def taken(self, jobs: tuple[JobSpec, ...]) -> tuple[JobSpec, ...]:
        """The same jobs, with the directory of those that cannot run here. Raises as `pack`."""
        looks: dict[str, PackedFiles | None] = {}  # Those of one submission share them.
        return tuple([await self._take(spec, looks) for spec in jobs])

    async def _take(self, spec: JobSpec, looks: dict[str, PackedFiles | None]) -> JobSpec:
        known = self._node.coordinator.jobs.get(spec.id)
        if known is not None:  # Said again: it is as it was then.
            told = known.spec
            same = msgspec.structs.replace(spec, ship=told.ship, require=told.require)
            return told if same == told else spec
        for name in filter(None, (spec.ship.manifest if spec.ship else "", spec.python_env)):
            if not is_id(name) or not self._pin(ManifestId(name), spec.id):
                raise NotFound("files", name[:12])
        if spec.ship is not None or not self._must_leave(spec):
            return spec
        assert spec.work is not None, "only those with work leave"
        if spec.work.cwd not in looks:
            looks[spec.work.cwd] = await self._packed_now(spec.work.cwd)
        found = looks[spec.work.cwd]
        if found is None:
            self.bare.add(spec.id)  # As it was submitted; its start does not look again.
            return spec
        self._pin(found.id, spec.id)
        return msgspec.structs.replace(spec, ship=shipment_of(found))

    async def _packed_now(self, directory: str) -> PackedFiles | None:
        """A directory as a job is submitted: one that is not there is a slip, and not empty."""
        found = await self._packed_unasked(directory)
        if found is None and await asyncio.to_thread(self._files.is_missing, directory):
            error = CannotShip(directory, refused=[Refused(".", "there is no such directory here")])
            error.remedy = "Make it, or give --cwd one of this machine: a copy of it goes along"
            raise error
        return found

    def _must_leave(self, spec: JobSpec) -> bool:
        """Whether it will run elsewhere if it runs at all, as things are."""
        across, work = self._node.across, spec.work
        if across is None or work is None or work.is_abroad:
            return False
        return not across.may_run_here(spec) and across.could_run(spec)

    # A job begins elsewhere

    def to_peer(self, peer: NodeId, message: JobMessage) -> None:
        """Say something to another node; a start with the files that belong to it."""
        if not isinstance(message, Start):
            self.send(peer, message)
        elif not self._lacks_files(message):
            self._begin(peer, message)
        elif message.job in self._waiting:
            self._waiting[message.job].append((peer, message))
        elif message.job in self.bare:
            self._begin(peer, message)
        elif (ship := self._node.coordinator.jobs[message.job].spec.ship) is not None:
            self._begin(peer, _with(message, ship))  # Packed since this was to be said.
        else:
            self._waiting[message.job] = [(peer, message)]
            self.later(self._set_out(message.job))

    def _begin(self, peer: NodeId, message: Start) -> None:
        """Let it begin there; its story says what of its files stayed here, once."""
        self.send(peer, message)
        job, ship = self._node.coordinator.jobs.get(message.job), message.spec.ship
        if job is not None and job.spec.work is not None and self._notes:
            note = self._notes.get(ship.manifest if ship else job.spec.work.cwd)
            if note and all(line.detail != note for line in job.story):
                self.later(self._noted(message.job, note))

    async def _noted(self, job: JobId, note: str) -> None:
        await self.step(Noted(now_ms=self._clock_ms(), job=job, what="files", detail=note))

    def is_packing(self, job: JobId) -> bool:
        """Whether its start waits for its directory."""
        return job in self._waiting

    def _lacks_files(self, message: Start) -> bool:
        job = self._node.coordinator.jobs.get(message.job)
        work = job.spec.work if job is not None else None
        return work is not None and not work.is_abroad and message.spec.ship is None

    async def _set_out(self, job_id: JobId) -> None:
        """Pack the directory of a job; then say what waited for it."""
        job = self._node.coordinator.jobs.get(job_id)
        found = await self.looked(job) if job is not None else None
        if isinstance(found, GridError):
            self._waiting.pop(job_id, None)
            why = f"its directory cannot travel: {found.message}"
            await self.step(Bound(now_ms=self._clock_ms(), job=job_id, why=why))
            return
        self._found[job_id] = found
        if not self._is_telling:
            await self._tell()

    async def _tell(self) -> None:
        """What was packed stands in the records before anything begins; in one step for many."""
        self._is_telling = True
        try:
            while self._found:
                found, self._found = self._found, {}
                for ship in dict.fromkeys(found.values()):
                    jobs = tuple(job for job, one in found.items() if one == ship)
                    await self.packed(jobs, ship)
                    self.left += jobs
                for job_id, ship in found.items():
                    self._let_go(job_id, ship)
        finally:
            self._is_telling = False

    async def packed(self, jobs: tuple[JobId, ...], ship: Shipment | None) -> None:
        """Tell what is in the directory of jobs; until it is copied, it is on this machine only."""
        if ship is None:
            self.bare.update(jobs)
        known = self._node.coordinator.jobs
        news = tuple(one for one in jobs if one in known and _is_news(known[one], ship))
        if news:
            are_only_here = ship is not None
            await self.step(
                Packed(now_ms=self._clock_ms(), jobs=news, ship=ship, are_only_here=are_only_here)
            )

    def _let_go(self, job_id: JobId, ship: Shipment | None) -> None:
        waiting = self._waiting.pop(job_id, [])
        for lease in {message.lease for _, message in waiting}:  # Each once, as it was said last.
            peer, message = [one for one in waiting if one[1].lease == lease][-1]
            self._begin(peer, _with(message, ship))

    async def looked(self, job: Job) -> Shipment | GridError | None:
        """A look at its directory that began after it was submitted; jobs share it."""
        assert job.spec.work is not None, "it is about to begin"
        directory = job.spec.work.cwd
        for _ in range(2):
            look = self._looks.get(directory)
            if look is None or look.began_ms <= job.submitted_ms or self._is_over(look):
                if len(self._looks) >= LOOKS_MAX:
                    self._looks.clear()
                packing = asyncio.get_running_loop().create_task(self._look(directory))
                look = self._looks[directory] = Look(self._clock_ms(), packing)
            found = await asyncio.shield(look.packing)
            if not isinstance(found, Shipment):
                return found
            try:
                if self._pin(ManifestId(found.manifest), job.spec.id):
                    return found
            except CacheError as error:
                return error
            self._looks.pop(directory, None)  # It was long ago, and has made room for others.
        return NotFound("files", directory)

    def _is_over(self, look: Look) -> bool:
        """Whether it went badly a while ago: what may not travel may be gone by now."""
        packing = look.packing
        if not packing.done() or packing.cancelled() or packing.exception() is not None:
            return False
        is_old = self._clock_ms() - look.began_ms > REFUSED_MS
        return is_old and isinstance(packing.result(), GridError)

    async def _look(self, directory: str) -> Shipment | GridError | None:
        try:
            found = await self._packed_unasked(directory)
        except ArtifactError as error:
            return error
        return shipment_of(found) if found is not None else None

    def _pin(self, manifest: ManifestId, job: JobId) -> bool:
        self.pinned.add((manifest, pin_of(job)))
        return self._chunks.pin(manifest, pin_of(job))

    def forget(self, job: JobId) -> None:
        """It has ended."""
        self.bare.discard(job)


async def nothing(event: NodeEvent) -> None:
    """What follows before somebody is there to tell."""


def nothing_of(directory: str, why: str) -> str:
    """What people are told of a job that leaves without files."""
    return f"{NOTHING} of {directory} travels ({why}): it starts in an empty directory"


def amount_of(wanted: Pack) -> Amount:
    """How much may travel: more, if somebody said what."""
    return ASKED if wanted.paths or wanted.ship_ignored else UNASKED


def shipment_of(found: PackedFiles, *, is_named: bool = False) -> Shipment:
    """What of it goes into a job's specification."""
    return Shipment(
        manifest=found.id, size_bytes=found.content_bytes, files=found.files, is_named=is_named
    )


def manifests_of(spec: JobSpec) -> tuple[ManifestId, ...]:
    """What travels with a job; what cannot be the name of anything is left out."""
    named = (spec.ship.manifest if spec.ship else "", spec.python_env)
    return tuple(ManifestId(name) for name in named if is_id(name))


def pin_of(job: JobId) -> str:
    """Who keeps the files of a job at its home, and wherever its record is."""
    return f"job:{job}"


def _is_news(job: Job, ship: Shipment | None) -> bool:
    """Whether its record does not say so already."""
    return bool(job.rooted) if ship is None else job.spec.ship is None


def _with(message: Start, ship: Shipment | None) -> Start:
    if ship is None:
        return message
    spec = msgspec.structs.replace(message.spec, ship=ship)
    return msgspec.structs.replace(message, spec=spec)
