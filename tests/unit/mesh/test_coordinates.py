"""Do coordinates predict round trips, and does no lie or accident carry them away?"""

import random
import statistics

import pytest

from distributed_grid.kernel.mesh.coordinates import (
    COORDINATE_BYTES_MAX,
    PART_US_MAX,
    Coordinate,
    Vivaldi,
    estimate_us,
    packed,
    unpacked,
)
from tests.liveness_model import node

FAR = Coordinate(PART_US_MAX, -PART_US_MAX, PART_US_MAX, PART_US_MAX, 0)


def converged(rtt_us, count=30, rounds=150, liar=None):
    """Every node measures a few others in each round."""
    dice = random.Random(5)
    nodes = [Vivaldi(chance=dice.randrange) for _ in range(count)]
    for _ in range(rounds):
        for here in range(count):
            there = dice.choice([other for other in range(count) if other != here])
            told = FAR if there == liar else nodes[there].coordinate
            sample = 9_000_000 if there == liar else rtt_us(here, there)
            nodes[here].observe(node(there), told, round(sample * dice.uniform(0.95, 1.2)))
    return [vivaldi.coordinate for vivaldi in nodes]


def plane(count=30):
    """Round trips between places up to 100 ms apart, with a home line of up to 10 ms at each."""
    dice = random.Random(6)
    places = [(dice.uniform(0, 70_000), dice.uniform(0, 70_000)) for _ in range(count)]
    lines = [dice.uniform(500, 10_000) for _ in range(count)]

    def rtt_us(here, there):
        (x, y), (u, v) = places[here], places[there]
        return ((x - u) ** 2 + (y - v) ** 2) ** 0.5 + lines[here] + lines[there]

    return rtt_us


def median_error(coordinates, rtt_us, skip=None):
    return statistics.median(
        abs(estimate_us(a, b) - rtt_us(here, there)) / rtt_us(here, there)
        for here, a in enumerate(coordinates)
        for there, b in enumerate(coordinates)
        if here < there and skip not in (here, there)
    )


@pytest.mark.slow
@pytest.mark.rows("S2-69")
def test_thirty_nodes_on_a_plane_predict_each_other_within_fifteen_percent():
    rtt_us = plane()
    coordinates = converged(rtt_us)

    assert median_error(coordinates, rtt_us) < 0.15
    assert all(place.error_ppm < 400_000 for place in coordinates)


@pytest.mark.slow
def test_one_liar_among_thirty_is_a_small_pull():
    rtt_us = plane()
    coordinates = converged(rtt_us, liar=7)

    assert median_error(coordinates, rtt_us, skip=7) < 0.5


@pytest.mark.slow
def test_triangles_that_cannot_be_drawn_do_not_explode():
    def rtt_us(here, there):
        return 200_000 if (here + there) % 3 == 0 else 5_000

    coordinates = converged(rtt_us)

    for place in coordinates:
        assert abs(place.x_us) + abs(place.y_us) + abs(place.z_us) + place.height_us < 500_000


def test_the_first_direction_is_a_matter_of_chance():
    places = []
    for seed in range(3):
        vivaldi = Vivaldi(chance=random.Random(seed).randrange)
        vivaldi.observe(node(1), Coordinate(), 20_000)
        places.append(vivaldi.coordinate)

    assert len(set(places)) == 3


def test_a_direction_of_no_length_moves_nothing_but_the_height():
    vivaldi = Vivaldi(chance=lambda top: 1_000)
    vivaldi.observe(node(1), Coordinate(), 20_000)
    place = vivaldi.coordinate

    assert (place.x_us, place.y_us, place.z_us) == (0, 0, 0)
    assert place.height_us > 10


@pytest.mark.parametrize("rtt_us", [-5, 0, 9, 10_000_001, 10**15])
def test_an_absurd_sample_is_refused_and_counted(rtt_us):
    vivaldi = Vivaldi(chance=lambda top: 7)
    before = vivaldi.coordinate
    vivaldi.observe(node(1), Coordinate(), rtt_us)

    assert vivaldi.coordinate == before
    assert vivaldi.refused == 1


def test_one_sample_much_too_long_is_outvoted():
    vivaldi = Vivaldi(chance=random.Random(1).randrange)
    peer = Coordinate(30_000, 0, 0, 100, 100_000)
    for _ in range(200):
        vivaldi.observe(node(1), peer, 20_000)
    before = vivaldi.coordinate
    vivaldi.observe(node(1), peer, 5_000_000)

    assert abs(estimate_us(before, peer) - 20_000) < 2_000
    assert abs(estimate_us(vivaldi.coordinate, peer) - 20_000) < 2_000


def test_a_peer_that_is_often_busy_is_where_its_quick_answers_say():
    vivaldi = Vivaldi(chance=random.Random(1).randrange)
    for turn in range(400):
        vivaldi.observe(node(1), Coordinate(), 10_000 if turn % 8 < 3 else 30_000)

    assert 9_000 < estimate_us(vivaldi.coordinate, Coordinate()) < 11_000


def test_a_liar_moves_a_coordinate_by_a_step_and_never_out_of_bounds():
    vivaldi = Vivaldi(chance=random.Random(1).randrange)
    for _ in range(3_000):
        before = vivaldi.coordinate
        vivaldi.observe(node(1), FAR, 10_000_000)
        after = vivaldi.coordinate

        assert abs(after.x_us - before.x_us) <= 50_001
        assert abs(after.height_us - before.height_us) <= 50_001
    assert unpacked(packed(after)) == after


def test_samples_are_kept_of_a_bounded_number_of_peers_and_can_be_forgotten():
    vivaldi = Vivaldi(chance=random.Random(1).randrange)
    for number in range(300):
        vivaldi.observe(node(number), Coordinate(), 1_000)

    assert len(vivaldi._samples) == 256

    vivaldi.forget(node(299))
    vivaldi.forget(node(0))

    assert len(vivaldi._samples) == 255


def test_a_coordinate_starts_where_it_was():
    place = Coordinate(1_000, -2_000, 3_000, 400, 250_000)

    assert Vivaldi(chance=lambda top: 0, start=place).coordinate == place


def test_a_published_coordinate_is_small():
    worst = Coordinate(-PART_US_MAX, -PART_US_MAX, -PART_US_MAX, PART_US_MAX, 1_500_000)

    assert len(packed(worst)) <= COORDINATE_BYTES_MAX
    assert unpacked(packed(worst)) == worst


@pytest.mark.parametrize(
    "told",
    [
        Coordinate(PART_US_MAX + 1),
        Coordinate(0, 0, -PART_US_MAX - 1),
        Coordinate(height_us=-1),
        Coordinate(height_us=PART_US_MAX + 1),
        Coordinate(error_ppm=-1),
        Coordinate(error_ppm=1_500_001),
    ],
)
def test_a_coordinate_out_of_bounds_is_none(told):
    assert unpacked(packed(told)) is None


@pytest.mark.parametrize("junk", [b"", b"\xff" * 9, b'["x"]'])
def test_junk_is_no_coordinate(junk):
    assert unpacked(junk) is None


def test_an_estimate_is_the_same_both_ways():
    a, b = Coordinate(3_000, 0, 0, 10, 0), Coordinate(0, 4_000, 0, 20, 0)

    assert estimate_us(a, b) == estimate_us(b, a) == 5_030
