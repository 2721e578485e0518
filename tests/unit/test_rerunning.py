"""What is submitted when a job that has ended is run again."""

import msgspec
import pytest

from distributed_grid.errors import NotPermitted
from distributed_grid.kernel import rerunning
from distributed_grid.kernel.jobs import CANCELLED, FAILED, SUCCEEDED, Job, Progress
from distributed_grid.kernel.rerunning import rerun_of
from distributed_grid.model.ids import job_id_of
from distributed_grid.model.job import After, Array, Shipment, Work
from tests.node_world import a_job

NEW = job_id_of("new")
SHIP = Shipment(manifest="ab" * 32, size_bytes=1, files=1)


def ended(state: str = "failed", states: bytes = b"", **what_matters) -> Job:
    progress = Progress(states=bytearray(states)) if states else None
    return Job(spec=a_job("job", **what_matters), submitted_ms=0, state=state, progress=progress)


def rerun(job: Job, *, only_failed: bool = False):
    return rerun_of(job, NEW, 1_000, only_failed=only_failed)


def test_it_is_the_same_job_without_what_is_over():
    job = ended(after=(After(job=job_id_of("other")),), start_ms=5, deadline_ms=1_000, retries=2)
    job.spec = msgspec.structs.replace(job.spec, ship=SHIP)

    assert rerun(job) == msgspec.structs.replace(a_job("job", retries=2), id=NEW)
    assert rerun(ended(deadline_ms=1_001)).deadline_ms == 1_001
    assert rerun(job, only_failed=True) == rerun(job)


def test_files_that_somebody_named_or_whose_directory_is_elsewhere_travel_again():
    named = msgspec.structs.replace(SHIP, is_named=True)
    abroad = Work(argv=("true",), cwd="/", is_abroad=True)

    assert rerun(ended(ship=SHIP)).ship is None
    assert rerun(ended(ship=SHIP, work=None)).ship is None
    assert rerun(ended(ship=named)).ship == named
    assert rerun(ended(ship=SHIP, work=abroad)).ship == SHIP


def test_of_an_array_what_failed_keeps_its_numbers():
    states = bytes([FAILED, SUCCEEDED, FAILED, FAILED, CANCELLED])
    some = ended(states=states, array=Array(start=10, stop=15, width=3))
    one = ended(states=bytes([SUCCEEDED, FAILED]), array=Array(start=0, stop=2))

    assert list(rerun(some, only_failed=True).array.indices) == [10, 12, 13]
    assert rerun(some, only_failed=True).array.width == 3
    assert rerun(one, only_failed=True).array == Array(start=1, stop=2)
    assert rerun(some).array == some.spec.array


def test_what_goes_on_or_went_well_is_not_run_again():
    cancelled = ended("cancelled", bytes([SUCCEEDED, CANCELLED]), array=Array(stop=2))
    for job, only_failed in ((ended("running"), False), (ended("succeeded"), True)):
        with pytest.raises(NotPermitted):
            rerun(job, only_failed=only_failed)
    with pytest.raises(NotPermitted, match="nothing of job has failed, it is cancelled"):
        rerun(cancelled, only_failed=True)


def test_more_ranges_than_one_job_may_have_are_refused(monkeypatch):
    monkeypatch.setattr(rerunning, "PARTS_MAX", 1)
    states = bytes([FAILED, SUCCEEDED, SUCCEEDED, FAILED, FAILED])

    with pytest.raises(NotPermitted, match="2 ranges of indices of job failed, one job has 1"):
        rerun(ended(states=states, array=Array(stop=5)), only_failed=True)
