"""The record of a job as bytes, on disks and between nodes, and back.

Lives here: its written form. Never here: what it means (`record`).
Invariant: equal records have equal bytes; what comes out of `decode` is sound in every part, and
has the fields that a newer version wrote.
"""

from typing import Annotated, Final

import msgspec

from distributed_grid.kernel.across.record import JobRecord, Line, normal
from distributed_grid.kernel.across.record_parts import (
    fields_of,
    note_of,
    result_of,
    standing_of,
)
from distributed_grid.kernel.across.record_runs import Runs, is_sound
from distributed_grid.model.across import Fence, Nodes
from distributed_grid.model.bounds import CHUNK_MAX, INDICES_MAX, RISING_MAX, Code, Place, Word
from distributed_grid.model.ids import JobId, is_id
from distributed_grid.model.job import JobSpec
from distributed_grid.model.soundness import check
from distributed_grid.wire.mesh import JUNK

NOTES_READ_MAX: Final = 16_384  # Of which four times as few are kept, as of the others below.
RESULTS_READ_MAX: Final = 16
LINES_READ_MAX: Final = 1_024

_Results = Annotated[tuple[msgspec.Raw, ...], msgspec.Meta(max_length=RESULTS_READ_MAX)]


class _Written(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The record as it travels: its parts stand in it as they are."""

    job: JobId
    version: Fence
    standing: msgspec.Raw
    spec: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    cancel: bool = False
    holders: Nodes = ()
    attempts: Annotated[dict[Word, msgspec.Raw], msgspec.Meta(max_length=NOTES_READ_MAX)] = {}
    results: _Results = ()
    concluded: _Results = ()
    story: Annotated[tuple[Line, ...], msgspec.Meta(max_length=LINES_READ_MAX)] = ()
    size: Place = 0
    runs: Runs = ()
    codes: Annotated[dict[Place, Code], msgspec.Meta(max_length=INDICES_MAX)] = {}


_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final = msgspec.msgpack.Decoder(_Written)
_spec: Final = msgspec.msgpack.Decoder(JobSpec)
_KNOWN: Final = frozenset(_Written.__struct_fields__)


def encode(record: JobRecord) -> bytes:
    """A record as bytes; equal records have equal bytes."""
    raw = msgspec.Raw
    body = _encoder.encode(
        _Written(
            job=record.job,
            version=record.version,
            standing=raw(record.standing),
            spec=raw(record.spec) if record.spec else msgspec.UNSET,
            cancel=record.cancel,
            holders=record.holders,
            attempts={attempt: raw(note) for attempt, note in sorted(record.attempts.items())},
            results=tuple(raw(result) for result in record.results),
            concluded=tuple(raw(result) for result in record.concluded),
            story=record.story,
            size=record.size,
            runs=record.runs,
            codes=dict(sorted(record.codes.items())),
        )
    )
    if not record.others:
        return body
    others = {name: raw(value) for name, value in sorted(record.others.items())}
    return _encoder.encode({**fields_of(body), **others})


def decode(body: bytes) -> JobRecord:
    """A record from bytes that any member may have sent; raises one of `wire.mesh.JUNK`."""
    written = _decoder.decode(body)
    others = {name: bytes(raw) for name, raw in fields_of(body).items() if name not in _KNOWN}
    record = JobRecord(
        job=written.job,
        version=written.version,
        standing=bytes(written.standing),
        spec=b"" if written.spec is msgspec.UNSET else bytes(written.spec),
        cancel=written.cancel,
        holders=written.holders,
        attempts={attempt: bytes(raw) for attempt, raw in written.attempts.items()},
        results=tuple(bytes(raw) for raw in written.results),
        concluded=tuple(bytes(raw) for raw in written.concluded),
        story=written.story,
        size=written.size,
        runs=written.runs,
        codes=written.codes,
        others=others,
    )
    _check(record)
    return normal(record)


def spec_of(record: JobRecord) -> JobSpec:
    """What the job is; never of a summary. Raises JUNK if a newer version's cannot be read here."""
    return _spec.decode(record.spec)


def is_readable(record: JobRecord) -> bool:
    """Whether this version could look after the job."""
    try:
        spec_of(record)
    except JUNK:
        return False
    return _can_rise(record)


def _can_rise(record: JobRecord) -> bool:
    """Whether it can be counted on from where it stands, for longer than any job lasts."""
    standing, version = standing_of(record.standing), record.version
    notes = [note_of(body) for body in record.attempts.values()]
    rising = (
        *(version.epoch.counter, version.seq, standing.attempts_made, standing.preemptions),
        *(standing.failures, standing.losses, *standing.tries.values()),
        *standing.index_losses.values(),
        *(max(note.number, note.tries) for note in notes),
    )
    return max(rising) < RISING_MAX


def may_join(record: JobRecord, other: JobRecord) -> bool:
    """Whether a record may be of the same job as another: what a job is never changes.

    Where it may run and what travels follows from its directory; whose it is, from who tells it.
    """
    if record.size != other.size or not _can_rise(record):
        return False
    if record.spec == other.spec or record.is_summary or other.is_summary:
        return True
    try:
        return _kind(spec_of(record)) == _kind(spec_of(other))
    except JUNK:
        return False


def _kind(spec: JobSpec) -> tuple[object, ...]:
    argv = spec.work and spec.work.argv
    return spec.name, argv, spec.array, spec.gang, spec.at_most_once, spec.voters


def _check(record: JobRecord) -> None:
    """Raise as for junk if a part cannot be read: nothing later has to expect that."""
    if not is_id(record.job):
        raise msgspec.ValidationError("not the id of a job")
    if not is_sound(record.runs, record.size):
        raise msgspec.ValidationError("the runs of an array are out of order")
    if record.spec:
        _check_spec(record)
    elif not record.results:
        raise msgspec.ValidationError("no specification of a job that goes on")
    standing = standing_of(record.standing)
    for places in (record.codes, standing.tries, standing.index_losses, standing.whys):
        if places and max(places) >= record.size:
            raise msgspec.ValidationError("indices beyond the array")
    for body in record.attempts.values():
        if positions := note_of(body).positions:
            _check_positions(positions, record.size)
    for result in (*record.results, *record.concluded):
        result_of(result)


def _check_spec(record: JobRecord) -> None:
    """One that cannot be read is a newer version's: this one keeps it, and never looks after it."""
    try:
        spec = spec_of(record)
    except JUNK:
        return
    check(spec)
    if spec.id != record.job or spec.work is None:
        raise msgspec.ValidationError("the specification of another job")
    if record.size != (len(spec.array.indices) if spec.array else 0):
        raise msgspec.ValidationError("not as many indices as its array has")


def _check_positions(positions: tuple[tuple[int, int], ...], size: int) -> None:
    count = 0
    for start, stop in positions:
        if not start < stop <= size:
            raise msgspec.ValidationError("positions beyond the array")
        count += stop - start
    if count > CHUNK_MAX:
        raise msgspec.ValidationError("more positions than a lease may carry")
