"""Voters whose disk is older than what they said: they are found out, and nobody else is."""

import msgspec

from distributed_grid.kernel.across.register_effects import AGAIN_US, Effects, NewStore
from distributed_grid.kernel.across.register_voter import FLOORS, STORE, Store
from distributed_grid.model.ids import JobId, NodeId
from distributed_grid.wire.register import NotPromised, Recollected, Standing, Written
from tests.unit.across.register_lab import A, B, C, D, E, RegisterLab, member, members
from tests.unit.across.test_register_voter import THREE, a_prepare, told


def test_a_voter_with_an_old_disk_begins_another_store_and_has_no_vote():
    lab = RegisterLab()
    old = dict(lab.disks[A])
    lab.open()
    lab.disks[A] = old
    lab.start(A)
    voter = lab.nodes[A].voter
    lab.do(A, voter.hear(B, a_prepare(5, sets=THREE), lab.now_us))
    lab.deliver()

    assert voter.me != member("a")
    assert lab.take(A, NewStore) == [NewStore(member=voter.me)]
    assert told(voter.hear(B, a_prepare(6, sets=THREE), lab.now_us), NotPromised)


def test_votes_on_other_jobs_do_not_hide_that_a_disk_is_old():
    """Who remembers more is away until they have lifted the count above what it remembers."""
    lab = RegisterLab("abcde")
    lab.open(A, "ade")
    old = dict(lab.disks[A])
    lab.away = {E}
    lab.name("l1", A, by=A)
    assert lab.nodes[D].voter._remembered[A]["store-a"].count > _store(old).count
    lab.away = {D}
    lab.disks[A] = old
    lab.start(A)
    lab.meet_all(A)
    other = Written(standing=Standing(voters=members("abc")))
    lab.do(B, lab.nodes[B].writer.take_over(JobId("other"), other, lab.now_us))
    lab.deliver()
    for turn in range(4):
        lab.do(B, _store_once(lab, JobId("other"), b"%d" % turn))
        lab.deliver()
    assert lab.nodes[A].voter.me == member("a")  # On that job it votes.
    lab.away = set()
    lab.now_us += AGAIN_US
    lab.meet_all(A)

    assert lab.nodes[A].voter.me != member("a")
    assert len(lab.take(A, NewStore)) == 1


def test_nor_do_they_after_another_start():
    lab = RegisterLab("abcde")
    lab.open(C, "abc")
    old = dict(lab.disks[A])
    lab.away = {C}
    lab.take_over(B)
    lab.away = {B, C}
    lab.disks[A] = old
    lab.start(A)
    lab.meet_all(A)
    other = Written(standing=Standing(voters=members("ade")))
    lab.do(D, lab.nodes[D].writer.take_over(JobId("other"), other, lab.now_us))
    lab.deliver()
    for turn in range(4):
        lab.do(D, _store_once(lab, JobId("other"), b"%d" % turn, by=D))
        lab.deliver()
    lab.start(A)
    lab.away = set()
    lab.meet_all(A)

    assert lab.nodes[A].voter.me != member("a")


def test_a_store_of_before_there_were_floors_goes_on():
    lab = RegisterLab()
    lab.open()
    del lab.disks[A][FLOORS]
    lab.start(A)
    lab.meet_all(A)

    assert lab.nodes[A].voter.me == member("a")
    assert {one.node for one in lab.nodes[A].voter.answered} == {B, C}


def _store(disk) -> Store:
    return msgspec.msgpack.decode(disk[STORE], type=Store)


def _store_once(lab: RegisterLab, job: JobId, value: bytes, by: NodeId = B) -> Effects:
    effects = Effects()
    lab.nodes[by].writer.chair(job).store(value, lab.now_us, effects)
    return effects


def test_an_answer_to_an_earlier_life_does_not_count():
    lab = RegisterLab()
    lab.open()
    register = lab.start(A)
    answer = Recollected(life=1, store="store-a", count=0, by="store-b")
    register.voter.hear(B, answer, lab.now_us)
    register.voter.hear(C, msgspec.structs.replace(answer, by="store-c"), lab.now_us)

    assert register.voter.answered == set()
