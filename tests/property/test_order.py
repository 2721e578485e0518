"""Is a decision a function of the set of nodes, and of nothing else?"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributed_grid.kernel.placement import place
from distributed_grid.kernel.placement.columns import Columns
from tests import builders
from tests.property.test_columns import answer_of


@st.composite
def shuffled_cases(draw):
    job, nodes, rules = draw(builders.cases())
    return job, nodes, draw(st.permutations(nodes)), rules


@pytest.mark.rows("S1-02", "S1-14", "S1-25", "S1-26", "S1-95", "S1-118")
@pytest.mark.slow
@given(shuffled_cases())
def test_any_order_of_nodes_gives_the_same_decision(case):
    job, nodes, shuffled, rules = case

    expected = answer_of(place(job, nodes, rules))

    assert answer_of(place(job, shuffled, rules)) == expected
    assert answer_of(place(job, Columns(shuffled), rules)) == expected
    _every_node_is_ranked_or_refused(job, nodes, expected)


def _every_node_is_ranked_or_refused(job, nodes, answer):
    ranked = {entry[0] for entry in answer.ranked}
    refused = {entry[0] for entry in answer.refused}

    assert ranked | refused == {node.id for node in nodes}
    assert not ranked & refused
    assert set(answer.cluster) <= ranked
    assert all(node.free.fits(job.request) for node in nodes if node.id in ranked)


@pytest.mark.rows("S1-89", "S1-53")
@given(shuffled_cases())
def test_every_node_alone_knows_its_standing_and_together_they_form_the_cluster(case):
    job, nodes, shuffled, rules = case
    expected = place(job, nodes, rules)

    # Each node decides on its own copy of the records, in the order in which it heard of them.
    standings = {node.id: place(job, shuffled, rules).standing(node.id) for node in nodes}

    assert {n for n, s in standings.items() if s != "neither"} == set(expected.cluster)
    assert [n for n, s in standings.items() if s == "responsible"] == list(expected.cluster[:1])


@given(shuffled_cases(), st.data())
def test_a_node_that_leaves_takes_only_its_own_place_with_it(case, data):
    job, nodes, _, rules = case
    order = [ranked.id for ranked in place(job, nodes, rules).ranked]
    gone = data.draw(st.sampled_from(nodes)).id if nodes else None

    left = place(job, [node for node in nodes if node.id != gone], rules)

    assert [ranked.id for ranked in left.ranked] == [node for node in order if node != gone]
