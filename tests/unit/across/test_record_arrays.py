"""What a successor knows of an array."""

import msgspec

from distributed_grid.kernel.across.record_bytes import decode, encode
from distributed_grid.kernel.across.record_jobs import job_of
from distributed_grid.kernel.across.record_runs import GOOD, Run
from distributed_grid.kernel.across.record_writing import record_of
from distributed_grid.kernel.jobs import WROTE_KEPT
from distributed_grid.model.job import Array
from tests.node_world import a_job
from tests.unit.across.test_record import FIRST, OTHER, a_home


def test_a_successor_knows_the_indices_of_a_list_and_why_some_failed():
    array = a_job("array", array=Array(parts=((27, 28, 1), (60, 63, 1)), width=1))
    world, (job,) = a_home(array)
    world.end(job.spec, 9)
    world.pump()
    job.progress.whys[0] = "killed: out of memory"

    again = job_of(decode(encode(record_of(job, FIRST))))

    assert list(again.spec.array.indices) == [27, 60, 61, 62]
    assert again.attempts[0].indices[0] == 27
    assert (again.progress.codes, again.progress.whys) == ({0: 9}, {0: "killed: out of memory"})


def test_a_successor_knows_as_what_guest_an_index_ran_elsewhere():
    array = a_job("array", array=Array(start=0, stop=2, width=1))
    world, (job,) = a_home(array)
    world.end(job.spec, 0)
    job.attempts[0].host = OTHER
    record = record_of(job, FIRST)
    again = job_of(record)
    told = again.progress.forgotten(0)

    assert (again.progress.hosts[told.host], told.lease) == (OTHER, job.attempts[0].lease)
    assert again.progress.forgotten(1) is None


def test_of_who_ran_a_long_array_a_successor_keeps_the_last():
    array = a_job("array", array=Array(stop=3 * WROTE_KEPT, width=1))
    _, (job,) = a_home(array)
    runs = tuple(
        Run(at, at + 1, GOOD, f"{at:x}", FIRST.epoch, 1, OTHER) for at in range(3 * WROTE_KEPT)
    )
    record = msgspec.structs.replace(record_of(job, FIRST), runs=runs)
    again = job_of(record).progress

    assert len(again.wrote) == WROTE_KEPT
    assert again.forgotten(3 * WROTE_KEPT - 1).lease == f"{3 * WROTE_KEPT - 1:x}"
    assert again.forgotten(0) is None
