"""A record that another tells of a job may be sound in itself, and yet not be of this job."""

import msgspec
import pytest

from distributed_grid.kernel.across.record import JobRecord
from distributed_grid.kernel.across.record_bytes import decode, encode, is_readable
from distributed_grid.kernel.across.record_parts import (
    AttemptNote,
    Result,
    note_of,
    standing_of,
)
from distributed_grid.kernel.across.record_parts import encode as encode_part
from distributed_grid.kernel.node import Beat, Told
from distributed_grid.model.across import Epoch, Fence
from distributed_grid.model.bounds import RISING_MAX
from distributed_grid.model.ids import NodeId
from distributed_grid.model.job import Array, Where
from distributed_grid.wire.across import Copied, Copy, Holding, NotCopied
from tests.across_world import Neighbour, Room
from tests.node_world import a_job

LATER = RISING_MAX + 1


def record_at(node: Neighbour, job) -> JobRecord:
    record = node.node.across.guarding.find(job.id)
    assert record is not None
    return record


def other_spec(record: JobRecord) -> JobRecord:
    spec = msgspec.msgpack.decode(record.spec) | {"name": "zzz", "priority": "urgent"}
    return msgspec.structs.replace(record, spec=encode_part(spec))


def unreadable(record: JobRecord) -> JobRecord:
    spec = msgspec.msgpack.decode(record.spec) | {"array": {"of a newer version": True}}
    return msgspec.structs.replace(record, spec=encode_part(spec | {"array": 7}))


def larger(record: JobRecord) -> JobRecord:
    spec = msgspec.msgpack.decode(record.spec)
    spec |= {"array": msgspec.to_builtins(Array(start=0, stop=99))}
    return msgspec.structs.replace(record, spec=encode_part(spec), size=99)


def counted_out(record: JobRecord) -> JobRecord:
    version = Fence(record.version.epoch, LATER)
    return msgspec.structs.replace(record, version=version)


def tried_out(record: JobRecord) -> JobRecord:
    note = encode_part(AttemptNote(number=LATER, host=record.home))
    return msgspec.structs.replace(record, attempts={"e" * 32: note})


def over_and_larger(record: JobRecord) -> JobRecord:
    result = encode_part(Result(state="failed"))
    return msgspec.structs.replace(record, spec=b"", attempts={}, results=(result,), size=99)


def of_a_stranger(record: JobRecord) -> JobRecord:
    version = Fence(Epoch(record.version.epoch.counter + 1, NodeId("f" * 64)))
    return msgspec.structs.replace(record, version=version)


FALSE = [of_a_stranger, other_spec, unreadable, larger, counted_out, tried_out, over_and_larger]


@pytest.fixture
def room() -> Room:
    return Room(3)


@pytest.fixture
def job(room):
    job = a_job("job", array=Array(start=0, stop=9), cpus=4_000)
    room[0].submit(job)
    room.settle()
    return job


@pytest.mark.parametrize("changed", FALSE)
@pytest.mark.parametrize("kind", [Copy, Holding])
def test_a_home_takes_nothing_of_what_cannot_be_its_job(room, job, kind, changed):
    home, other = room[0], room[1]
    before = record_at(home, job)
    body = encode(changed(before))
    word = Copy(record=body) if kind is Copy else Holding(job=job.id, record=body)

    home.step(Told(now_ms=home.now_ms, peer=other.me, message=word))

    assert record_at(home, job) == before
    assert home.job(job).spec.name == "job"
    if kind is Copy:
        assert isinstance(home.sent[-1][1], NotCopied)


@pytest.mark.parametrize("changed", FALSE)
def test_a_holder_keeps_what_it_has_of_a_job_that_cannot_be_another(room, job, changed):
    holder = room[1]
    before = record_at(holder, job)

    holder.step(
        Told(
            now_ms=holder.now_ms,
            peer=room[0].me,
            message=Copy(record=encode(changed(before))),
        )
    )

    assert record_at(holder, job) == before
    assert isinstance(holder.sent[-1][1], NotCopied)


def test_a_specification_with_more_fields_is_of_the_same_job(room, job):
    home, other = room[0], room[1]
    before = record_at(home, job)
    spec = msgspec.msgpack.decode(before.spec) | {"of a newer version": 1}
    newer = msgspec.structs.replace(before, spec=encode_part(spec))

    other.step(Told(now_ms=other.now_ms, peer=home.me, message=Copy(record=encode(newer))))

    assert record_at(other, job).spec == newer.spec
    assert isinstance(other.sent[-1][1], Copied)


def test_a_summary_of_a_job_that_goes_on_is_no_record(room, job):
    whole = record_at(room[0], job)
    empty = msgspec.structs.replace(whole, spec=b"", attempts={})

    with pytest.raises(msgspec.ValidationError, match="goes on"):
        decode(encode(empty))


def test_what_no_version_here_can_read_is_left_on_the_disk_and_not_taken_over(room, job):
    holder = room[1]
    body = encode(unreadable(record_at(holder, job)))
    assert not is_readable(decode(body))
    holder.saved_held[job.id] = body
    holder.saved_jobs.clear()
    room.kill(room[0])
    room.kill(room[2])

    holder.start_agent()
    holder.look()
    for _ in range(600):
        holder.now_ms += 500
        holder.step(Beat(now_ms=holder.now_ms))

    assert job.id not in holder.node.coordinator.jobs
    assert holder.saved_held[job.id] == body


def test_an_attempt_of_one_job_is_none_of_another(room):
    """A liar writes the lease of one job into the record of another."""
    first, second, third = room.nodes
    guest = a_job("guest", require=Where(nodes=("node-2",)))
    first.submit(guest)
    room.settle()
    (lease,) = first.job(guest).live_attempts
    own = a_job("own", cpus=4_000, require=Where(nodes=("node-2",)))
    second.submit(own)
    room.settle()
    before = record_at(second, own)
    note = AttemptNote(number=1, host=second.me, epoch=before.version.epoch)
    forged = msgspec.structs.replace(before, attempts={lease.id: encode_part(note)})

    second.step(Told(now_ms=second.now_ms, peer=third.me, message=Copy(record=encode(forged))))

    assert not second.job(own).attempts
    second.node.check()


def test_an_attempt_elsewhere_of_one_job_is_none_of_another(room):
    second, third = room[1], room[2]
    running = a_job("running", require=Where(nodes=("node-3",)))
    own = a_job("own", cpus=4_000, require=Where(nodes=("node-1",)))
    second.submit(running, own)
    room.settle()
    (attempt,) = second.job(running).live_attempts
    before = record_at(second, own)
    known = set(before.attempts)
    note = AttemptNote(number=1, host=third.me, epoch=before.version.epoch, state="begun")
    forged = msgspec.structs.replace(before, attempts={attempt.id: encode_part(note)})

    second.step(Told(now_ms=second.now_ms, peer=third.me, message=Copy(record=encode(forged))))

    assert {one.id for one in second.job(own).attempts} == known
    second.node.check()


def test_a_job_is_taken_over_without_attempts_that_another_job_has(room):
    first, second, third = room.nodes
    running = a_job("running", require=Where(nodes=("node-3",)))
    second.submit(running)
    held = a_job("held", cpus=4_000, require=Where(nodes=("node-1",)))
    first.submit(a_job("before it", cpus=4_000, require=Where(nodes=("node-1",))), held)
    room.settle()
    (attempt,) = second.job(running).live_attempts
    before = record_at(second, held)
    version = Fence(before.version.epoch, before.version.seq + 1)
    note = AttemptNote(number=9, host=third.me, epoch=version.epoch, state="begun")
    standing = msgspec.structs.replace(standing_of(before.standing), guardians=(second.me,))
    forged = msgspec.structs.replace(
        before,
        version=version,
        standing=encode_part(standing),
        attempts={attempt.id: encode_part(note)},
    )
    second.step(Told(now_ms=second.now_ms, peer=first.me, message=Copy(record=encode(forged))))
    assert note_of(record_at(second, held).attempts[attempt.id]).host == third.me

    room.kill(first)
    room.until(lambda: held.id in second.node.coordinator.jobs)

    assert not second.job(held).attempts
    assert second.state(held) == "waiting"
    assert second.job(running).live_attempts[0].id == attempt.id
    second.node.check()
