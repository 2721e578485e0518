"""Who is alive, as one machine sees it: what each heartbeat and each silence changes."""

import pytest

from distributed_grid.kernel.mesh.liveness import PROBES_MAX, WAN
from distributed_grid.wire import heartbeat as wire
from tests.liveness_model import node
from tests.unit.mesh.liveness_desk import ME, SECOND, TICK_US, A, B, C, D, Desk, E

# --- Heartbeats ----------------------------------------------------------------------------------


@pytest.mark.rows("S0-69")
@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 29])
def test_twenty_heartbeats_a_second_whatever_the_size_of_the_mesh(count):
    others = [node(number) for number in range(1, count + 1)]
    desk = Desk(*others).wait(SECOND, *others)
    desk.sent = []
    desk.wait(3 * SECOND, *others)

    assert len(desk.took(wire.BEAT)) == 60


@pytest.mark.rows("S0-69")
def test_the_interval_and_the_limit_are_the_owners_choice():
    desk = Desk(A, rules=WAN).wait(SECOND, A)
    desk.sent = []
    desk.wait(4 * SECOND, A)

    assert len(desk.took(wire.BEAT)) == 32

    desk.wait(7_900_000)
    before = desk.health(A)
    desk.wait(200_000)

    assert (before, desk.health(A)) == ("suspect", "dead")


def test_nobody_is_dealt_twice_before_everybody_once():
    others = [node(number) for number in range(1, 30)]
    desk = Desk(*others).wait(29 * 50_000, *others)

    assert len({to for to, _ in desk.took(wire.BEAT)}) >= 28


def test_a_late_tick_sends_one_round_and_no_more():
    desk = Desk(A, B, C, D, E).wait(SECOND, A, B, C, D, E)
    desk.sent = []
    desk.now_us += 350_000
    desk.wait(TICK_US)

    assert len(desk.took(wire.BEAT)) == 4


def test_without_links_nothing_is_sent():
    desk = Desk(A, linked=[]).wait(SECOND)

    assert desk.sent == []


def test_a_heartbeat_names_the_members_with_their_ages():
    desk = Desk(A, B)
    desk.hear(A)
    desk.hear(B)
    desk.wait(300_000, B)
    members = wire.decode(desk.sent[-1][1]).members
    ages = {short: word * 10 for short, _, _, word in wire.members_of(members)}

    assert ages == {wire.short_id(A): 300, wire.short_id(B): 50}


def test_what_was_never_heard_is_not_told():
    desk = Desk(A, B).wait(300_000)

    assert all(wire.decode(body).members == b"" for _, body in desk.sent)


# --- Silence -------------------------------------------------------------------------------------


def test_a_silent_peer_is_suspected_then_dead_and_why_is_said():
    desk = Desk(A, B, C, D, E).wait(SECOND, A, B, C, D, E)
    calm = [desk.kernel.is_calm]
    desk.wait(1_700_000, B, C, D, E)
    suspect = desk.kernel.health(A)
    calm.append(desk.kernel.is_calm)
    desk.wait(SECOND, B, C, D, E)
    dead = desk.kernel.health(A)
    desk.wait(SECOND, B, C, D, E)

    assert [*calm, desk.kernel.is_calm] == [True, False, True]
    assert (suspect.health, suspect.why) == ("suspect", "silent for 1.6 s; it is being probed")
    assert (dead.health, dead.why) == ("dead", "silent for 2.6 s; 3 others could not reach it")
    assert dead.age_us == 2_700_000
    assert desk.story() == [(A, "alive", "suspect"), (A, "suspect", "dead")]
    assert (desk.kernel.suspicions, desk.kernel.deaths, desk.kernel.false_alarms) == (1, 1, 0)


@pytest.mark.parametrize(
    ("others", "why"),
    [((), "nobody else could be asked"), ((B,), "1 other could not reach it")],
)
def test_with_few_others_few_can_be_asked(others, why):
    desk = Desk(A, *others).wait(2_700_000, *others)

    assert desk.kernel.health(A).why == f"silent for 2.6 s; {why}"


def test_a_suspect_is_probed_directly_and_through_three_others_every_200_ms():
    desk = Desk(A, B, C, D, E).wait(1_600_000, B, C, D, E)
    desk.sent = []
    desk.wait(600_000, B, C, D, E)
    sent = list(desk.sent)

    assert desk.took(wire.PROBE) == [(A, wire.short_id(ME))] * 3

    desk.sent = sent
    requests = desk.took(wire.REQUEST)

    assert len(requests) == 9
    assert all(to != A and about == wire.short_id(A) for to, about in requests)


def test_a_suspect_without_a_link_is_to_be_dialled():
    desk = Desk(A, B, C, D, E, linked=[B, C, D, E]).wait(1_700_000, B, C, D, E)

    assert desk.kernel.wanted_links() == [A]
    assert desk.took(wire.PROBE) == []


def test_whoever_spoke_to_anybody_is_alive():
    desk = Desk(A, B)
    for number in range(1, 20):
        desk.wait(500_000, B)
        desk.hear(B, members=desk.told(A, number, 400_000))

    assert desk.story() == []


def test_an_age_without_a_later_stamp_is_no_news():
    desk = Desk(A, B)
    for _ in range(8):
        desk.wait(500_000, B)
        desk.hear(B, members=desk.told(A, 1, 0))

    assert desk.health(A) == "dead"


def test_an_old_age_with_a_later_stamp_makes_nobody_alive():
    desk = Desk(A, B)
    desk.hear(A)
    desk.wait(3 * SECOND, B)
    desk.hear(B, members=desk.told(A, 2, 2_900_000))

    assert desk.health(A) == "dead"


@pytest.mark.parametrize("silence_us", [1_700_000, 2_700_000, 60 * SECOND])
def test_whoever_speaks_again_is_alive_at_once(silence_us):
    desk = Desk(A, B, C).wait(silence_us, B, C)
    desk.hear(A)

    assert desk.health(A) == "alive"
    assert desk.story()[-1][::2] == (A, "alive")
    assert desk.kernel.health(A).why.startswith("heard again after")
    assert desk.kernel.false_alarms + desk.kernel.returns == 1


def test_any_message_of_a_peer_counts_as_its_word():
    desk = Desk(A, B).wait(2_700_000, B)
    desk.kernel.spoke(A, desk.now_us)
    desk.kernel.spoke(node(99), desk.now_us)

    assert desk.health(A) == "alive"


def test_a_dead_one_is_alive_when_others_heard_a_later_word_of_it():
    desk = Desk(A, B, linked=[B])
    desk.wait(30 * SECOND, B)
    before = desk.health(A)
    desk.hear(B, members=desk.told(A, 5, 20_000))

    assert (before, desk.health(A)) == ("dead", "alive")


def test_one_of_those_given_up_still_hears_from_us_every_other_round():
    desk = Desk(A, B, C, D, E).wait(3 * SECOND, B, C, D, E)
    desk.sent = []
    desk.wait(2 * SECOND, B, C, D, E)
    sent = desk.took(wire.BEAT)

    assert (len(sent), sum(to == A for to, _ in sent)) == (40, 5)


def test_when_all_are_given_up_all_still_hear_from_us():
    desk = Desk(A, B, C, D, E).wait(10 * SECOND)
    desk.sent = []
    desk.wait(SECOND)

    assert {to for to, _ in desk.took(wire.BEAT)} == {A, B, C, D, E}


# --- Ourselves -----------------------------------------------------------------------------------


def test_a_machine_that_slept_blames_nobody():
    desk = Desk(A, B, C).wait(1_700_000, B, C)
    suspected_us = desk.kernel.health(A).since_us
    desk.now_us += 60 * SECOND
    desk.wait(TICK_US)

    assert [desk.health(id_) for id_ in (A, B, C)] == ["suspect", "alive", "alive"]
    assert desk.kernel.health(A).since_us == suspected_us + 60 * SECOND + TICK_US

    desk.wait(1_500_000)

    assert [desk.health(id_) for id_ in (A, B, C)] == ["dead", "alive", "alive"]


def test_a_heartbeat_that_comes_before_the_first_tick_after_a_sleep_is_not_from_the_future():
    desk = Desk(A, B)
    desk.now_us += 60 * SECOND
    desk.hear(A)
    desk.wait(TICK_US)

    assert desk.kernel.health(A).age_us == TICK_US
    assert desk.kernel.health(B).age_us == TICK_US


def test_one_that_becomes_known_in_a_sleep_is_not_from_the_future_either():
    desk = Desk(A)
    desk.now_us += 60 * SECOND
    desk.kernel.set_members([A, B], desk.now_us)
    desk.wait(3 * SECOND, A)

    assert desk.health(B) == "dead"


def test_whoever_hears_less_than_a_quarter_doubts_itself_and_waits_twice_as_long():
    desk = Desk(A, B, C, D, E).wait(SECOND, A, B, C, D, E)
    desk.wait(5_100_000, A)
    waited = [desk.health(id_) for id_ in (B, C, D, E)]
    desk.wait(200_000, A)

    assert "dead" not in waited
    assert [desk.health(id_) for id_ in (B, C, D, E)] == ["dead"] * 4


def test_a_quarter_heard_is_enough():
    desk = Desk(A, B, C, D).wait(2_700_000, A)

    assert [desk.health(id_) for id_ in (B, C, D)] == ["dead"] * 3


def test_doubts_outlast_the_first_sign_of_life():
    desk = Desk(A, B, C, D, E).wait(4 * SECOND)
    desk.wait(SECOND, A, B, C)

    assert "dead" not in [desk.health(id_) for id_ in (A, B, C, D, E)]


def test_whoever_is_suspected_says_so_in_a_later_incarnation():
    desk = Desk(A, B).wait(200_000)
    desk.hear(A, members=desk.told(ME, 1, 1_700_000, wire.SUSPECT))
    desk.hear(B, members=desk.told(ME, 1, 1_700_000, wire.SUSPECT))
    desk.wait(200_000)

    assert desk.kernel.incarnation == 1
    assert wire.decode(desk.sent[-1][1]).stamp >> 16 == 1


def test_whoever_is_known_from_an_earlier_life_lives_a_later_one():
    desk = Desk(A)
    desk.hear(A, members=desk.told(ME, 0x07_0042))

    assert desk.kernel.incarnation == 8

    desk.hear(A, members=desk.told(ME, 0x08_0000))
    desk.kernel.remember(7)

    assert desk.kernel.incarnation == 8

    desk.kernel.remember(8)

    assert desk.kernel.incarnation == 9


def test_incarnations_go_round():
    desk = Desk(A)
    desk.kernel.remember(127)
    desk.kernel.remember(254)
    desk.hear(A, members=desk.told(ME, 0xFF_0001))

    assert desk.kernel.incarnation == 0


def test_the_incarnation_of_others_is_remembered():
    desk = Desk(A, B)
    desk.stamps[A] = 0x05_0000
    desk.hear(A)

    assert [desk.kernel.incarnation_of(id_) for id_ in (A, B, C)] == [5, 0, 0]

    desk.hear(A, members=desk.told(B, 0x90_0000))

    assert desk.kernel.incarnation_of(B) == 0x90


def test_a_peer_that_starts_again_from_nothing_is_no_death():
    desk = Desk(A, B)
    desk.stamps[A] = 0x05_0000
    desk.wait(SECOND, A, B)
    desk.stamps[A] = 0
    desk.wait(5 * SECOND, A, B)

    assert desk.story() == []
    assert desk.kernel.incarnation_of(A) == 5


# --- Probes through others -----------------------------------------------------------------------


def test_a_probe_is_answered_at_once():
    desk = Desk(A)
    ((to, body),) = desk.hear(A, wire.PROBE, about=77)

    assert (to, wire.decode(body)[::2][:2]) == (A, (wire.ANSWER, 77))


def test_a_probe_for_another_is_passed_on_and_so_is_the_answer():
    desk = Desk(A, B).wait(TICK_US)
    ((target, probe),) = desk.hear(A, wire.REQUEST, about=wire.short_id(B))
    ((origin, relayed),) = desk.hear(B, wire.ANSWER, about=wire.decode(probe).about)
    told = wire.decode(relayed)

    assert (target, wire.decode(probe).kind) == (B, wire.PROBE)
    assert (origin, told.kind, told.about) == (A, wire.RELAYED, wire.short_id(B))
    assert [short for short, *_ in wire.members_of(told.members)] == [wire.short_id(B)]


def test_an_answer_to_ourselves_goes_no_further():
    assert Desk(A).hear(A, wire.ANSWER, about=wire.short_id(ME)) == []


@pytest.mark.parametrize("kind", [wire.REQUEST, wire.ANSWER])
@pytest.mark.parametrize("about", [C, D])
def test_nothing_is_passed_on_to_strangers_and_those_without_a_link(kind, about):
    desk = Desk(A, B, C, linked=[A, B]).wait(TICK_US)

    assert desk.hear(A, kind, about=wire.short_id(about)) == []


def test_an_answer_through_another_saves_a_suspect():
    desk = Desk(A, B, C, D, E).wait(1_800_000, B, C, D, E)
    desk.hear(B, wire.RELAYED, about=wire.short_id(A))

    assert desk.story() == [(A, "alive", "suspect"), (A, "suspect", "alive")]

    desk.wait(SECOND, B, C, D, E)
    desk.hear(B, wire.RELAYED, about=wire.short_id(A))  # Nobody asked again.

    assert desk.kernel.health(A).age_us == SECOND


def test_an_answer_that_nobody_asked_for_saves_nobody():
    desk = Desk(A, B, linked=[]).wait(2_700_000, B)
    desk.hear(B, wire.RELAYED, about=wire.short_id(A))

    assert desk.health(A) == "dead"


def test_two_members_with_one_short_id_have_only_their_own_word():
    twins = [A[:8] + "0" * 56, A[:8] + "1" * 56]
    desk = Desk(*twins, B, C, D).wait(SECOND, *twins, B, C, D)

    assert wire.short_id(A) not in [
        short for short, *_ in wire.members_of(wire.decode(desk.sent[-1][1]).members)
    ]

    desk.sent = []
    for number in range(6):
        desk.wait(500_000, twins[0], B, C, D)
        desk.hear(B, members=desk.told(A, 1_000 + number))

    assert [desk.health(twin) for twin in twins] == ["alive", "dead"]
    assert desk.kernel.health(twins[1]).why.endswith("nobody else could be asked")
    assert desk.took(wire.REQUEST) == []
    assert desk.hear(twins[0], wire.ANSWER, about=wire.short_id(B)) == []


def test_a_member_with_our_own_short_id_is_not_taken_for_us():
    twin = ME[:8] + "0" * 56
    desk = Desk(twin, A)
    desk.hear(A, members=desk.told(twin, 0x03_0000))

    assert desk.health(twin) == "alive"
    assert desk.kernel.incarnation == 0
    assert desk.kernel.incarnation_of(twin) == 0


def test_when_half_of_a_mesh_is_gone_probes_have_a_limit():
    others = [node(number) for number in range(1, 80)]
    desk = Desk(*others)
    desk.wait(1_600_000, *others[:40])
    desk.sent = []
    desk.wait(TICK_US, *others[:40])

    assert PROBES_MAX <= len(desk.sent) < PROBES_MAX + 4
    assert len(desk.kernel.wanted_links()) == 0
