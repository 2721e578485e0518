"""Is the graph of any membership one graph, the same for all, with few links at each?"""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distributed_grid.kernel.mesh.coordinates import Coordinate
from distributed_grid.kernel.mesh.ring import PLACE_BITS, alike, place, ring
from distributed_grid.kernel.mesh.topology import Member, arranged, gossip_peers, neighbours
from tests.liveness_model import node


def a_membership(count, seed, laptops=0.3, hidden=0.3):
    dice = random.Random(seed)
    return [
        Member(
            node(f"{seed} {number}"),
            Coordinate(dice.randrange(90_000), dice.randrange(90_000))
            if dice.random() < 0.8
            else None,
            "laptop" if dice.random() < laptops else "workstation",
            dice.random() >= hidden,
        )
        for number in range(count)
    ]


def graph(members, most, kind="hybrid"):
    return {member.id: neighbours(member.id, members, kind, most) for member in members}


def distances(links, start):
    """Steps from one node to each that it reaches."""
    found, front = {start: 0}, [start]
    while front:
        front = [
            found.setdefault(other, found[here] + 1) and other
            for here in front
            for other in links[here]
            if other not in found
        ]
    return found


MEMBERSHIPS = st.builds(
    a_membership,
    st.integers(1, 120),
    st.integers(0, 1_000),
    st.sampled_from([0.0, 0.3, 0.9, 1.0]),
    st.sampled_from([0.0, 0.3, 0.9, 1.0]),
)


@pytest.mark.rows("S2-76")
@settings(max_examples=40, deadline=None)
@given(MEMBERSHIPS, st.sampled_from([0, 2, 3, 5, 8, 20, 50]), st.sampled_from(["full", "hybrid"]))
def test_any_membership_is_one_symmetric_graph_of_few_links(members, most, kind):
    links = graph(members, most, kind)

    assert len(distances(links, members[0].id)) == len(members)
    for here, others in links.items():
        assert len(others) == len(set(others)) <= max(most, 2)
        assert here not in others
        assert all(here in links[other] for other in others)


@settings(max_examples=25, deadline=None)
@given(MEMBERSHIPS, st.sampled_from([2, 8, 50]), st.randoms(use_true_random=False))
def test_the_order_of_the_members_does_not_matter(members, most, dice):
    shuffled = dice.sample(members, len(members))
    me = members[0].id

    assert arranged(me, members, "hybrid", most) == arranged(me, shuffled, "hybrid", most)
    assert arranged(me, members, "hybrid", most) == arranged(me, members[::-1], "hybrid", most)


@given(st.integers(0, 400), st.integers(0, 12), st.integers(0, 1_000))
def test_a_circle_and_its_parts_are_what_looking_at_each_place_finds(count, bits, seed):
    ids = [node(f"{seed} {number}") for number in range(count)]
    circle, me = ring(ids), node(seed)
    start = place(me) >> PLACE_BITS - bits
    slow = [each for each in circle if place(each) >> PLACE_BITS - bits == start]

    assert circle == sorted(ids, key=lambda each: (place(each), each))
    assert alike(circle, me, bits) == slow


@settings(max_examples=25, deadline=None)
@given(MEMBERSHIPS, st.sampled_from([2, 8, 50]))
def test_gossip_reaches_everyone_from_anyone(members, most):
    links = {}
    for member in members:
        place = arranged(member.id, members, "hybrid", most)
        links[member.id] = gossip_peers(member.id, place.neighbours, essential=place.essential)

    assert len(distances(links, members[0].id)) == len(members)
    assert len(distances(links, members[-1].id)) == len(members)


@pytest.mark.rows("S2-15", "S2-16")
@settings(max_examples=25, deadline=None)
@given(MEMBERSHIPS, st.randoms(use_true_random=False))
def test_the_graph_heals_when_a_third_goes_and_others_come(members, dice):
    left = dice.sample(members, max(len(members) * 7 // 10, 1))
    newcomers = a_membership(5, seed="new")
    for now in (left, left + newcomers):
        links = graph(now, 20)

        assert len(distances(links, now[0].id)) == len(now)


@pytest.mark.parametrize(("count", "steps"), [(100, 5), (400, 6)])
def test_nobody_is_far_from_anybody(count, steps):
    members = a_membership(count, seed=count, laptops=0.1, hidden=0.1)
    links = graph(members, 50)

    assert max(distances(links, members[0].id).values()) <= steps


@pytest.mark.parametrize(("count", "rounds"), [(30, 5), (100, 8), (400, 10)])
def test_gossip_takes_few_steps_to_everyone(count, rounds):
    members = a_membership(count, seed=count, laptops=0.1, hidden=0.1)
    links = {}
    for member in members:
        at = arranged(member.id, members, "hybrid", 50)
        links[member.id] = gossip_peers(member.id, at.neighbours, essential=at.essential)

    assert max(distances(links, members[0].id).values()) <= rounds
