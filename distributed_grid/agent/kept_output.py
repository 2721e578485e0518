"""The end of what this node's jobs wrote elsewhere, kept here in case that machine is lost.

Lives here: which output is elsewhere, where its copy is, writing it. Never here: asking for it
(`tails`), reading it (`logs`, as any output that was cut).
Invariant: a copy is there whole or not at all; one of a job that wrote nothing is an empty folder.
"""

import os
import shutil
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from distributed_grid.agent.logs import name_of
from distributed_grid.errors import MeshUnreachable
from distributed_grid.kernel.jobs import FAILED, Attempt, Job
from distributed_grid.kernel.launching import Paths, output_dir
from distributed_grid.model import bytesize
from distributed_grid.model.across import HERE
from distributed_grid.model.ids import JobId, NodeId
from distributed_grid.wire.api import JobView
from distributed_grid.wire.cut_output import head, older_name
from distributed_grid.wire.tails import NO_INDEX, Stream

# Of an array, of those that failed: as many as `grid job` names. Of a gang, of the first ranks.
INDICES_KEPT: Final = 100


class Away(msgspec.Struct, frozen=True):
    """Output that was written on another node."""

    attempt: Attempt
    index: int
    folder: str  # Where its copy is, or would be.

    @property
    def is_kept(self) -> bool:
        """Whether there is a copy."""
        return os.path.isdir(self.folder)  # noqa: PTH112  (often, and nothing else of the path)


class KeptOutput:
    """The copies of one node."""

    def __init__(self, paths: Paths, me: Callable[[], NodeId]) -> None:
        self._paths, self._me = paths, me

    def away(self, job: Job, index: int = NO_INDEX, number: int = 0) -> Away | None:
        """The output of a job of this node, or of one attempt, if another wrote it."""
        attempt = attempt_of(job, index, number)
        if attempt is None or attempt.host in (HERE, self._me()) or attempt.started_ms is None:
            return None
        if not attempt.lease.isalnum():  # Others make these up; a path is made of it.
            return None
        index = NO_INDEX if job.spec.gang > 1 else index  # Every rank is an attempt of its own.
        name = f"copy.{attempt.lease}" if index == NO_INDEX else f"copy.{attempt.lease}.{index}"
        return Away(attempt, index, f"{output_dir(self._paths, job)}/{name}")

    async def folder_of(
        self, job: Job, index: int, find: Callable[[str], Awaitable[Job]], number: int = 0
    ) -> str:
        """Where the output of a job is, or what is kept of it. Raises MeshUnreachable."""
        is_over = job.has_ended or bool(number)
        away = self.away(job, index, number) if is_over and not job.is_guest else None
        if away is not None and away.is_kept:
            return away.folder
        if away is not None:
            raise MeshUnreachable(away.attempt.node, why="what the job wrote is only there")
        attempt = attempt_of(job, index)
        if attempt is not None and attempt.host != HERE and attempt.host == self._me():
            job = await find(f"id:{attempt.lease}")  # It ran here for another home.
        return output_dir(self._paths, job)

    def only_on(self, job: Job) -> str:
        """The name of the node that alone has what a job wrote; empty: none, or it is no such job.

        Of an array every index would have to be asked after.
        """
        if not job.has_ended or job.is_guest or job.progress is not None:
            return ""
        found = self.away(job)
        return found.attempt.node if found is not None and not found.is_kept else ""

    def viewed(self, view: JobView, job: Job) -> JobView:
        """A job of this node as people see it, with who alone has what it wrote."""
        only = self.only_on(job)
        return msgspec.structs.replace(view, output_only_on=only) if only else view

    def lacking(self, job: Job) -> Iterator[Away]:
        """Of a job that has ended, or is tried again: what should be copied, and is not yet."""
        for index, number in _kept_of(job):
            found = self.away(job, index, number)
            if found is not None and found.attempt not in job.live_attempts and not found.is_kept:
                yield found

    def sizes(self, job: JobId) -> list[tuple[str, int]]:
        """The copies of one job, and how many bytes each has."""
        folders = Path(self._paths.output_root, job).glob("copy.*")
        return [(str(one), sum(file.stat().st_size for file in one.iterdir())) for one in folders]

    @staticmethod
    def keep(folder: str, index: int, streams: Sequence[Stream], *, node: str) -> None:
        """Write a copy of what a node had. Raises OSError."""
        if not streams:
            os.makedirs(folder, mode=0o700, exist_ok=True)  # noqa: PTH103
            return
        made = f"{folder}.new"
        shutil.rmtree(made, ignore_errors=True)
        os.makedirs(made, mode=0o700)  # noqa: PTH103
        try:
            for stream in streams:
                name = name_of(stream.name, index)
                with open(older_name(f"{made}/{name}"), "xb") as file:  # noqa: PTH123
                    file.write(_written(stream, node))
            os.rename(made, folder)  # noqa: PTH104
        except OSError:
            shutil.rmtree(made, ignore_errors=True)
            raise


def attempt_of(job: Job, index: int, number: int = 0) -> Attempt | None:
    """The one that counts, of this number, or of this index; of a gang the index is a rank."""
    tries = [one for one in job.attempts if index == NO_INDEX or index in one.indices]
    tries = [one for one in tries if number in (0, one.number)]
    if job.spec.gang > 1:  # Unless one is named, the first rank speaks for all.
        last = max((one.number for one in job.attempts), default=0)
        tries = [one for one in job.attempts if (one.number, one.rank) == (last, max(index, 0))]
    telling = job.telling_attempt
    return telling if telling in tries else tries[-1] if tries else _forgotten(job, index)


def _forgotten(job: Job, index: int) -> Attempt | None:
    """Who ran an index elsewhere, of which no attempt is kept any more."""
    if job.progress is None or job.spec.array is None or index not in job.spec.array.indices:
        return None
    one = job.progress.forgotten(job.spec.array.indices.index(index))
    if one is None or (host := job.progress.hosts[one.host]) == HERE:
        return None
    return Attempt(
        number=one.number,
        lease=one.lease,
        host=host,
        node=host[:12],
        granted_ms=0,
        started_ms=0,
        state="ended",
        indices=(index,),
    )


def _kept_of(job: Job) -> list[tuple[int, int]]:
    """Indices, or ranks, of the last attempt at each (0); of what runs but once, every attempt."""
    if job.spec.gang > 1:
        return [(rank, 0) for rank in range(job.spec.gang)[:INDICES_KEPT]]
    if job.progress is None or job.spec.array is None:
        return [(NO_INDEX, one.number) for one in job.attempts]
    indices = job.spec.array.indices
    failed = [at for at, state in enumerate(job.progress.states) if state == FAILED]
    return [(indices[at], 0) for at in failed[:INDICES_KEPT]]


def _written(stream: Stream, node: str) -> bytes:
    """As an older part; in place of the last bytes that are missing it says that some are."""
    if not stream.start:
        return head(0) + stream.data
    size = bytesize.text(stream.start)
    note = f"[grid: the {size} before this were not copied from {node}]\n".encode()
    start = max(stream.start, len(note))
    return head(start - len(note)) + note + stream.data[start - stream.start :]
