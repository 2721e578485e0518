"""Does the log say why a node is, or is not, capable and available?"""

import pytest

from distributed_grid.kernel.placement import place
from distributed_grid.kernel.placement.events import events
from distributed_grid.model.bytesize import GIB
from tests.builders import a_job, a_node

JOB = a_job("train", cpus=4, memory=GIB, gpus=1, custom={"tpu": 1_000})
FITS = a_node(1, name="fits", gpus=1, custom={"tpu": 2_000})
BUSY = a_node(2, name="busy", gpus=1, custom={"tpu": 2_000}, free_cpus=1)
SMALL = a_node(3, name="small", cpus=2)


def told(*nodes, job=JOB):
    return list(events(place(job, nodes), list(nodes)))


def named(found, name, node):
    return next(e.fields for e in found if e.name == name and e.fields["node"] == node)


@pytest.mark.rows("S1-45", "S1-46", "S1-48", "S1-50")
def test_capability_and_capacity_of_every_node_are_told_apart():
    found = told(SMALL, BUSY, FITS)

    fits = {
        (e.fields["node"], e.name): e.fields["fits"]
        for e in found
        if e.name in {"placement.capability", "placement.capacity"}
    }

    assert fits == {
        ("fits", "placement.capability"): True,
        ("fits", "placement.capacity"): True,
        ("busy", "placement.capability"): True,
        ("busy", "placement.capacity"): False,
        ("small", "placement.capability"): False,
        ("small", "placement.capacity"): False,
    }


@pytest.mark.rows("S1-50")
def test_resource_wanted_and_has_are_told_of_everything_that_was_checked():
    found = told(BUSY)

    assert named(found, "placement.capability", "busy")["checked"] == [
        {"what": "cpu_milli", "wanted": 4_000, "has": 16_000},
        {"what": "memory_bytes", "wanted": GIB, "has": 64 * GIB},
        {"what": "storage_bytes", "wanted": 0, "has": 1 << 40},
        {"what": "gpu_milli", "wanted": 1_000, "has": 1_000},
        {"what": "custom.tpu", "wanted": 1_000, "has": 2_000},
    ]
    assert named(found, "placement.capacity", "busy")["checked"][0] == {
        "what": "cpu_milli",
        "wanted": 4_000,
        "has": 1_000,
    }


@pytest.mark.rows("S1-50")
def test_a_refusal_carries_its_reasons():
    assert named(told(BUSY, FITS), "placement.refused", "busy")["reasons"] == [
        {"what": "cpu_milli", "wanted": 4_000, "has": 1_000, "kind": "capacity"}
    ]


def test_a_node_refused_for_what_it_is_lacks_the_capability_not_the_capacity():
    job = a_job(require={"classes": ("edge",)})
    found = told(FITS, job=job)

    assert named(found, "placement.capability", "fits")["fits"] is False
    assert named(found, "placement.capacity", "fits")["fits"] is True


def test_a_stale_node_has_both_and_is_refused_all_the_same():
    found = told(a_node(1, name="quiet", age_ms=10**6), job=a_job())

    assert named(found, "placement.capability", "quiet")["fits"] is True
    assert named(found, "placement.refused", "quiet")["reasons"][0]["kind"] == "stale"


def test_the_decision_comes_last_and_nodes_in_order_of_id():
    found = told(SMALL, FITS, BUSY)

    assert [e.fields["node"] for e in found[:-1] if e.name == "placement.capability"] == [
        "fits",
        "busy",
        "small",
    ]
    assert (found[-1].name, found[-1].fields) == (
        "placement.decided",
        {
            "job": "train",
            "responsible": FITS.id,
            "cluster": [FITS.id],
            "eligible": 1,
            "refused": 2,
        },
    )


def test_what_was_checked_is_a_detail_and_what_came_of_it_is_not():
    assert {e.name: e.is_detail for e in told(BUSY, FITS)} == {
        "placement.capability": True,
        "placement.capacity": True,
        "placement.refused": False,
        "placement.decided": False,
    }
