"""Is a record of a node consistent?"""

import pytest

from distributed_grid.errors import BadValue
from distributed_grid.model.bytesize import GIB
from distributed_grid.model.gpus import Gpu
from distributed_grid.model.node import LABELS_MAX, unnamed_gpus
from distributed_grid.model.node_class import CLASS_NAMES, NodeClass
from tests.builders import a_node


@pytest.mark.parametrize(
    ("excess", "word"),
    [
        ({"cpus": 1, "free_cpus": 2}, "cpu_cores"),
        ({"memory": GIB, "free_memory": 2 * GIB}, "memory"),
        ({"storage": GIB, "free_storage": 2 * GIB}, "storage"),
        ({"gpus": 1, "free_gpus": 2}, "gpus"),
        ({"custom": {"tpu": 1}, "free_custom": {"tpu": 2}}, "custom kinds"),
    ],
)
def test_what_is_free_is_never_more_than_what_there_is(excess, word):
    with pytest.raises(BadValue) as caught:
        a_node(**excess)

    assert word in caught.value.remedy


def test_a_node_has_a_bounded_number_of_labels():
    a_node(labels={str(n): "x" for n in range(LABELS_MAX)})
    with pytest.raises(BadValue, match="at most 64 labels"):
        a_node(labels={str(n): "x" for n in range(LABELS_MAX + 1)})


@pytest.mark.parametrize(
    ("field", "low", "high"),
    [
        ("battery_percent", 0, 100),
        ("temperature_centi", -27_315, 100_000),
        ("idle_mw", 0, 10**9),
        ("max_mw", 0, 10**9),
        ("bandwidth_kbps", 0, 10**11),
        ("latency_us", 0, 10**10),
        ("price_micro_per_hour", 0, 10**12),
        ("age_ms", 0, 10**13),
        ("jobs", 0, 10**6),
    ],
)
def test_every_number_of_a_record_has_bounds_so_that_no_decision_can_overflow(field, low, high):
    for fine in (low, high):
        a_node(**{field: fine})
    for wrong in (low - 1, high + 1, 10**30):
        with pytest.raises(BadValue, match=field):
            a_node(**{field: wrong})


def test_devices_that_no_driver_named_have_names_of_ours():
    assert unnamed_gpus("H100", 2, memory_bytes=GIB, compute_capability=90) == tuple(
        Gpu(device=device, model="H100", memory_bytes=GIB, compute_capability=90)
        for device in ("H100#000", "H100#001")
    )


def test_every_class_has_a_name_and_is_a_member_of_the_union():
    members = (NodeClass.DataCenter, NodeClass.Workstation, NodeClass.Laptop, NodeClass.Edge)

    assert tuple(member.name for member in members) == CLASS_NAMES
    assert all(issubclass(member, NodeClass) for member in members)
