"""Is the rank the documented one, the same on arrays, and as even as it says?"""

import hashlib
import random
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest

from distributed_grid.errors import BadValue
from distributed_grid.kernel.placement import Rules, place, rank
from distributed_grid.kernel.placement.columns import Columns
from distributed_grid.kernel.placement.skew import expected_shares
from distributed_grid.model.ids import JobId, NodeId
from tests import reference
from tests.builders import a_job, a_node, an_id

BUILDS = 100_000
NODES = [NodeId(hashlib.sha256(f"node {n}".encode()).hexdigest()) for n in range(17)]
BUILD_IDS = [JobId(hashlib.sha256(f"build {n}".encode()).hexdigest()) for n in range(BUILDS)]


def winners(kind):
    """The responsible node of each build id, from the first words that the columns compute."""
    columns = Columns(a_node(id=node) for node in NODES)
    rows = np.arange(len(NODES))
    order = [record.id for record in columns._nodes]
    firsts = np.empty((BUILDS, len(NODES)), np.uint64)
    for index, build in enumerate(BUILD_IDS):
        firsts[index] = columns._first_words(kind, build, rows)
    lowest = np.sort(firsts, axis=1)
    assert (lowest[:, 0] < lowest[:, 1]).all(), "a tie in 64 bits: compare the whole key"
    return [order[row] for row in firsts.argmin(axis=1)]


@pytest.fixture(scope="module")
def even_winners():
    return winners("even")


@pytest.fixture(scope="module")
def xor_winners():
    return winners("xor")


@pytest.mark.rows("S1-57", "S1-117", "S1-119")
@pytest.mark.slow
def test_with_even_every_one_of_17_nodes_gets_its_17th_of_100_000_builds(even_winners):
    counts = Counter(even_winners)

    for node in NODES:
        assert abs(counts[node] / BUILDS - 1 / 17) <= 0.05 / 17, counts


@pytest.mark.slow
def test_with_xor_the_shares_are_those_of_the_trie_of_ids(xor_winners):
    counts = Counter(xor_winners)

    for node, share in expected_shares("xor", NODES).items():
        deviation = (BUILDS * share * (1 - share)) ** 0.5
        assert abs(counts[node] - BUILDS * share) < 5 * deviation, node


@pytest.mark.parametrize("kind", ["even", "xor"])
def test_the_arrays_choose_as_one_pair_of_ids_at_a_time_does(kind, request):
    chosen = request.getfixturevalue(f"{kind}_winners")
    for index in range(0, BUILDS, 997):
        build = BUILD_IDS[index]
        expected = min(
            NODES, key=lambda node: reference.rank_key(kind, int(build, 16), int(node, 16))
        )

        assert chosen[index] == expected


@pytest.mark.parametrize("seed", range(20))
def test_over_all_builds_of_a_small_trie_xor_gives_exactly_the_expected_shares(seed):
    """Ids that differ in their first eight bits only, and every build id of eight bits."""
    rng = random.Random(seed)
    nodes = [an_id(n << 248) for n in rng.sample(range(256), rng.randint(1, 17))]
    counts = Counter(
        min(nodes, key=lambda node: rank.rank_key("xor", JobId(build), node))
        for build in (an_id(prefix << 248) for prefix in range(256))
    )

    assert {node: Fraction(counts[node], 256) for node in nodes} == expected_shares("xor", nodes)


@pytest.mark.rows("S1-57")
def test_even_is_even_for_ids_that_xor_treats_unevenly():
    nodes = [an_id(0), an_id(2 << 254), an_id(3 << 254)]
    keys = [
        min(nodes, key=lambda node: rank.rank_key("even", build, node))
        for build in BUILD_IDS[:30_000]
    ]
    counts = Counter(keys)

    assert all(abs(counts[node] - 10_000) < 500 for node in nodes), counts


def test_the_mix_is_the_documented_one():
    rng = random.Random(1)
    for value in (0, 1, (1 << 256) - 1, *(rng.getrandbits(256) for _ in range(200))):
        assert rank.mix(value) == reference.rank_key("even", value, 0)


def test_the_mix_of_nothing_is_this_number_for_ever():
    """Every node of every version must compute the same; a change here breaks the mesh."""
    assert rank.rank_key_text(rank.rank_key("even", an_id(1), an_id(1))) == MIX_OF_ZERO
    assert rank.finalise(0) == 0xE220A8397B1DCDAF  # The first output of SplitMix64 from seed 0.


MIX_OF_ZERO = "2130748aaac80268a706dd2f4d197e6fe220a8397b1dcdaf0000000000000000"


def test_every_bit_of_the_ids_reaches_the_word_that_decides():
    base = rank.mix(0) >> 192
    for bit in range(256):
        flipped = (rank.mix(1 << bit) >> 192) ^ base

        assert 10 <= flipped.bit_count() <= 54, bit


def test_the_mix_keeps_different_ids_different():
    rng = random.Random(2)
    values = {rng.getrandbits(256) for _ in range(2_000)} | {1 << n for n in range(256)}

    assert len({rank.mix(value) for value in values}) == len(values)
    assert all(rank.mix(value) < 1 << 256 for value in values)


def test_a_key_is_written_as_64_digits():
    assert rank.rank_key_text(5) == "0" * 63 + "5"
    (ranked,) = place(a_job(id=JobId(an_id(6))), [a_node(3)], Rules(rank="xor")).ranked

    assert ranked.rank_key == an_id(5)


def test_there_are_two_ranks_and_no_third():
    assert rank.RANKS == ("even", "xor")
    with pytest.raises(BadValue, match="even or xor"):
        Rules(rank="random")


def test_ids_that_agree_in_their_first_64_bits_are_told_apart_by_the_rest():
    nodes = [a_node(number) for number in range(200)]
    job = a_job("tie")
    for kind in ("even", "xor"):
        rules = Rules(rank=kind, cluster_size=7)
        expected = reference.decide(job, nodes, rules).cluster

        assert list(place(job, Columns(nodes), rules).cluster) == expected
