"""Whose state travels, which one an attempt begins with, and what people are told of it."""

import pytest

from distributed_grid.kernel.jobs import ATTEMPTS_KEPT, Attempt, Job
from distributed_grid.kernel.launching import checkpoint_dir
from distributed_grid.kernel.resuming import (
    ANEW,
    WHAT,
    begins,
    is_kept,
    saved_by,
    to_restore,
    travels,
)
from distributed_grid.model.across import HERE, Epoch, Origin, Saved
from distributed_grid.model.ids import JobId, NodeId
from distributed_grid.model.job import Array, Preempt
from distributed_grid.wire.keeper import Ended, Usage
from tests.node_world import PATHS, a_job

AWAY = NodeId("a" * 64)
SAVES = Preempt(command=("save",))


def origin(**facts) -> Origin:
    return Origin(home=AWAY, job=JobId("b" * 64), epoch=Epoch(), attempt="a1", **facts)


def a_saver(*attempts: Attempt, preempt: Preempt = SAVES, **fields) -> Job:
    spec = a_job("job", preempt=preempt, **fields)
    return Job(spec=spec, submitted_ms=1, attempts=list(attempts))


def tried(number: int, host: NodeId = HERE, *, saved: str = "", **facts) -> Attempt:
    told = {"state": "ended", "pid": 7, "epoch": Epoch(1, AWAY), **facts}
    node = "desk" if host == HERE else "attic"
    return Attempt(
        number=number, lease=f"l{number}", host=host, node=node, granted_ms=1, saved=saved, **told
    )


def ended(how: str, code: int = 0) -> Ended:
    return Ended(number=1, attempt="a", how=how, code=code, started_ms=1, ended_ms=2, usage=Usage())


def names(states: tuple[Saved, ...]) -> list[str]:
    return [one.manifest for one in states]


@pytest.mark.parametrize(
    ("fields", "does"),
    [
        ({}, True),
        ({"preempt": Preempt(signal=10)}, True),
        ({"preempt": Preempt()}, False),
        ({"array": Array(start=0, stop=3)}, False),
        ({"gang": 2}, False),
        ({"origin": origin()}, True),
        ({"origin": origin(ranks=2)}, False),
        ({"origin": origin(indices=(1,))}, False),
    ],
)
def test_the_state_of_one_process_that_can_save_it_travels(fields, does):
    job = a_saver(tried(1, AWAY, saved="s1"), **fields)

    assert travels(job) == does
    assert bool(saved_by(job)) == does
    assert is_kept(job, ended("preempted")) == does
    assert bool(to_restore(job)) == (does and job.spec.origin is None)


@pytest.mark.parametrize(
    ("end", "fields", "is_one"),
    [
        (ended("preempted"), {}, True),
        (ended("lost", 125), {}, True),
        (ended("stopped", 143), {}, False),
        (ended("not-found", 127), {}, False),
        (ended("exited", 0), {"retries": 1}, False),
        (ended("exited", 1), {"retries": 1}, True),
        (ended("timeout", 124), {"retries": 1}, True),
        (ended("exited", 1), {}, False),
        (ended("signalled", 137), {"origin": origin()}, True),  # Its home knows whether it retries.
    ],
)
def test_what_was_saved_is_kept_if_another_attempt_may_follow(end, fields, is_one):
    job = a_saver(**fields)
    assert is_kept(job, end) == is_one

    job.is_cancelled = True
    assert not is_kept(job, end)
    job.is_cancelled, job.state = False, "lost"
    assert not is_kept(job, end)


def test_the_newest_come_first_by_epoch_and_number_and_few_are_kept():
    old = tried(9, AWAY, saved="old", epoch=Epoch(0, AWAY))
    job = a_saver(tried(2, AWAY, saved="s2"), tried(1, saved="s1"), tried(3, AWAY), old)

    assert saved_by(job) == (
        Saved(manifest="s2", number=2, node="attic"),
        Saved(manifest="s1", number=1, node="desk"),
    )


def test_whose_state_is_kept_is_not_forgotten_for_later_attempts():
    job = a_saver(tried(1, saved="s1"), *(tried(number, AWAY) for number in range(2, 40)))
    job.keep_few_attempts()

    assert len(job.attempts) == ATTEMPTS_KEPT
    assert names(saved_by(job)) == ["s1"]


@pytest.mark.parametrize(
    ("attempts", "wanted"),
    [
        ([], []),
        ([tried(1)], []),
        ([tried(1, saved="s1")], []),  # It is in its directory here.
        ([tried(1, AWAY, saved="s1")], ["s1"]),
        ([tried(1, saved="s1"), tried(2, AWAY, saved="s2")], ["s2"]),
        ([tried(1, AWAY, saved="s1"), tried(2, AWAY, saved="s2")], ["s2", "s1"]),
        ([tried(1, AWAY, saved="s1"), tried(2, state="lost")], []),  # Here it went further.
        ([tried(1, AWAY, saved="s1"), tried(2, pid=None)], ["s1"]),  # It never began.
    ],
)
def test_a_directory_here_counts_unless_it_ran_elsewhere_since(attempts, wanted):
    assert names(to_restore(a_saver(*attempts))) == wanted


def test_a_guest_begins_with_what_its_home_names():
    states = (Saved(manifest="s1", number=1, node="attic"),)

    assert to_restore(a_saver(tried(1, saved="s0"), origin=origin(saved=states))) == states


@pytest.mark.parametrize(
    ("before", "host", "word", "told"),
    [
        ([], HERE, "", []),
        ([], AWAY, "", []),
        ([tried(1)], HERE, "", []),
        ([tried(1)], AWAY, "", [ANEW]),
        ([tried(1, AWAY)], HERE, "", [ANEW]),
        ([tried(1, AWAY, pid=None)], AWAY, "", []),
        (
            [tried(1, AWAY, saved="s1")],
            AWAY,
            "",
            [],
        ),  # A node of the previous version says nothing.
        ([tried(1, AWAY, saved="s1")], AWAY, "as saved", ["as saved"]),
    ],
)
def test_the_story_says_with_which_state_an_attempt_begins(before, host, word, told):
    now = tried(2, host, state="granted", pid=None)
    job = a_saver(*before, now)
    begins(job, now, word, 5)

    assert [(line.what, line.detail) for line in job.story] == [(WHAT, one) for one in told]
    assert now.resumed == word
    now.state = "running"
    begins(job, now, "again", 6)
    assert (len(job.story), now.resumed) == (len(told), word)


def test_nothing_is_said_of_guests_and_of_jobs_that_save_nothing():
    for fields in ({"origin": origin()}, {"preempt": Preempt()}):
        now = tried(2, AWAY, state="granted", pid=None)
        job = a_saver(tried(1, AWAY), now, **fields)
        begins(job, now, "", 5)
        assert job.story == []


def test_one_that_began_as_a_job_of_this_node_saves_where_it_began():
    job = a_saver()
    assert checkpoint_dir(PATHS, job) == f"/saved/{job.spec.id}"
    job.output_of = "before"
    assert checkpoint_dir(PATHS, job) == "/saved/before"
