"""The seam through which an agent remembers: what it promised is on disk before it says so.

Lives here: the promise, what can be written and read, what can go wrong. Never here: what the
bytes of a record mean (`kernel.jobs`, `model.lease`), when to write (`agent`).
Invariant: a batch is written whole or not at all, and batches in the order in which they came.
"""

from collections.abc import Sequence
from typing import Final, Protocol

import msgspec

from distributed_grid.errors import GridError
from distributed_grid.model.bounds import Body, Count, Moment, Name

EVENTS_KEPT: Final = 10_000  # A busy day of one node, some 2 MB; older ones make room.
LATEST: Final = 1_000  # Finished jobs that a start looks at.
JOBS_READ_MAX: Final = 10_000  # Of one question; more comes with `before`.


class JobRow(msgspec.Struct, frozen=True, kw_only=True):
    """A job: its record as opaque bytes, and beside it what lists are made from."""

    id: Name
    record: Body
    state: Name
    name: Name = ""
    user: Name = ""
    submitted_ms: Moment = 0
    # Nothing more is to be done for it: it stays on disk and is not loaded at a start.
    is_finished: bool = False


class PutJob(msgspec.Struct, frozen=True, tag="put-job"):
    """Write a job, or write it again; its name, user and age never change."""

    job: JobRow


class DropJob(msgspec.Struct, frozen=True, tag="drop-job"):
    """Forget a job; one that is not there is fine."""

    id: Name


class ForgetFinished(msgspec.Struct, frozen=True, tag="forget-finished"):
    """Keep so many finished jobs, the newest, and forget the rest."""

    keep: Count


class PutLease(msgspec.Struct, frozen=True, tag="put-lease"):
    """Write a committed lease, or write it again."""

    id: Name
    record: Body


class DropLease(msgspec.Struct, frozen=True, tag="drop-lease"):
    """Forget a lease; one that is not there is fine."""

    id: Name


class AddEvent(msgspec.Struct, frozen=True, tag="add-event"):
    """Append an event. Its writer numbers them upwards; only the newest EVENTS_KEPT stay."""

    number: Count
    at_ms: Moment
    record: Body


class SetMeta(msgspec.Struct, frozen=True, tag="set-meta"):
    """Write a counter or another single value."""

    key: Name
    value: Body


class DropMeta(msgspec.Struct, frozen=True, tag="drop-meta"):
    """Forget a single value; one that is not there is fine."""

    key: Name


class PutHeld(msgspec.Struct, frozen=True, tag="put-held"):
    """Write a record that is kept for another node, or write it again."""

    id: Name
    record: Body
    sender: Name = ""  # On whose account it is.


class DropHeld(msgspec.Struct, frozen=True, tag="drop-held"):
    """Forget a record that was kept for another node; one that is not there is fine."""

    id: Name


Write = (
    PutJob | DropJob | ForgetFinished | PutLease | DropLease | AddEvent | SetMeta | DropMeta
    | PutHeld | DropHeld
)  # fmt: skip


class JobFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which jobs; what is None does not matter."""

    states: tuple[str, ...] | None = None
    name: str | None = None
    user: str | None = None
    ids: tuple[str, ...] | None = None  # These.
    id_prefix: str | None = None
    id_digits: int | None = None  # Jobs have longer ids than guests have.
    is_finished: bool | None = None


class Event(msgspec.Struct, frozen=True):
    """One event as it was written."""

    number: Count
    at_ms: Moment
    record: Body


class Remembered(msgspec.Struct, frozen=True, kw_only=True):
    """What an agent needs at its start."""

    jobs: tuple[JobRow, ...]  # Unfinished, the oldest first.
    latest: tuple[JobRow, ...] = ()  # Finished, the LATEST of them: others may not know it yet.
    leases: dict[str, bytes]
    meta: dict[str, bytes]
    last_event: int  # The number of the newest event; 0: none.
    held: dict[str, str] = {}  # Whose jobs' records are kept for other nodes: job and sender.


EVERY_JOB: Final = JobFilter()
STORE_ID: Final = "store_id"  # In `meta` from the start: 16 random bytes, another in every store.


class Store(Protocol):
    """Remembers, durably.

    `commit` returns when everything in the batch will survive the death of the process and of
    the machine. If it raises a StoreError nothing of the batch was written, and a later commit
    may succeed. If its caller is cancelled the batch may be written or not, but whole. Reads see
    every batch that was acknowledged before.
    """

    async def commit(self, writes: Sequence[Write], *, within_s: float = 0) -> None:
        """Write a batch, durably. One for which nobody waits may wait so long for company."""
        ...

    def has_room(self) -> bool:
        """Whether a commit of usual size would find room; asked before others are promised one."""
        ...

    def write_aside(self) -> None:
        """From now on a slow disk never holds up the loop, whatever that costs."""
        ...

    async def load_all(self) -> Remembered:
        """What an agent needs at its start."""
        ...

    def held(self, job_id: str) -> bytes | None:
        """A record that is kept for another node, at once; None: there is none."""
        ...

    async def job(self, job_id: str) -> JobRow | None:
        """One job."""
        ...

    async def jobs(
        self,
        matching: JobFilter = EVERY_JOB,
        *,
        limit: int = JOBS_READ_MAX,
        before: tuple[int, str] | None = None,
    ) -> list[JobRow]:
        """Jobs, the newest first; `before` is (submitted_ms, id) of the last one already read."""
        ...

    async def events(self, *, since_excluded: int = 0, limit: int = EVENTS_KEPT) -> list[Event]:
        """Events, the oldest first."""
        ...

    async def close(self) -> None:
        """Finish what was begun, and let go of the file."""
        ...


class StoreError(GridError):
    """The store could not do it; nothing was written."""

    def __init__(self, file: str, problem: str, *, remedy: str) -> None:
        self.file, self.problem = file, problem
        super().__init__(f"{file}: {problem}", remedy=remedy)


class StoreFull(StoreError):
    """There is no space left."""

    def __init__(self, file: str) -> None:
        super().__init__(
            file,
            "the disk is full; nothing was written",
            remedy="Make space on that file system; the next write is tried as usual",
        )


class StoreReadOnly(StoreError):
    """The file system became read-only."""

    def __init__(self, file: str) -> None:
        super().__init__(
            file,
            "its file system is read-only; nothing was written",
            remedy="See why (dmesg: a disk with errors?), and make it writable (mount -o "
            "remount,rw); the next write is tried as usual",
        )


class StoreBroken(StoreError):
    """The file is damaged, or not ours."""

    def __init__(self, file: str, why: str) -> None:
        self.why = why
        super().__init__(
            file,
            f"cannot be used: {why}",
            remedy="Put back a copy of it, or move it away and start with an empty one (the jobs "
            "in it are then forgotten)",
        )


class StoreTooNew(StoreError):
    """A later version of Grid wrote it."""

    def __init__(self, file: str, *, version: int, known: int) -> None:
        self.version, self.known = version, known
        super().__init__(
            file,
            f"was written by a later Grid (schema {version}, this one knows up to {known})",
            remedy="Install that version again, or use another data directory",
        )


class StoreUnusable(StoreError):
    """It cannot be opened, read or written: rights, a dying disk."""

    def __init__(self, file: str, why: str) -> None:
        self.why = why
        super().__init__(
            file, why, remedy="Check its owner and rights, and the disk (dmesg tells of errors)"
        )


class StoreClosed(StoreError):
    """Somebody used it after `close`."""

    def __init__(self, file: str) -> None:
        super().__init__(file, "is closed", remedy="This is a bug; please report it")
