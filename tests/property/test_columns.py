"""Do the columns, the plain snapshot and the scalar reference agree, on everything?"""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from distributed_grid.kernel.placement import Decision, place
from distributed_grid.kernel.placement.columns import Columns
from distributed_grid.kernel.placement.plain import PlainSnapshot
from distributed_grid.sim.fleet import random_fleet, random_jobs
from tests import builders, reference
from tests.builders import a_job, a_node


def answer_of(decision: Decision) -> reference.Answer:
    """A decision in the words of the reference."""
    return reference.Answer(
        [(r.id, r.score, r.parts, r.rank_key) for r in decision.ranked],
        list(decision.cluster),
        [
            (r.id, [(why.what, why.wanted, why.has, why.kind) for why in r.reasons])
            for r in decision.refused
        ],
    )


@pytest.mark.rows("S1-13", "S1-16", "S1-17", "S1-19", "S1-118")
@pytest.mark.slow
@given(builders.cases())
def test_columns_plain_and_reference_give_one_answer(case):
    job, nodes, rules = case
    expected = reference.decide(job, nodes, rules)

    plain = place(job, PlainSnapshot(nodes), rules)
    columns = place(job, Columns(nodes), rules)

    assert answer_of(plain) == expected
    assert answer_of(columns) == expected
    assert columns.responsible == plain.responsible == next(iter(expected.cluster), None)
    for count in (1, 2, 3, 12):  # The best few are the first of all.
        best = columns._snapshot.best(job, rules, count)
        assert [node.id for node in best] == [entry[0] for entry in expected.ranked][:count]


@given(builders.cases(), st.sets(st.integers(0, 8)), st.data())
def test_a_changed_snapshot_equals_a_new_one(case, changed, data):
    job, nodes, rules = case
    columns = Columns(nodes)
    place(job, columns, rules)  # Questions are remembered from here on.
    now = {node.id: node for node in nodes}
    for index in sorted(changed & set(range(len(nodes)))):
        if data.draw(st.booleans()):
            columns.remove(nodes[index].id)
            del now[nodes[index].id]
        else:
            now[nodes[index].id] = data.draw(builders.records(st.just(nodes[index].id)))
            columns.update(now[nodes[index].id])

    columns.check()

    assert answer_of(place(job, columns, rules)) == answer_of(
        place(job, Columns(now.values()), rules)
    )


class SnapshotMachine(RuleBasedStateMachine):
    """Any order of arrivals, changes, departures and questions keeps the columns true."""

    nodes = Bundle("nodes")

    def __init__(self):
        super().__init__()
        self.columns, self.plain, self.known = Columns(), PlainSnapshot(), {}

    @rule(target=nodes, record=builders.records() | builders.records(calm=True))
    def arrive(self, record):
        self.columns.update(record)
        self.plain.update(record)
        self.known[record.id] = record
        return record.id

    @rule(node=nodes, data=st.data())
    def change(self, node, data):
        self.arrive(data.draw(builders.records(st.just(node))))

    @rule(node=consumes(nodes))
    def leave(self, node):
        self.columns.remove(node)
        self.plain.remove(node)
        self.known.pop(node, None)

    @rule(job=builders.jobs() | builders.jobs(calm=True), rules=builders.rules())
    def decide(self, job, rules):
        expected = reference.decide(job, list(self.known.values()), rules)

        assert answer_of(place(job, self.columns, rules)) == expected
        assert answer_of(place(job, self.plain, rules)) == expected

    @invariant()
    def both_hold_what_was_said(self):
        self.columns.check()
        expected = [self.known[node] for node in sorted(self.known)]

        assert self.columns.records() == self.plain.records() == expected
        assert len(self.columns) == len(self.plain) == len(expected)


SnapshotMachine.TestCase.settings = settings(max_examples=20, stateful_step_count=20)
TestSnapshotMachine = pytest.mark.slow(SnapshotMachine.TestCase)


@pytest.mark.slow
def test_a_fleet_that_outgrows_its_arrays_is_still_decided_on_rightly():
    """Rows beyond the first capacity, removed from the middle, with ties across the whole fleet."""
    nodes = [
        a_node(
            number,
            cpus=16,
            free_cpus=16 if number % 3 else 8,
            gpus=number % 4,
            labels={"zone": f"z{number % 5}"},
        )
        for number in range(600)
    ]
    columns = Columns()
    job = a_job("first", gpus=1, require={"labels": (("zone", "z1"),)})
    for node in nodes:
        columns.update(node)
        if node.id.endswith("80"):
            place(job, columns)  # A question, before half of the values are known.
    for node in nodes[100:300:2]:
        columns.remove(node.id)
    left = nodes[:100] + nodes[101:300:2] + nodes[300:]
    renamed = [msgspec.structs.replace(node, name=f"{node.name}-x") for node in left[:50]]
    for node in renamed:
        columns.update(node)
    left[:50] = renamed
    columns.check()

    for policy in (None, *builders.POLICIES):
        rules = builders.Rules(policy=policy, cluster_size=5)
        for name in ("first", "second"):
            asked = msgspec.structs.replace(job, id=builders.job_id_of(name))
            expected = reference.decide(asked, left, rules)

            assert answer_of(place(asked, columns, rules)) == expected


@pytest.mark.rows("S1-24")
@pytest.mark.slow
@pytest.mark.parametrize("rank", ["even", "xor"])
def test_a_large_mixed_fleet_is_decided_as_the_reference_does(rank):
    nodes = random_fleet(300, seed=7)
    columns = Columns(nodes)
    for index, job in enumerate(random_jobs(36, seed=7)):
        policy = (None, *builders.POLICIES)[index % 9]
        rules = builders.Rules(policy=policy, rank=rank)

        assert answer_of(place(job, columns, rules)) == reference.decide(job, nodes, rules)
