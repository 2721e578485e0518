"""Directories that nobody named get to a second machine: small ones at once, others soon.

Lives here: which jobs that is about, when their directories are looked at, when they are safe.
Never here: packing (`setting_out`), copying (`pinning`), what follows for a job
(`kernel.across.rooting`).
Invariant: a submission waits for this a second at most, and only if its directory is small; a
directory is looked at once for all jobs that were submitted before, and rests between two looks.
One that does not answer, because its disk is gone, holds up no other.
"""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Iterable
from itertools import islice
from typing import Any, Final

from distributed_grid.agent.pace import Rest
from distributed_grid.agent.pinning import SMALL_BYTES, SMALL_S, Pinning
from distributed_grid.agent.setting_out import SettingOut
from distributed_grid.edges.artifacts import Files
from distributed_grid.errors import GridError
from distributed_grid.kernel.across.rooting import is_rootable
from distributed_grid.kernel.jobs import Job
from distributed_grid.kernel.node import Node, Packed
from distributed_grid.model.artifact import Amount
from distributed_grid.model.ids import JobId
from distributed_grid.model.job import JobSpec, Shipment

# Such a directory is on a second machine before its job is acknowledged, if that takes no longer.
SMALL: Final = Amount(bytes_max=SMALL_BYTES, files_max=1_000)
LARGE_MS: Final = 60_000  # One that is not small is not measured again so soon.
STEP_S: Final = 0.01  # Who waits looks so often whether its job has ended: then nobody needs it.
YOUNG_MS: Final = 1_000  # Most others have ended after a second, and cost nobody a look.
LOOK_S: Final = 0.5  # Between two looks at who is due, or safe by now.
REST: Final = 10  # A directory rests so many times as long as it took to look at it,
SMALL_REST: Final = 2  # or so many, if it is small: a loop of a shell submits less often than that.
FILLED_S: Final = 1.0  # Who was not empty is not looked into again by the next submissions.
FILLED_MAX: Final = 1_000  # Directories of which that is known.
TOGETHER_MAX: Final = 64  # Jobs at a time: others get their turn after some milliseconds,
PAUSE_S: Final = 0.1  # and so much time.
PACKED_MAX: Final = 1_024  # Jobs of one directory; then it is the turn of the next one.
TOLD_MAX: Final = 256  # Jobs whose copies are told at each look: 512 a second, each a new record,
BUSY_MS: Final = 2_000  # or `TOGETHER_MAX` while others are being submitted: those come first.
AGAIN_MS: Final = 60_000  # What may not travel now may do so later: a pipe goes, a file rests.


class Transplanting:
    """What becomes of the directories of this node's jobs."""

    def __init__(
        self,
        node: Node,
        setting_out: SettingOut,
        pinning: Pinning,
        files: Files,
        *,
        clock_ms: Callable[[], int],
    ) -> None:
        self._node, self._setting_out, self._pinning = node, setting_out, pinning
        self._files, self._clock_ms = files, clock_ms
        self._looking = setting_out.looking
        self._due: dict[str, dict[JobId, None]] = {}  # By directory, the oldest first: not packed.
        self._copying: dict[JobId, Shipment] = {}  # Packed, and not known to be elsewhere.
        # Directories, until when they are not looked at; and when they were looked at last.
        self._rests: dict[str, tuple[int, int]] = {}
        self._filled: dict[str, float] = {}  # Directories that were not empty, until when.
        self._large: dict[str, int] = {}  # Directories that are not small, until when.
        self._heard_ms = 0  # When somebody submitted last.
        self.beside: Callable[[Coroutine[Any, Any, None]], None] = lambda work: work.close()
        self.rest: Rest = asyncio.sleep  # Between two looks.

    # Jobs are submitted

    async def rooted(self, jobs: Iterable[JobSpec]) -> frozenset[JobId]:
        """Those of new jobs that have a directory to speak of, in a mesh."""
        if self._node.across is None:
            return frozenset()
        self._heard_ms = self._clock_ms()
        bare = self._setting_out.bare  # Those were just looked at.
        found = [spec for spec in jobs if is_rootable(spec) and spec.id not in bare]
        directories = list(dict.fromkeys(_directory(spec) for spec in found))
        filled = await asyncio.gather(*map(self._is_filled, directories))
        full = {one for one, is_filled in zip(directories, filled, strict=True) if is_filled}
        return frozenset(spec.id for spec in found if _directory(spec) in full)

    async def _is_filled(self, directory: str) -> bool:
        now_s = asyncio.get_running_loop().time()
        if self._filled.get(directory, 0.0) > now_s:
            return True
        # What does not answer may have something: then its job stays here, for now.
        is_filled = await self._looking.at(directory, self._files.may_travel) is not False
        if is_filled:
            if len(self._filled) >= FILLED_MAX:
                self._filled.clear()
            self._filled[directory] = now_s + FILLED_S
        return is_filled

    def submitted(self, jobs: Iterable[JobId]) -> None:
        """They were taken: in a moment, if they have not ended by then, they are looked after."""
        for job_id in jobs:
            job = self._rooted(job_id)
            if job is not None and job.spec.ship is not None:
                self._copying[job_id] = job.spec.ship
            elif job is not None:
                self._due.setdefault(_directory(job.spec), {})[job_id] = None

    async def hastened(self, jobs: frozenset[JobId]) -> bool:
        """Before somebody is told that these were taken: small directories get to a second machine.

        False: one of them is on this machine only, for now.
        """
        if len(jobs) > TOGETHER_MAX:
            return False
        over, loop = asyncio.Event(), asyncio.get_running_loop()
        self.beside(self._hasten(jobs, over))
        until_s = loop.time() + SMALL_S
        while not over.is_set() and any(map(self._rooted, jobs)) and loop.time() < until_s:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(over.wait(), STEP_S)
        return not any(map(self._rooted, jobs))

    async def _hasten(self, jobs: frozenset[JobId], over: asyncio.Event) -> None:
        try:
            rooted = [job for one in sorted(jobs) if (job := self._rooted(one)) is not None]
            for directory in dict.fromkeys(_directory(job.spec) for job in rooted):
                some = [job for job in rooted if _directory(job.spec) == directory]
                await self._hasten_in(directory, some)
        finally:
            over.set()

    async def _hasten_in(self, directory: str, jobs: list[Job]) -> None:
        began_ms = self._clock_ms()
        is_resting = self._rests.get(directory, (0, 0))[0] > began_ms
        if is_resting or not await self._is_small(directory):
            return
        jobs = [job for job in jobs if self._rooted(job.spec.id) and job.spec.ship is None]
        if not jobs:
            return  # Over by now, or packed because they begin elsewhere.
        self._rests[directory] = (began_ms + AGAIN_MS, 0)  # Nobody else looks meanwhile.
        why = await self._pack_some(jobs)
        now_ms = self._clock_ms()
        rest_ms = SMALL_REST * (now_ms - began_ms) if not why else AGAIN_MS
        self._rests[directory] = (now_ms + rest_ms, 0 if why else began_ms)
        for job in jobs:
            ship = self._copying.get(job.spec.id)
            if ship is not None and self._rooted(job.spec.id) is not None:
                await self._pinning.arrived(job, ship)
        await self._tell_copied()

    async def _is_small(self, directory: str) -> bool:
        if self._large.get(directory, 0) > self._clock_ms():
            return False
        measured = await self._looking.at(directory, lambda one: self._files.is_within(one, SMALL))
        is_small = measured is True
        if not is_small:
            if len(self._large) >= FILLED_MAX:
                self._large.clear()
            self._large[directory] = self._clock_ms() + LARGE_MS
        return is_small

    # Meanwhile

    async def run(self) -> None:
        """For ever."""
        known = None
        while True:
            if self._node.across is not known:  # After a start, or new in a mesh.
                known = self._node.across
                self.submitted(list(self._node.coordinator.jobs))
            await self.look()
            now_ms = self._clock_ms()
            self._rests = {one: rest for one, rest in self._rests.items() if rest[0] > now_ms}
            await self.rest(LOOK_S)

    async def look(self) -> None:
        """Pack what is due; tell what is safe."""
        left, self._setting_out.left = self._setting_out.left, []
        self.submitted(left)
        for directory in list(self._due):
            await self._look_at(directory)
        await self._tell_copied()

    async def _look_at(self, directory: str) -> None:
        """Pack a directory for those whose turn it is, unless it rests."""
        began_ms = self._clock_ms()
        until_ms, last_ms = self._rests.pop(directory, (0, 0))
        is_resting = began_ms < until_ms
        jobs = self._of_age(directory, last_ms if is_resting else began_ms - YOUNG_MS + 1)
        is_packed = bool(jobs) and not await self._pack_some(jobs[:TOGETHER_MAX])
        if is_resting:  # The last look will do for these.
            self._rests[directory] = (until_ms, last_ms)
        elif jobs:
            now_ms = self._clock_ms()
            rest_ms = REST * (now_ms - began_ms)
            self._rests[directory] = (
                (now_ms + rest_ms, began_ms) if is_packed else (now_ms + AGAIN_MS, 0)
            )
        for first in range(TOGETHER_MAX, len(jobs) if is_packed else 0, TOGETHER_MAX):
            await asyncio.sleep(PAUSE_S)
            await self._pack_some(jobs[first : first + TOGETHER_MAX])

    def _of_age(self, directory: str, before_ms: int) -> list[Job]:
        """The first of those that were submitted before a moment, and whose files are here only."""
        found: list[Job] = []
        due = self._due[directory]
        for job_id in list(islice(due, PACKED_MAX)):
            job = self._rooted(job_id)
            if job is None or job.spec.ship is not None:
                del due[job_id]  # Over, or packed already because it was to begin elsewhere.
            elif job.submitted_ms < before_ms:
                found.append(job)
            else:
                break  # They are in order.
        if not due:
            del self._due[directory]
        return found

    def _rooted(self, job_id: JobId) -> Job | None:
        """A job of this node whose files are here only; None: it is not, or not any more."""
        across, job = self._node.across, self._node.coordinator.jobs.get(job_id)
        if across is None or job is None or job.is_guest or job.has_ended:
            return None
        return job if job.rooted == across.me else None

    async def _pack_some(self, jobs: list[Job]) -> str:
        """Pack the directory of a few, and copy it; why that cannot be, in words."""
        directory = _directory(jobs[0].spec)
        if await self._looking.at(directory, self._files.may_travel) is None:
            return f"{directory} does not answer"  # Who packs it would wait for ever.
        bare = []
        for job in jobs:
            found = await self._setting_out.looked(job)  # One look for all of them.
            if isinstance(found, GridError):
                return found.message  # It stays as it is: its files are here only.
            self._due.get(_directory(job.spec), {}).pop(job.spec.id, None)
            if found is None:
                bare.append(job.spec.id)
            elif self._rooted(job.spec.id) is not None:
                self._copying[job.spec.id] = found
                await self._pinning.copy(job, found)
        if bare:
            await self._setting_out.packed(tuple(bare), None)
        return ""

    async def _tell_copied(self) -> None:
        """Of a few; those that are not copied yet are looked at again, behind the others."""
        safe: dict[Shipment, list[JobId]] = {}
        is_busy = self._clock_ms() - self._heard_ms < BUSY_MS
        for job_id in list(islice(self._copying, TOGETHER_MAX if is_busy else TOLD_MAX)):
            packed, job = self._copying.pop(job_id, None), self._rooted(job_id)
            if job is None or packed is None:
                continue  # Over, or somebody else is at it.
            ship = job.spec.ship or packed
            if self._pinning.is_copied(job, ship):
                safe.setdefault(ship, []).append(job_id)
            else:
                self._copying[job_id] = ship
                await self._pinning.copy(job, ship)
        for ship, some in safe.items():
            word = Packed(now_ms=self._clock_ms(), jobs=tuple(some), ship=ship)
            await self._setting_out.step(word)

    # Somebody waits

    async def hurry(self, job: Job) -> str:
        """See to it now that a second machine has its files; why that cannot be, in words."""
        if self._rooted(job.spec.id) is None:
            return ""
        if job.spec.ship is None and (why := await self._pack_some([job])):
            return f"its directory cannot travel: {why}"
        ship = self._copying.pop(job.spec.id, None) or job.spec.ship
        if ship is not None:
            self._copying = {job.spec.id: ship, **self._copying}  # Before the others.
        await self._tell_copied()
        return ""


def _directory(spec: JobSpec) -> str:
    return spec.work.cwd if spec.work is not None else ""
