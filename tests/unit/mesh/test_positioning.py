"""When the place in the network is worth telling."""

import itertools
import random

from distributed_grid.kernel.mesh.coordinates import Coordinate, unpacked
from distributed_grid.kernel.mesh.positioning import AGAIN_US, PAUSE_US_MAX, Positioning

A = "a" * 64
FAR = Coordinate(x_us=40_000)


def place():
    return Positioning(chance=random.Random(1).randrange, now_us=0)


def test_the_first_position_is_told_at_once_with_what_was_measured():
    told = place().news([300, 100, 200], [5, 9], 0)

    assert told is not None
    assert (told.latency_us, told.bandwidth_kbps) == (200, 9)
    assert unpacked(told.coordinate) is not None


def test_without_links_there_is_no_latency_to_tell():
    told = place().news([], [], 0)

    assert told is not None
    assert (told.latency_us, told.bandwidth_kbps) == (None, None)


def test_a_node_that_stays_tells_nothing_more():
    here = place()
    here.news([], [], 0)

    assert here.news([], [], AGAIN_US) is None


def test_a_node_that_moved_tells_it_but_not_before_five_seconds():
    here = place()
    here.news([], [], 0)
    for _ in range(50):
        here.learn(A, FAR, 80_000)

    assert here.news([80_000], [], AGAIN_US - 1) is None
    assert here.news([80_000], [], AGAIN_US) is not None


def test_a_node_that_only_wanders_tells_it_less_and_less_often():
    here, told = place(), []
    here.news([], [], 0)
    for look in range(1, 101):
        side = Coordinate(x_us=1_500 if look % 2 else -1_500)
        for _ in range(200):
            here.learn(A, side, 200)
        if here.news([], [], look * AGAIN_US) is not None:
            told.append(look * AGAIN_US)
    pauses = [after - before for before, after in itertools.pairwise(told)]

    assert pauses == sorted(pauses)
    assert pauses[0] < 4 * AGAIN_US
    assert PAUSE_US_MAX <= pauses[-1] <= PAUSE_US_MAX + AGAIN_US


def test_a_node_that_leaps_after_it_wandered_tells_it_at_the_next_look():
    here = place()
    here.news([], [], 0)
    for look in range(1, 50):
        side = Coordinate(x_us=1_500 if look % 2 else -1_500)
        for _ in range(200):
            here.learn(A, side, 200)
        here.news([], [], look * AGAIN_US)
    for _ in range(50):
        here.learn(A, FAR, 80_000)

    assert here.news([], [], 50 * AGAIN_US) is not None


def test_a_peer_can_be_forgotten():
    here = place()
    here.learn(A, FAR, 80_000)
    here.forget(A)

    assert here.coordinate != Coordinate()
