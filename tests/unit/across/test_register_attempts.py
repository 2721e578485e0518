import pytest

from distributed_grid.kernel.across.register_effects import (
    AGAIN_US,
    WAIT_US,
    Effects,
    MayStart,
    Ruling,
    Stored,
)
from distributed_grid.model.across import Epoch, Fence
from distributed_grid.wire.register import (
    Accept,
    Accepted,
    Recollect,
    Recollected,
)
from tests.unit.across.register_lab import (
    JOB,
    A,
    B,
    C,
    D,
    RegisterLab,
    members,
)

ASIDE = (Recollect, Recollected)


def change(lab: RegisterLab, names: str, by=A) -> None:
    effects = Effects()
    lab.chair(by).change_set(members(names), lab.now_us, effects)
    lab.do(by, effects)


def ended(lab: RegisterLab, lease: str, *, has_run: bool = True, by=A) -> None:
    effects = Effects()
    lab.chair(by).ended(lease, effects, has_run=has_run)
    lab.do(by, effects)


def runs(lab: RegisterLab, lease: str, by=A) -> None:
    effects = Effects()
    lab.chair(by).runs(lease, effects)
    lab.do(by, effects)


def let(lab: RegisterLab, name=A) -> list[str]:
    return [one.standing.lease for one in lab.take(name, MayStart)]


# Attempts


def test_the_first_attempt_may_start_once_a_majority_has_its_name():
    lab = RegisterLab()
    lab.open()
    lab.away |= {B, C}
    lab.name("l1", B)
    assert let(lab) == []
    lab.away.clear()
    lab.pass_time(AGAIN_US)

    (may_start,) = lab.take(A, MayStart)
    standing = may_start.standing
    assert (standing.lease, standing.node, standing.attempt) == ("l1", B, standing.version)


def test_the_next_attempt_waits_a_ttl_after_its_name_is_durable():
    lab = RegisterLab()
    lab.open()
    lab.name("l1", B)
    lab.away |= {B, C}
    lab.name("l2", C)
    lab.pass_time(2 * WAIT_US)  # Nobody but the voters ends a lease.
    lab.away.clear()
    lab.nodes[A].writer.hurry(B)
    lab.pass_time(100_000)
    assert let(lab) == ["l1"]
    lab.pass_time(WAIT_US - 100_000)
    assert let(lab) == []
    lab.pass_time(100_000)
    assert let(lab) == ["l2"]
    lab.pass_time(WAIT_US)
    assert let(lab) == []


@pytest.mark.parametrize("is_early", [True, False])
def test_it_does_not_wait_if_the_node_reported_the_end(is_early):
    lab = RegisterLab()
    lab.open()
    lab.name("l1", B)
    assert let(lab) == ["l1"]
    if is_early:
        ended(lab, "l1")
    lab.name("l2", C)
    if not is_early:
        assert let(lab) == []
        ended(lab, "l1")

    assert let(lab) == ["l2"]


def test_an_end_that_is_told_while_the_next_name_is_written_counts():
    lab = RegisterLab()
    lab.open()
    lab.name("l1", B)
    lab.away |= {B, C}
    lab.name("l2", C)
    ended(lab, "l1", has_run=False)
    lab.away.clear()
    lab.pass_time(AGAIN_US)

    assert let(lab) == ["l1", "l2"]


def test_who_was_named_but_never_let_start_need_not_be_waited_for_but_who_ran_before_must():
    lab = RegisterLab()
    lab.open()
    lab.name("l1", B)
    lab.name("l2", C)
    lab.pass_time(WAIT_US // 2)
    lab.name("l3", C)
    assert let(lab) == ["l1"]
    ended(lab, "l2", has_run=False)
    lab.pass_time(WAIT_US - 100_000)
    assert let(lab) == []
    ended(lab, "l1")
    assert let(lab) == ["l3"]


def test_the_end_of_one_that_ran_proves_the_end_of_all_before_it():
    lab = RegisterLab()
    lab.open()
    lab.name("l1", B)
    lab.name("l2", C)
    lab.pass_time(WAIT_US)
    lab.away = {B, C}
    lab.name("l3", B)
    ended(lab, "l2")
    ended(lab, "unknown")
    lab.away.clear()
    lab.pass_time(AGAIN_US)

    assert let(lab) == ["l1", "l2", "l3"]


def test_an_attempt_that_ended_before_it_was_let_start_is_not():
    lab = RegisterLab()
    lab.open()
    lab.name("l1", B)
    lab.name("l2", C)
    ended(lab, "l2", has_run=False)
    lab.pass_time(2 * WAIT_US)

    assert let(lab) == ["l1"]
    lab.name("l3", C)
    assert let(lab) == ["l3"]


def test_after_a_takeover_the_attempt_goes_on_under_the_new_fence_after_a_wait():
    lab = RegisterLab()
    lab.open()
    lab.name("l1", B)
    lab.take_over(C)
    assert let(lab, C) == []
    lab.pass_time(WAIT_US - 100_000)
    assert let(lab, C) == []
    lab.pass_time(100_000)

    (may_start,) = lab.take(C, MayStart)
    assert may_start.standing.attempt == Fence(Epoch(2, C), 1)


def test_after_a_takeover_there_is_no_wait_if_the_attempt_is_said_to_run():
    lab = RegisterLab()
    lab.open()
    lab.name("l1", B)
    lab.take_over(C)
    runs(lab, "another", by=C)
    assert let(lab, C) == []
    runs(lab, "l1", by=C)

    assert let(lab, C) == ["l1"]


@pytest.mark.parametrize(("has_run", "is_let"), [(True, ["l2"]), (False, [])])
def test_after_a_takeover_an_attempt_that_never_ran_proves_nothing_about_others(has_run, is_let):
    """The former coordinator may have named it a moment ago, and an older one still runs."""
    lab = RegisterLab()
    lab.open()
    lab.name("l1", B)
    lab.take_over(C)
    ended(lab, "l1", has_run=has_run, by=C)
    lab.name("l2", A, by=C)

    assert let(lab, C) == is_let
    lab.pass_time(WAIT_US)
    assert let(lab, C) == [lease for lease in ["l2"] if not is_let]


# The set


def test_a_set_changes_in_two_steps_each_with_both_majorities():
    lab = RegisterLab("abcde")
    lab.open()
    lab.take(A, Stored)
    change(lab, "cde")
    lab.deliver(only=(Accept, Accepted, *ASIDE))

    first, second = (one.written.standing for one in lab.take(A, Stored))
    assert (first.voters, first.next) == (members("abc"), members("cde"))
    assert (second.voters, second.next) == (members("cde"), ())
    assert lab.nodes[D].voter.written(JOB).standing == second


@pytest.mark.parametrize("away", ["ab", "de"])
def test_without_both_majorities_the_set_stays(away):
    lab = RegisterLab("abcde")
    lab.open()
    lab.take(A, Stored)
    lab.away = {name for name in lab.nodes if name in away and name != A} | {
        B if "b" in away else D
    }
    if "a" in away:
        lab.away.add(C)
    change(lab, "cde")
    lab.deliver()
    lab.pass_time(2_000_000)
    assert lab.take(A, Stored) == []
    lab.away.clear()
    lab.pass_time(AGAIN_US)

    assert lab.chair(A).written.standing.voters == members("cde")


def test_a_set_that_is_as_wished_is_not_written():
    lab = RegisterLab()
    lab.open()
    lab.take(A, Stored)
    change(lab, "abc")
    lab.deliver()

    assert lab.take(A, Stored) == []


def test_a_takeover_in_the_middle_of_a_change_ends_it():
    lab = RegisterLab("abcde")
    lab.open()
    change(lab, "cde")
    lab.deliver(only=(Accept, *ASIDE))
    lab.post.clear()
    assert lab.nodes[D].voter.written(JOB).standing.next
    lab.away.add(A)
    lab.take_over(D)

    (ruling,) = lab.take(D, Ruling)
    assert ruling.written.standing.next == members("cde")
    assert lab.chair(D).written.standing.sets == (members("cde"),)


def test_an_attempt_that_is_named_during_a_change_comes_after_it():
    lab = RegisterLab("abcde")
    lab.open()
    change(lab, "cde")
    lab.name("l1", B)

    assert lab.chair(A).written.standing.voters == members("cde")
    assert let(lab) == ["l1"]
