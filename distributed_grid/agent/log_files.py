"""What jobs wrote, in files that their submitters named: `grid run -o out.%a`.

Lives here: when they are written, and their names. Never here: reading output (`logs`,
`following`).
Invariant: a file is there whole or not at all: what a process wrote to stdout, then what it wrote
to stderr. Only files are replaced, where links lead, and keep their permissions. Whoever waited for
the job finds them; what could not be written is in its story.
"""

import asyncio
import contextlib
import errno
import os
import re
import stat
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from pathlib import Path
from typing import BinaryIO, Final

from distributed_grid.errors import GridError
from distributed_grid.kernel.jobs import Attempt, Job
from distributed_grid.kernel.launching import Paths, output_dir
from distributed_grid.model.ids import JobId
from distributed_grid.wire.tails import NO_INDEX, STREAMS

WAIT_S: Final = 10.0  # Whoever waits for a job does not wait longer for a machine that is gone.
DONE: Final = "log-files.written"  # In the job's own folder, once all of them are.
_OF_THE_AGENT: Final = ("/dev/std", "/dev/fd/", "/proc/")  # Here they are its own, its log too.


class LogFiles:
    """Those of the jobs that were submitted at one agent."""

    def __init__(
        self,
        paths: Paths,
        *,
        read: Callable[..., AsyncIterator[bytes]],
        note: Callable[[JobId, str], Awaitable[None]],
    ) -> None:
        self.read = read  # As `Operations.logs`.
        self._paths, self._note = paths, note
        self._taken: dict[JobId, set[str]] = {}  # Attempts that were looked at.
        self._writing: dict[JobId, asyncio.Task[None]] = {}

    def changed(self, jobs: Iterable[Job]) -> None:
        """Something of these may have ended, and is durable."""
        for job in jobs:
            work = job.spec.work
            if work is not None and work.log and not work.is_abroad and not self._is_done(job):
                self._take(job)

    async def written(self, job: Job) -> None:
        """Until the files of a job that has ended are there."""
        self.changed([job])
        if writing := self._writing.get(job.spec.id):
            await asyncio.wait({writing}, timeout=WAIT_S)

    def _is_done(self, job: Job) -> bool:
        return job.has_ended and os.path.exists(self._mark(job))  # noqa: PTH110  (often, and short)

    def _mark(self, job: Job) -> str:
        return f"{output_dir(self._paths, job)}/{DONE}"

    def _take(self, job: Job) -> None:
        if job.progress is None and not job.has_ended:
            return
        taken = self._taken.setdefault(job.spec.id, set())
        over = [one for one in job.attempts if one.ended_ms and one.id not in taken]
        taken.update(one.id for one in over)
        if over or job.has_ended:
            work = self._write(job, _indices(job, over), self._writing.get(job.spec.id))
            self._writing[job.spec.id] = asyncio.get_running_loop().create_task(work)

    async def _write(
        self, job: Job, indices: list[int], before: "asyncio.Task[None] | None"
    ) -> None:
        if before is not None:
            await before
        for index in indices:
            path = name_of(job, index)
            try:
                await self._file(job, index, path)
            except (OSError, GridError) as error:
                why = error.strerror if isinstance(error, OSError) else str(error)
                await self._note(job.spec.id, f"{path}: not brought back: {why}")
        if job.has_ended and self._writing.get(job.spec.id) is asyncio.current_task():
            del self._writing[job.spec.id], self._taken[job.spec.id]
            with contextlib.suppress(OSError):  # It is written again after a start.
                os.makedirs(output_dir(self._paths, job), mode=0o700, exist_ok=True)  # noqa: PTH103
                os.close(os.open(self._mark(job), os.O_CREAT | os.O_WRONLY, 0o600))

    async def _file(self, job: Job, index: int, path: str) -> None:
        path, mode = await asyncio.to_thread(_end, path)
        if path == os.devnull:
            return
        made = f"{path}.{job.spec.id[:12]}.new"
        try:
            with await asyncio.to_thread(_opened, made, 0o666 if mode is None else 0o600) as file:
                for stream in STREAMS:
                    word, place = f"id:{job.spec.id}", {"stream": stream, "index": index}
                    async for part in self.read(word, **place, follow=False, offset=0):
                        await asyncio.to_thread(file.write, part)
            if mode is not None:
                await asyncio.to_thread(os.chmod, made, mode)
            await asyncio.to_thread(os.replace, made, path)
        finally:
            with contextlib.suppress(OSError):
                await asyncio.to_thread(os.unlink, made)


def name_of(job: Job, index: int) -> str:
    """The file of a job, or of an index of an array: %a is the index, %j the job's id."""
    assert job.spec.work is not None, "it has run"
    known = {"a": str(index) if index != NO_INDEX else "", "j": job.spec.id[:12], "%": "%"}
    return re.sub("%([aj%])", lambda found: known[found[1]], job.spec.work.log)


def _end(path: str) -> tuple[str, int | None]:
    """Where links lead, and the permissions of the file that is there, if one is."""
    try:
        found = Path(path).stat()
    except FileNotFoundError:
        return os.path.realpath(path), None
    if stat.S_ISCHR(found.st_mode) and found.st_rdev == Path(os.devnull).stat().st_rdev:
        return os.devnull, None
    if not stat.S_ISREG(found.st_mode) or path.startswith(_OF_THE_AGENT):
        raise OSError(errno.EINVAL, "it is no regular file")
    return os.path.realpath(path), stat.S_IMODE(found.st_mode)


def _opened(path: str, mode: int) -> BinaryIO:
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
    return os.fdopen(os.open(path, flags, mode), "wb")


def _indices(job: Job, attempts: list[Attempt]) -> list[int]:
    """What has ended of these; what is tried again is written again after that."""
    if job.progress is None:
        return [NO_INDEX] if attempts else []
    return [index for one in attempts for index in one.indices[: one.ended_indices]]
