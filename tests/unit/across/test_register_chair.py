"""The coordinator of an at-most-once job, alone: when it knows that nothing can run any more."""

import pytest

from distributed_grid.kernel.across.register_chair import UNKNOWN, Chair
from distributed_grid.kernel.across.register_effects import WAIT_US, Effects, MayStart
from distributed_grid.model.across import Epoch, Fence
from distributed_grid.model.ids import JobId, NodeId
from distributed_grid.wire.register import Accept, Accepted, Member, Standing, Written

JOB = JobId("1" * 64)
VOTER = Member(NodeId("voter"), "store")
BEFORE = Fence(Epoch(1, NodeId("a")), 3)


class Desk:
    """A chair with one voter, which accepts when the test says so."""

    def __init__(self, standing: Standing) -> None:
        self.effects = Effects()
        self.chair = Chair(JOB, Epoch(2, NodeId("b")), 1, Written(standing=standing))
        self.chair.open(0, self.effects)

    def accept(self, now_us: int) -> None:
        asked = [one for _, one in self.effects.send if isinstance(one, Accept)][-1]
        version = asked.written.standing.version
        answer = Accepted(job=JOB, ask=1, version=version, store=VOTER.store)
        self.chair.accepted(VOTER.node, answer, now_us, self.effects)

    @property
    def let(self) -> list[str]:
        return [one.standing.lease for one in self.effects.happened if isinstance(one, MayStart)]


def standing(**what) -> Standing:
    return Standing(voters=(VOTER,), **what)


def named() -> Desk:
    """It has adopted an attempt, and knows that it runs."""
    desk = Desk(standing(version=BEFORE, attempt=BEFORE, lease="old"))
    desk.accept(0)
    desk.chair.runs("old", desk.effects)
    return desk


def test_of_a_new_job_nothing_runs():
    desk = Desk(standing())
    desk.accept(0)

    assert desk.chair.is_quiet
    assert desk.chair.written.standing.attempt == Fence()


def test_an_attempt_that_was_let_start_may_run_until_its_owner_says_otherwise():
    desk = named()

    assert not desk.chair.is_quiet
    desk.chair.ended("old", desk.effects, has_run=True)
    assert desk.chair.is_quiet


@pytest.mark.parametrize("lease", ["old", ""])
def test_of_what_a_former_coordinator_let_start_or_closed_something_may_still_run(lease):
    desk = Desk(standing(version=BEFORE, attempt=BEFORE, lease=lease))
    desk.chair.close(0, desk.effects)
    desk.accept(5)
    if lease:
        desk.accept(10)  # First the same again, then that nobody may run it.
    closed_us = 10 if lease else 5

    assert desk.chair.written.standing.lease == ""
    assert desk.chair.written.standing.attempt == desk.chair.written.standing.version
    desk.chair.tick(closed_us + WAIT_US - 1, desk.effects)
    assert not desk.chair.is_quiet
    desk.chair.tick(closed_us + WAIT_US, desk.effects)
    assert desk.chair.is_quiet
    assert desk.let == []


def test_who_closes_does_not_wait_for_what_its_owner_has_ended():
    desk = named()
    desk.chair.close(0, desk.effects)
    desk.accept(10)
    assert not desk.chair.is_quiet
    desk.chair.ended("old", desk.effects, has_run=True)

    assert desk.chair.is_quiet


def test_who_closes_names_nobody_though_it_was_about_to():
    desk = Desk(standing())
    desk.chair.name(NodeId("c"), "new", b"", 0, desk.effects)
    desk.chair.close(0, desk.effects)
    desk.accept(0)

    assert desk.chair.written.standing.lease == ""
    assert desk.chair.is_quiet
    assert desk.let == []


def test_who_closes_twice_writes_it_once():
    desk = Desk(standing(version=BEFORE, attempt=BEFORE, lease="old"))
    desk.chair.close(0, desk.effects)
    desk.chair.close(1, desk.effects)
    desk.accept(5)
    desk.accept(10)

    assert desk.chair.written.standing.lease == ""
    assert not desk.chair.is_writing
    assert desk.chair.written.standing.version.seq == 2


def test_who_was_said_to_be_over_and_runs_is_waited_for():
    desk = named()
    desk.chair.ended("old", desk.effects, has_run=False)
    desk.chair.runs("old", desk.effects)
    desk.chair.name(NodeId("c"), "new", b"", 0, desk.effects)
    desk.accept(0)

    assert desk.let == ["old"]
    desk.chair.tick(WAIT_US, desk.effects)
    assert desk.let == ["old", "new"]


def test_what_comes_back_is_named_again_if_the_next_was_not_let_start():
    desk = named()
    assert not desk.chair.may_adopt("old")
    desk.chair.name(NodeId("c"), "new", b"", 0, desk.effects)
    assert desk.chair.may_adopt("old")
    desk.accept(0)
    assert desk.let == ["old"]
    desk.chair.adopt(NodeId("b"), "old", b"", 1, desk.effects)
    desk.accept(1)

    assert desk.chair.written.standing.lease == "old"
    assert desk.chair.written.standing.attempt == desk.chair.written.standing.version
    assert not desk.chair.may_adopt("old")
    assert desk.let == ["old", "old"]  # Its owner learns of its new fence from its voters.


def test_what_was_named_again_is_waited_for_if_it_is_lost_again():
    desk = named()
    desk.chair.name(NodeId("c"), "new", b"", 0, desk.effects)
    desk.accept(0)
    desk.chair.adopt(NodeId("b"), "old", b"", 1, desk.effects)
    desk.chair.name(NodeId("d"), "third", b"", 2, desk.effects)
    desk.accept(3)
    desk.accept(4)

    assert desk.chair.written.standing.lease == "third"
    assert "third" not in desk.let
    desk.chair.tick(4 + WAIT_US, desk.effects)
    assert desk.let[-1] == "third"


def test_nothing_is_adopted_beside_what_was_let_start():
    desk = named()
    with pytest.raises(AssertionError):
        desk.chair.adopt(NodeId("b"), "older", b"", 1, desk.effects)


def test_what_was_over_before_another_ran_is_not_adopted():
    """A late word of it: to adopt it would be to forget who may run."""
    desk = named()
    for at, lease in enumerate(("second", "third")):
        desk.chair.name(NodeId("c"), lease, b"", at, desk.effects)
        desk.accept(at)
        if lease == "second":
            desk.chair.ended("old", desk.effects, has_run=True)

    assert desk.let == ["old", "second"]
    assert not desk.chair.may_adopt("old")
    assert desk.chair.may_adopt("second")


def test_nothing_is_quiet_while_somebody_is_about_to_be_named():
    desk = Desk(standing())
    desk.chair.name(NodeId("c"), "new", b"", 0, desk.effects)

    assert not desk.chair.is_quiet


def test_nobody_says_that_what_a_former_coordinator_let_start_is_over():
    desk = Desk(standing(version=BEFORE, attempt=BEFORE, lease="old"))
    desk.accept(0)
    desk.chair.ended(UNKNOWN, desk.effects, has_run=True)

    assert desk.let == []
    desk.chair.tick(WAIT_US, desk.effects)
    assert desk.let == ["old"]
