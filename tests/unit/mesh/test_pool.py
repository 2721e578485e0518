"""Which links are kept: of two with one peer, and of too many."""

from hypothesis import given
from hypothesis import strategies as st

from distributed_grid.kernel.mesh.pool import CROSSING_US, LinkFacts, is_better, surplus
from distributed_grid.model.ids import NodeId

LOW, HIGH = NodeId("1" * 64), NodeId("2" * 64)
A, B, C, D = (NodeId(letter * 64) for letter in "abcd")


def facts(is_dialled, since_us=0, nonce="n"):
    return LinkFacts(is_dialled=is_dialled, since_us=since_us, nonce=nonce)


@given(
    low_first=st.booleans(),
    high_first=st.booleans(),
    times=st.lists(st.integers(0, CROSSING_US), min_size=4, max_size=4),
)
def test_dials_that_cross_leave_the_same_link_on_both_ends(low_first, high_first, times):
    """Whatever the order in which each end sees the two."""

    def kept_by_low(own, peer, is_own_first, early_us, late_us):
        early_us, late_us = sorted((early_us, late_us))
        old, new = facts(is_own_first, early_us), facts(not is_own_first, late_us)
        kept = new if is_better(new, old, own=own, peer=peer) else old
        return kept.is_dialled == (own == LOW)

    assert kept_by_low(LOW, HIGH, low_first, *times[:2])
    assert kept_by_low(HIGH, LOW, high_first, *times[2:])


def test_who_started_again_is_believed():
    old = facts(True)

    assert is_better(facts(False, 1, "other"), old, own=LOW, peer=HIGH)
    assert not is_better(facts(False, 1), old, own=LOW, peer=HIGH)


def test_who_dials_again_has_lost_the_first():
    for is_dialled in (True, False):
        assert is_better(facts(is_dialled, 1), facts(is_dialled), own=LOW, peer=HIGH)


def test_who_dials_long_after_has_lost_the_first():
    assert is_better(facts(False, CROSSING_US + 1), facts(True), own=LOW, peer=HIGH)


def given_up(used_us, neighbours=(), connections_max=10, now_us=100, idle_us=50):
    return surplus(
        used_us,
        neighbours=neighbours,
        connections_max=connections_max,
        idle_us=idle_us,
        now_us=now_us,
    )


def test_idle_links_are_given_up_but_never_a_neighbours():
    used_us = {A: 0, B: 50, C: 51, D: 10}

    assert given_up(used_us) == [A, D, B]
    assert given_up(used_us, neighbours=(A, D)) == [B]


def test_beyond_the_limit_the_least_used_go_first():
    used_us = {A: 90, B: 80, C: 99, D: 98}

    assert given_up(used_us, connections_max=2) == [B, A]
    assert given_up(used_us, connections_max=2, neighbours=(B,)) == [A, D]
    assert given_up(used_us, connections_max=1, neighbours=tuple(used_us)) == []
