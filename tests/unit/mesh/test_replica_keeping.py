"""Forgetting who is gone, and going on from a disk."""

import pytest

from distributed_grid.kernel.mesh import replica_maps
from tests.unit.mesh.replica_lab import (
    SECOND_US,
    Wires,
    entry,
    node,
    replica,
    revoked,
)

ME, PEER, OTHER = node(1), node(2), node(3)
DAY_US = 86_400 * SECOND_US


# Forgetting


def test_who_left_is_forgotten_after_the_grace_and_does_not_come_back():
    one = replica(ME)
    words = [entry(PEER, "load", 1), entry(PEER, "left", 2), entry(OTHER)]
    one.take(words, source=None, now_us=0)

    assert one.drop_old(7 * DAY_US, 7 * DAY_US) == []
    assert one.drop_old(7 * DAY_US + 1, 7 * DAY_US) == [PEER]
    assert one.nodes() == [ME, OTHER]
    assert one.take(words, source=None, now_us=8 * DAY_US) == []
    assert one.generation_of(PEER) == 1  # It is told so, should it return.
    assert one.refused == 0


def test_who_withdrew_everything_is_forgotten_and_who_says_anything_is_not():
    one = replica(ME)
    one.take(
        [entry(PEER, "load", value=b""), entry(OTHER, "left", value=b"")], source=None, now_us=0
    )
    one.take([entry(OTHER, "load", 2)], source=None, now_us=0)

    assert one.drop_old(8 * DAY_US, 7 * DAY_US) == [PEER]


def test_this_node_is_never_forgotten():
    one = replica(ME)
    one.publish("left", b"1", 0)

    assert one.drop_old(999 * DAY_US, 0) == []
    with pytest.raises(AssertionError):
        one.forget(ME)


def test_a_revocation_outlasts_every_certificate():
    one = replica(ME)
    one.take([revoked(PEER), revoked(OTHER)], source=None, now_us=0)

    assert one.drop_old(120 * DAY_US, 7 * DAY_US) == []
    assert one.drop_old(120 * DAY_US + 1, 7 * DAY_US) == [PEER, OTHER]
    assert not one.is_news(revoked(PEER))
    assert not one.is_news(entry(PEER, generation=9))


def test_who_is_forgotten_and_speaks_again_is_heard():
    one = replica(ME)
    one.take([entry(PEER, version=3)], source=None, now_us=0)
    one.forget(PEER)
    one.forget(PEER)

    assert not one.is_news(entry(PEER, "profile", 3))
    assert one.take([entry(PEER, version=4)], source=None, now_us=0)
    assert one.is_news(entry(PEER, "profile", 3))
    assert one._maps.gone == {}


def test_who_may_return_is_heard_with_what_it_last_said_but_not_with_a_life_before():
    one = replica(ME)
    words = [entry(PEER, "load", 4, generation=2), entry(PEER, "chain", 1, generation=2)]
    one.take(words, source=None, now_us=0)
    one.forget(PEER, may_return=True)

    assert one.nodes() == [ME]
    assert one.generation_of(PEER) == 2
    assert not one.is_news(entry(PEER, "load", 9, generation=1))
    assert one.take(words, source=None, now_us=0) == words


def test_the_memory_of_the_forgotten_is_bounded(monkeypatch):
    monkeypatch.setattr(replica_maps, "NODES_MAX", 4)
    one = replica(ME)
    for number in range(10, 20):
        one.take([entry(node(number))], source=None, now_us=0)
        one.forget(node(number))

    assert len(one._maps.gone) == 4
    assert not one.is_news(entry(node(19)))


# The disk


def recall(again, dump, *, away_us=0, now_us=0):
    """Take all that a dump holds, as old as it is."""
    found = again.recall(dump, away_us=away_us)
    for word, age_us in found or ():
        again.take([word], source=None, now_us=now_us - age_us)
    return found


def test_a_restart_keeps_what_others_said_and_whom_all_forgot():
    one = replica(ME, generation=4)
    one.publish("load", b"x", 0)
    one.take([entry(PEER), entry(OTHER)], source=None, now_us=0)
    one.forget(OTHER)
    again = replica(ME, generation=5, now_us=50)

    assert recall(again, one.dump(), away_us=SECOND_US, now_us=50) == [(entry(PEER), SECOND_US)]
    assert again.generation == 5
    assert again.entry(PEER, "load") == entry(PEER)
    assert not again.is_news(entry(OTHER))


def test_who_was_away_for_too_long_forgets_others_but_not_who_is_out():
    one = replica(ME)
    one.take([entry(PEER), revoked(OTHER)], source=None, now_us=0)
    again, late = replica(ME), replica(ME)
    recall(again, one.dump(), away_us=7 * DAY_US)
    recall(late, one.dump(), away_us=7 * DAY_US + 1)

    assert again.nodes() == [ME, PEER, OTHER]
    assert late.nodes() == [ME, OTHER]


def test_time_on_the_disk_counts_for_the_grace():
    one = replica(ME)
    one.take([entry(PEER, "left")], source=None, now_us=0)
    one.round([], DAY_US)
    again = replica(ME)
    recall(again, one.dump(), away_us=5 * DAY_US)

    assert again.drop_old(DAY_US, 7 * DAY_US) == []
    assert again.drop_old(DAY_US + 1, 7 * DAY_US) == [PEER]


def test_a_disk_that_gives_the_newest_word_first_makes_nobody_older():
    one = replica(ME)
    one.take([entry(PEER, "left", 2)], source=None, now_us=9 * DAY_US)
    one.take([entry(PEER, "load", 1)], source=None, now_us=0)

    assert one.drop_old(16 * DAY_US, 7 * DAY_US) == []
    assert one.drop_old(16 * DAY_US + 1, 7 * DAY_US) == [PEER]


def test_a_clock_that_went_back_makes_nothing_younger():
    one = replica(ME)
    one.take([entry(PEER, "left")], source=None, now_us=0)
    again = replica(ME)
    recall(again, one.dump(), away_us=-5 * DAY_US)

    assert again.drop_old(7 * DAY_US + 1, 7 * DAY_US) == [PEER]


def test_a_damaged_disk_or_that_of_another_is_refused():
    one = replica(ME)
    one.take([entry(OTHER)], source=None, now_us=0)
    again = replica(ME)

    for wrong in (
        one.dump()[:-1],
        b"",
        replica(PEER).dump(),
        one.dump().replace(b"load", b"lead"),
        one.dump().replace(OTHER.encode(), b"/" * 64),
    ):
        assert again.recall(wrong, away_us=0) is None
    assert again.recall(one.dump(), away_us=0) == [(entry(OTHER), 0)]


def test_a_revoked_node_recalls_that_it_was():
    one = replica(ME)
    one.take([revoked(ME)], source=None, now_us=0)
    again = replica(ME)
    recall(again, one.dump())

    assert again.publish("load", b"x", 0) is None
    assert again.value(ME, "revoked") == b"out"


def test_an_old_disk_does_not_roll_others_back():
    one, other = replica(ME), replica(PEER)
    wires = Wires(one, other)
    wires.up(ME, PEER)
    one.publish("load", b"1", 0)
    for number in range(2, 9):
        one.publish("load", b"%d" % number, 0)
    wires.round()
    wires.down(ME, PEER)
    old = wires.replicas[ME] = replica(ME)
    old.publish("load", b"1", wires.now_us)
    wires.up(ME, PEER)
    wires.settle()
    wires.round()

    assert other.generation_of(ME) == old.generation > 1
    assert other.value(ME, "load") == b"1"  # What it says now, as its newest word.
