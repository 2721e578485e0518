"""Who is alive by the word of others, how far away peers are, who watches in a large mesh."""

import msgspec
import pytest

from distributed_grid.kernel.mesh.liveness import LAN
from distributed_grid.wire import heartbeat as wire
from distributed_grid.wire.mesh import PREVIOUS, PROTOCOL
from tests.liveness_model import node
from tests.unit.mesh.liveness_desk import ME, SECOND, A, B, C, D, Desk, E

# --- The word of others has an end ---------------------------------------------------------------


def by_hearsay(desk, duration_us, answers=False):
    """B speaks of A all the time; A itself is never heard."""
    for _ in range(duration_us // 100_000):
        desk.wait(100_000, B, C, D, E)
        desk.stamps[A] += 1
        desk.hear(B, members=desk.told(A, desk.stamps[A], 10_000))
        if answers and desk.took(wire.REQUEST):
            desk.hear(C, wire.RELAYED, about=wire.short_id(A))


def test_a_linked_peer_that_gives_no_sign_itself_is_asked_then_asked_through_others():
    desk = Desk(A, B, C, D, E)
    by_hearsay(desk, 3 * SECOND)

    assert desk.took(wire.PROBE) == []

    by_hearsay(desk, SECOND)
    sent = list(desk.sent)

    assert desk.took(wire.PROBE) == [(A, wire.short_id(ME))] * 5

    desk.sent = sent

    assert desk.took(wire.REQUEST) == []

    by_hearsay(desk, SECOND)

    requests = desk.took(wire.REQUEST)

    assert len(requests) >= 12
    assert A not in {to for to, _ in requests}


def test_nobody_is_asked_to_probe_itself():
    desk = Desk(A, B, C, D, E, linked=[A, B, C])
    by_hearsay(desk, 6 * SECOND)

    assert {to for to, _ in desk.took(wire.REQUEST)} == {B, C}


def test_after_ten_seconds_without_an_answer_the_word_of_others_no_longer_counts():
    desk = Desk(A, B, C, D, E)
    by_hearsay(desk, 10 * SECOND)
    before = desk.health(A)
    by_hearsay(desk, SECOND + 200_000)

    assert (before, desk.health(A)) == ("alive", "dead")
    assert desk.kernel.health(A).why == "no answer for 10.8 s; 3 others could not reach it"
    assert desk.kernel.changes()[0].why == (
        "no answer for 10.0 s, though others say that they hear it"
    )


def test_one_that_was_given_up_and_is_said_to_live_is_asked_and_does_not_flap():
    desk = Desk(A, B, C, D, E)
    by_hearsay(desk, 60 * SECOND)

    assert desk.story() == [(A, "alive", "suspect"), (A, "suspect", "dead")]

    desk.sent = []
    by_hearsay(desk, 3 * SECOND)

    assert 2 <= len(desk.took(wire.PROBE)) <= 4

    desk.wait(5 * SECOND, B, C, D, E)  # Nobody speaks of it any more.

    assert len(desk.took(wire.PROBE)) <= 1

    by_hearsay(desk, 2 * SECOND, answers=True)

    assert desk.health(A) == "alive"


def test_an_answer_through_another_renews_the_word_of_others():
    desk = Desk(A, B, C, D, E)
    by_hearsay(desk, 60 * SECOND, answers=True)

    assert desk.story() == []


def test_nobody_without_a_link_is_asked_to_answer_before_it_is_suspected():
    desk = Desk(A, B, C, D, E, linked=[B, C, D, E])
    by_hearsay(desk, 60 * SECOND)

    assert desk.story() == []


# --- Members, versions, round trips --------------------------------------------------------------


def test_members_come_as_heard_just_now_and_go_without_a_trace():
    desk = Desk(A).wait(2_700_000)
    desk.kernel.set_members([A, B], desk.now_us)

    assert (desk.health(A), desk.health(B)) == ("dead", "alive")

    desk.kernel.set_members([B], desk.now_us)
    desk.kernel.set_members([B], desk.now_us)

    assert not desk.kernel.has_member(A)
    assert desk.kernel.has_member(B)
    assert desk.hear(A, wire.PROBE) == []
    assert desk.kernel.received == 0


def test_this_node_is_not_among_those_it_watches():
    desk = Desk(ME, A)

    assert not desk.kernel.has_member(ME)
    assert desk.kernel.has_member(A)


def test_of_whom_nothing_was_told_yet_the_best_is_believed():
    vital = Desk(A).wait(2_700_000).kernel.health(B)

    assert (vital.health, vital.age_us, vital.why) == ("alive", 0, "newly known")


def test_a_peer_of_the_previous_version_is_spoken_to_in_it():
    desk = Desk(A)
    desk.kernel.speaks(A, PREVIOUS)
    desk.kernel.speaks(A, 99)
    desk.kernel.speaks(B, PREVIOUS)
    ((_, body),) = desk.hear(A, wire.PROBE, version=PREVIOUS)

    assert wire.decode(body).version == PREVIOUS
    assert desk.kernel.rtt_us(A) is None

    ((_, body),) = desk.hear(A, wire.PROBE)

    assert wire.decode(body).version == PROTOCOL


@pytest.mark.rows("S0-107")
def test_a_round_trip_is_what_is_left_when_the_other_subtracts_how_long_it_waited():
    desk = Desk(A)
    sent_us = desk.now_us & wire.CLOCK_MASK
    desk.now_us += 150_000
    desk.hear(A, echo_us=sent_us, held_us=147_000)
    first = desk.kernel.rtt_us(A)
    desk.hear(A, echo_us=sent_us, held_us=139_000)

    assert (first, desk.kernel.rtt_us(A)) == (3_000, 4_000)
    assert desk.kernel.take_rtts() == [(A, 3_000), (A, 11_000)]
    assert desk.kernel.take_rtts() == []
    assert desk.kernel.rtt_us(B) is None


def test_what_a_heartbeat_waited_to_be_read_does_not_make_the_way_longer():
    desk = Desk(A)
    sent_us = desk.now_us & wire.CLOCK_MASK
    desk.now_us += 150_000
    beat = wire.Heartbeat(wire.BEAT, 1, 0, b"", sent_us=5, echo_us=sent_us, held_us=50_000)
    desk.kernel.heard(A, wire.encode(beat), desk.now_us, waited_us=97_000)

    assert desk.kernel.rtt_us(A) == 3_000


def test_two_machines_measure_each_other():
    here, there = Desk(A), Desk(A)
    ((_, body),) = here.hear(A, wire.PROBE, sent_us=123)
    answer = wire.decode(body)

    assert (answer.sent_us, answer.echo_us, answer.held_us) == (7 * SECOND, 123, 0)

    there.now_us += 900
    there.kernel.heard(A, wire.encode(answer._replace(echo_us=7 * SECOND)), there.now_us)

    assert there.kernel.rtt_us(A) == 900


@pytest.mark.parametrize("clocks", [dict(echo_us=0, held_us=8 * SECOND), dict(echo_us=8 * SECOND)])
def test_an_absurd_round_trip_is_ignored(clocks):
    desk = Desk(A)
    desk.hear(A, **({"held_us": 0} | clocks))

    assert desk.kernel.rtt_us(A) is None


def test_a_clock_that_is_too_old_is_not_echoed():
    desk = Desk(A)
    desk.hear(A, sent_us=5)
    desk.wait(61 * SECOND)

    assert wire.decode(desk.sent[0][1]).held_us < wire.NO_ECHO
    assert wire.decode(desk.sent[-1][1]).held_us == wire.NO_ECHO


def test_samples_that_nobody_takes_are_bounded():
    desk = Desk(A)
    for _ in range(300):
        desk.hear(A, echo_us=desk.now_us, held_us=0)

    assert len(desk.kernel.take_rtts()) == 256


def test_what_is_sent_and_received_is_counted():
    desk = Desk(A).wait(SECOND, A)
    desk.hear(A, wire.PROBE)

    assert (desk.kernel.sent, desk.kernel.received) == (len(desk.sent) + 1, 21)


# --- A large mesh --------------------------------------------------------------------------------

MANY = [node(number) for number in range(1, 120)]


def a_large_desk(**changes):
    desk = Desk(*MANY, **changes)
    watched = [peer.id for peer in desk.kernel._roster.watched]
    return desk, watched, [id_ for id_ in MANY if id_ not in watched]


def test_in_a_large_mesh_each_watches_a_few():
    desk, watched, others = a_large_desk()
    desk.wait(10 * SECOND)

    assert len(watched) == LAN.observers
    assert {desk.health(id_) for id_ in others} == {"alive"}


def test_whom_to_watch_can_be_told_and_starts_as_heard_now():
    desk = Desk(*MANY).wait(10 * SECOND)
    desk.kernel.set_members(MANY, desk.now_us, watched=MANY[:3])
    desk.story()
    desk.wait(1_500_000)

    assert desk.story() == []

    desk.wait(1_500_000)

    assert {id_ for id_, *_ in desk.story()} <= set(MANY[:3])


def test_of_those_whom_others_watch_the_latest_word_is_believed():
    desk, (watcher, *_), (far, *_) = a_large_desk()
    for stamp, health, expected in [
        (5, wire.ALIVE, "alive"),
        (4, wire.DEAD, "alive"),
        (5, wire.DEAD, "dead"),
        (5, wire.ALIVE, "dead"),
        (5, wire.DEAD, "dead"),
        (7, wire.SUSPECT, "alive"),
        (8, wire.ALIVE, "alive"),
        (9, wire.DEAD, "dead"),
        (10, wire.DEAD, "dead"),
    ]:
        desk.hear(watcher, members=desk.told(far, stamp, 50_000, health))

        assert desk.health(far) == expected
    assert desk.kernel.health(far).why == "those who watch it found it silent"


def test_a_verdict_is_passed_on_for_a_while_and_then_only_in_turn():
    desk, (watcher, *_), (far, *_) = a_large_desk()
    desk.hear(watcher, members=desk.told(far, 5, 3_000_000, wire.DEAD))

    def told_of():
        named = [
            short == wire.short_id(far)
            for _, body in desk.sent
            for short, *_ in wire.members_of(wire.decode(body).members)
        ]
        desk.sent = []
        return sum(named)

    desk.wait(2 * SECOND, *MANY)
    loud = told_of()
    desk.wait(5 * SECOND, *MANY)
    desk.sent = []
    desk.wait(2 * SECOND, *MANY)

    assert loud >= 40
    assert told_of() < 10


def test_a_large_mesh_is_told_in_small_datagrams():
    desk, *_ = a_large_desk()
    desk.wait(SECOND, *MANY)

    assert 200 < max(len(body) for _, body in desk.sent) < 500


def test_most_heartbeats_go_to_those_who_watch_us_and_some_go_far():
    desk, watched, _ = a_large_desk()
    desk.wait(4 * SECOND, *MANY)
    sent = [to for to, _ in desk.took(wire.BEAT)]

    assert 80 <= len(sent) <= 84
    assert 0.8 < sum(to in watched for to in sent) / len(sent) < 0.95


def test_rumours_that_wait_are_bounded(monkeypatch):
    monkeypatch.setattr("distributed_grid.kernel.mesh.liveness_news.WAITING_MAX", 3)
    desk, (watcher, *_), others = a_large_desk()
    for far in others[:9]:
        desk.hear(watcher, members=desk.told(far, 5, 3_000_000, wire.DEAD))

    assert len(desk.kernel._news._rumours) == 3
    assert [desk.health(far) for far in others[:9]] == ["dead"] * 9


def test_a_mesh_just_small_enough_is_watched_whole():
    rules = msgspec.structs.replace(LAN, everyone=3)
    small, large = Desk(A, B, rules=rules), Desk(A, B, C, rules=rules)

    assert not small.kernel._roster.is_large
    assert large.kernel._roster.is_large


# --- Goodbyes -------------------------------------------------------------------------------------


def test_of_who_goes_only_what_it_says_later_is_a_sign_of_life():
    desk = Desk(A, B)
    desk.wait(SECOND, A, B)
    desk.kernel.goes(A, desk.now_us)
    desk.kernel.goes(A, desk.now_us)  # Again: no change.
    desk.kernel.goes(C, desk.now_us)  # Nobody knows it.
    desk.stamps[A] += 5
    desk.hear(B, members=desk.told(A, desk.stamps[A], 0))  # What it said before, heard by B.

    assert desk.story() == [(A, "alive", "dead")]
    assert desk.kernel.is_down(A)
    assert not desk.kernel.is_down(B)
    assert not desk.kernel.is_down(C)

    desk.wait(SECOND, B)
    desk.stamps[A] += 1
    desk.hear(B, members=desk.told(A, desk.stamps[A], 0))

    assert desk.health(A) == "alive"
    assert not desk.kernel.is_down(A)
