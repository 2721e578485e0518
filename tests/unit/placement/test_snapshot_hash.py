"""One number for what placement reads: equal exactly if two nodes have heard the same."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributed_grid.kernel.placement.snapshot_hash import snapshot_hash
from distributed_grid.model.node import Network, Power
from distributed_grid.model.resources import Resources
from tests.builders import a_node

FLEET = [a_node(number, labels={"a": "1", "b": "2"}) for number in range(5)]


@given(st.permutations(FLEET))
def test_the_order_of_hearing_does_not_count(nodes):
    assert snapshot_hash(nodes) == snapshot_hash(FLEET)


def test_neither_do_ages_distances_and_the_order_of_labels():
    first, *others = FLEET
    for change in (
        {"age_ms": 5_000},
        {"network": Network(latency_us=5_000, reachability="relayed")},
        {"labels": {"b": "2", "a": "1"}},
    ):
        assert snapshot_hash([msgspec.structs.replace(first, **change), *others]) == snapshot_hash(
            FLEET
        )


@pytest.mark.parametrize(
    "change",
    [
        {"name": "other"},
        {"free": Resources()},
        {"labels": {"a": "2", "b": "2"}},
        {"jobs": 7},
        {"power": Power(on_battery=True)},
        {"verification": "failed"},
    ],
    ids=lambda change: next(iter(change)),
)
def test_everything_else_does(change):
    first, *others = FLEET

    assert snapshot_hash([msgspec.structs.replace(first, **change), *others]) != snapshot_hash(
        FLEET
    )
    assert snapshot_hash(others) != snapshot_hash(FLEET)
    assert len(snapshot_hash(())) == 64
