"""After a start: jobs and records as the disk has them, and which of them are in doubt.

Lives here: the first state of `meeting` after a start. Never here: reading the disk.
Invariant: no job of this node that others hold goes on before they were asked; nothing at all does
from old records if this node was away for longer than the grace.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from distributed_grid.kernel.across.meeting import Meeting
from distributed_grid.kernel.across.record import JobRecord, has_ended
from distributed_grid.kernel.across.record_bytes import decode
from distributed_grid.kernel.across.record_parts import standing_of
from distributed_grid.kernel.across.record_writing import record_of
from distributed_grid.kernel.across.returning import Doubt
from distributed_grid.kernel.across.shelf import GRACE_MS
from distributed_grid.kernel.jobs import Job
from distributed_grid.kernel.unusable import about
from distributed_grid.model.across import Fence
from distributed_grid.model.ids import JobId, NodeId
from distributed_grid.wire.mesh import JUNK

FRESH_MS: Final = 600_000  # What ended within the last minutes may not have been told to all.


def is_loaded(job: Job, now_ms: int) -> bool:
    """Whether a start is to know a job: it goes on, or not everybody may know yet how it ended."""
    return not job.is_finished or now_ms - (job.ended_ms or 0) <= FRESH_MS


def restore(
    meeting: Meeting,
    jobs: Iterable[Job],
    held: Mapping[JobId, NodeId],
    *,
    now_ms: int,
    away_ms: int,
) -> None:
    """Begin with what the disk has; records are read one after the other."""
    was_long_away = away_ms > GRACE_MS
    mine = {job.spec.id: job for job in jobs if job.epoch.node == meeting.me and not job.is_guest}
    bases: dict[JobId, JobRecord] = {}
    for job_id, sender in held.items():
        with about("record", job_id):
            try:
                record = decode(meeting.shelf.read(job_id) or b"")
            except JUNK:
                meeting.unread.append(job_id)  # A newer version's, maybe, which was here before.
                continue
            if job_id in mine and record.version.epoch <= mine[job_id].epoch:
                bases[job_id] = record
                continue
            mine.pop(job_id, None)
            meeting.shelf.put(record, now_ms, None, sender=sender or None, is_on_disk=True)
            _restore_held(meeting, record, now_ms, was_long_away=was_long_away)
    for job_id, job in mine.items():
        with about("job", job_id):
            _restore_own(meeting, job, bases.get(job_id), now_ms, was_long_away=was_long_away)


def _restore_own(
    meeting: Meeting, job: Job, base: JobRecord | None, now_ms: int, *, was_long_away: bool
) -> None:
    record = record_of(job, Fence(job.epoch, job.seq), base)
    if job.has_ended and now_ms - (job.ended_ms or 0) > FRESH_MS:
        meeting.shelf.remember(record, now_ms, None)
        return
    meeting.holders.restore(job, record, is_kept=base is not None)
    names = frozenset(job.guardians) - {meeting.me}
    if names and not job.has_ended:
        meeting.holders.held_back.add(job.spec.id)
        meeting.returning.doubts[job.spec.id] = Doubt(
            names=names,
            since_ms=now_ms,
            must_be_known=was_long_away,
            is_voted_on=job.spec.at_most_once,
        )


def _restore_held(meeting: Meeting, record: JobRecord, now_ms: int, *, was_long_away: bool) -> None:
    if has_ended(record):
        if now_ms - (standing_of(record.standing).ended_ms or 0) <= FRESH_MS:
            for node in record.holders:  # It is not known any more who was told.
                meeting.errands.plan(record.job, node, now_ms)
        return
    meeting.errands.plan(record.job, record.home, now_ms)
    meeting.audits.heard(record.job, now_ms)
    if not was_long_away:
        meeting.watch(record.job, now_ms)
    else:
        names = frozenset({record.home, *record.guardians}) - {meeting.me}
        meeting.returning.doubts[record.job] = Doubt(
            names=names, since_ms=now_ms, must_be_known=True
        )
