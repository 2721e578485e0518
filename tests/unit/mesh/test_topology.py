"""Who keeps a connection to whom, in cases one can draw."""

import statistics

import pytest

from distributed_grid.kernel.mesh.coordinates import Coordinate, estimate_us
from distributed_grid.kernel.mesh.ring import place, ring, vicinity
from distributed_grid.kernel.mesh.topology import Member, arranged, gossip_peers, neighbours
from tests.liveness_model import node

HUNDRED = [Member(node(number)) for number in range(100)]


@pytest.mark.rows("S2-73")
@pytest.mark.parametrize("kind", ["full", "hybrid"])
def test_a_small_mesh_is_full(kind):
    members = HUNDRED[:32]
    links = sum(len(neighbours(member.id, members, kind, 50)) for member in members)

    assert links == 32 * 31


def test_a_full_mesh_is_full_as_far_as_connections_go():
    assert len(neighbours(node(0), HUNDRED, "full", 99)) == 99
    assert len(neighbours(node(0), HUNDRED, "full", 98)) < 60


def test_alone_there_is_nobody_to_talk_to():
    assert arranged(node(0), [], "hybrid", 50).neighbours == ()
    assert arranged(node(0), [Member(node(0))], "full", 50).essential == 0


def test_the_first_neighbours_are_the_next_and_the_last_of_the_circle():
    circle = ring(member.id for member in HUNDRED)
    at = circle.index(node(7))
    expected = {circle[at - 1], circle[(at + 1) % 100]}

    assert set(neighbours(node(7), HUNDRED, "hybrid", 50)[:2]) == expected
    assert set(neighbours(node(7), HUNDRED, "full", 99)[:2]) == expected


def test_in_a_small_mesh_gossip_reaches_those_whom_nobody_can_dial_both_ways():
    hidden = {node(number) for number in range(12) if number % 3}
    members = [Member(node(number), is_dialable=node(number) not in hidden) for number in range(12)]
    places = {each.id: arranged(each.id, members, "full", 50) for each in members}
    essential = {at: set(one.neighbours[: one.essential]) for at, one in places.items()}

    assert all(len(one.neighbours) == 11 for one in places.values())
    assert all(here in essential[there] for here in essential for there in essential[here])
    assert all(essential[leaf] and not essential[leaf] & hidden for leaf in hidden)
    seen, edge = {node(0)}, {node(0)}
    while edge := {far for near in edge for far in essential[near]} - seen:
        seen |= edge
    assert len(seen) == 12


def test_in_a_small_mesh_where_nobody_can_be_dialled_the_circle_is_what_there_is():
    members = [Member(node(number), is_dialable=False) for number in range(5)]
    circle = ring(member.id for member in members)
    found = arranged(circle[2], members, "full", 50)

    assert set(found.neighbours[: found.essential]) == {circle[1], circle[3]}


def test_a_hub_talks_to_those_one_two_four_and_eight_places_away():
    circle = ring(member.id for member in HUNDRED)
    at = circle.index(node(7))
    fingers = {circle[(at + sign * 2**power) % 100] for power in range(6) for sign in (1, -1)}

    assert fingers <= set(neighbours(node(7), HUNDRED, "hybrid", 50))


def test_with_little_room_the_fingers_spread_from_the_next_to_the_farthest():
    circle = ring(member.id for member in HUNDRED)
    at = circle.index(node(7))
    expected = {circle[(at + sign * step) % 100] for step in (1, 4, 32) for sign in (1, -1)}

    assert set(neighbours(node(7), HUNDRED, "hybrid", 6)) == expected


@pytest.mark.rows("S2-76")
def test_near_machines_are_preferred():
    members = [
        Member(node(number), Coordinate(number % 10 * 50_000, 0, 0, 100, 0))
        for number in range(100)
    ]
    here = members[0]
    chosen = set(neighbours(here.id, members, "hybrid", 50))
    linked = [estimate_us(here.coordinate, m.coordinate) for m in members if m.id in chosen]
    all_ = [estimate_us(here.coordinate, m.coordinate) for m in members[1:]]

    assert statistics.mean(linked) < statistics.mean(all_) - 25_000
    assert sum(rtt == 200 for rtt in linked) >= 6


def test_near_ones_come_beside_those_of_the_circle():
    circle = ring(member.id for member in HUNDRED)
    members = [Member(id_, Coordinate(at * 1_000)) for at, id_ in enumerate(circle)]

    assert {circle[45], circle[55]} <= set(neighbours(circle[50], members, "hybrid", 50))


@pytest.mark.parametrize("leaf", [dict(node_class="laptop"), dict(is_dialable=False)])
def test_laptops_and_those_nobody_can_dial_are_leaves_of_three_hubs(leaf):
    leaves = [Member(node(number), **leaf) for number in range(40)]
    members = [*leaves, *HUNDRED[40:]]
    hubs = {member.id for member in HUNDRED[40:]}

    for member in leaves:
        at = arranged(member.id, members, "hybrid", 50)

        assert len(at.neighbours) == 3
        assert set(at.neighbours) <= hubs
        assert (at.essential, at.watched) == (1, at.neighbours)


def test_a_hub_gossips_with_the_leaves_that_have_nobody_before_it():
    members = [*(Member(node(n), is_dialable=False) for n in range(70)), *HUNDRED[70:]]
    served = set()
    for hub in HUNDRED[70:]:
        at = arranged(hub.id, members, "hybrid", 50)
        served.update(gossip_peers(hub.id, at.neighbours, essential=at.essential))

    assert {node(n) for n in range(70)} <= served


def test_where_nobody_can_be_dialled_everybody_is_a_hub():
    members = [Member(node(number), is_dialable=False) for number in range(100)]

    assert neighbours(node(0), members, "hybrid", 50) == neighbours(node(0), HUNDRED, "hybrid", 50)


def test_laptops_that_can_be_dialled_are_hubs_where_others_are_too_few():
    members = [
        Member(node(0)),
        *(Member(node(number), node_class="laptop") for number in range(1, 60)),
        *(Member(node(number), is_dialable=False) for number in range(60, 100)),
    ]
    leaf = arranged(node(99), members, "hybrid", 50)

    assert set(leaf.neighbours) <= {node(number) for number in range(60)}


def test_one_more_leaf_leaves_most_links_as_they_were():
    members = [*(Member(node(n), is_dialable=False) for n in range(50)), *HUNDRED[50:]]
    more = [*members, Member(node(200), is_dialable=False)]
    kept = total = 0
    for n in range(50):
        before = set(neighbours(node(n), members, "hybrid", 50))
        kept += len(before & set(neighbours(node(n), more, "hybrid", 50)))
        total += len(before)

    assert kept > total * 0.6


def test_those_close_in_the_circle_watch_each_other():
    watched = {member.id: arranged(member.id, HUNDRED, "hybrid", 50).watched for member in HUNDRED}

    assert {len(others) for others in watched.values()} == {8}
    assert all(here in watched[other] for here, others in watched.items() for other in others)


def test_near_ones_are_looked_for_among_those_whose_places_begin_alike():
    members = [Member(node(number), Coordinate(number, 0, 0, 10, 0)) for number in range(300)]
    circle = ring(member.id for member in members)
    me = circle[20]
    at = circle.index
    far = [
        other
        for other in neighbours(me, members, "hybrid", 50)
        if min((at(other) - 20) % 300, (20 - at(other)) % 300)
        not in (1, 2, 3, 4, 8, 16, 32, 64, 128)
    ]

    assert far
    assert {place(other) >> 63 for other in far} == {place(me) >> 63}


def test_gossip_peers_are_the_essential_neighbours_and_some_of_the_rest_and_never_oneself():
    others = [node(number) for number in range(9)]
    chosen = gossip_peers(node(0), others, 5)

    assert chosen[:2] == tuple(others[1:3])
    assert len(set(chosen)) == 5
    assert set(chosen[2:]) <= set(others[3:])
    assert gossip_peers(node(99), others, 2, essential=4) == tuple(others[:4])
    assert gossip_peers(node(0), others[:3]) == tuple(others[1:3])


def test_the_vicinity_of_a_few_is_all_of_them():
    assert set(vicinity(node(0), [node(1), node(2)], 8)) == {node(1), node(2)}
    assert vicinity(node(0), [], 8) == ()
