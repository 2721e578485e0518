"""When the place in the network is worth telling."""

import random

from distributed_grid.kernel.mesh.coordinates import Coordinate, unpacked
from distributed_grid.kernel.mesh.positioning import AGAIN_US, Positioning

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


def test_a_peer_can_be_forgotten():
    here = place()
    here.learn(A, FAR, 80_000)
    here.forget(A)

    assert here.coordinate != Coordinate()
