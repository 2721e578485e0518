"""Jobs and leases as the store keeps them.

Lives here: records to bytes and back. Never here: when to write them (`carrying`).
"""

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
from distributed_grid.kernel.jobs import Job
from distributed_grid.kernel.node import Node
from distributed_grid.kernel.ready import Ready
from distributed_grid.model.ids import JobId
from distributed_grid.model.lease import Lease

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
        is_finished=job.has_ended and not job.is_untold,
    )


def job_of(row: JobRow) -> Job:
    """A row as a job."""
    return _job_decoder.decode(row.record)


def lease_of(record: bytes) -> Lease:
    """A stored lease."""
    return _lease_decoder.decode(record)
