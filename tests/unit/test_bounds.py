"""What is just inside a bound is read, what is just outside is not; nothing honest is outside."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributed_grid.kernel.across.record_parts import AttemptNote, Standing, note_of, standing_of
from distributed_grid.kernel.chunks import smoothed_us
from distributed_grid.kernel.jobs import Attempt
from distributed_grid.model import bounds
from distributed_grid.model.across import Epoch, Fence
from distributed_grid.model.bounds import BYTES_MAX, COUNT_MAX, LEASES_MAX, MILLI_MAX, MOMENT_MS_MAX
from distributed_grid.model.ids import JobId, NodeId
from distributed_grid.model.job import AFTER_MAX, NAMES_MAX, Array, JobSpec, Work
from distributed_grid.model.resources import Request, Resources
from distributed_grid.wire import job_lane
from distributed_grid.wire.across import Begun, Granted, Idle, Inquiry, Report, Reserve, Start
from distributed_grid.wire.gangs import CommitHold, Held, HeldLease
from distributed_grid.wire.keeper import Ended, Run, Usage
from distributed_grid.wire.mesh import JUNK
from distributed_grid.wire.register import Member, Recollect, Recollected
from distributed_grid.wire.sharing import ChangeOffers
from tests.node_world import a_job

NODE = NodeId("a" * 64)
EPOCH = Epoch(1, NODE)
SPEC = a_job("one")
ENDED = Ended(
    number=1, attempt="x", how="exited", code=0, started_ms=1, ended_ms=2, usage=Usage()
)  # fmt: skip


def reads(kind: Any, value: Any, path: str, inside: Any, outside: Any) -> None:
    """The value is read with one thing in its place, and not with another."""
    decode = job_lane.decode if kind is None else msgspec.msgpack.Decoder(kind).decode
    for said, is_read in ((inside, True), (outside, False)):
        plain = msgspec.to_builtins(value, builtin_types=(bytes,))
        *way, last = path.split(".")
        place = plain
        for step in way:
            place = place[int(step) if step.isdigit() else step]
        place[int(last) if last.isdigit() else last] = said
        body = msgspec.msgpack.encode(plain)
        if is_read:
            decode(body)
        else:
            with pytest.raises(JUNK):
                decode(body)


RESERVE = Reserve(job=SPEC.id, epoch=EPOCH, number=1, spec=SPEC)
START = Start(job=SPEC.id, epoch=EPOCH, number=1, lease="l", spec=SPEC, attempt=1)
REPORT = Report(job=SPEC.id, lease="l", first=0, ends=(ENDED,))
BEGUN = Begun(job=SPEC.id, lease="l", pid=1, at_ms=1)
RECOLLECT = Recollect(life=1, store="s", count=0)


@pytest.mark.parametrize(
    ("message", "path", "inside", "outside"),
    [
        (RESERVE, "leases", 1, 0),
        (RESERVE, "leases", COUNT_MAX, 2**62),
        (RESERVE, "epoch.0", COUNT_MAX, COUNT_MAX + 1),
        (RESERVE, "epoch.0", 0, -1),
        (RESERVE, "number", COUNT_MAX, COUNT_MAX + 1),
        (RESERVE, "waited_ms", MOMENT_MS_MAX, MOMENT_MS_MAX + 1),
        (RESERVE, "waited_ms", 0, -1),
        (RESERVE, "spec.retries", 1_000_000, 1_000_001),
        (RESERVE, "spec.after", [], [{"job": SPEC.id}] * (AFTER_MAX + 1)),
        (START, "indices", [*range(256)], [*range(257)]),
        (START, "indices", [10**9], [10**9 + 1]),
        (START, "rank", 1_023, 1_024),
        (START, "ranks", 1_024, 1_025),
        (START, "peers", ["n"] * 1_024, ["n"] * 1_025),
        (START, "lease", "l" * 256, "l" * 257),
        (REPORT, "first", bounds.INDICES_MAX, 2**64 - 1),
        (REPORT, "first", 0, -1),
        (REPORT, "ends", [ENDED] * 256, [ENDED] * 257),
        (REPORT, "ends.0.code", 2**32 - 1, 2**32),
        (REPORT, "ends.0.index", -1, -2),
        (REPORT, "ends.0.usage.user_us", COUNT_MAX, COUNT_MAX + 1),
        (BEGUN, "pid", 2**31 - 1, 2**31),
        (BEGUN, "at_ms", MOMENT_MS_MAX, MOMENT_MS_MAX + 1),
        (RECOLLECT, "count", 0, -1),
        (RECOLLECT, "life", 2**62, 2**62 + 1),
        (Recollected(life=1, store="s", count=0, by="t"), "life", 0, -1),
        (Idle(cpu_milli=1, memory_bytes=1), "cpu_milli", MILLI_MAX, MILLI_MAX + 1),
        (Idle(cpu_milli=1, memory_bytes=1), "memory_bytes", BYTES_MAX, BYTES_MAX + 1),
        (Inquiry(jobs=()), "jobs", [SPEC.id] * 257, [SPEC.id] * 100_001),
    ],
)  # fmt: skip
def test_a_message_is_read_up_to_its_bounds(message, path, inside, outside):
    reads(None, message, path, inside, outside)


@pytest.mark.parametrize(
    ("path", "inside", "outside"),
    [
        ("start_ms", MOMENT_MS_MAX, -1),
        ("deadline_ms", MOMENT_MS_MAX, MOMENT_MS_MAX + 1),
        ("preempt.signal", 1, 0),
        ("preempt.signal", 64, 65),
        ("preempt.grace_ms", 0, -1),
        ("work.timeout_ms", bounds.SPAN_MS_MAX, bounds.SPAN_MS_MAX + 1),
        ("work.log", "/" + "a" * 4_095, "/" + "a" * 4_096),
        ("losses_max", 0, -1),
        ("array", {"stop": 2, "step": 1}, {"stop": 2, "step": 0}),
        ("array", {"stop": 2, "width": 10**9}, {"stop": 2, "width": -1}),
        ("request.cpu_milli", MILLI_MAX, MILLI_MAX + 1),
        ("request.gpus", {"milli": 1}, {"milli": 0}),
        ("require.nodes", ["n"] * NAMES_MAX, ["n"] * (NAMES_MAX + 1)),
    ],
)
def test_a_specification_is_read_up_to_its_bounds(path, inside, outside):
    reads(JobSpec, SPEC, path, inside, outside)


def test_a_share_of_more_than_a_device_is_junk_and_no_crash():
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"gpus": [{"device": "a", "model": "b", "share_milli": 0}]}, Resources)


@pytest.mark.parametrize(
    "spec",
    [
        a_job("words", work=Work(argv=("true", "x" * (2 << 20)), cwd="/")),
        a_job("many words", work=Work(argv=("x",) * 200_000, cwd="/")),
        a_job("told", work=Work(argv=("true",), cwd="/", env={"A": "x" * (1 << 20)})),
        a_job("wide", array=Array(start=0, stop=10_000_000)),
        a_job("far", array=Array(start=10**9 - 1, stop=10**9 + 1)),
        a_job("parts", array=Array(parts=tuple((at, at + 1, 1) for at in range(0, 20_000, 2)))),
        a_job("gang", gang=1_024),
        a_job("nothing", request=Request()),
        a_job("all", request=Request(cpu_milli=MILLI_MAX, memory_bytes=BYTES_MAX)),
        a_job("certified", user="a" * 253 + "@" + "n" * 64),
    ],
    ids=lambda spec: spec.name,
)
def test_the_largest_that_somebody_honest_asks_for_is_read(spec):
    word = Start(job=spec.id, epoch=EPOCH, number=1, lease="l" * 32, spec=spec, attempt=1)

    assert job_lane.decode(job_lane.encode(word)) == word


@pytest.mark.parametrize(
    "word",
    [
        Granted(
            job=SPEC.id, epoch=EPOCH, number=0, lease="l", cores=tuple(range(8_192)),
            gpus=("GPU-" + "0" * 36,) * 1_024, slots=MILLI_MAX,
        ),
        CommitHold(
            job=SPEC.id, epoch=EPOCH, number=1, attempt=1, world=1_024,
            ranks=tuple((f"{rank:032x}", rank) for rank in range(1_024)),
        ),
        Held(job=SPEC.id, epoch=EPOCH, leases=(HeldLease("l" * 32),) * 1_024),
        msgspec.structs.replace(REPORT, ends=tuple(
            msgspec.structs.replace(ENDED, index=index, code=143, note="n" * 4_096)
            for index in range(256)
        )),
    ],
    ids=lambda word: type(word).__name__,
)  # fmt: skip
def test_the_largest_that_an_honest_node_says_is_read(word):
    assert job_lane.decode(job_lane.encode(word)) == word


def test_who_asks_for_more_leases_than_a_node_grants_gets_as_many_as_it_grants():
    """A node of before asks for as many as there are thousandths of a core."""
    body = job_lane.encode(RESERVE).replace(b"\xa6leases\x01", b"\xa6leases\xce\x00\x0f\x42\x40")
    word = job_lane.decode(body)

    assert isinstance(word, Reserve)
    assert word.leases == LEASES_MAX


def test_a_run_of_a_thousand_indices_reaches_the_keeper():
    run = Run(
        attempt="a", job=JobId("b"), argv=("true",), env={}, cwd="/", output_dir="/o",
        scratch_dir="/s", indices=tuple(range(1_000)),
    )  # fmt: skip

    assert msgspec.msgpack.decode(msgspec.msgpack.encode(run), type=Run) == run


@given(st.lists(st.integers(0, COUNT_MAX), max_size=300))
def test_what_is_added_up_of_reports_can_be_read_again(amounts):
    attempt = Attempt(number=1, lease="l", node="n", granted_ms=1)
    for amount in amounts:
        attempt.add_usage(Usage(user_us=amount, system_us=amount))
    note = AttemptNote(number=1, host=NODE, usage=attempt.usage)

    assert note_of(msgspec.msgpack.encode(note)) == note


def test_a_mean_of_centuries_can_be_read_again():
    mean_us = 0
    for _ in range(3):
        mean_us = smoothed_us(mean_us, MOMENT_MS_MAX * 1_000)
    standing = Standing(name="n", submitted_ms=1, mean_us=mean_us)

    assert standing_of(msgspec.msgpack.encode(standing)) == standing


def test_what_two_bounds_make_together_can_be_written():
    for name, kind in vars(bounds).items():
        most = [meta.le for meta in getattr(kind, "__metadata__", ()) if meta.le is not None]
        for value in most:
            assert msgspec.msgpack.encode(2 * value), name
            assert value == 2**62 or value <= 1_000 * COUNT_MAX, name


def test_every_id_that_the_mesh_makes_is_a_name():
    member = Member(NODE, "f" * 32)
    fence = Fence(EPOCH, COUNT_MAX)

    assert msgspec.msgpack.decode(msgspec.msgpack.encode(member), type=Member) == member
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(fence), type=Fence) == fence


def test_a_pause_ends_at_a_moment_that_can_be_told():
    def paused(for_ms: int) -> ChangeOffers:
        return msgspec.json.decode(b'{"action":"pause","for_ms":%d}' % for_ms, type=ChangeOffers)

    assert MOMENT_MS_MAX - paused(bounds.SPAN_MS_MAX).for_ms > 2**45, "from any day that is near"
    with pytest.raises(msgspec.ValidationError):
        paused(bounds.SPAN_MS_MAX + 1)
