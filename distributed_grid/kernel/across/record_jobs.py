"""From a record back to the job: what a successor begins with, and what is kept in the end.

Lives here: the way back, and the summary of a job that has ended. Never here: the way there
(`record_writing`), joining (`record`).
Invariant: whatever may still run somewhere is a live attempt of the job.
"""

from typing import Final

import msgspec

from distributed_grid.kernel.across.record import JobRecord, state_of
from distributed_grid.kernel.across.record_bytes import spec_of
from distributed_grid.kernel.across.record_parts import (
    AttemptNote,
    note_age,
    note_of,
    result_of,
    standing_of,
)
from distributed_grid.kernel.across.record_runs import states_of
from distributed_grid.kernel.across.record_writing import STATES
from distributed_grid.kernel.chunks import ranges_of
from distributed_grid.kernel.jobs import WROTE_KEPT, Attempt, Job, Progress
from distributed_grid.model.job import Array
from distributed_grid.wire.api import StoryLine

_NAMES: Final = {state: name for name, state in STATES.items()}


def job_of(record: JobRecord) -> Job:
    """The job as a successor begins with it: what runs elsewhere goes on there."""
    spec, standing = spec_of(record), standing_of(record.standing)
    if standing.ship is not None:  # Packed since it was submitted: its specification stays.
        spec = msgspec.structs.replace(spec, ship=standing.ship)
    notes = [(attempt, note_of(body)) for attempt, body in _by_age(record)]
    job = Job(
        spec=spec,
        submitted_ms=standing.submitted_ms,
        state=state_of(record),
        reason=standing.reason,
        exit_code=standing.exit_code,
        is_cancelled=record.cancel,
        failures=standing.failures,
        losses=standing.losses,
        preemptions=standing.preemptions,
        is_overdue=standing.is_overdue,
        attempts_made=standing.attempts_made,
        attempts=[_attempt(attempt, note, spec.array) for attempt, note in notes],
        story=[
            StoryLine(at_ms=at, what=what, detail=detail) for at, _, what, detail in record.story
        ],
        started_ms=standing.started_ms,
        ended_ms=standing.ended_ms,
        ready_ms=standing.ready_ms,
        after_left=list(standing.after_left),
        epoch=record.version.epoch,
        seq=record.version.seq,
        guardians=standing.guardians,
        gang_go=standing.gang_go,
        votes=standing.votes,
        rooted=standing.rooted,
    )
    if spec.array:
        job.progress = Progress(
            states=states_of(record.runs, record.size, _running(notes)),
            codes=dict(record.codes),
            tries=dict(standing.tries),
            losses=dict(standing.index_losses),
            mean_us=standing.mean_us,
            whys=dict(standing.whys),
        )
        for run in [one for one in record.runs if one.attempt][-WROTE_KEPT:]:
            was_home = run.node == run.epoch.node  # There it is called as the job, no guest.
            called = record.job if was_home else run.attempt
            job.progress.remember([(run.start, run.stop)], run.node, called, run.number)
    if record.results:
        best = result_of(record.results[0])
        job.exit_code, job.reason, job.ended_ms = best.exit_code, best.reason, best.ended_ms
        if best.state != job.state:  # An array that succeeded as a whole, though on no side.
            job.exit_code, job.reason = 0, ""
    job.keep_few_attempts()
    return job


def _by_age(record: JobRecord) -> list[tuple[str, bytes]]:
    return sorted(record.attempts.items(), key=note_age)


def _running(notes: list[tuple[str, AttemptNote]]) -> list[tuple[int, int]]:
    """What is left of chunks that run: an index that failed and is tried again waits for that."""
    return [
        left
        for _, note in notes
        if note.is_live
        for left in ranges_of(_flat(note.positions)[note.ended_indices :])
    ]


def _flat(ranges: tuple[tuple[int, int], ...]) -> list[int]:
    return [at for start, stop in ranges for at in range(start, stop)]


def _attempt(attempt: str, note: AttemptNote, array: Array | None) -> Attempt:
    positions = _flat(note.positions)
    return Attempt(
        number=note.number,
        lease=note.lease or attempt,
        own_id=attempt if note.lease else "",
        host=note.host,
        epoch=note.epoch,
        node=note.node,
        granted_ms=note.granted_ms,
        state=_NAMES.get(note.state, "running"),  # type: ignore[arg-type]  # A newer version's.
        indices=tuple(array.indices[at] for at in positions) if array else (),
        tries=note.tries,
        ended_indices=note.ended_indices,
        started_ms=note.started_ms,
        ended_ms=note.ended_ms,
        exit_code=note.exit_code,
        how=note.how,
        pid=note.pid,
        note=note.note,
        cores=note.cores,
        gpus=note.gpus,
        usage=note.usage,
        rank=note.rank,
        saved=note.saved,
    )


def summary(record: JobRecord) -> JobRecord:
    """What is kept of a job that has ended: how, when, and on whose word."""
    return msgspec.structs.replace(
        record, spec=b"", attempts={}, story=record.story[:1] + record.story[1:][-1:], codes={}
    )
