"""Who can take a job, and what exactly stands in the way of the others?"""

import pytest

from distributed_grid.kernel.placement import Reason, Rules, place
from distributed_grid.model.bytesize import GIB
from distributed_grid.model.gpus import GpuRequest
from distributed_grid.model.node import unnamed_gpus
from tests.builders import a_job, a_node


def reasons(job, node, rules=None):
    """Everything against a node, as (what, wanted, has, kind)."""
    decision = place(job, [node], rules)
    found = [r for refusal in decision.refused for r in refusal.reasons]
    assert bool(found) == (decision.responsible is None)
    return [(r.what, r.wanted, r.has, r.kind) for r in found]


H100 = unnamed_gpus("H100", 2, memory_bytes=80 * GIB, compute_capability=90)


@pytest.mark.rows(
    *("S1-16", "S1-29", "S1-30", "S1-31", "S1-32", "S1-39", "S1-40", "S1-41", "S1-42", "S1-43"),
    *("S1-49", "S1-50", "S1-70", "S1-78"),
)
@pytest.mark.parametrize(
    ("job", "node", "reason"),
    [
        (a_job(cpus=4.001), a_node(cpus=4), ("cpu_milli", 4_001, 4_000)),
        (a_job(memory=GIB + 1), a_node(memory=GIB), ("memory_bytes", GIB + 1, GIB)),
        (a_job(storage=GIB + 1), a_node(storage=GIB), ("storage_bytes", GIB + 1, GIB)),
        (a_job(gpus=2), a_node(gpus=1), ("gpu_milli", 2_000, 1_000)),
        (a_job(gpus=0.5), a_node(), ("gpu_milli", 500, 0)),
        (
            a_job(gpus=GpuRequest(model="A100")),
            a_node(gpus=H100),
            ("gpu_milli.A100", 1_000, 0),
        ),
        (
            a_job(gpus=GpuRequest(memory_bytes=81 * GIB)),
            a_node(gpus=H100),
            ("gpu_milli", 1_000, 0),
        ),
        (
            a_job(gpus=GpuRequest(compute_capability=100)),
            a_node(gpus=H100),
            ("gpu_milli", 1_000, 0),
        ),
        (
            a_job(custom={"tpu": 2_000}),
            a_node(custom={"tpu": 1_000}),
            ("custom.tpu", 2_000, 1_000),
        ),
        (a_job(custom={"npu": 1_000}), a_node(), ("custom.npu", 1_000, 0)),
    ],
)
def test_a_node_that_never_has_enough_lacks_the_capability(job, node, reason):
    assert reasons(job, node) == [(*reason, "capability")]


@pytest.mark.rows("S1-17", "S1-44", "S1-48", "S1-49", "S1-71")
@pytest.mark.parametrize(
    ("job", "node", "reason"),
    [
        (a_job(cpus=4), a_node(cpus=4, free_cpus=3.999), ("cpu_milli", 4_000, 3_999)),
        (a_job(memory=GIB), a_node(free_memory=GIB - 1), ("memory_bytes", GIB, GIB - 1)),
        (a_job(storage=GIB), a_node(free_storage=0), ("storage_bytes", GIB, 0)),
        (a_job(gpus=2), a_node(gpus=2, free_gpus=1), ("gpu_milli", 2_000, 1_000)),
        (
            a_job(custom={"tpu": 2_000}),
            a_node(custom={"tpu": 2_000}, free_custom={"tpu": 1_500}),
            ("custom.tpu", 2_000, 1_500),
        ),
    ],
)
def test_a_node_that_has_enough_but_not_now_lacks_the_capacity(job, node, reason):
    assert reasons(job, node) == [(*reason, "capacity")]


@pytest.mark.rows("S1-47", "S1-77")
@pytest.mark.parametrize(
    ("job", "node"),
    [
        (a_job(cpus=9.5), a_node(cpus=16, free_cpus=9.5)),
        (a_job(memory=GIB), a_node(free_memory=GIB)),
        (a_job(storage=GIB), a_node(free_storage=GIB)),
        (a_job(gpus=2), a_node(gpus=2)),
        (a_job(gpus=GpuRequest(model="H100", memory_bytes=80 * GIB)), a_node(gpus=H100)),
        (a_job(gpus=GpuRequest(compute_capability=90)), a_node(gpus=H100)),
        (a_job(custom={"tpu": 500}), a_node(custom={"tpu": 500})),
        (a_job(require={"latency_us_max": 4_000}), a_node(latency_us=4_000)),
        (a_job(), a_node(on_battery=True, battery_percent=20)),
        (a_job(), a_node(temperature_centi=8_500)),
        (a_job(), a_node(age_ms=60_000)),
    ],
)
def test_equal_is_enough(job, node):
    assert reasons(job, node) == []


@pytest.mark.rows("S1-33")
@pytest.mark.parametrize(
    ("job", "node", "reason"),
    [
        (a_job(arch="x86_64"), a_node(arch="aarch64"), ("arch", "x86_64", "aarch64")),
        (a_job(arch="x86_64"), a_node(), ("arch", "x86_64", None)),
        (a_job(features=("avx2",)), a_node(features=("sve",)), ("features.avx2", True, False)),
        (
            a_job(require={"classes": ("datacenter", "edge")}),
            a_node(node_class="laptop"),
            ("class", ["datacenter", "edge"], "laptop"),
        ),
        (
            a_job(require={"labels": (("ssd", "true"),)}),
            a_node(labels={"ssd": "false"}),
            ("labels.ssd", "true", "false"),
        ),
        (a_job(require={"labels": (("ssd", "true"),)}), a_node(), ("labels.ssd", "true", None)),
    ],
)
def test_what_a_node_is_not_is_a_lack_of_capability(job, node, reason):
    assert reasons(job, node) == [(*reason, "capability")]


@pytest.mark.rows("S1-33", "S4-91")
@pytest.mark.parametrize(
    ("require", "node", "reason"),
    [
        ({"nodes": ("attic",)}, a_node(name="cellar"), ("nodes", ["attic"], "cellar")),
        ({"jobs": ("database",)}, a_node(running=("web",)), ("jobs", ["database"], ["web"])),
        ({"latency_us_max": 3_999}, a_node(latency_us=4_000), ("latency_us", 3_999, 4_000)),
        ({"latency_us_max": 10**10}, a_node(), ("latency_us", 10**10, None)),
    ],
)
def test_where_a_job_must_run_is_its_own_policy(require, node, reason):
    assert reasons(a_job(require=require), node) == [(*reason, "policy")]


@pytest.mark.rows("S4-92")
@pytest.mark.parametrize(
    ("avoid", "node", "reason"),
    [
        ({"classes": ("laptop",)}, a_node(node_class="laptop"), ("class", ["laptop"], "laptop")),
        (
            {"labels": (("zone", "cellar"),)},
            a_node(labels={"zone": "cellar"}),
            ("labels.zone", ["cellar"], "cellar"),
        ),
        ({"nodes": ("attic",)}, a_node(name="attic"), ("nodes", ["attic"], "attic")),
        ({"jobs": ("web",)}, a_node(running=("db", "web")), ("jobs", ["web"], ["db", "web"])),
    ],
)
def test_where_a_job_must_not_run_is_its_own_policy_too(avoid, node, reason):
    what, unwanted, has = reason

    assert reasons(a_job(avoid=avoid), node) == [
        (f"avoid.{what}", {"not": unwanted}, has, "policy")
    ]


@pytest.mark.parametrize(
    "job",
    [
        a_job(arch="x86_64"),
        a_job(features=("avx2",)),
        a_job(require={"classes": ("edge", "workstation")}),
        a_job(require={"labels": (("zone", "home"),)}),
        a_job(require={"nodes": ("elsewhere", "node-1")}),
        a_job(require={"nodes": (a_node().id,)}),
        a_job(require={"jobs": ("db", "web")}),
        a_job(require={"latency_us_max": 5_000}),
        a_job(avoid={"classes": ("laptop",)}),
        a_job(avoid={"labels": (("zone", "cellar"),)}),
        a_job(avoid={"nodes": ("node-2",)}),
        a_job(avoid={"jobs": ("batch",)}),
    ],
)
def test_a_node_that_is_what_was_asked_for_is_taken(job):
    node = a_node(
        arch="x86_64",
        features=("aes", "avx2"),
        labels={"zone": "home"},
        running=("web",),
        latency_us=4_000,
    )

    assert reasons(job, node) == []


def test_a_node_can_be_avoided_by_its_id():
    job = a_job(avoid={"nodes": (a_node(2).id,)})

    assert place(job, [a_node(1), a_node(2)]).cluster == (a_node(1).id,)


@pytest.mark.rows("S1-48")
def test_every_reason_is_told_capability_and_capacity_apart():
    node = a_node(cpus=2, free_memory=0, node_class="laptop", temperature_centi=9_000, age_ms=10**6)
    job = a_job(cpus=4, memory=GIB, require={"classes": ("datacenter",)})

    assert [kind for _, _, _, kind in reasons(job, node)] == [
        "capability",
        "capacity",
        "capability",
        "policy",
        "stale",
    ]


def test_a_reason_is_a_value_and_a_refusal_names_its_node():
    (refusal,) = place(a_job(cpus=99), [a_node(7, name="attic")]).refused

    assert (refusal.id, refusal.name) == (a_node(7).id, "attic")
    assert refusal.reasons == (
        Reason(what="cpu_milli", wanted=99_000, has=16_000, kind="capability"),
    )


@pytest.mark.rows("S1-24", "S1-27")
def test_no_nodes_at_all_is_a_decision_too():
    decision = place(a_job(), [])

    assert (decision.responsible, decision.best, decision.cluster) == (None, None, ())
    assert (decision.ranked, decision.refused) == ([], [])


def test_a_job_that_asks_for_nothing_fits_on_a_node_that_has_nothing():
    nothing = a_node(cpus=0, memory=0, storage=0)

    assert place(a_job(cpus=0), [nothing], Rules()).responsible == nothing.id
