"""A start waits for what was decided before it, and not for itself."""

import msgspec
import pytest

from distributed_grid.agent.unsaved import Unsaved
from distributed_grid.kernel.jobs import Job
from distributed_grid.kernel.ready import Ready, rests_on_earlier_steps
from distributed_grid.model.across import Epoch
from distributed_grid.model.ids import NodeId
from distributed_grid.model.job import Array
from distributed_grid.wire.across import Confirmed, Start
from tests.node_world import a_job

OTHER = NodeId("b" * 64)
SPEC = a_job("job")
JOB = Job(spec=SPEC, submitted_ms=0)
START = Start(job=SPEC.id, epoch=Epoch(), number=1, lease="x", spec=SPEC, attempt=1)
CONFIRMED = Confirmed(job=SPEC.id, lease="x", ends=1)


@pytest.fixture
def sent():
    return []


@pytest.fixture
def unsaved(sent):
    return Unsaved(lambda peer, word: sent.append((peer, word)))


def a_step(*words) -> Ready:
    return Ready(save_jobs={SPEC.id: JOB}, send=[(OTHER, word) for word in words])


@pytest.mark.parametrize(
    ("word", "is_early"),
    [
        (START, True),
        (CONFIRMED, False),
        (msgspec.structs.replace(START, spec=a_job("once", at_most_once=True)), False),
        (msgspec.structs.replace(START, spec=a_job("array", array=Array(start=0, stop=2))), False),
        (msgspec.structs.replace(START, spec=a_job("gang", gang=2)), False),
    ],
)
def test_only_a_start_that_may_be_forgotten_leaves_before_it_is_saved(word, is_early):
    assert rests_on_earlier_steps(word) == is_early


def test_a_start_leaves_at_once_if_nothing_of_its_job_is_being_written(unsaved, sent):
    step = a_step(START, CONFIRMED)
    unsaved.begin(step)

    assert sent == [(OTHER, START)]
    assert step.send == [(OTHER, CONFIRMED)]
    assert SPEC.id in unsaved
    unsaved.end(step.save_jobs, is_saved=True)
    assert SPEC.id not in unsaved


def test_a_start_waits_for_all_that_was_decided_before(unsaved, sent):
    steps = [a_step(), a_step(CONFIRMED), a_step(START)]
    for step in steps:
        unsaved.begin(step)
    unsaved.end(steps[0].save_jobs, is_saved=True)
    assert sent == []
    unsaved.end(steps[1].save_jobs, is_saved=True)

    assert sent == [(OTHER, START)]
    assert steps[2].send == []


def test_after_a_step_that_could_not_be_written_it_leaves_with_its_own(unsaved, sent):
    before, step = a_step(), a_step(START)
    unsaved.begin(before)
    unsaved.begin(step)
    unsaved.end(before.save_jobs, is_saved=False)
    unsaved.end(step.save_jobs, is_saved=True)

    assert sent == []
    assert step.send == [(OTHER, START)]


def test_what_its_own_step_has_said_is_not_said_twice(unsaved, sent):
    before, step = a_step(), a_step(START)
    unsaved.begin(before)
    unsaved.begin(step)
    step.send.clear()  # Said: both were written in one transaction.
    unsaved.end(before.save_jobs, is_saved=True)

    assert sent == []
