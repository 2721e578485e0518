import msgspec
import pytest

from distributed_grid.kernel.across import register_lease
from distributed_grid.kernel.across.register import PREFIX, Register
from distributed_grid.kernel.across.register_effects import (
    AGAIN_US,
    LEASE_US,
    RENEW_US,
    TTL_US,
    WAIT_US,
    Effects,
    Extend,
    GaveUp,
    Lapsed,
    MayRun,
    MayStart,
)
from distributed_grid.kernel.across.register_lease import LEASE, PATIENCE_US, ROUNDS_MAX, Leases
from distributed_grid.model.across import Epoch
from distributed_grid.model.ids import JobId, NodeId
from distributed_grid.wire.register import (
    LeasesRenewed,
    Prepare,
    Promised,
    RegisterMessage,
    Renewal,
    RenewLeases,
    Standing,
)
from tests.unit.across.register_lab import JOB, A, B, C, D, E, RegisterLab, fence, members

NOW_US = 10**9


def a_standing(names: str = "abc", lease: str = "l1", at=(1, "a", 2), **fields) -> Standing:
    given = {"version": fence(*at), "attempt": fence(*at), "node": D, **fields}
    return Standing(voters=members(names), lease=lease, **given)


def leases(**standing) -> tuple[Leases, Effects]:
    one = Leases(lambda sides: 7)
    return one, one.begin(JOB, a_standing(**standing), NOW_US)


def yes(name: str, sent_us: int = NOW_US, *granted: str, **fields) -> tuple[NodeId, LeasesRenewed]:
    given = {"life": 7, "store": f"store-{name}", "renewed": granted or ("l1",), **fields}
    return NodeId(name), LeasesRenewed(sent_us=sent_us, **given)


def no(name: str, standing: Standing, lease: str = "l1") -> tuple[NodeId, LeasesRenewed]:
    return yes(name, renewed=(), standings=((lease, standing),))


def hear(one: Leases, *answers: tuple[NodeId, LeasesRenewed], at_us: int = NOW_US) -> Effects:
    effects = Effects()
    for sender, answer in answers:
        effects = one.hear(sender, answer, at_us)
    return effects


def test_the_margins_hold_for_clocks_that_are_off_by_two_percent_and_a_late_look():
    slowest_us = LEASE_US * 100 // 98 + 100_000
    fastest_us = WAIT_US * 100 // 102

    assert slowest_us < fastest_us
    assert fastest_us == TTL_US


def test_all_voters_are_asked_and_the_process_starts_when_a_majority_has_renewed():
    one, effects = leases()
    wish = Renewal(JOB, "l1", fence(1, "a", 2), fence(1, "a", 2))
    question = RenewLeases(life=7, sent_us=NOW_US, renewals=(wish,))
    assert effects.send == [(A, question), (B, question), (C, question)]

    assert hear(one, yes("a")).happened == []
    effects = hear(one, yes("c"), at_us=NOW_US + 5)
    assert effects.happened == [
        MayRun(job=JOB, lease="l1", fence=fence(1, "a", 2), until_boot_us=NOW_US + LEASE_US)
    ]
    assert list(effects.save) == [LEASE + "l1"]
    assert hear(one, yes("b")).happened == []


def test_a_lease_is_counted_from_before_it_was_asked_for():
    one, _ = leases()
    late_us = NOW_US + LEASE_US - 1
    (run,) = hear(one, yes("a"), yes("b"), at_us=late_us).happened

    assert run.until_boot_us == late_us + 1


def test_answers_that_took_longer_than_the_lease_start_nothing():
    one, _ = leases()

    assert hear(one, yes("a"), yes("b"), at_us=NOW_US + LEASE_US).happened == []


@pytest.mark.parametrize(
    "answers",
    [
        (yes("a"), yes("a")),  # The same twice.
        (yes("a"), yes("d")),  # Not a voter.
        (yes("a"), yes("b", store="new")),  # Nor is who has lost its disk.
        (yes("a"), yes("b", NOW_US - 1)),  # To a question that was never asked.
        (yes("a"), yes("b", life=6)),  # In another life.
        (yes("a"), yes("b", NOW_US, "l2")),  # For another.
    ],
)
def test_what_is_no_majority_starts_nothing(answers):
    one, _ = leases()

    assert hear(one, *answers).happened == []


def test_while_the_set_changes_both_majorities_are_needed():
    one, effects = leases(next=members("cde"))

    assert [to for to, _ in effects.send] == [A, B, C, D, E]
    assert hear(one, yes("a"), yes("b"), yes("c")).happened == []
    assert hear(one, yes("e")).happened != []


def test_it_is_renewed_four_times_in_a_ttl_and_the_keeper_told():
    one, _ = leases()
    hear(one, yes("a"), yes("b"))
    assert one.tick(NOW_US + RENEW_US - 1).send == []
    again_us = NOW_US + RENEW_US
    assert len(one.tick(again_us).send) == 3
    effects = hear(one, yes("a", again_us), yes("b", again_us), at_us=again_us)

    assert effects.happened == [Extend(lease="l1", until_boot_us=again_us + LEASE_US)]


def test_who_gets_no_majority_asks_again_soon_and_ends_with_its_lease():
    one, _ = leases()
    hear(one, yes("a"), yes("b"))
    one.tick(NOW_US + RENEW_US)
    assert one.tick(NOW_US + RENEW_US + AGAIN_US).send
    assert one.tick(NOW_US + LEASE_US - 1).happened == []
    effects = one.tick(NOW_US + LEASE_US)

    assert effects.happened == [Lapsed(job=JOB, lease="l1")]
    assert effects.save == {LEASE + "l1": None}
    assert effects.send == []


def test_an_old_question_that_is_answered_late_does_not_shorten_a_lease():
    one, _ = leases()
    one.tick(NOW_US + AGAIN_US)
    hear(one, yes("a", NOW_US + AGAIN_US), yes("b", NOW_US + AGAIN_US))
    effects = hear(one, yes("a"), yes("b"))

    assert effects.happened == []
    assert one.tick(NOW_US + LEASE_US).happened == []


def test_only_the_last_questions_count():
    one, _ = leases()
    for number in range(1, ROUNDS_MAX + 1):
        one.tick(NOW_US + number * AGAIN_US)

    assert hear(one, yes("a"), yes("b")).happened == []


def test_an_attempt_goes_on_under_the_fence_of_the_takeover_that_adopted_it():
    one, _ = leases()
    adopted = a_standing(at=(2, "c", 1))
    effects = hear(one, no("a", adopted), at_us=NOW_US + 1)

    assert effects.send[0][1].renewals[0].fence == fence(2, "c", 1)
    assert effects.send[0][1].renewals[0].version == fence(2, "c", 1)
    assert hear(one, no("a", a_standing())).send == []


def test_the_sets_of_the_newest_standing_count():
    one, _ = leases()
    changed = a_standing("cde", version=fence(1, "a", 4))
    effects = hear(one, no("a", changed), at_us=NOW_US + 1)
    assert [to for to, _ in effects.send] == [C, D, E]

    assert hear(one, yes("a", NOW_US + 1), yes("b", NOW_US + 1)).happened == []
    assert hear(one, yes("d", NOW_US + 1), yes("e", NOW_US + 1)).happened != []


def test_an_attempt_that_was_replaced_before_it_started_is_given_up():
    one, _ = leases()
    hear(one, no("a", a_standing(lease="l2", at=(1, "a", 3))))

    assert one.tick(NOW_US).happened == [GaveUp(job=JOB, lease="l1")]
    assert one.tick(NOW_US).happened == []


def test_one_that_runs_is_not_given_up_before_its_lease_ends():
    one, _ = leases()
    hear(one, yes("a"), yes("b"), no("c", a_standing(lease="l2", at=(1, "a", 3))))

    assert one.tick(NOW_US + 1).happened == []


def test_an_attempt_that_nobody_lets_start_is_given_up_after_a_while():
    one, _ = leases()

    assert one.tick(NOW_US + PATIENCE_US - 1).happened == []
    assert one.tick(NOW_US + PATIENCE_US).happened == [GaveUp(job=JOB, lease="l1")]


def test_who_is_told_to_start_twice_asks_under_the_higher_fence():
    one, _ = leases()
    assert one.begin(JOB, a_standing(), NOW_US).send == []
    effects = one.begin(JOB, a_standing(at=(2, "c", 1)), NOW_US)

    assert effects.send[0][1].renewals[0].fence == fence(2, "c", 1)


def test_what_is_over_is_not_renewed():
    one, _ = leases()

    effects = one.over("l1", NOW_US)
    assert effects.save == {LEASE + "l1": None}
    assert [(to, word.over) for to, word in effects.send] == [(n, ("l1",)) for n in (A, B, C)]
    assert one.tick(NOW_US + RENEW_US) == Effects()
    assert hear(one, no("a", a_standing()), yes("b")) == Effects()


def test_all_leases_go_to_a_voter_in_one_message(monkeypatch):
    one, _ = leases(names="cab")
    for number in range(2, 6):
        one.begin(JobId(f"job{number}"), a_standing("a", lease=f"l{number}"), NOW_US)
    effects = one.tick(NOW_US + AGAIN_US)
    assert sorted((to, len(message.renewals)) for to, message in effects.send) == [
        (A, 5), (B, 1), (C, 1),
    ]  # fmt: skip

    monkeypatch.setattr(register_lease, "RENEWALS_MAX", 2)
    effects = one.tick(NOW_US + 2 * AGAIN_US)
    sizes = [len(message.renewals) for to, message in effects.send if to == A]
    assert sizes == [2, 2, 1]


def test_the_next_life_goes_on_with_what_the_keeper_runs_and_forgets_the_rest():
    one, _ = leases()
    saved = dict(hear(one, yes("a"), yes("b")).save)
    saved[LEASE + "l2"] = saved[LEASE + "l1"]
    again = Leases(lambda sides: 8)
    until_us = NOW_US + LEASE_US
    effects = again.start({**saved, "vote/store": b""}, {"l1": until_us}, NOW_US + 1)

    assert effects.save == {LEASE + "l2": None}
    assert [(to, word.over) for to, word in effects.send[:3]] == [(n, ("l2",)) for n in (A, B, C)]
    assert effects.send[3][1].renewals[0].lease == "l1"
    assert again.tick(until_us - 1).happened == []
    assert again.tick(until_us).happened == [Lapsed(job=JOB, lease="l1")]


# All three


def test_an_attempt_from_its_name_to_the_keeper():
    lab = RegisterLab("abcd")
    lab.open()
    lab.name("l1", D)
    (start,) = lab.take(A, MayStart)
    lab.do(D, lab.nodes[D].leases.begin(JOB, start.standing, lab.now_us))
    lab.deliver()
    (run,) = lab.take(D, MayRun)
    assert run.until_boot_us == lab.now_us + LEASE_US
    lab.pass_time(3 * TTL_US)
    assert lab.take(D, Extend)
    assert lab.take(D, Lapsed) == []

    lab.away |= {A, B}
    lab.pass_time(TTL_US)
    assert lab.take(D, Lapsed) == [Lapsed(job=JOB, lease="l1")]


def test_a_running_attempt_survives_a_takeover():
    lab = RegisterLab("abcd")
    lab.open()
    lab.name("l1", D)
    (start,) = lab.take(A, MayStart)
    lab.do(D, lab.nodes[D].leases.begin(JOB, start.standing, lab.now_us))
    lab.deliver()
    lab.away.add(A)
    lab.take_over(B)
    lab.pass_time(3 * TTL_US)

    assert lab.take(D, Lapsed) == []
    assert lab.nodes[D].leases._tenures["l1"].fence.epoch == Epoch(2, B)


def test_everything_that_is_saved_has_one_prefix_and_a_start_takes_it_up():
    lab = RegisterLab("abcd")
    lab.open()
    lab.name("l1", D)
    (start,) = lab.take(A, MayStart)
    lab.do(D, lab.nodes[D].leases.begin(JOB, start.standing, lab.now_us))
    lab.deliver()
    (run,) = lab.take(D, MayRun)

    assert all(key.startswith(PREFIX) for disk in lab.disks.values() for key in disk)
    register = lab.start(D, {"l1": run.until_boot_us})
    lab.pass_time(TTL_US)
    assert lab.take(D, Extend)
    assert register.leases._tenures["l1"].until_us > run.until_boot_us


@pytest.mark.parametrize(
    "message",
    [
        Prepare(job=JOB, epoch=Epoch(1, A), ask=1, sets=(members("abc"),)),
        Promised(job=JOB, epoch=Epoch(1, A), ask=1, store="s"),
        yes("a")[1],
        no("a", a_standing())[1],
    ],
)
def test_what_is_said_survives_the_line(message: RegisterMessage):
    body = msgspec.msgpack.encode(message)

    assert msgspec.msgpack.decode(body, type=RegisterMessage) == message


def test_an_empty_register_does_nothing():
    register = Register(A, lambda sides: 1)
    register.start({}, {}, NOW_US)

    assert register.tick(NOW_US) == Effects()
