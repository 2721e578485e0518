"""Does the monitor see how work really spreads?"""

from fractions import Fraction

import pytest

from distributed_grid.kernel.placement import Rules, place
from distributed_grid.kernel.placement.skew import Share, SkewMonitor, expected_shares
from tests.builders import a_job, a_node, an_id

# In bits: 0…, 10…, 11…: XOR gives the first node half of all job ids, the others a quarter each.
HALF, QUARTER, OTHER = (an_id(number << 254) for number in (0, 2, 3))


@pytest.mark.rows("S1-116", "S1-117")
def test_even_expects_the_same_of_all_and_xor_what_the_ids_say():
    nodes = [HALF, QUARTER, OTHER]

    assert expected_shares("even", nodes) == dict.fromkeys(nodes, Fraction(1, 3))
    assert expected_shares("xor", nodes) == {
        HALF: Fraction(1, 2),
        QUARTER: Fraction(1, 4),
        OTHER: Fraction(1, 4),
    }
    assert expected_shares("xor", nodes[::-1]) == expected_shares("xor", nodes)


def test_one_node_gets_everything_and_none_gets_nothing():
    assert expected_shares("xor", [HALF]) == {HALF: 1}
    assert expected_shares("xor", []) == {}


@pytest.mark.rows("S1-116")
def test_what_was_observed_stands_beside_what_was_expected():
    monitor = SkewMonitor()
    nodes = [a_node(id=node, name=node[:1]) for node in (HALF, QUARTER, OTHER)]
    jobs = [a_job(id=an_id(top << 252)) for top in range(16)]  # Every first digit once.
    for job in jobs:
        monitor.record(place(job, nodes, Rules(rank="xor")))

    assert monitor.decisions == 16
    assert monitor.shares() == {
        HALF: Share(observed_ppm=500_000, expected_ppm=500_000),
        QUARTER: Share(observed_ppm=250_000, expected_ppm=250_000),
        OTHER: Share(observed_ppm=250_000, expected_ppm=250_000),
    }


@pytest.mark.rows("S1-116")
def test_a_skew_shows():
    monitor = SkewMonitor()
    nodes = [a_node(id=node, name=node[:1]) for node in (HALF, QUARTER)]
    for _ in range(4):
        monitor.record(place(a_job(id=an_id(0)), nodes, Rules(rank="xor")))

    assert monitor.shares() == {
        HALF: Share(observed_ppm=1_000_000, expected_ppm=500_000),
        QUARTER: Share(observed_ppm=0, expected_ppm=500_000),
    }


def test_only_nodes_that_could_have_taken_a_job_expect_a_share_of_it():
    monitor = SkewMonitor()
    able, unable = a_node(1), a_node(2, cpus=0)
    monitor.record(place(a_job(), [able, unable]))

    assert set(monitor.shares()) == {able.id}


def test_a_decision_without_a_node_is_not_counted():
    monitor = SkewMonitor()
    monitor.record(place(a_job(cpus=99), [a_node()]))

    assert (monitor.decisions, monitor.shares()) == (0, {})
