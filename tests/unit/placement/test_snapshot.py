"""Do snapshots hold what was said, and refuse to mix two states?"""

import msgspec
import pytest

from distributed_grid.errors import BadValue
from distributed_grid.kernel.placement import PLAIN_NODES_MAX, Rules, Snapshot, place, snapshot
from distributed_grid.kernel.placement.columns import CAPACITY_MIN, Columns
from distributed_grid.kernel.placement.interned import TABLES_MAX, Interned
from distributed_grid.kernel.placement.plain import PlainSnapshot
from distributed_grid.kernel.placement.registry import policy_named
from tests.builders import a_job, a_node, an_id

BOTH = pytest.mark.parametrize("kind", [PlainSnapshot, Columns])


def test_few_nodes_are_held_plainly_and_many_in_columns():
    nodes = [a_node(n) for n in range(PLAIN_NODES_MAX + 1)]

    assert isinstance(snapshot(nodes[:-1]), PlainSnapshot)
    assert isinstance(snapshot(nodes), Columns)


def test_a_node_may_not_come_twice():
    with pytest.raises(BadValue, match="every node once"):
        snapshot([a_node(1), a_node(1, name="again")])


@BOTH
def test_a_snapshot_is_decided_on_as_it_is(kind):
    held = kind([a_node(1)])

    assert isinstance(held, Snapshot)
    assert place(a_job(), held).responsible == an_id(1)


@BOTH
def test_a_record_that_changes_changes_the_decision(kind):
    held = kind([a_node(1, cpus=1), a_node(2)])
    assert place(a_job(cpus=1), held).cluster != ()

    held.update(a_node(1, cpus=1, free_cpus=0))
    held.update(a_node(3, gpus=1))
    held.remove(an_id(2))

    assert place(a_job(), held).cluster == (an_id(3),)
    assert [record.id for record in held.records()] == [an_id(1), an_id(3)]
    assert len(held) == 2


@BOTH
def test_forgetting_who_is_not_there_changes_nothing(kind):
    held = kind([a_node(1)])
    version = held.version

    held.remove(an_id(9))

    assert (held.version, len(held)) == (version, 1)


@BOTH
@pytest.mark.parametrize(
    "change",
    [
        lambda held: held.remove(an_id(1)),
        lambda held: held.update(a_node(1, free_cpus=0)),
        lambda held: held.update(a_node(3)),
    ],
    ids=["leaves", "changes", "arrives"],
)
def test_every_change_has_a_version_and_an_old_decision_says_so(kind, change):
    held = kind([a_node(1), a_node(2)])
    decision = place(a_job(), held)
    version = held.version
    change(held)

    assert held.version == version + 1
    assert len(decision.cluster) == 2  # What was decided stays decided.
    for late in ("ranked", "refused"):
        with pytest.raises(AssertionError, match="moved on"):
            getattr(decision, late)


@BOTH
def test_what_was_read_once_stays_readable(kind):
    held = kind([a_node(1)])
    decision = place(a_job(), held)
    ranked, refused = decision.ranked, decision.refused
    held.remove(an_id(1))

    assert (decision.ranked, decision.refused) == (ranked, refused)


def test_columns_grow_and_shrink_with_the_fleet():
    held = Columns()
    before = held.bytes_used()
    for number in range(3 * CAPACITY_MIN):
        held.update(a_node(number, name=f"n{number}", labels={"n": str(number)}))
    held.check()
    grown = held.bytes_used()
    for number in range(3 * CAPACITY_MIN):
        held.remove(an_id(number))
    held.check()

    assert grown > 3 * before
    assert len(held) == 0
    assert place(a_job(), held).responsible is None


@pytest.mark.parametrize("column", ["_numbers", "_truths", "_ids"])
def test_a_check_notices_a_column_that_is_wrong(column):
    held = Columns([a_node(1), a_node(2)])
    held.check()
    getattr(held, column)[0, 0] ^= 1
    with pytest.raises(AssertionError, match=r"a column is old|a wrong id"):
        held.check()


@pytest.mark.rows("S1-115")
def test_a_question_is_asked_once_for_each_value_and_again_when_a_value_is_new():
    asked = []
    column = Interned(8)
    for index, value in enumerate("aab"):
        column.set(index, value)

    def is_a(value):
        asked.append(value)
        return value == "a"

    assert column.answer("is it a?", is_a, 3).tolist() == [1, 1, 0]
    assert column.answer("is it a?", is_a, 3).tolist() == [1, 1, 0]
    assert (sorted(asked), column.table_hits) == (["a", "b"], 1)

    column.clear(2)
    column.set(2, "c")

    assert column.answer("is it a?", is_a, 3).tolist() == [1, 1, 0]
    assert sorted(asked) == ["a", "b", "c"]
    column.check(3)


@pytest.mark.rows("S1-115")
def test_what_is_remembered_of_gpus_is_true_after_new_metrics():
    held = Columns([a_node(1, gpus=1), a_node(2)])
    job = a_job(gpus=1)
    hits = held._words["gpus_free"].table_hits

    assert place(job, held).cluster == (an_id(1),)
    assert place(job, held).cluster == (an_id(1),)
    assert held._words["gpus_free"].table_hits == hits + 1
    held.update(a_node(1, gpus=1, free_gpus=0))
    held.update(a_node(2, gpus=2))
    assert place(job, held).cluster == (an_id(2),)
    held.check()


def test_only_so_many_questions_are_remembered_and_the_oldest_is_forgotten():
    column = Interned(4)
    column.set(0, "a")
    for number in range(TABLES_MAX):
        column.answer(number, len, 1)
    column.answer(0, len, 1)  # Asked again: no longer the oldest.
    column.answer("one more", len, 1)

    assert len(column._tables) == TABLES_MAX
    assert 0 in column._tables
    assert 1 not in column._tables


def test_ids_of_values_are_used_again_so_that_change_costs_no_memory():
    column = Interned(4)
    column.set(0, "first")
    for number in range(1_000):
        column.clear(0)
        column.set(0, f"value {number}")
        column.check(1)

    assert len(column._values) == 1


def test_a_table_grows_with_the_values():
    column = Interned(8)
    column.answer("length", len, 0)
    for index, value in enumerate(("a", "bb", "ccc", "dddd", "eeeee")):
        column.set(index, value)

    assert column.answer("length", len, 5).tolist() == [1, 2, 3, 4, 5]


def test_a_column_notices_when_it_is_wrong():
    column = Interned(4)
    column.set(0, "a")
    column.answer("length", len, 1)
    column._tables["length"][1][0] = 7
    with pytest.raises(AssertionError, match="a remembered answer is old"):
        column.check(1)


def test_a_column_notices_when_a_value_was_not_cleared():
    column = Interned(4)
    column.set(0, "a")
    column.set(0, "b")
    with pytest.raises(AssertionError, match="a use was lost"):
        column.check(1)


def test_a_name_may_be_that_of_several_and_follows_who_bears_it():
    held = Columns([a_node(1, name="lab"), a_node(2, name="lab"), a_node(3, name="attic")])
    by_name, by_id = (a_job(require={"nodes": (name,)}) for name in ("lab", an_id(3)))

    assert set(place(by_name, held).cluster) == {an_id(1), an_id(2)}
    held.update(a_node(1, name="attic"))
    held.update(a_node(3, name="lab"))
    held.remove(an_id(2))
    held.check()

    assert place(by_name, held).cluster == place(by_id, held).cluster == (an_id(3),)
    assert place(a_job(avoid={"nodes": ("lab", "gone")}), held).cluster == (an_id(1),)


def test_a_better_score_is_in_whatever_its_rank_is():
    """One node is better than all others, which tie; its rank must not matter."""
    rules = Rules(policy=policy_named("RoundRobin"), cluster_size=2)
    for number in range(20):
        nodes = [a_node(n, jobs=0 if n == number else 1) for n in range(20)]

        assert place(a_job(), Columns(nodes), rules).cluster[0] == an_id(number)


def test_a_policy_of_ones_own_may_be_used_on_many_nodes():
    nodes = [a_node(n, name=f"{'x' * (1 + n % 7)}") for n in range(100)]
    rules = Rules(policy=policy_named("short", {"short": lambda job, node: len(node.name)}))

    plain = place(a_job(), PlainSnapshot(nodes), rules)

    assert place(a_job(), Columns(nodes), rules).cluster == plain.cluster
    assert {ranked.parts["short"] for ranked in plain.ranked[:14]} == {1}


def test_records_are_values_and_a_copy_is_equal():
    assert msgspec.structs.replace(a_node(1), jobs=0) == a_node(1)
