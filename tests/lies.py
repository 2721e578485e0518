"""What a lying member says: every message that was once found to hurt, and others of its kind.

Lives here: the messages as bytes, absurd or forged. Never here: who says them (`liar`), what must
hold while they are said.
Invariant: a message is honest but for what makes it a lie, so that nothing else gets it refused.
"""

from typing import Any

import msgspec

from distributed_grid.kernel.across.record import JobRecord
from distributed_grid.kernel.across.record_bytes import encode as record_bytes
from distributed_grid.kernel.across.record_parts import AttemptNote, Standing
from distributed_grid.kernel.across.record_parts import encode as part
from distributed_grid.model.across import Epoch, Fence
from distributed_grid.model.ids import JobId, NodeId, job_id_of
from distributed_grid.model.job import Array, JobSpec, Work
from distributed_grid.model.resources import Request
from distributed_grid.wire.across import (
    Begun,
    Copy,
    Halt,
    NotTaken,
    Poll,
    Report,
    Reserve,
    Start,
    Taken,
)
from distributed_grid.wire.gangs import Hold
from distributed_grid.wire.keeper import Ended, Usage
from distributed_grid.wire.register import Recollect, Recollected

HUGE = 2**64 - 1  # The largest that the encoding has.
FAR = 2**62
RANKS = 1_024
WORK = Work(argv=("true",), cwd="/")


def bent(message: Any, **changes: Any) -> bytes:
    """A message with some of its values replaced, which no honest program would let through."""
    plain = msgspec.to_builtins(message, builtin_types=(bytes,))
    for path, value in changes.items():
        *way, last = path.split("__")
        at = plain
        for step in way:
            at = at[step]
        at[last] = value
    return msgspec.msgpack.encode(plain)


def a_spec(name: str, **fields: Any) -> JobSpec:
    """A job of nobody: it needs almost nothing."""
    given = {"request": Request(cpu_milli=10), "work": WORK, "user": "liar"}
    return JobSpec(**{"id": job_id_of(name), "name": name, **given, **fields})


def absurd(me: NodeId, job: str, tag: str) -> dict[str, list[bytes]]:
    """Single messages on which an agent once ended or hung; `job` is one that the victim knows."""
    epoch = Epoch(1, me)
    ended = Ended(number=1, attempt="x" * 32, how="exited", code=0, started_ms=1, ended_ms=2,
                  usage=Usage())  # fmt: skip
    greedy = a_spec(f"greedy {tag}", request=Request())
    report = Report(job=JobId(job), lease="x" * 32, first=0, ends=(ended,))
    gangs = [
        msgspec.msgpack.encode(Hold(
            job=job_id_of(f"gang {tag} {number}"),
            epoch=epoch,
            number=1,
            spec=a_spec(f"gang {tag} {number}", request=Request(), gang=RANKS,
                        priority="high" if number == 8 else "low"),
            ranks=RANKS,
            since_ms=number + 1,
        ))
        for number in range(9)
    ]  # fmt: skip
    reserve = Reserve(job=greedy.id, epoch=epoch, number=1, spec=greedy)
    return {
        "gangs of a thousand ranks that need nothing": gangs,
        "a report that begins beyond all numbers": [bent(report, first=HUGE)],
        "a report of a negative number of ends": [bent(report, first=-1)],
        "a store with a negative number of votes": [
            bent(Recollect(life=1, store="x", count=0), count=-1)
        ],
        "a store with more votes than can be": [
            bent(Recollect(life=1, store="x", count=0), count=HUGE)
        ],
        "an answer of the life that is none": [
            bent(Recollected(life=0, store="x", count=0, by="y"), life=-1)
        ],
        "room for more leases than can be": [bent(reserve, leases=FAR)],
        "an epoch beyond all numbers": [bent(reserve, epoch=[HUGE, me])],
    }


def without_work(me: NodeId, tag: str) -> tuple[Reserve, Start]:
    """Room for a job, and its start without anything to run, once a lease is known."""
    spec = a_spec(f"idle {tag}", work=None)
    reserve = Reserve(job=spec.id, epoch=Epoch(1, me), number=1, spec=spec)
    start = Start(job=spec.id, epoch=Epoch(1, me), number=1, lease="", spec=spec, attempt=1)
    return reserve, start


def records(me: NodeId, name: str, holder: NodeId, tag: str) -> dict[str, bytes]:
    """Records of jobs of one's own on which whoever takes them over once crashed or hung."""
    found = {}
    for lie in ("an epoch beyond all numbers", "an array that stands still", "positions for ever"):
        found[lie] = _record(lie, a_spec(f"{lie} {tag}", user=f"liar@{name}"), me, holder)
    return found


def _record(lie: str, spec: JobSpec, me: NodeId, holder: NodeId) -> bytes:
    standing = Standing(
        name=spec.name, submitted_ms=1, user=spec.user, guardians=(holder,), reason="waiting"
    )
    epoch = [HUGE, me] if lie.startswith("an epoch") else [1, me]
    written = msgspec.msgpack.decode(part(spec))
    notes: dict[str, Any] = {}
    size = 0
    if lie.startswith("an array"):
        size = 4
        array = msgspec.to_builtins(Array(start=0, stop=4))
        written["array"] = {**array, "step": 0}
    if lie.startswith("positions"):
        size = 4
        written["array"] = msgspec.to_builtins(Array(start=0, stop=4))
        note = AttemptNote(number=1, host=me, epoch=Epoch(1, me), state="begun", lease="l" * 32)
        notes["l" * 32] = {**msgspec.to_builtins(note), "positions": [[0, 2**40]]}
    honest = JobRecord(
        job=spec.id, version=Fence(Epoch(1, me), 1), standing=part(standing), spec=part(spec),
        holders=tuple(sorted((me, holder))), size=size,
    )  # fmt: skip
    plain = msgspec.msgpack.decode(record_bytes(honest))
    plain |= {"version": [epoch, 1], "spec": written, "attempts": notes}
    return msgspec.msgpack.encode(Copy(record=msgspec.msgpack.encode(plain)))


def a_heavy_record(me: NodeId, name: str, tag: str, size_bytes: int) -> bytes:
    """A record of a job of one's own that is large, and sound."""
    work = Work(argv=("true", *["x" * 100_000] * (size_bytes // 100_000)), cwd="/")
    spec = a_spec(f"heavy {tag}", user=f"liar@{name}", work=work)
    standing = Standing(name=spec.name, submitted_ms=1, user=spec.user)
    record = JobRecord(
        job=spec.id, version=Fence(Epoch(1, me), 1), standing=part(standing), spec=part(spec),
        holders=(me,),
    )  # fmt: skip
    return msgspec.msgpack.encode(Copy(record=record_bytes(record)))


def forged(me: NodeId, job: str, lease: str, number: int) -> list[bytes]:
    """Words about an attempt that is another node's: it has ended, never began, is not wanted."""
    ended = Ended(
        number=number, attempt=lease, how="exited", code=0, started_ms=1, ended_ms=2, usage=Usage()
    )
    high, job_id = Epoch(2**40, me), JobId(job)
    lies = [
        NotTaken(job=job_id, lease=lease, why="no such lease"),
        Report(job=job_id, lease=lease, first=0, ends=(ended,)),
        Begun(job=job_id, lease=lease, pid=1, at_ms=1),
        Taken(job=job_id, lease=lease),
        Halt(job=job_id, epoch=high, lease=lease, grace_ms=0),
        Poll(job=job_id, epoch=high, lease=lease),
    ]
    return [msgspec.msgpack.encode(lie) for lie in lies]


def shut_out(me: NodeId, job: str) -> bytes:
    """Room for a job of somebody else, under an epoch above all that its home will ever have."""
    spec = msgspec.structs.replace(a_spec("nobody's"), id=JobId(job))
    honest = Reserve(job=JobId(job), epoch=Epoch(1, me), number=1, spec=spec)
    return bent(honest, epoch=[2**52, me])
