"""From a job to its record: what its home writes down.

Lives here: the way there. Never here: the way back (`record_jobs`), joining (`record`).
Invariant: a record made of a job knows at least what the record before it knew.
"""

from functools import lru_cache
from typing import Final, NamedTuple

import msgspec

from distributed_grid.kernel.across.record import JobRecord, Line, joined, normal
from distributed_grid.kernel.across.record_parts import (
    AttemptNote,
    Result,
    Standing,
    encode,
    note_of,
    result_of,
    result_rank,
    written_anew,
)
from distributed_grid.kernel.across.record_runs import (
    Run,
    Runs,
    covers,
    joined_runs,
    runs_of,
    runs_of_attempt,
)
from distributed_grid.kernel.across.travelling import certified, travelling
from distributed_grid.kernel.chunks import ranges_of
from distributed_grid.kernel.jobs import Attempt, Job
from distributed_grid.model.across import Fence
from distributed_grid.model.job import Array

STATES: Final = {"granted": "named", "running": "begun", "ended": "ended", "lost": "lost"}


def record_of(job: Job, version: Fence, before: JobRecord | None = None) -> JobRecord:
    """What the home writes down now; `before` is what it wrote last, if it did."""
    written = _notes(job, version, before)
    runs, codes = _fates(job, written)
    record = JobRecord(
        job=job.spec.id,
        version=version,
        standing=written_anew(_standing(job), before.standing if before else b""),
        spec=before.spec if before and before.spec else _spec_bytes(job),
        cancel=job.is_cancelled,
        holders=(version.epoch.node, *job.guardians),
        attempts={attempt: note.body for attempt, note in written.items()},
        results=_results(job, version, written, before),
        concluded=_concluded(job, version, written, before),
        story=_story(job),
        size=len(job.spec.array.indices) if job.spec.array else 0,
        runs=runs,
        codes=codes,
    )
    return joined(before, record) if before else normal(record)


def closing_record(job: Job, before: JobRecord | None) -> JobRecord:
    """What will be written when the end of a job counts; it counts when that is with its voters."""
    return record_of(_ended(job), Fence(job.epoch, job.seq), before)


def _ended(job: Job) -> Job:
    """As it will be when its end counts."""
    ending = job.ending
    assert ending is not None, "concluded"
    return msgspec.structs.replace(
        job, state=ending.state, reason=ending.reason, ended_ms=ending.at_ms
    )


def _spec_bytes(job: Job) -> bytes:
    """As whoever takes it over needs it: its user is not one of theirs."""
    return encode(travelling(certified(job.spec, job.certified_by)))


def _standing(job: Job) -> Standing:
    progress = job.progress
    return Standing(
        name=job.spec.name,
        submitted_ms=job.submitted_ms,
        user=certified(job.spec, job.certified_by).user,
        guardians=job.guardians,
        reason=job.reason,
        exit_code=job.exit_code,
        failures=job.failures,
        losses=job.losses,
        preemptions=job.preemptions,
        attempts_made=job.attempts_made,
        is_overdue=job.is_overdue,
        started_ms=job.started_ms,
        ended_ms=job.ended_ms,
        ready_ms=job.ready_ms,
        after_left=tuple(job.after_left),
        tries=progress.tries if progress else {},
        index_losses=progress.losses if progress else {},
        mean_us=progress.mean_us if progress else 0,
        gang_go=job.gang_go,
        votes=job.votes,
        ship=job.spec.ship,
        rooted=job.rooted,
        whys=progress.whys if progress else {},
    )


class Written(NamedTuple):
    """An attempt as it stands in the record from now on."""

    body: bytes
    attempt: Attempt | None = None  # None: nothing new is known of it.


def _notes(job: Job, version: Fence, before: JobRecord | None) -> dict[str, Written]:
    known, runs = (before.attempts, before.runs) if before else ({}, ())
    written: dict[str, Written] = {}
    for attempt in job.attempts:
        old = known.get(attempt.id, b"")
        ranges = _ranges(job.spec.array, attempt.indices)
        if not old and ranges and covers(runs, ranges):
            continue  # Of a chunk whose indices are decided nothing is written any more.
        body = _note(job, attempt, version, old)
        written[attempt.id] = Written(body, attempt if body != old else None)
    present = {attempt.id for attempt in job.attempts}
    for attempt_id in sorted(known.keys() - present):
        note = note_of(known[attempt_id])
        if note.is_live:  # The job knows nothing of it any more: it was never taken or never ran.
            gone = msgspec.structs.replace(note, state="ended", how="stopped", at=version)
            written[attempt_id] = Written(written_anew(gone, known[attempt_id]))
    return written


def _note(job: Job, attempt: Attempt, version: Fence, old: bytes) -> bytes:
    before = note_of(old) if old else None
    epoch = before.epoch if before else job.epoch
    note = AttemptNote(
        number=attempt.number,
        host=attempt.host or (before.host if before else version.epoch.node),
        epoch=attempt.epoch if attempt.epoch.node else epoch,
        state=STATES[attempt.state],
        at=before.at if before else version,
        lease=attempt.lease if attempt.own_id else "",
        node=attempt.node,
        granted_ms=attempt.granted_ms,
        started_ms=attempt.started_ms,
        ended_ms=attempt.ended_ms,
        exit_code=attempt.exit_code,
        how=attempt.how,
        note=attempt.note,
        pid=attempt.pid,
        positions=_ranges(job.spec.array, attempt.indices),
        tries=attempt.tries,
        ended_indices=attempt.ended_indices,
        cores=attempt.cores,
        gpus=attempt.gpus,
        usage=attempt.usage,
        rank=attempt.rank,
        saved=attempt.saved,
    )
    if note == before:
        return old
    return written_anew(msgspec.structs.replace(note, at=version), old)


@lru_cache(maxsize=4_096)  # The chunks that run: each is looked at whenever one of them ends.
def _ranges(array: Array | None, indices: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
    return ranges_of(_positions(array, indices))


def _positions(array: Array | None, indices: tuple[int, ...]) -> list[int]:
    return [array.indices.index(index) for index in indices] if array else []


def _fates(job: Job, written: dict[str, Written]) -> tuple[Runs, dict[int, int]]:
    """The indices that have ended, and by which attempts as far as that is news."""
    if job.progress is None:
        return (), {}
    states, runs = job.progress.states, runs_of(job.progress.states)
    decided: dict[int, str] = {}
    for attempt_id, (_, attempt) in written.items():  # In order: the last that ran one decided it.
        if attempt is not None:
            ended = attempt.indices[: attempt.ended_indices]
            decided |= dict.fromkeys(_positions(job.spec.array, ended), attempt_id)
    for attempt_id in sorted(set(decided.values())):
        note = note_of(written[attempt_id].body)
        like = Run(0, 0, 0, attempt_id, note.epoch, note.number, note.host)
        positions = [at for at, last in decided.items() if last == attempt_id]
        runs = joined_runs(runs, runs_of_attempt(positions, states, like))
    return runs, job.progress.codes


def _results(
    job: Job, version: Fence, written: dict[str, Written], before: JobRecord | None
) -> tuple[bytes, ...]:
    """How it ended, unless something as good is written already."""
    if not job.has_ended:
        return ()
    if before and before.results:
        best = result_of(before.results[0])
        if result_rank(best.state) <= result_rank(job.state):
            return ()
    attempts = [attempt for attempt in job.attempts if attempt.id in written]
    ended = [attempt for attempt in attempts if attempt.exit_code == job.exit_code]
    last = max(ended or attempts, key=lambda attempt: attempt.number, default=None)
    note = note_of(written[last.id].body) if last else None
    result = Result(
        state=job.state,
        epoch=note.epoch if note else version.epoch,
        number=note.number if note else 0,
        node=note.host if note else version.epoch.node,
        attempt=last.id if last else "",
        exit_code=job.exit_code,
        reason=job.reason,
        ended_ms=job.ended_ms or 0,
    )
    return (encode(result),)


def _concluded(
    job: Job, version: Fence, written: dict[str, Written], before: JobRecord | None
) -> tuple[bytes, ...]:
    """How it will end, for whoever takes over before a majority knows; the first end stays."""
    if job.ending is None or job.has_ended or (before and before.concluded):
        return ()
    return _results(_ended(job), version, written, None)


def _story(job: Job) -> tuple[Line, ...]:
    """Lines of one millisecond are told apart, and kept in order, by their place in it."""
    lines: list[Line] = []
    for line in job.story:
        place = lines[-1][1] + 1 if lines and lines[-1][0] == line.at_ms else 0
        lines.append((line.at_ms, place, line.what, line.detail))
    return tuple(lines)
