"""Who is responsible, who else is in, and does everyone know alone?"""

import pytest

from distributed_grid.errors import BadValue
from distributed_grid.kernel.placement import Rules, place
from distributed_grid.model.ids import JobId
from tests.builders import a_job, a_node, an_id

JOB = a_job("build")


def by_xor(nodes, job=JOB):
    return sorted(nodes, key=lambda node: int(node.id, 16) ^ int(job.id, 16))


NODES = [a_node(number) for number in range(1, 11)]


@pytest.mark.rows("S1-18", "S1-19", "S1-20", "S1-51", "S1-54", "S1-55", "S1-56", "S1-72")
def test_with_xor_the_lowest_distance_is_responsible_and_the_rest_follow():
    decision = place(JOB, NODES, Rules(rank="xor"))

    assert [r.id for r in decision.ranked] == [node.id for node in by_xor(NODES)]
    assert decision.responsible == by_xor(NODES)[0].id
    assert decision.best == by_xor(NODES)[0]


@pytest.mark.rows("S1-20", "S1-56")
def test_a_node_with_the_id_of_the_job_is_at_distance_zero():
    job = a_job(id=JobId(an_id(5)))

    assert place(job, NODES, Rules(rank="xor")).responsible == an_id(5)


@pytest.mark.rows("S1-21", "S1-86", "S1-27")
@pytest.mark.parametrize("count", [1, 2])
def test_fewer_than_three_capable_nodes_are_all_in_the_cluster(count):
    nodes = [*NODES[:count], a_node(99, cpus=0)]

    decision = place(JOB, nodes, Rules(rank="xor"))

    assert decision.cluster == tuple(node.id for node in by_xor(NODES[:count]))


@pytest.mark.rows("S1-22", "S1-85", "S1-87", "S1-58")
def test_of_three_or_more_the_three_lowest_form_the_cluster():
    for count in (3, 4, 10):
        decision = place(JOB, NODES[:count], Rules(rank="xor"))

        assert decision.cluster == tuple(node.id for node in by_xor(NODES[:count])[:3])


@pytest.mark.rows("S1-88", "S1-94")
@pytest.mark.parametrize("size", [1, 4, 5, 10])
def test_the_size_of_the_cluster_is_the_users(size):
    decision = place(JOB, NODES, Rules(rank="xor", cluster_size=size))

    assert decision.cluster == tuple(node.id for node in by_xor(NODES)[:size])


@pytest.mark.parametrize("size", [0, -1, 1_000_001])
def test_a_cluster_of_nobody_or_of_everyone_there_ever_was_is_refused(size):
    with pytest.raises(BadValue, match="a cluster of 1 to"):
        Rules(cluster_size=size)


@pytest.mark.rows("S1-95")
def test_every_member_can_take_the_job():
    small = [a_node(number, cpus=2) for number in range(11, 20)]
    job = a_job("build", cpus=16)

    decision = place(job, NODES[:2] + small, Rules(cluster_size=5))

    assert set(decision.cluster) == {node.id for node in NODES[:2]}


@pytest.mark.rows("S1-53", "S1-79", "S1-80", "S1-89")
def test_each_node_tells_whether_it_is_responsible_a_member_or_neither():
    first, second, third, *others = by_xor(NODES)
    decision = place(JOB, NODES, Rules(rank="xor"))

    assert decision.standing(first.id) == "responsible"
    assert {decision.standing(node.id) for node in (second, third)} == {"member"}
    assert {decision.standing(node.id) for node in others} == {"neither"}
    assert decision.standing(an_id(999)) == "neither"


def test_where_nothing_fits_nobody_stands_anywhere():
    decision = place(a_job(cpus=999), NODES)

    assert (decision.responsible, decision.cluster) == (None, ())
    assert decision.standing(NODES[0].id) == "neither"
