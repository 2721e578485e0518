"""The record of a job as bytes, on disks and between nodes, and back.

Lives here: its written form. Never here: what it means (`record`).
Invariant: equal records have equal bytes; what comes out of `decode` is sound in every part, and
has the fields that a newer version wrote.
"""

from typing import Final

import msgspec

from distributed_grid.kernel.across.record import JobRecord, Line, normal
from distributed_grid.kernel.across.record_parts import fields_of, note_of, result_of, standing_of
from distributed_grid.kernel.across.record_runs import Run, is_sound
from distributed_grid.model.across import Fence
from distributed_grid.model.ids import ID_DIGITS, JobId, NodeId
from distributed_grid.model.job import JobSpec
from distributed_grid.wire.mesh import JUNK


class _Written(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The record as it travels: its parts stand in it as they are."""

    job: JobId
    version: Fence
    standing: msgspec.Raw
    spec: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    cancel: bool = False
    holders: tuple[NodeId, ...] = ()
    attempts: dict[str, msgspec.Raw] = {}
    results: tuple[msgspec.Raw, ...] = ()
    concluded: tuple[msgspec.Raw, ...] = ()
    story: tuple[Line, ...] = ()
    size: int = 0
    runs: tuple[Run, ...] = ()
    codes: dict[int, int] = {}


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
    return True


def _check(record: JobRecord) -> None:
    """Raise as for junk if a part cannot be read: nothing later has to expect that."""
    if len(record.job) != ID_DIGITS or set(record.job) - set("0123456789abcdef"):
        raise msgspec.ValidationError("not the id of a job")
    if not is_sound(record.runs, record.size):
        raise msgspec.ValidationError("the runs of an array are out of order")
    standing_of(record.standing)
    for note in record.attempts.values():
        note_of(note)
    for result in (*record.results, *record.concluded):
        result_of(result)
