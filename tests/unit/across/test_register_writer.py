import itertools

import msgspec
import pytest

from distributed_grid.kernel.across.register_candidate import (
    CLAIM_US,
    PAUSE_US,
    PAUSE_US_SPREAD,
    SILENCE_US_MAX,
)
from distributed_grid.kernel.across.register_chair import Chair
from distributed_grid.kernel.across.register_effects import (
    AGAIN_US,
    RENEW_US,
    Deposed,
    Effects,
    MayStart,
    Outbid,
    Ruling,
    Stored,
)
from distributed_grid.model.across import Epoch, Fence
from distributed_grid.wire.register import (
    Accepted,
    LeasesRenewed,
    NotAccepted,
    NotPromised,
    Prepare,
    Promised,
)
from tests.unit.across.register_lab import (
    JOB,
    A,
    B,
    C,
    D,
    E,
    RegisterLab,
    a_written,
    fence,
    member,
    members,
)

FIRST = Fence(Epoch(1, A), 1)


def change(lab: RegisterLab, names: str, by=A) -> None:
    effects = Effects()
    lab.chair(by).change_set(members(names), lab.now_us, effects)
    lab.do(by, effects)


# Winning


def test_a_new_job_is_ruled_once_a_majority_has_its_first_write():
    lab = RegisterLab()
    lab.away.add(C)
    lab.open()

    (ruling,) = lab.take(A, Ruling)
    assert (ruling.epoch, ruling.written.value) == (Epoch(1, A), b"new")
    assert lab.take(A, Stored) == [Stored(job=JOB, written=ruling.written)]
    assert lab.values((A, B, C)) == [b"new", b"new", None]
    assert lab.take(A, MayStart) == []
    assert lab.nodes[A].writer.missing(JOB) == (C,)


def test_without_a_majority_nothing_is_ruled_and_the_missing_are_named():
    lab = RegisterLab()
    lab.away |= {B, C}
    lab.open()
    lab.pass_time(5_000_000)

    assert lab.take(A, Ruling) == []
    assert lab.nodes[A].writer.is_asking(JOB)
    assert lab.nodes[A].writer.missing(JOB) == (B, C)
    lab.away.clear()
    lab.nodes[A].writer.hurry(B)
    lab.pass_time(AGAIN_US)
    assert lab.take(A, Ruling)
    assert not lab.nodes[A].writer.is_asking(JOB)
    assert lab.nodes[A].writer.missing("unknown") == ()


def test_whoever_does_not_answer_is_asked_less_and_less_often():
    lab = RegisterLab()
    lab.away |= {B, C}
    lab.open()
    writer, asked_us = lab.nodes[A].writer, [lab.now_us]
    for _ in range(600):
        lab.now_us += 100_000
        writer.hurry(D)  # Not one of those who vote.
        if writer.tick(lab.now_us).send:
            asked_us.append(lab.now_us)
    pauses_us = [later - earlier for earlier, later in itertools.pairwise(asked_us)]

    assert pauses_us[:5] == [300_000, 600_000, 1_200_000, 2_400_000, 4_800_000]
    assert set(pauses_us[5:]) == {SILENCE_US_MAX}
    lab.away.clear()
    lab.pass_time(SILENCE_US_MAX)
    assert lab.take(A, Ruling)


def test_who_comes_back_gets_the_last_write_at_once():
    lab = RegisterLab()
    lab.away.add(C)
    lab.open()
    lab.away.clear()
    lab.nodes[A].writer.hurry(B)  # Which lacks nothing.
    lab.pass_time(RENEW_US // 2)
    assert lab.values([C]) == [None]
    lab.nodes[A].writer.hurry(C)
    lab.pass_time(100_000)

    assert lab.values([C]) == [b"new"]


def test_who_was_away_gets_the_last_write_later():
    lab = RegisterLab()
    lab.away.add(C)
    lab.open()
    lab.away.clear()
    lab.pass_time(RENEW_US - 100_000)
    assert lab.values([C]) == [None]
    lab.pass_time(100_000)

    assert lab.values([C]) == [b"new"]
    assert lab.nodes[A].writer.missing(JOB) == ()


def test_a_takeover_adopts_the_newest_record_that_a_majority_holds():
    lab = RegisterLab()
    lab.open()
    lab.away.add(C)
    lab.name("l1", B)
    lab.away = {A}
    lab.take_over(C)

    (ruling,) = lab.take(C, Ruling)
    assert ruling.epoch == Epoch(2, C)
    standing = ruling.written.standing
    assert (standing.lease, standing.node, standing.attempt) == ("l1", B, Fence(Epoch(2, C), 1))
    assert ruling.written.value == b"l1"


def test_two_who_want_the_same_job_end_with_one():
    lab = RegisterLab("abcde")
    lab.open(names="cde")
    lab.away = {A}
    written = lab.nodes[C].voter.written(JOB)
    for name in (B, D):
        lab.do(name, lab.nodes[name].writer.take_over(JOB, written, lab.now_us))
    lab.deliver()
    lab.pass_time(4 * (PAUSE_US + PAUSE_US_SPREAD))

    for name in (B, D):
        chair = lab.nodes[name].writer.chair(JOB)
        if chair:
            effects = Effects()
            chair.store(name.encode(), lab.now_us, effects)
            lab.do(name, effects)
    lab.deliver()

    (ruling,) = [name for name in (B, D) if lab.nodes[name].writer.chair(JOB)]
    assert lab.values((C, D, E)) == [ruling.encode()] * 3


def test_who_is_outbid_says_by_whom_and_asks_again_with_a_higher_epoch():
    lab = RegisterLab()
    lab.open()
    lab.take_over(C)
    lab.take(C, Ruling)
    lab.nodes[C].writer.drop(JOB)
    register = lab.nodes[B]
    stale = a_written(fence(1))
    lab.do(B, register.writer.take_over(JOB, stale, lab.now_us))
    lab.deliver()

    assert [one.by for one in lab.take(B, Outbid)] == [Epoch(2, C)]
    lab.pass_time(PAUSE_US + PAUSE_US_SPREAD)
    assert lab.take(B, Ruling)[0].epoch == Epoch(3, B)


def test_a_refusal_for_a_lower_promise_is_no_bid():
    lab = RegisterLab()
    lab.away |= {B, C}
    lab.open()
    candidate_ask = lab.nodes[A].writer._candidates[JOB].ask
    refusal = NotPromised(
        job=JOB, epoch=Epoch(1, A), ask=candidate_ask, store="new", promised=Epoch()
    )
    lab.do(A, lab.nodes[A].writer.hear(B, refusal, lab.now_us))
    assert lab.take(A, Outbid) == []

    bid = msgspec.structs.replace(refusal, promised=Epoch(4, B))
    lab.do(A, lab.nodes[A].writer.hear(B, bid, lab.now_us))
    lab.do(A, lab.nodes[A].writer.hear(C, bid, lab.now_us))
    assert [one.by for one in lab.take(A, Outbid)] == [Epoch(4, B)]
    lab.away.clear()
    lab.pass_time(PAUSE_US + PAUSE_US_SPREAD + AGAIN_US)
    assert lab.take(A, Ruling)[0].epoch == Epoch(5, A)


def test_answers_to_other_questions_do_not_count():
    lab = RegisterLab()
    lab.away |= {B, C}
    lab.open()
    writer = lab.nodes[A].writer
    for sender, store in ((B, "store-b"), (C, "store-c")):
        promise = Promised(job=JOB, epoch=Epoch(1, A), ask=1, store=store)
        lab.do(A, writer.hear(sender, promise, lab.now_us))
        refusal = NotPromised(job=JOB, epoch=Epoch(1, A), ask=1, store=store, promised=Epoch(9, C))
        lab.do(A, writer.hear(sender, refusal, lab.now_us))

    assert lab.take(A, Ruling) == []
    assert lab.take(A, Outbid) == []


def test_a_candidate_that_learns_of_a_newer_set_starts_again_with_it():
    lab = RegisterLab("abcde")
    lab.open()
    old = lab.nodes[A].voter.written(JOB)
    change(lab, "cde")
    lab.deliver()
    lab.do(B, lab.nodes[B].writer.take_over(JOB, old, lab.now_us))
    lab.deliver()

    (ruling,) = lab.take(B, Ruling)
    assert ruling.written.standing.voters == members("cde")
    assert ruling.epoch.counter > 2


def test_a_refusal_may_tell_of_the_newer_set_too():
    lab = RegisterLab("abcde")
    lab.away |= {B, C}
    lab.open()
    candidate = lab.nodes[A].writer._candidates[JOB]
    refusal = NotPromised(
        job=JOB, epoch=candidate.epoch, ask=candidate.ask, store="store-b", promised=Epoch(),
        written=a_written(fence(3, "b"), "cde"),
    )  # fmt: skip
    lab.do(A, lab.nodes[A].writer.hear(B, refusal, lab.now_us))
    assert lab.nodes[A].writer.missing(JOB) == (B, C)  # One alone is not believed.
    also = msgspec.structs.replace(refusal, ask=candidate.ask, store="store-d")
    lab.do(A, lab.nodes[A].writer.hear(D, also, lab.now_us))

    assert lab.nodes[A].writer.missing(JOB) == (C, D, E)
    assert candidate.epoch == Epoch(4, A)


def test_a_forced_job_goes_on_with_new_voters_whatever_the_old_ones_hold():
    lab = RegisterLab("abcde")
    lab.open()
    lab.name("l1", B)
    written = lab.nodes[A].voter.written(JOB)
    lab.away |= {B, C}
    lab.do(A, lab.nodes[A].writer.force(JOB, members("ade"), written, lab.now_us))
    lab.deliver()

    (ruling,) = lab.take(A, Ruling)[-1:]
    assert ruling.written.standing.voters == members("ade")
    assert (ruling.written.standing.lease, ruling.written.value) == ("l1", b"l1")


def test_a_forced_job_goes_on_though_its_voters_were_restarted_and_lack_one_who_remembers():
    lab = RegisterLab("abcd")
    lab.open()
    lab.name("l1", B)
    lab.away.add(C)
    for name in (A, B):
        lab.start(name)
    for name in (A, B, D):
        lab.meet_all(name)
    written = lab.nodes[A].voter.written(JOB)
    lab.do(A, lab.nodes[A].writer.take_over(JOB, written, lab.now_us))
    lab.pass_time(3_000_000)
    assert lab.take(A, Ruling) == [], "neither may vote: the third could remember more of both"

    lab.do(A, lab.nodes[A].writer.force(JOB, members("abd"), written, lab.now_us))
    lab.deliver()

    (ruling,) = lab.take(A, Ruling)
    assert ruling.written.standing.voters == members("abd")
    assert ruling.written.standing.lease == "l1"
    assert lab.nodes[B].voter.written(JOB) == ruling.written


def test_a_forced_job_goes_on_with_the_store_that_a_voter_has_not_the_one_it_had():
    lab = RegisterLab()
    lab.open()
    written = lab.nodes[A].voter.written(JOB)
    lab.disks[B].clear()
    lab.start(B)
    lab.meet_all(B)
    lab.away.add(C)
    lab.do(A, lab.nodes[A].writer.force(JOB, members("abc"), written, lab.now_us))
    lab.deliver()

    (ruling,) = lab.take(A, Ruling)[-1:]
    new = lab.nodes[B].voter.me
    assert new not in members("b")
    assert ruling.written.standing.voters == (member("a"), new, member("c"))
    assert ruling.epoch == Epoch(3, A), "all are asked anew"
    assert lab.nodes[B].voter.written(JOB) == ruling.written


def test_a_forced_job_that_is_outbid_keeps_those_who_were_chosen():
    lab = RegisterLab()
    lab.open()
    written = lab.nodes[A].voter.written(JOB)
    lab.away |= {B, C}
    lab.do(A, lab.nodes[A].writer.force(JOB, members("abc"), written, lab.now_us))
    candidate = lab.nodes[A].writer._candidates[JOB]
    bid = NotPromised(
        job=JOB, epoch=candidate.epoch, ask=candidate.ask, store="store-b", promised=Epoch(4, B)
    )
    lab.do(A, lab.nodes[A].writer.hear(B, bid, lab.now_us))

    assert [one.by for one in lab.take(A, Outbid)] == [Epoch(4, B)]
    assert candidate.sets == (members("abc"),)


def test_whoever_is_not_forced_stays_with_the_voters_of_the_record():
    lab = RegisterLab()
    lab.open()
    lab.disks[B].clear()
    lab.start(B)
    lab.meet_all(B)
    lab.away.add(C)
    lab.take(A, Ruling)
    lab.take_over(A)
    lab.pass_time(3_000_000)

    assert lab.take(A, Ruling) == []
    assert lab.nodes[A].writer._candidates[JOB].sets == (members("abc"),)


def test_a_forced_job_may_keep_its_set():
    lab = RegisterLab()
    lab.open()
    written = lab.nodes[A].voter.written(JOB)
    lab.do(A, lab.nodes[A].writer.force(JOB, members("abc"), written, lab.now_us))
    lab.deliver()

    assert lab.take(A, Ruling)[-1].written.value == b"new"


def test_a_job_that_is_known_already_goes_on_when_it_is_opened_again():
    lab = RegisterLab()
    lab.open()
    lab.name("l1", B)
    lab.open(C, value=b"again")

    assert lab.take(C, Ruling)[0].written.standing.lease == "l1"


@pytest.mark.parametrize("names", ["ab", "abcd", ""])
def test_two_or_four_voters_are_a_mistake(names):
    lab = RegisterLab("abcd")
    lab.open()
    with pytest.raises(AssertionError):
        change(lab, names)


# Writing


def test_one_write_at_a_time_and_of_many_wishes_the_last():
    lab = RegisterLab()
    lab.open()
    lab.away |= {B, C}
    effects = Effects()
    for value in (b"1", b"2", b"3"):
        lab.chair(A).store(value, lab.now_us, effects)
    lab.do(A, effects)
    lab.deliver()
    lab.away.clear()
    lab.take(A, Stored)
    lab.pass_time(AGAIN_US)

    assert [one.written.value for one in lab.take(A, Stored)] == [b"1", b"3"]
    assert lab.values((A, B, C)) == [b"3"] * 3


def test_a_coordinator_that_a_majority_does_not_obey_is_none():
    lab = RegisterLab()
    lab.open()
    lab.away.add(A)
    lab.take_over(C)
    lab.away.clear()
    effects = Effects()
    lab.chair(A).store(b"old", lab.now_us, effects)
    lab.do(A, effects)
    lab.deliver()

    assert lab.take(A, Deposed) == [Deposed(job=JOB, by=Epoch(2, C))]
    assert lab.nodes[A].writer.chair(JOB) is None
    assert lab.values((B, C)) == [b"new", b"new"]


def test_one_refusal_deposes_nobody():
    lab = RegisterLab()
    lab.open()
    lab.do(C, lab.nodes[C].voter.hear(
        B, Prepare(job=JOB, epoch=Epoch(7, B), ask=1, sets=(members("abc"),)), lab.now_us
    ))  # fmt: skip
    lab.deliver()
    effects = Effects()
    lab.chair(A).store(b"two", lab.now_us, effects)
    lab.do(A, effects)
    lab.deliver()

    assert lab.take(A, Deposed) == []
    assert lab.values((A, B, C)) == [b"two", b"two", b"new"]


def test_votes_on_other_writes_do_not_count():
    lab = RegisterLab()
    lab.open()
    lab.away |= {A, B, C}
    effects = Effects()
    chair = lab.chair(A)
    chair.store(b"two", lab.now_us, effects)
    ask, version = chair._ask, Fence(Epoch(1, A), 2)
    for wrong in ({"ask": ask + 1, "version": version}, {"ask": ask, "version": FIRST}):
        for sender, store in ((B, "store-b"), (C, "store-c")):
            yes = Accepted(job=JOB, store=store, **wrong)
            no = NotAccepted(job=JOB, store=store, promised=Epoch(9, C), **wrong)
            lab.do(A, lab.nodes[A].writer.hear(sender, yes, lab.now_us))
            lab.do(A, lab.nodes[A].writer.hear(sender, no, lab.now_us))

    assert chair.written.value == b"new"
    assert lab.take(A, Deposed) == []


def test_votes_on_jobs_of_others_are_not_heard():
    lab = RegisterLab()
    writer = lab.nodes[A].writer
    for message in (
        Promised(job=JOB, epoch=Epoch(), ask=0, store=""),
        NotPromised(job=JOB, epoch=Epoch(), ask=0, store="", promised=Epoch()),
        Accepted(job=JOB, ask=0, version=FIRST, store=""),
        NotAccepted(job=JOB, ask=0, version=FIRST, store="", promised=Epoch()),
        LeasesRenewed(life=0, sent_us=0, store=""),
    ):
        assert writer.hear(B, message, lab.now_us) == Effects()


# What one voter says alone


def a_lie(lab: RegisterLab, kind: type = Promised, names: str = "c", **fields):
    """Of one that votes: that others do, and nothing runs."""
    candidate = lab.nodes[B].writer._candidates[JOB]
    given = {"job": JOB, "epoch": candidate.epoch, "ask": candidate.ask, "store": "store-c"}
    return kind(**given, written=a_written(fence(7, "c"), names), **fields)


def asking(*, away: set = frozenset()) -> RegisterLab:
    """B wants to rule in the place of A, and nobody was asked yet."""
    lab = RegisterLab("abcde")
    lab.open()
    lab.name("l1", A)
    writer, written = lab.nodes[B].writer, lab.nodes[B].voter.written(JOB)
    lab.away |= away
    lab.do(B, writer.take_over(JOB, written, lab.now_us, seen=written.standing.version.epoch))
    return lab


@pytest.mark.parametrize("kind", [Promised, NotPromised])
def test_one_that_names_other_voters_is_not_believed_if_all_others_answer(kind):
    lab = asking()
    fields = {"promised": Epoch()} if kind is NotPromised else {}
    lab.post = [one for one in lab.post if one[1] != C]
    lab.do(B, lab.nodes[B].writer.hear(C, a_lie(lab, kind, **fields), lab.now_us))
    lab.deliver()

    assert lab.chair(B).written.standing.voters == members("abc")
    assert lab.chair(B).written.standing.attempt == lab.chair(B).written.standing.version


def test_nobody_rules_before_all_have_answered_of_whom_one_tells_something_else():
    lab = asking(away={D})
    lab.post = [one for one in lab.post if one[1] != C]
    lab.do(B, lab.nodes[B].writer.hear(C, a_lie(lab, names="abd"), lab.now_us))
    lab.deliver()
    assert lab.nodes[B].writer.chair(JOB) is None, "D may know it, too"
    lab.away.clear()
    lab.pass_time(RENEW_US)

    assert lab.chair(B).written.standing.voters == members("abc")


def test_who_could_bear_it_out_may_be_lost_so_after_a_while_one_is_believed():
    lab = asking(away={A, D, E})
    lab.post = [one for one in lab.post if one[1] != C]
    lab.do(B, lab.nodes[B].writer.hear(C, a_lie(lab, names="cde"), lab.now_us))
    lab.deliver()
    lab.pass_time(CLAIM_US)

    assert set(lab.nodes[B].writer.missing(JOB)) >= {D, E}


def test_who_votes_on_nothing_is_not_heard():
    lab = asking(away={A, C})
    candidate = lab.nodes[B].writer._candidates[JOB]
    lab.do(B, lab.nodes[B].writer.hear(D, a_lie(lab, NotPromised, promised=Epoch(9, D)), 0))

    assert candidate.written.standing.version.epoch.counter == 1
    assert candidate._counter < 7
    chair = open_chair()
    answer = NotAccepted(
        job=JOB, ask=chair._ask, version=chair._flight.standing.version, store="store-x",
        promised=Epoch(9, D),
    )  # fmt: skip
    chair.not_accepted(D, answer, Effects())
    assert chair.outbid_by is None


def open_chair():
    lab = RegisterLab("abc")
    lab.away |= {B, C}
    lab.open()
    candidate = lab.nodes[A].writer._candidates[JOB]
    return _opened(candidate)


def _opened(candidate) -> Chair:
    chair = Chair(JOB, candidate.epoch, candidate.ask, candidate.written)
    chair.open(0, Effects())
    return chair
