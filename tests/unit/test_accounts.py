"""Bytes by sender: exact sums, limits by rank, and a part that others cannot take away."""

import pytest

from distributed_grid.kernel.accounts import LIMITS, Allowance, ByteAccounts
from distributed_grid.kernel.across.peers import Peer
from distributed_grid.model.ids import NodeId

EVE, ANN = NodeId("e" * 64), NodeId("a" * 64)
SMALL = Allowance(guest=10, member=40, own=100, total=100, assured=5)


@pytest.mark.parametrize(("rank", "most"), [("guest", 10), ("member", 40), ("own", 100)])
def test_a_sender_has_room_up_to_the_limit_of_its_rank(rank, most):
    accounts = ByteAccounts(SMALL)

    assert accounts.has_room(EVE, rank, most)
    assert not accounts.has_room(EVE, rank, most + 1)


def test_what_does_not_grow_has_room_at_any_rate():
    accounts = ByteAccounts(SMALL)
    accounts.add(EVE, 200)

    assert accounts.has_room(EVE, "guest", 0)
    assert accounts.has_room(EVE, "guest", -1)
    assert not accounts.has_room(EVE, "guest", 1)


def test_though_the_total_is_used_up_everybody_has_the_assured_part():
    accounts = ByteAccounts(SMALL)
    accounts.add(EVE, 100)

    assert accounts.has_room(ANN, "guest", 5)
    assert not accounts.has_room(ANN, "own", 6)


def test_what_is_gone_leaves_room_and_no_trace():
    accounts = ByteAccounts(SMALL)
    accounts.add(EVE, 10)
    accounts.add(EVE, -10)
    accounts.check([])

    assert accounts.has_room(EVE, "guest", 10)
    assert accounts.total == 0


def test_a_sum_that_is_not_that_of_its_parts_is_noticed():
    accounts = ByteAccounts(SMALL)
    accounts.add(EVE, 10)
    accounts.check([(EVE, 4), (EVE, 6)])
    with pytest.raises(AssertionError, match="the sum of its parts"):
        accounts.check([(EVE, 4)])


@pytest.mark.parametrize(
    ("facts", "rank"),
    [
        ({"is_own": True, "may_lend": False}, "own"),
        ({}, "member"),
        ({"may_lend": False}, "guest"),
        ({"may_submit": False}, "guest"),
    ],
    ids=["own", "member", "guest", "worker"],
)
def test_the_rank_of_a_sender_is_that_of_its_role(facts, rank):
    assert Peer(id=EVE, name="eve", **facts).rank == rank


@pytest.mark.parametrize("kind", LIMITS)
def test_a_guest_gets_least_and_the_own_user_most(kind):
    limits = LIMITS[kind]

    assert 0 < limits.assured <= limits.guest <= limits.member <= limits.own <= limits.total
