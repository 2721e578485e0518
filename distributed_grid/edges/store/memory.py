"""The store that forgets: for tests and simulations of what uses a store.

Lives here: the same promises without a disk. Never here: durability.
Invariant: it encodes and decodes everything, so that what cannot be stored fails here too.
"""

import secrets
from collections.abc import Sequence
from itertools import islice
from typing import Final

import msgspec

from distributed_grid.edges.store import (
    EVENTS_KEPT,
    EVERY_JOB,
    JOBS_READ_MAX,
    LATEST,
    STORE_ID,
    AddEvent,
    DropHeld,
    DropJob,
    DropLease,
    DropMeta,
    Event,
    ForgetFinished,
    JobFilter,
    JobRow,
    PutHeld,
    PutJob,
    PutLease,
    Remembered,
    SetMeta,
    StoreClosed,
    StoreFull,
    Write,
)

_NAME: Final = ":memory:"
_encode = msgspec.msgpack.encode
_decode_write = msgspec.msgpack.Decoder(Write).decode
_decode_job = msgspec.msgpack.Decoder(JobRow).decode
_decode_event = msgspec.msgpack.Decoder(Event).decode


class _Shelves:
    """Encoded rows by key."""

    def __init__(self) -> None:
        self.jobs: dict[str, bytes] = {}
        self.leases: dict[str, bytes] = {}
        self.events: dict[int, bytes] = {}
        self.meta: dict[str, bytes] = {}
        self.held: dict[str, bytes] = {}
        self.senders: dict[str, str] = {}

    def copy(self) -> "_Shelves":
        made = _Shelves()
        made.jobs, made.leases = dict(self.jobs), dict(self.leases)
        made.events, made.meta = dict(self.events), dict(self.meta)
        made.held, made.senders = dict(self.held), dict(self.senders)
        return made

    @property
    def size_bytes(self) -> int:
        rows = (self.jobs, self.leases, self.events, self.meta, self.held)
        return sum(len(row) for shelf in rows for row in shelf.values())

    def read_jobs(self) -> list[JobRow]:
        """Every job, the newest first."""
        jobs = map(_decode_job, self.jobs.values())
        return sorted(jobs, key=lambda job: (job.submitted_ms, job.id), reverse=True)

    def _drop(self, write: DropJob | DropLease | DropHeld | DropMeta) -> None:
        match write:
            case DropJob(key):
                self.jobs.pop(key, None)
            case DropLease(key):
                self.leases.pop(key, None)
            case DropHeld(key):
                self.held.pop(key, None)
                self.senders.pop(key, None)
            case DropMeta(key):
                self.meta.pop(key, None)

    def apply(self, write: Write) -> None:
        match write:
            case PutJob(job):
                self.jobs[job.id] = _encode(job)
            case ForgetFinished(keep):
                finished = [job for job in self.read_jobs() if job.is_finished]
                for job in finished[max(keep, 0) :]:
                    del self.jobs[job.id]
            case PutLease(lease_id, record):
                self.leases[lease_id] = record
            case AddEvent(number, at_ms, record):
                self.events[number] = _encode(Event(number, at_ms, record))
            case PutHeld(held_id, record, sender):
                self.held[held_id], self.senders[held_id] = record, sender
            case DropJob() | DropLease() | DropHeld() | DropMeta():
                self._drop(write)
            case SetMeta(key, value):
                self.meta[key] = value


class MemoryStore:
    """Keeps its promises as long as it lives. `bytes_max` is the size of its disk."""

    def __init__(self, *, bytes_max: int | None = None) -> None:
        self.bytes_max = bytes_max
        self._shelves = _Shelves()
        self._shelves.meta[STORE_ID] = secrets.token_bytes(16)
        self._is_closed = False

    async def commit(self, writes: Sequence[Write], *, within_s: float = 0) -> None:  # noqa: ARG002
        """Write a batch; all of it or nothing."""
        after = self._open().copy()
        for write in writes:
            after.apply(_decode_write(_encode(write)))
        newest = max(after.events, default=0)
        for number in [number for number in after.events if number <= newest - EVENTS_KEPT]:
            del after.events[number]
        if self.bytes_max is not None and after.size_bytes > self.bytes_max:
            raise StoreFull(_NAME)
        self._shelves = after

    def has_room(self) -> bool:
        """There is no disk."""
        return True

    def write_aside(self) -> None:
        """There is no disk."""

    async def load_all(self) -> Remembered:
        """What an agent needs at its start."""
        shelves = self._open()
        jobs = shelves.read_jobs()
        unfinished = [job for job in reversed(jobs) if not job.is_finished]
        return Remembered(
            jobs=tuple(unfinished),
            latest=tuple([job for job in jobs if job.is_finished][:LATEST]),
            leases=dict(shelves.leases),
            meta=dict(shelves.meta),
            last_event=max(shelves.events, default=0),
            held=dict(shelves.senders),
        )

    def held(self, job_id: str) -> bytes | None:
        """A record that is kept for another node, at once; None: there is none."""
        return self._open().held.get(job_id)

    async def job(self, job_id: str) -> JobRow | None:
        """One job."""
        row = self._open().jobs.get(job_id)
        return None if row is None else _decode_job(row)

    async def jobs(
        self,
        matching: JobFilter = EVERY_JOB,
        *,
        limit: int = JOBS_READ_MAX,
        before: tuple[int, str] | None = None,
    ) -> list[JobRow]:
        """Jobs, the newest first."""
        found = (job for job in self._open().read_jobs() if _matches(job, matching))
        older = (job for job in found if before is None or (job.submitted_ms, job.id) < before)
        return list(islice(older, limit))

    async def events(self, *, since_excluded: int = 0, limit: int = EVENTS_KEPT) -> list[Event]:
        """Events, the oldest first."""
        rows = self._open().events
        newer = (number for number in sorted(rows) if number > since_excluded)
        return [_decode_event(rows[number]) for number in islice(newer, limit)]

    async def close(self) -> None:
        """Nothing is let go of: a test may look at what was there by making a new one of it."""
        self._is_closed = True

    def _open(self) -> _Shelves:
        if self._is_closed:
            raise StoreClosed(_NAME)
        return self._shelves


def _matches(job: JobRow, matching: JobFilter) -> bool:
    return (
        (matching.states is None or job.state in matching.states)
        and (matching.name is None or job.name == matching.name)
        and (matching.user is None or job.user == matching.user)
        and (matching.ids is None or job.id in matching.ids)
        and (matching.id_prefix is None or job.id.startswith(matching.id_prefix))
        and (matching.id_digits is None or len(job.id) == matching.id_digits)
        and (matching.is_finished is None or job.is_finished == matching.is_finished)
    )
