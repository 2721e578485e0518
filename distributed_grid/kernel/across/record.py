"""The record of a job that several nodes hold, and how two of them become one.

Lives here: the record, its join, the state that follows from it. Never here: its bytes
(`record_bytes`), how a job becomes a record (`record_writing`), who holds a copy (`guarding`).
Invariant: joining is idempotent, commutative and associative, field by field. What a newer version
wrote and this one does not know is kept, through joins and on disk.
"""

from bisect import bisect_left
from collections.abc import Iterable
from typing import Final

import msgspec

from distributed_grid.kernel.across.record_parts import (
    Result,
    note_age,
    note_key,
    note_of,
    result_key,
    result_of,
    standing_of,
)
from distributed_grid.kernel.across.record_runs import (
    BAD,
    GOOD,
    Runs,
    covers,
    joined_runs,
    neighbours_merged,
)
from distributed_grid.kernel.jobs import STORY_LINES_MAX
from distributed_grid.model.across import Fence
from distributed_grid.model.bounds import Count, Moment, Name, Story
from distributed_grid.model.ids import JobId, NodeId
from distributed_grid.wire.api import ENDED, JobState

RESULTS_MAX: Final = 4  # One for each side of what may have been several partitions.
HOLDERS_MAX: Final = 32  # Of a job that outlived as many guardians.
NOTES_MAX: Final = 64  # Of one job: those of dozens of retries and preemptions.
WHOLE_TRIES: Final = 4  # The ranks of a gang are one try: of the last ones none is forgotten.
CHUNK_NOTES_MAX: Final = 4_096  # Of one array: as many chunks at once as 64 nodes of 64 cores run.

# Of the story: when, which in that millisecond, what, detail.
Line = tuple[Moment, Count, Name, Story]


class JobRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that others must know of a job to bring it to its end."""

    job: JobId
    version: Fence  # The home's last write; its epoch names the home.
    standing: bytes  # A Standing: the home's word, of which the last counts.
    spec: bytes = b""  # A JobSpec, which never changes. Empty: a summary.
    cancel: bool = False  # Once asked for, for ever.
    holders: tuple[NodeId, ...] = ()  # Whoever was home or guardian: they may have a copy.
    attempts: dict[str, bytes] = {}  # AttemptNotes by the attempt's id.
    results: tuple[bytes, ...] = ()  # Results, the best first.
    # Results that a home has come to, and those who vote on the job may not know. It is over when
    # they do; until then whoever is its home asks them for that, and does not run it again.
    concluded: tuple[bytes, ...] = ()
    story: tuple[Line, ...] = ()
    size: int = 0  # How many indices; 0: no array.
    runs: Runs = ()  # Their fates.
    codes: dict[int, int] = {}  # Exit codes of those that failed, by position.
    others: dict[str, bytes] = {}  # Fields of a newer version.

    @property
    def home(self) -> NodeId:
        """Who looks after the job."""
        return self.version.epoch.node

    @property
    def is_summary(self) -> bool:
        """Whether it only tells how the job ended."""
        return not self.spec

    @property
    def guardians(self) -> tuple[NodeId, ...]:
        """Who is to hold a copy, in the order in which they take over."""
        return standing_of(self.standing).guardians


def state_of(record: JobRecord) -> JobState:
    """Succeeded before cancelled before failed before running before waiting."""
    if not record.results:
        is_begun = any(note_of(body).state == "begun" for body in record.attempts.values())
        return "running" if is_begun else "waiting"
    is_whole = record.size > 0 and covers(record.runs, [(0, record.size)])
    if is_whole and all(run.fate == GOOD for run in record.runs):
        return "succeeded"  # All of an array together, though each side alone may have failed.
    return _known(result_of(record.results[0]).state)


def has_ended(record: JobRecord) -> bool:
    """Whether nothing is left to be done."""
    return bool(record.results)


def conclusion_of(record: JobRecord) -> Result | None:
    """How it will have ended once those who vote on it know; None: nobody has said so."""
    if not record.concluded:
        return None
    best = result_of(record.concluded[0])
    return msgspec.structs.replace(best, state=_known(best.state))


def _known(state: str) -> JobState:
    return state if state in ENDED else "failed"  # type: ignore[return-value]  # A newer version's.


def joined(one: JobRecord, other: JobRecord) -> JobRecord:
    """What both know together."""
    if one == other:
        return one
    assert one.job == other.job, "records of two jobs"
    last = max(one, other, key=lambda record: (record.version, record.standing))
    runs = joined_runs(one.runs, other.runs)
    size = max(one.size, other.size)
    results = _best({*one.results, *other.results})
    return JobRecord(
        job=one.job,
        version=last.version,
        standing=last.standing,
        # One id has one specification; a newer version's has more fields, and so the greater bytes.
        spec=max(one.spec, other.spec),
        cancel=one.cancel or other.cancel,
        holders=_named({*one.holders, *other.holders}),
        attempts=_joined_notes(one.attempts, other.attempts, runs, size),
        results=results,
        concluded=() if results else _best({*one.concluded, *other.concluded}),
        story=_told((*one.story, *other.story)),
        size=size,
        runs=runs,
        codes=_codes(runs, one.codes, other.codes),
        others=_greater(one.others, other.others),
    )


def normal(record: JobRecord) -> JobRecord:
    """The same, as joining it with itself would leave it."""
    runs = neighbours_merged(record.runs)
    return msgspec.structs.replace(
        record,
        runs=runs,
        holders=_named(set(record.holders)),
        attempts=_joined_notes(record.attempts, {}, runs, record.size),
        results=_best(set(record.results)),
        concluded=() if record.results else _best(set(record.concluded)),
        story=_told(record.story),
        codes=_codes(runs, record.codes, {}),
    )


def _joined_notes(
    one: dict[str, bytes], other: dict[str, bytes], runs: Runs, size: int
) -> dict[str, bytes]:
    notes = dict(one)
    for attempt, body in other.items():
        mine = notes.get(attempt, body)
        notes[attempt] = mine if mine == body else max(mine, body, key=note_key)
    if size:
        # All that a chunk was for has its fate: nobody will ask for the attempt any more.
        notes = {
            attempt: body
            for attempt, body in notes.items()
            if not (ranges := note_of(body).positions) or not covers(runs, ranges)
        }
    limit = CHUNK_NOTES_MAX if size else NOTES_MAX
    return _latest(notes, limit) if len(notes) > limit else notes


def _latest(notes: dict[str, bytes], limit: int) -> dict[str, bytes]:
    """So many, and all of the last tries: what is kept of a sum is kept of its parts too."""
    ages = {attempt: note_age((attempt, body)) for attempt, body in notes.items()}
    ordered = sorted(notes, key=ages.__getitem__)
    tries = sorted({ages[attempt][:2] for attempt in ordered})[-WHOLE_TRIES:]
    older = [attempt for attempt in ordered[:-limit] if ages[attempt][:2] in tries]
    return {attempt: notes[attempt] for attempt in (*older, *ordered[-limit:])}


def _named(holders: set[NodeId]) -> tuple[NodeId, ...]:
    return tuple(sorted(holders)[:HOLDERS_MAX])


def _best(results: set[bytes]) -> tuple[bytes, ...]:
    if len(results) < 2:
        return tuple(results)
    return tuple(sorted(results, key=result_key)[:RESULTS_MAX])


def _told(lines: Iterable[Line]) -> tuple[Line, ...]:
    """The story in order: how it began, and the last that happened."""
    places: dict[tuple[int, str, str], int] = {}
    for at_ms, place, what, detail in lines:
        key = at_ms, what, detail
        places[key] = min(place, places.get(key, place))
    keys = sorted(places)
    if len(keys) > STORY_LINES_MAX:
        del keys[1 : len(keys) - STORY_LINES_MAX + 1]
    return tuple(
        sorted((at_ms, places[at_ms, what, detail], what, detail) for at_ms, what, detail in keys)
    )


def _codes(runs: Runs, one: dict[int, int], other: dict[int, int]) -> dict[int, int]:
    """Those of the positions that failed, and did not succeed elsewhere."""
    ordered = sorted({*one, *other})  # There may be a million: none is looked for by itself.
    return {
        at: max(one.get(at, 0), other.get(at, 0))
        for run in runs
        if run.fate == BAD
        for at in ordered[bisect_left(ordered, run.start) : bisect_left(ordered, run.stop)]
    }


def _greater(one: dict[str, bytes], other: dict[str, bytes]) -> dict[str, bytes]:
    return {name: max(one.get(name, b""), other.get(name, b"")) for name in {*one, *other}}
