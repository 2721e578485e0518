"""In which order do the policies put nodes that fit?"""

import pytest

from distributed_grid.cluster_mesh import SchedulingPolicy
from distributed_grid.kernel.placement import Rules, place
from distributed_grid.kernel.placement.policies import POLICIES
from distributed_grid.kernel.placement.registry import policy_named
from distributed_grid.model.bytesize import BYTES_MAX, GIB, TIB
from distributed_grid.model.node import unnamed_gpus
from tests.builders import a_job, a_node, an_id


def order(policy, nodes, job=None):
    """Names of the nodes, best first."""
    rules = Rules(policy=policy_named(policy))
    return [ranked.name for ranked in place(job or a_job(), nodes, rules).ranked]


def parts(policy, node, job=None):
    rules = Rules(policy=policy_named(policy))
    (ranked,) = place(job or a_job(), [node], rules).ranked
    return ranked.parts


@pytest.mark.rows("S2-77", "S4-20", "S4-88")
def test_best_fit_leaves_the_least_over():
    roomy, snug, exact = (
        a_node(1, name="roomy", free_cpus=16),
        a_node(2, name="snug", free_cpus=5),
        a_node(3, name="exact", free_cpus=4),
    )

    assert order("BestFit", [roomy, snug, exact], a_job(cpus=4)) == ["exact", "snug", "roomy"]
    assert order("binpack", [roomy, snug, exact], a_job(cpus=4)) == ["exact", "snug", "roomy"]


@pytest.mark.rows("S4-88")
def test_best_fit_keeps_a_gpu_free_for_those_who_need_one():
    nodes = [a_node(1, name="gpu", gpus=1, cpus=8), a_node(2, name="plain", cpus=16)]

    assert order("BestFit", nodes) == ["plain", "gpu"]


def test_waste_counts_cores_memory_storage_and_gpus_in_milli_cores():
    node = a_node(cpus=8, memory=8 * GIB, storage=128 * GIB, gpus=1)
    job = a_job(cpus=1, memory=4 * GIB, storage=64 * GIB, gpus=0.5)

    # 7 cores; 4 GiB of memory and 64 GiB of storage are a core each; half a GPU is 8 cores.
    assert parts("BestFit", node, job)["waste"] == 7_000 + 1_024 + 1_024 + 8_000


@pytest.mark.rows("S2-78")
def test_first_fit_takes_the_first_by_id_whatever_the_job():
    nodes = [a_node(name=f"n{digit}", id=an_id(digit << 252)) for digit in (9, 1, 4)]

    for name in ("one", "two", "three"):
        assert order("FirstFit", nodes, a_job(name)) == ["n1", "n4", "n9"]


@pytest.mark.rows("S2-79")
def test_round_robin_takes_turns():
    held = {n: a_node(n, jobs=0) for n in range(5)}
    rules = Rules(policy=policy_named("RoundRobin"))
    for turn in range(15):
        chosen = place(a_job(f"job-{turn}"), held.values(), rules).responsible
        number = int(chosen, 16)
        held[number] = a_node(number, jobs=held[number].jobs + 1)

    assert [node.jobs for node in held.values()] == [3] * 5


@pytest.mark.rows("S2-80")
def test_power_aware_adds_the_fewest_watts():
    nodes = [
        a_node(1, name="hungry", idle_mw=100_000, max_mw=900_000),
        a_node(2, name="frugal", idle_mw=60_000, max_mw=100_000),
        a_node(3, name="silent"),  # Does not say: 5 W a core are assumed.
    ]

    assert order("PowerAware", nodes) == ["frugal", "silent", "hungry"]


def test_power_is_the_jobs_share_of_what_a_machine_can_draw_more():
    bare = {"cpus": 4, "memory": 0, "storage": 0}
    job = a_job(cpus=1)

    told = parts("PowerAware", a_node(idle_mw=10_000, max_mw=90_000, **bare), job)
    assumed = parts("PowerAware", a_node(**bare), job)
    upside_down = parts("PowerAware", a_node(idle_mw=90_000, max_mw=10_000, **bare), job)
    half_told = parts("PowerAware", a_node(max_mw=10_000, **bare), job)
    with_gpu = parts("PowerAware", a_node(gpus=1, **bare), job)

    assert (told["power_mw"], told["assumed_power_mw"]) == (20_000, 0)
    assert (assumed["power_mw"], assumed["assumed_power_mw"]) == (0, 5_000)
    assert (upside_down["power_mw"], upside_down["assumed_power_mw"]) == (0, 0)
    assert (half_told["power_mw"], half_told["assumed_power_mw"]) == (0, 5_000)
    assert with_gpu["assumed_power_mw"] == 4_750  # A twentieth of 4 x 5 W + 75 W.


@pytest.mark.rows("S2-81")
def test_locality_aware_goes_near_and_where_nobody_measured_last():
    nodes = [
        a_node(1, name="unknown"),
        a_node(2, name="far", latency_us=90_000),
        a_node(3, name="near", latency_us=300),
    ]

    assert order("LocalityAware", nodes) == ["near", "far", "unknown"]


@pytest.mark.rows("S2-82", "S3-106")
def test_cost_optimized_takes_the_cheapest():
    nodes = [
        a_node(1, name="dear", price_micro_per_hour=2_500_000),
        a_node(2, name="own", price_micro_per_hour=0),
        a_node(3, name="cheap", price_micro_per_hour=350_000),
    ]

    assert order("CostOptimized", nodes) == ["own", "cheap", "dear"]


@pytest.mark.rows("S2-83")
@pytest.mark.parametrize(
    ("better", "worse"),
    [
        ({"free_cpus": 16}, {"free_cpus": 4}),
        ({"latency_us": 1_000}, {"latency_us": 100_000}),
        ({"price_micro_per_hour": 0}, {"price_micro_per_hour": 5_000_000}),
        ({"jobs": 0}, {"jobs": 50}),
        ({"idle_mw": 0, "max_mw": 16_000}, {"idle_mw": 0, "max_mw": 900_000_000}),
        ({"cpus": 16, "storage": 1 << 30}, {"cpus": 16, "storage": 90 << 40}),
    ],
)
def test_balanced_weighs_every_factor(better, worse):
    nodes = [a_node(1, name="worse", **worse), a_node(2, name="better", **better)]

    assert order("Balanced", nodes) == ["better", "worse"]


def test_no_factor_of_balanced_outweighs_the_others():
    extreme = a_node(
        cpus=1_000,
        memory=4 * GIB,
        free_memory=0,
        storage=0,
        jobs=10**6,
        price_micro_per_hour=10**12,
        idle_mw=0,
        max_mw=10**9,
    )

    found = parts("Balanced", extreme, a_job(cpus=744))

    assert found == {
        **dict.fromkeys(("load", "waste", "power", "distance", "price", "jobs"), 1_000),
        **dict.fromkeys(("unverified", "battery", "relayed"), 0),
    }


def test_balanced_sums_what_it_shows():
    node = a_node(cpus=10, memory=0, storage=0, jobs=3, price_micro_per_hour=50_000)
    near = a_node(
        cpus=10,
        memory=0,
        storage=0,
        latency_us=10_000,
        jobs=3,
        price_micro_per_hour=50_000,
        idle_mw=0,
        max_mw=50_000,
    )

    assert parts("Balanced", near)["load"] == 100
    assert parts("Balanced", near)["waste"] == 35
    assert parts("Balanced", near)["power"] == 10
    assert parts("Balanced", near)["distance"] == 50
    assert parts("Balanced", near)["price"] == 5
    assert parts("Balanced", near)["jobs"] == 30
    assert parts("Balanced", node)["distance"] == 1_000
    assert parts("Balanced", node)["power"] == 10  # Assumed, and counted all the same.


@pytest.mark.rows("S4-21", "S4-89")
def test_spread_takes_the_emptiest():
    nodes = [
        a_node(1, name="half", cpus=16, free_cpus=8),
        a_node(2, name="empty", cpus=4, free_cpus=4),
        a_node(3, name="nearly-full", cpus=64, free_cpus=9),
    ]

    assert order("Spread", nodes) == ["empty", "half", "nearly-full"]


@pytest.mark.parametrize(
    ("node", "job", "load"),
    [
        (a_node(cpus=10, free_cpus=5), a_job(cpus=1), 600),
        (a_node(memory=GIB, free_memory=GIB // 2), a_job(cpus=1, memory=GIB // 4), 750),
        (a_node(gpus=4, free_gpus=1), a_job(gpus=0.5), 875),
        (a_node(gpus=4, free_gpus=1), a_job(), 62),
        (a_node(memory=0, cpus=0), a_job(cpus=0), 0),
        (a_node(memory=BYTES_MAX, free_memory=GIB), a_job(memory=GIB), 1_000),
    ],
)
def test_load_is_that_of_whatever_is_used_most(node, job, load):
    assert parts("Spread", node, job)["load"] == load


def test_every_policy_has_parts_of_zero_or_more_that_stay_below_one_wish():
    huge = a_node(
        id=an_id((1 << 256) - 1),
        cpus=1_000_000,
        memory=BYTES_MAX,
        storage=BYTES_MAX,
        gpus=unnamed_gpus("H100", 999),
        price_micro_per_hour=10**12,
        jobs=10**6,
        idle_mw=0,
        max_mw=10**9,
    )
    for policy in POLICIES:
        found = parts(policy.name, huge, a_job(memory=TIB))

        assert all(part >= 0 for part in found.values())
        assert sum(found.values()) < 10**15, policy.name


def test_the_policies_are_the_seven_of_the_seed_and_spread():
    assert [policy.name for policy in POLICIES] == [
        "BestFit",
        "FirstFit",
        "RoundRobin",
        "PowerAware",
        "LocalityAware",
        "CostOptimized",
        "Balanced",
        "Spread",
    ]


@pytest.mark.rows("S2-84")
def test_the_names_of_the_seed_are_exactly_its_seven_policies():
    assert [member.name for member in SchedulingPolicy] == [
        *("BestFit", "FirstFit", "RoundRobin", "PowerAware"),
        *("LocalityAware", "CostOptimized", "Balanced"),
    ]
    assert [member.policy for member in SchedulingPolicy] == list(POLICIES[:7])


def test_without_a_policy_only_the_rank_decides():
    nodes = [a_node(n, free_cpus=1 + n, latency_us=n, jobs=n) for n in range(12)]
    decision = place(a_job(), nodes)

    assert [r.rank_key for r in decision.ranked] == sorted(r.rank_key for r in decision.ranked)
    assert {tuple(r.parts) for r in decision.ranked} == {("unverified",)}
