import random

import msgspec
import pytest

from distributed_grid.kernel.accounts import Allowance
from distributed_grid.kernel.across.register_effects import AGAIN_US, WAIT_US, Effects, NewStore
from distributed_grid.kernel.across.register_voter import (
    HELD_US,
    STORE,
    STORES_MAX,
    Store,
    Voter,
)
from distributed_grid.model.across import Epoch
from distributed_grid.model.ids import JobId, NodeId
from distributed_grid.wire.register import (
    Accept,
    Accepted,
    LeasesRenewed,
    Member,
    NotAccepted,
    NotPromised,
    Prepare,
    Promised,
    Recollect,
    Recollected,
    Renewal,
    RenewLeases,
    Written,
)
from tests.unit.across.register_lab import (
    JOB,
    A,
    B,
    C,
    RegisterLab,
    a_written,
    fence,
    members,
)

ALONE = (members("a"),)
THREE = (members("abc"),)
NOW_US = 10**9
X, Y = NodeId("x"), NodeId("y")


def a_voter(saved: dict[str, bytes] | None = None, life: int = 1) -> tuple[Voter, Effects]:
    voter = Voter(A, random.Random(life).randrange)
    given = {STORE: msgspec.msgpack.encode(Store("store-a"))} if saved is None else saved
    return voter, voter.start(given, NOW_US)


def a_prepare(counter: int, node: str = "x", ask: int = 7, sets=ALONE, job=JOB) -> Prepare:
    return Prepare(job=job, epoch=Epoch(counter, NodeId(node)), ask=ask, sets=sets)


def an_accept(version, sets=ALONE, ask: int = 7, names: str = "a", **fields) -> Accept:
    return Accept(job=JOB, ask=ask, sets=sets, written=a_written(version, names, **fields))


def told(effects: Effects, kind: type) -> list:
    return [message for _, message in effects.send if isinstance(message, kind)]


# Promises


def test_a_promise_is_saved_before_it_is_told_and_survives_the_next_life():
    voter, _ = a_voter()
    effects = voter.hear(X, a_prepare(2), NOW_US)
    assert [type(message) for _, message in effects.send] == [Promised]
    assert effects.save.keys() == {STORE, "vote/job/job"}

    again, _ = a_voter(effects.save)
    assert again.promised(JOB) == Epoch(2, X)
    (refusal,) = told(again.hear(X, a_prepare(2, "w"), NOW_US), NotPromised)
    assert (refusal.promised, refusal.written) == (Epoch(2, X), None)


@pytest.mark.parametrize(("counter", "node"), [(2, "w"), (1, "z"), (2, "x")])
def test_who_asks_with_no_higher_epoch_is_refused(counter, node):
    voter, _ = a_voter()
    voter.hear(X, a_prepare(2), NOW_US)
    effects = voter.hear(B, a_prepare(counter, node, ask=8), NOW_US)

    assert told(effects, NotPromised)
    assert not effects.save


def test_of_two_takeovers_at_once_the_higher_node_id_is_later():
    voter, _ = a_voter()
    voter.hear(X, a_prepare(2, "x"), NOW_US)

    assert told(voter.hear(X, a_prepare(2, "y"), NOW_US), Promised)


def test_the_same_question_gets_the_same_answer_without_another_vote():
    voter, _ = a_voter()
    first = voter.hear(X, a_prepare(2), NOW_US)
    second = voter.hear(X, a_prepare(2), NOW_US)

    assert first.send == second.send
    assert not second.save


def test_who_is_no_member_has_no_vote_and_tells_what_it_holds():
    voter, _ = a_voter()
    voter.hear(X, an_accept(fence(1)), NOW_US)
    stranger = ((Member(A, "another"), *members("bc")),)
    (refusal,) = told(voter.hear(X, a_prepare(9, sets=stranger), NOW_US), NotPromised)

    assert refusal.written.standing.version == fence(1)
    assert refusal.promised < Epoch(9, X)
    effects = voter.hear(X, an_accept(fence(9), sets=stranger), NOW_US)
    (word,) = told(effects, Recollect)  # Who means a store that is lost hears of the one there is.
    assert (word.store, effects.save, len(effects.send)) == ("store-a", {}, 1)
    nobody = (tuple(members("bc")),)
    assert voter.hear(X, an_accept(fence(9), sets=nobody), NOW_US) == Effects()


def with_room(voter, most):
    voter._accounts.limits = Allowance(most, most, most, 2 * most, 0)


def test_a_voter_with_too_many_jobs_of_one_ruler_takes_no_more_of_its_and_others():
    voter, _ = a_voter()
    voter.hear(X, a_prepare(1), NOW_US)
    with_room(voter, voter._accounts[X])
    other = JobId("other")

    assert told(voter.hear(X, a_prepare(1, job=other), NOW_US), NotPromised)
    more = Accept(job=other, ask=1, sets=ALONE, written=a_written(fence(1)))
    assert voter.hear(X, more, NOW_US) == Effects()
    assert told(voter.hear(Y, a_prepare(1, job=JobId("third")), NOW_US), Promised)
    voter.check()
    assert voter.forget(JOB).save == {"vote/job/job": None}
    assert told(voter.hear(X, a_prepare(1, job=other), NOW_US), Promised)
    voter.check()


def test_a_node_has_more_room_for_votes_on_its_own_jobs():
    voter, _ = a_voter()
    voter._accounts.limits = Allowance(10, 10, 10_000, 10_000, 10)

    assert told(voter.hear(X, a_prepare(1), NOW_US), NotPromised)
    assert told(voter.hear(A, a_prepare(1, "a"), NOW_US), Promised)


def test_votes_are_on_the_account_of_who_asked_last_also_after_a_start():
    voter, _ = a_voter()
    saved = {STORE: msgspec.msgpack.encode(Store("store-a"))}
    promise = voter.hear(X, a_prepare(1), NOW_US)
    large = Written(standing=a_written(fence(2), "a").standing, value=bytes(10_000))
    accepted = voter.hear(A, Accept(job=JOB, ask=1, sets=ALONE, written=large), NOW_US)
    again, _ = a_voter({**saved, **promise.save, **accepted.save})
    again.check()

    ruler = fence(2).epoch.node
    assert (voter._accounts[X], voter._accounts[A] > 10_000) == (0, True)
    assert again._accounts[ruler] == voter._accounts[A]
    voter.hear(X, a_prepare(9), NOW_US)
    assert (voter._accounts[A], voter._accounts[X] > 10_000) == (0, True)
    with_room(voter, 15_000)
    assert told(voter.hear(X, a_prepare(10), NOW_US), Promised)


# Writes


def test_what_is_accepted_is_saved_and_returned_with_the_next_promise():
    voter, _ = a_voter()
    effects = voter.hear(X, an_accept(fence(1), value=b"one"), NOW_US)
    assert told(effects, Accepted) == [Accepted(job=JOB, ask=7, version=fence(1), store="store-a")]
    again, _ = a_voter(effects.save)
    (promise,) = told(again.hear(X, a_prepare(2), NOW_US), Promised)

    assert promise.written.value == b"one"
    assert again.written(JOB) == promise.written
    assert again.written(JobId("unknown")) is None


def test_a_write_of_a_lower_epoch_than_promised_is_refused():
    voter, _ = a_voter()
    voter.hear(X, a_prepare(2), NOW_US)
    effects = voter.hear(A, an_accept(fence(1)), NOW_US)

    assert told(effects, NotAccepted)[0].promised == Epoch(2, X)
    assert not effects.save


def test_a_write_that_comes_twice_is_answered_twice_and_an_older_one_not_at_all():
    voter, _ = a_voter()
    voter.hear(X, a_prepare(1, "a", ask=5), NOW_US)
    voter.hear(X, an_accept(fence(1, seq=2)), NOW_US)

    again = voter.hear(X, an_accept(fence(1, seq=2)), NOW_US)
    assert told(again, Accepted)
    assert not again.save
    assert voter.hear(X, an_accept(fence(1, seq=1)), NOW_US) == Effects()
    assert told(voter.hear(X, a_prepare(1, "a", ask=5), NOW_US), Promised)


def test_a_write_of_a_higher_epoch_is_a_promise_too():
    voter, _ = a_voter()
    voter.hear(X, an_accept(fence(3, "x")), NOW_US)

    assert voter.promised(JOB) == Epoch(3, X)
    assert told(voter.hear(X, a_prepare(3, "x", ask=7), NOW_US), Promised) == []


# Leases


def renewed(voter: Voter, at: tuple, seen=None, lease: str = "l", job=JOB) -> LeasesRenewed:
    wish = Renewal(job, lease, fence(*at), seen or fence(*at))
    question = RenewLeases(life=3, sent_us=5, renewals=(wish,))
    (answer,) = told(voter.hear(X, question, NOW_US), LeasesRenewed)
    assert (answer.life, answer.sent_us, answer.store) == (3, 5, "store-a")
    return answer


def a_lessor(**fields) -> Voter:
    voter, _ = a_voter()
    given = {"names": "a", "attempt": fence(2, "a", 4), "lease": "l", "node": X, **fields}
    voter.hear(X, an_accept(fence(2, "a", 5), **given), NOW_US)
    return voter


def test_a_lease_is_renewed_for_the_attempt_that_is_named():
    voter = a_lessor()

    assert renewed(voter, (2, "a", 4), seen=fence(2, "a", 5)).renewed == ("l",)
    assert renewed(voter, (2, "a", 4), seen=fence(2, "a", 5)).standings == ()


def test_who_does_not_know_the_newest_standing_is_told():
    voter = a_lessor()
    ((lease, standing),) = renewed(voter, (2, "a", 4)).standings

    assert (lease, standing) == ("l", voter.written(JOB).standing)


def test_a_lower_fence_than_the_accepted_one_is_not_renewed():
    answer = renewed(a_lessor(), (2, "a", 3))

    assert answer.renewed == ()
    assert answer.standings[0][1].attempt == fence(2, "a", 4)


def test_a_fence_below_the_promise_is_not_renewed():
    voter = a_lessor()
    voter.hear(X, a_prepare(3), NOW_US)

    assert renewed(voter, (2, "a", 4)).renewed == ()


def test_a_higher_fence_than_the_accepted_one_is_renewed_once_the_write_is_here_that_named_it():
    voter = a_lessor()
    assert renewed(voter, (3, "a", 1)).renewed == ()
    later = {"names": "a", "attempt": fence(3, "a", 1), "lease": "l", "node": X}
    voter.hear(X, an_accept(fence(3, "a", 1), **later), NOW_US)

    assert renewed(voter, (3, "a", 1)).renewed == ("l",)


def test_who_was_a_voter_once_renews_nothing_and_tells_who_is_now():
    voter = a_lessor()
    settled = an_accept(fence(2, "a", 6), sets=(members("a"), members("bcd")), names="bcd")
    voter.hear(X, settled, NOW_US)
    for count in (0, 2):  # First what the disk had at the start, then what it has now.
        word = Recollected(life=voter._life, store="store-a", count=count, by="store-b")
        effects = voter.hear(B, word, NOW_US)
        assert told(effects, Accepted) == []
    answer = renewed(voter, (9, "a", 9))

    assert answer.renewed == ()
    assert answer.standings[0][1].voters == members("bcd")


def test_of_an_unknown_job_a_voter_says_nothing():
    voter, _ = a_voter()
    assert renewed(voter, (9,)).renewed == ()
    voter.hear(X, a_prepare(1), NOW_US)
    assert renewed(voter, (9,)).standings == ()


# Stores


def test_a_first_start_makes_a_store_and_tells_its_name():
    voter, effects = a_voter({})

    assert effects.happened == [NewStore(member=voter.me)]
    assert len(voter.me.store) == 32
    again, later = a_voter(effects.save, life=2)
    assert again.me == voter.me
    assert later == Effects()
    assert a_voter({}, life=2)[0].me != voter.me


def test_a_vote_is_told_when_one_of_two_others_remembers_it():
    voter, _ = a_voter({})
    sets = ((voter.me, *members("bc")),)
    effects = voter.hear(X, a_prepare(1, sets=sets), NOW_US)

    assert [to for to, _ in effects.send] == [B, C]
    question = Recollect(life=voter._life, store=voter.me.store, count=0)
    assert {msgspec.structs.replace(word, tag="") for _, word in effects.send} == {question}
    assert voter.tick(NOW_US + AGAIN_US - 1) == Effects()
    assert [to for to, _ in voter.tick(NOW_US + AGAIN_US).send] == [B, C]

    late = Recollected(life=voter._life, store=voter.me.store, count=0, by="store-b")
    effects = voter.hear(B, late, NOW_US + 2 * AGAIN_US)
    assert told(effects, Promised) == []
    tag = voter._tag(B, 1)
    assert (B, msgspec.structs.replace(question, count=1, tag=tag)) in effects.send
    voter.hear(C, msgspec.structs.replace(late, by="new"), NOW_US + 2 * AGAIN_US)
    stranger = Recollected(life=voter._life, store=voter.me.store, count=1, by="new")
    assert told(voter.hear(C, stranger, NOW_US), Promised) == []
    effects = voter.hear(C, msgspec.structs.replace(stranger, by="store-c"), NOW_US)
    assert [to for to, message in effects.send if isinstance(message, Promised)] == [X]
    assert voter.tick(NOW_US + 9 * AGAIN_US) == Effects()
    assert told(voter.hear(X, a_prepare(1, sets=sets), NOW_US), Promised)


def test_an_answer_that_nobody_confirms_is_given_up():
    voter, _ = a_voter({})
    sets = ((voter.me, *members("bc")),)
    voter.hear(X, a_prepare(1, sets=sets), NOW_US)

    heard = Recollected(life=voter._life, store=voter.me.store, count=0, by="store-b")
    voter.hear(B, heard, NOW_US)
    assert voter.tick(NOW_US + HELD_US - 1).send
    assert voter.tick(NOW_US + HELD_US) == Effects()
    confirmed = Recollected(life=voter._life, store=voter.me.store, count=1, by="store-b")
    assert voter.hear(B, confirmed, NOW_US + HELD_US) == Effects()


def test_what_others_tell_of_their_stores_is_remembered_for_good():
    voter, _ = a_voter()
    effects = voter.hear(B, Recollect(life=4, store="s", count=9), NOW_US)
    assert effects.send == [(B, Recollected(life=4, store="s", count=9, by="store-a"))]
    assert voter.stores == {B: "s"}

    again, _ = a_voter(effects.save | {STORE: msgspec.msgpack.encode(Store("store-a"))})
    effects = again.hear(B, Recollect(life=5, store="s", count=3), NOW_US)
    assert effects.send == [(B, Recollected(life=5, store="s", count=9, by="store-a"))]
    assert not effects.save


def test_of_one_node_the_newest_stores_are_remembered():
    voter, _ = a_voter()
    for number in range(STORES_MAX + 1):
        voter.hear(B, Recollect(life=4, store=f"s{number}", count=9), NOW_US)

    (answer,) = told(voter.hear(B, Recollect(life=4, store="s0", count=1), NOW_US), Recollected)
    assert answer.count == 1
    (answer,) = told(voter.hear(B, Recollect(life=4, store="s8", count=1), NOW_US), Recollected)
    assert answer.count == 9


def test_a_node_can_be_asked_for_the_name_of_its_store():
    voter, _ = a_voter()
    assert [to for to, _ in voter.meet(B, NOW_US).send] == [B]
    assert voter.meet(B, NOW_US + 1) == Effects()
    voter.hear(B, Recollected(life=0, store="of another life", count=0, by="sb"), NOW_US)

    assert voter.stores == {B: "sb"}


@pytest.mark.parametrize("is_answer", [False, True])
def test_a_late_word_of_a_store_that_was_lost_is_not_believed(is_answer):
    voter, _ = a_voter()
    voter.hear(B, Recollect(life=5, store="new", count=0), NOW_US)
    late = (
        Recollected(life=0, store="store-a", count=0, by="lost")
        if is_answer
        else Recollect(life=4, store="lost", count=9)
    )

    (question,) = told(voter.hear(B, late, NOW_US), Recollect)
    assert voter.stores == {}  # Which of both it has, it alone knows.
    answer = Recollected(life=question.life, store=question.store, count=0, by="new")
    assert voter.hear(B, answer, NOW_US).send == []
    assert voter.stores == {B: "new"}


def two_names() -> tuple[Voter, Recollect]:
    """Somebody who has heard two names of a store, and what it asks then."""
    voter, _ = a_voter()
    voter.hear(B, Recollect(life=5, store="new", count=0), NOW_US)
    late = Recollect(life=4, store="lost", count=9)
    (question,) = told(voter.hear(B, late, NOW_US), Recollect)
    return voter, question


def answer_to(question: Recollect, by: str) -> Recollected:
    return Recollected(life=question.life, store=question.store, count=0, by=by)


def test_of_two_late_words_the_second_is_not_believed_either():
    voter, question = two_names()
    voter.hear(B, Recollect(life=4, store="lost", count=9), NOW_US)
    assert voter.stores == {}
    (again,) = told(voter.hear(B, answer_to(question, "new"), NOW_US), Recollect)
    assert (voter.stores, again.life != question.life) == ({}, True)
    assert voter.hear(B, answer_to(again, "new"), NOW_US).send == []

    assert voter.stores == {B: "new"}


def test_a_name_that_was_asked_for_in_vain_is_asked_for_again_and_old_answers_count_for_nothing():
    voter, question = two_names()
    (again,) = told(voter.meet(B, NOW_US), Recollect)
    voter.hear(B, answer_to(again, "new"), NOW_US)
    assert voter.stores == {B: "new"}
    (third,) = told(voter.hear(B, answer_to(question, "lost"), NOW_US), Recollect)
    voter.hear(B, answer_to(third, "new"), NOW_US)

    assert voter.stores == {B: "new"}


@pytest.mark.parametrize("message", [NotPromised, Accepted, LeasesRenewed])
def test_who_votes_or_refuses_says_what_its_store_is_called(message):
    lab = RegisterLab()
    register, sender = lab.nodes[A], B
    register.voter.stores = {B: "lost", A: "kept"}
    words = {
        NotPromised: {"job": JOB, "epoch": Epoch(9, X), "ask": 1, "promised": Epoch()},
        Accepted: {"job": JOB, "ask": 1, "version": fence(1)},
        LeasesRenewed: {"life": 1, "sent_us": 1, "renewed": (), "standings": ()},
    }[message]
    effects = register.hear(sender, message(store="new", **words), NOW_US)
    assert [to for to, one in effects.send if isinstance(one, Recollect)] == [B]
    register.hear(A, message(store="new", **words), NOW_US)

    assert register.voter.stores == {A: "kept"}  # Of its own it knows best.


def test_after_a_start_a_voter_votes_once_a_majority_of_the_others_has_answered():
    lab = RegisterLab("abcx")
    lab.open()
    lab.name("l", X)
    lab.away.add(C)
    lab.start(A)
    lab.deliver()
    voter = lab.nodes[A].voter
    named = voter.written(JOB).standing
    wish = Renewal(JOB, "l", named.attempt, named.version)
    question = RenewLeases(life=3, sent_us=5, renewals=(wish,))

    assert told(voter.hear(X, a_prepare(5, sets=THREE), lab.now_us), Promised) == []
    assert voter.hear(X, an_accept(fence(9), sets=THREE), lab.now_us).save == {}
    (answer,) = told(voter.hear(X, question, lab.now_us), LeasesRenewed)
    assert (answer.renewed, answer.standings) == ((), ())
    lab.away.clear()
    lab.now_us += AGAIN_US
    lab.do(A, voter.hear(X, question, lab.now_us))
    lab.deliver()
    (answer,) = told(voter.hear(X, question, lab.now_us), LeasesRenewed)
    assert answer.renewed == ("l",)
    effects = voter.hear(X, a_prepare(5, sets=THREE), lab.now_us)
    assert effects.save.keys() == {STORE, "vote/job/job"}


def test_what_is_not_for_a_voter_does_nothing():
    voter, _ = a_voter()
    assert voter.hear(X, LeasesRenewed(life=1, sent_us=1, store="s"), NOW_US) == Effects()


# One lease at a time


def say_over(voter: Voter, sender: NodeId, lease: str = "l") -> None:
    word = RenewLeases(life=3, sent_us=5, renewals=(), over=(lease,))
    voter.hear(sender, word, NOW_US)


def the_next(voter: Voter, at_us: int) -> bool:
    """Whether the attempt that took the place of the first is let run by a voter."""
    later = fence(3, "a", 1)
    written = {"names": "a", "attempt": later, "lease": "m", "node": B}
    voter.hear(A, an_accept(later, **written), at_us)
    question = RenewLeases(life=4, sent_us=5, renewals=(Renewal(JOB, "m", later, later),))
    (answer,) = told(voter.hear(B, question, at_us), LeasesRenewed)
    assert answer.standings == ()
    return answer.renewed == ("m",)


def test_whatever_a_home_says_a_voter_lets_nobody_run_while_the_last_it_let_may():
    voter = a_lessor()
    assert renewed(voter, (2, "a", 4)).renewed == ("l",)

    assert not the_next(voter, NOW_US + WAIT_US - 1)
    assert the_next(voter, NOW_US + WAIT_US)


def test_who_ran_it_says_that_it_is_over_and_the_next_may_run_at_once():
    voter = a_lessor()
    renewed(voter, (2, "a", 4))
    say_over(voter, X)

    assert the_next(voter, NOW_US)


@pytest.mark.parametrize(("sender", "lease"), [(B, "l"), (X, "m")])
def test_nobody_else_says_that_it_is_over(sender, lease):
    voter = a_lessor()
    renewed(voter, (2, "a", 4))
    say_over(voter, sender, lease)

    assert not the_next(voter, NOW_US)


def test_nobody_is_leased_what_is_not_named_or_runs_elsewhere():
    voter = a_lessor()
    wish = Renewal(JOB, "l", fence(2, "a", 4), fence(2, "a", 5))
    other = msgspec.structs.replace(wish, lease="m")
    for sender, one in ((B, wish), (X, other)):
        question = RenewLeases(life=3, sent_us=5, renewals=(one,))
        (answer,) = told(voter.hear(sender, question, NOW_US), LeasesRenewed)
        assert answer.renewed == ()


def test_a_job_that_is_forgotten_has_no_lease():
    voter = a_lessor()
    renewed(voter, (2, "a", 4))
    voter.forget(JOB)

    assert the_next(voter, NOW_US)


# What others remember


def remembering(voter: Voter, sender: NodeId, **fields) -> Recollected:
    """What a node answers that was told of some votes, if it does not lie."""
    given = {"life": voter._life, "store": voter.me.store, "by": "store-b", **fields}
    return Recollected(**given)


def test_a_voter_gives_its_store_up_only_for_a_count_that_it_has_told_itself():
    voter, _ = a_voter({})
    before = voter.me
    later, tag = 9, voter._tag(B, 9)
    for sender, count, told_tag in ((B, 1 << 40, ""), (B, later + 1, tag), (C, later, tag)):
        voter.hear(sender, remembering(voter, sender, count=count, tag=told_tag), NOW_US)
        assert voter.me == before
    voter.hear(B, remembering(voter, B, count=later, tag=tag), NOW_US)

    assert voter.me != before


def test_the_tag_of_a_count_is_told_again_with_it_also_after_a_start():
    voter, _ = a_voter({})
    effects = voter.hear(B, Recollect(life=5, store="store-b", count=3, tag="t"), NOW_US)
    saved = {key: body for key, body in effects.save.items() if body is not None}
    again, _ = a_voter({STORE: msgspec.msgpack.encode(Store("store-a")), **saved})
    question = Recollect(life=6, store="store-b", count=2, tag="u")
    (answer,) = told(again.hear(B, question, NOW_US), Recollected)

    assert (answer.count, answer.tag) == (3, "t")


def test_what_was_remembered_before_there_were_tags_is_remembered_still():
    old = {"vote/remembered/b": msgspec.msgpack.encode({"store-b": 4})}
    voter, _ = a_voter({STORE: msgspec.msgpack.encode(Store("store-a")), **old})
    question = Recollect(life=6, store="store-b", count=2)
    (answer,) = told(voter.hear(B, question, NOW_US), Recollected)

    assert (answer.count, answer.tag) == (4, "")


def test_who_was_asked_nothing_has_no_answer_that_counts():
    voter, _ = a_voter()

    assert voter.hear(X, Recollected(life=-1, store="s", count=1, by="t"), NOW_US).send == []


def test_after_a_start_the_one_that_is_named_may_still_run_and_the_next_waits():
    lab = RegisterLab("a")
    lab.open(names="a")
    lab.name("l", X)
    voter = lab.start(A).voter
    later = fence(3, "a", 1)
    voter.hear(A, an_accept(later, attempt=later, lease="m", node=B), NOW_US)
    question = RenewLeases(life=4, sent_us=5, renewals=(Renewal(JOB, "m", later, later),))
    early, late = (
        told(voter.hear(B, question, lab.now_us + after_us), LeasesRenewed)[0].renewed
        for after_us in (WAIT_US - 1, WAIT_US)
    )

    assert (early, late) == ((), ("m",))
