"""A record whose parts do not agree is read by nobody: neither as it comes, nor from the disk."""

import msgspec
import pytest

from distributed_grid.kernel.across.guarding import read
from distributed_grid.kernel.across.record_bytes import (
    RISING_MAX,
    decode,
    encode,
    is_readable,
    may_join,
    spec_of,
)
from distributed_grid.kernel.across.record_jobs import job_of
from distributed_grid.kernel.across.record_writing import record_of
from distributed_grid.model.across import Epoch, Fence
from distributed_grid.model.bounds import COUNT_MAX
from distributed_grid.model.job import Array, Shipment, Where, Work
from distributed_grid.wire.mesh import JUNK
from tests.node_world import a_job
from tests.unit.across.test_record import FIRST, OTHER, a_home

SIZE = 4


def a_record(spec=None):
    """Of a job that has begun: an array, unless told otherwise."""
    spec = a_job("array", array=Array(start=0, stop=SIZE)) if spec is None else spec
    _, (job,) = a_home(spec)
    return record_of(job, FIRST)


def bent(change, spec=None) -> bytes:
    """The bytes of a record after somebody changed what they say."""
    plain = msgspec.msgpack.decode(encode(a_record(spec)))
    change(plain)
    return msgspec.msgpack.encode(plain)


def note(plain):
    return next(iter(plain["attempts"].values()))


def of_another(plain):
    plain["spec"]["id"] = "f" * 64


ABSURD = {
    "a counter beyond all": lambda plain: plain["version"].__setitem__(0, [2**64 - 1, OTHER]),
    "a counter that no JSON holds": lambda plain: plain["version"].__setitem__(1, COUNT_MAX + 1),
    "an array that stands still": lambda plain: plain["spec"]["array"].update(start=2, stop=2),
    "positions for ever": lambda plain: note(plain).update(positions=[[0, 2**40]]),
    "positions beyond the array": lambda plain: note(plain).update(positions=[[0, SIZE + 1]]),
    "positions that fall": lambda plain: note(plain).update(positions=[[2, 1]]),
    "positions again and again": lambda plain: note(plain).update(positions=[[0, SIZE]] * 65),
    "more indices than its array": lambda plain: plain.update(size=SIZE + 1),
    "no index": lambda plain: plain.update(size=0),
    "more indices than any array": lambda plain: plain.update(size=2**40),
    "a run beyond the array": lambda plain: plain.update(runs=[[0, SIZE + 1, 3]]),
    "a run of no fate": lambda plain: plain.update(runs=[[0, 1, 9]]),
    "a code beyond the array": lambda plain: plain.update(codes={SIZE: 1}),
    "tries beyond the array": lambda plain: plain["standing"].update(tries={SIZE: 1}),
    "losses beyond the array": lambda plain: plain["standing"].update(index_losses={SIZE: 1}),
    "a reason beyond the array": lambda plain: plain["standing"].update(whys={SIZE: "why"}),
    "a negative place in the story": lambda plain: plain.update(story=[[1, -1, "a", "b"]]),
    "the specification of another": of_another,
    "nothing to run": lambda plain: plain["spec"].update(work=None),
    "a command without words": lambda plain: plain["spec"]["work"].update(argv=[]),
    "an id that is none": lambda plain: plain.update(job="../" + "f" * 61),
    "too many notes": lambda plain: plain.update(
        attempts={str(at): note(plain) for at in range(16_385)}
    ),
}


@pytest.mark.parametrize("change", ABSURD.values(), ids=ABSURD.keys())
def test_a_record_that_cannot_be_is_junk(change):
    body = bent(change)

    with pytest.raises(JUNK):
        decode(body)
    assert read(body) is None


def test_positions_of_a_job_that_is_no_array_are_junk():
    with pytest.raises(JUNK):
        decode(bent(lambda plain: note(plain).update(positions=[[0, 1]]), a_job("plain")))


def test_a_specification_of_a_newer_version_is_kept_and_not_looked_after():
    """Or one with values beyond the bounds, which this version cannot tell from that."""
    record = decode(bent(lambda plain: plain["spec"]["array"].update(step=0)))

    assert not is_readable(record)
    with pytest.raises(JUNK):
        job_of(record)


def test_the_largest_array_goes_over_to_a_successor():
    record = a_record(a_job("wide", array=Array(start=0, stop=1_000_000)))

    assert len(job_of(decode(encode(record))).progress.states) == 1_000_000


def test_a_record_whose_counters_cannot_rise_is_not_joined_nor_looked_after():
    record = a_record()
    high = msgspec.structs.replace(record, version=Fence(Epoch(RISING_MAX, OTHER), 1))

    assert may_join(record, record)
    assert not may_join(high, record)
    assert not is_readable(high)


def test_a_record_of_another_size_is_of_another_job():
    record = a_record()

    assert not may_join(msgspec.structs.replace(record, size=SIZE + 1), record)


def test_a_record_may_tell_of_another_place_and_other_files_and_of_no_other_work():
    record = a_record()

    def told(**what):
        spec = msgspec.structs.replace(spec_of(record), **what)
        return msgspec.structs.replace(record, spec=msgspec.msgpack.encode(spec))

    bound = told(
        require=Where(nodes=("node-1",)), ship=Shipment(manifest="a", size_bytes=1, files=1)
    )
    assert may_join(bound, record)
    for other in (told(name="other"), told(work=Work(argv=("rm",), cwd="/")), told(gang=2)):
        assert not may_join(other, record)
