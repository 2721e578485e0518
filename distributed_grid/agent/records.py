"""Jobs and leases as the store keeps them.

Lives here: records to bytes and back. Never here: when to write them (`carrying`).
"""

from collections.abc import Iterable

import msgspec

from distributed_grid.edges.store import (
    DropHeld,
    DropJob,
    DropLease,
    DropMeta,
    JobRow,
    PutHeld,
    PutJob,
    PutLease,
    SetMeta,
    Store,
    StoreError,
    Write,
)
from distributed_grid.errors import NotFound, shown
from distributed_grid.kernel.jobs import CANCELLED, Job, Progress
from distributed_grid.kernel.node import Node
from distributed_grid.kernel.ready import Ready
from distributed_grid.model.ids import ID_DIGITS, JobId
from distributed_grid.model.job import Array
from distributed_grid.model.lease import Lease
from distributed_grid.wire.mesh import JUNK

_encoder = msgspec.msgpack.Encoder()
_job_decoder = msgspec.msgpack.Decoder(Job)
_lease_decoder = msgspec.msgpack.Decoder(Lease)


def held_by(store: Store, job: JobId) -> bytes | None:
    """The record of another node's job as the disk has it; None also if it cannot be read."""
    try:
        return store.held(job)
    except StoreError:
        return None


def writes_of(ready: Ready, node: Node) -> list[Write]:
    """What must be durable, as things stand now: a retry after a full disk writes nothing old."""
    leases = node.ledger.leases
    writes: list[Write] = [DropJob(job) for job in ready.drop_jobs]
    writes += [PutJob(job_row(job)) for job in ready.save_jobs.values()]
    writes += [
        PutLease(lease.id, _encoder.encode(lease))
        for lease in ready.save_leases
        if lease.id in leases
    ]
    writes += [DropLease(lease) for lease in ready.drop_leases if lease not in leases]
    writes += [
        DropMeta(name) if value is None else SetMeta(name, value)
        for name, value in node.newest(ready.save_meta).items()
    ]
    writes += [
        DropHeld(job) if record is None else PutHeld(job, record, node.sender_of(job))
        for job, record in ready.save_held.items()
    ]
    return writes


def job_row(job: Job) -> JobRow:
    """A job as a row."""
    return JobRow(
        id=job.spec.id,
        record=_encoder.encode(job),
        state=job.state,
        name=job.spec.name,
        user=job.spec.user,
        submitted_ms=job.submitted_ms,
        # Else a start would know nothing of it, and its home would have it run again.
        is_finished=job.is_finished,
    )


def job_of(row: JobRow) -> Job:
    """A row as a job. Raises one of JUNK if it is damaged, or was edited by hand."""
    job = _job_decoder.decode(row.record)
    if job.spec.id != row.id or (job.progress is None) != (job.spec.array is None):
        raise msgspec.ValidationError("the row of another job")
    if job.spec.array is not None and job.progress is not None:
        _check_array(job, job.spec.array, job.progress)
    return job


def jobs_of(rows: Iterable[JobRow]) -> tuple[list[Job], tuple[str, ...]]:
    """Rows as jobs; and the ids of those that cannot be read, which spoil nothing else."""
    jobs, damaged = list[Job](), list[str]()
    for row in rows:
        try:
            jobs.append(job_of(row))
        except JUNK:
            damaged.append(row.id[:ID_DIGITS])
    return jobs, tuple(damaged)


class Unreadable(NotFound):
    """A job is in the store, and what is written there cannot be read."""

    def __init__(self, job: str) -> None:
        super().__init__("job", job)
        self.message = f"the record of job {shown(job)} is damaged and cannot be read"
        self.remedy = "Put back a copy of grid.db; all other jobs are as before"


def lease_of(record: bytes) -> Lease:
    """A stored lease."""
    return _lease_decoder.decode(record)


def _check_array(job: Job, array: Array, progress: Progress) -> None:
    size, states = len(array.indices), progress.states
    kept = (progress.codes, progress.tries, progress.losses, progress.whys, progress.again)
    if (
        not 0 < size == len(states)
        or max(states) > CANCELLED
        or any(max(at) >= size for at in kept if at)
    ):
        raise msgspec.ValidationError("not as many indices as its array has")
    if not all(index in array.indices for one in job.attempts for index in one.indices):
        raise msgspec.ValidationError("an attempt of indices that its array does not have")
