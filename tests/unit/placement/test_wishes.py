"""What do wishes cost, and do they rank without ruling out?"""

import pytest

from distributed_grid.kernel.placement import PowerPolicy, Rules, place
from distributed_grid.kernel.placement.policies import POLICIES
from distributed_grid.kernel.placement.registry import policy_named
from distributed_grid.kernel.placement.wishes import UNVERIFIED_WISHES, WISH_UNIT
from tests.builders import a_job, a_node

GOOD = {
    "node_class": "datacenter",
    "labels": {"zone": "home"},
    "name": "attic",
    "running": ("db",),
    "latency_us": 4_000,
}
WISHES = [
    {"classes": ("datacenter",)},
    {"labels": (("zone", "home"),)},
    {"nodes": ("attic",)},
    {"jobs": ("db",)},
    {"latency_us_max": 4_000},
]
NAMES = ["class", "labels.zone", "nodes", "jobs", "latency_us"]
EVERY_POLICY = pytest.mark.parametrize("policy", [None, *POLICIES], ids=lambda p: p and p.name)


@pytest.mark.rows("S4-91")
@EVERY_POLICY
@pytest.mark.parametrize(("wish", "name"), list(zip(WISHES, NAMES, strict=True)), ids=NAMES)
def test_a_node_that_meets_a_wish_comes_first_under_every_policy(policy, wish, name):
    # In every other respect the second node is the better one.
    met = a_node(15, **{"cpus": 64, "jobs": 9, "price_micro_per_hour": 10**9, **GOOD})
    unmet = a_node(1, cpus=1, price_micro_per_hour=0)

    decision = place(a_job(prefer=wish), [unmet, met], Rules(policy=policy))
    first, second = decision.ranked

    assert (first.id, second.id) == (met.id, unmet.id)
    assert first.parts[f"prefer.{name}"] == 0
    assert second.parts[f"prefer.{name}"] == WISH_UNIT


@pytest.mark.rows("S4-92")
@EVERY_POLICY
@pytest.mark.parametrize(("wish", "name"), list(zip(WISHES, NAMES, strict=True)), ids=NAMES)
def test_a_node_to_be_avoided_if_possible_comes_last_but_comes(policy, wish, name):
    unwanted = a_node(1, **{"cpus": 1, "jobs": 0, **GOOD})
    other = a_node(15, cpus=64, jobs=9, price_micro_per_hour=10**9)

    decision = place(a_job(avoid_if_possible=wish), [unwanted, other], Rules(policy=policy))
    first, second = decision.ranked

    assert (first.id, second.id) == (other.id, unwanted.id)
    assert first.parts[f"avoid_if_possible.{name}"] == 0
    assert second.parts[f"avoid_if_possible.{name}"] == WISH_UNIT


def test_a_preference_never_rules_out():
    only = a_node(node_class="edge")

    assert place(a_job(prefer={"classes": ("datacenter",)}), [only]).responsible == only.id


def test_more_wishes_met_come_before_fewer():
    prefer = {"classes": ("datacenter",), "labels": (("ssd", "true"), ("zone", "home"))}
    two = a_node(1, labels={"ssd": "true", "zone": "home"})
    one = a_node(2, node_class="datacenter")
    none = a_node(3)

    assert place(a_job(prefer=prefer), [none, one, two]).cluster == (two.id, one.id, none.id)


def test_a_wish_for_no_latency_at_all_is_a_wish():
    here, near = a_node(1, latency_us=0), a_node(2, latency_us=1)
    ranked = place(a_job(prefer={"latency_us_max": 0}), [near, here]).ranked

    assert [(r.id, r.score) for r in ranked] == [(here.id, 0), (near.id, WISH_UNIT)]


def test_where_nobody_measured_the_latency_no_wish_for_it_is_met():
    near, unknown = a_node(1, latency_us=1), a_node(2)
    ranked = place(a_job(prefer={"latency_us_max": 10**10}), [unknown, near]).ranked

    assert [r.id for r in ranked] == [near.id, unknown.id]


@EVERY_POLICY
def test_a_node_that_failed_verification_comes_last_whatever_it_offers(policy):
    liar = a_node(1, verification="failed", **GOOD)
    claims, proven = a_node(2), a_node(3, verification="verified")
    prefer = {key: value for wish in WISHES for key, value in wish.items()}

    decision = place(a_job(prefer=prefer), [liar, claims, proven], Rules(policy=policy))

    assert decision.ranked[-1].id == liar.id
    assert decision.ranked[-1].parts["unverified"] == UNVERIFIED_WISHES * WISH_UNIT
    assert {r.parts["unverified"] for r in decision.ranked[:-1]} == {0}


def test_a_relayed_path_is_a_part_of_the_score_where_a_policy_is_named():
    relayed, direct = a_node(1, reachability="relayed"), a_node(2, reachability="direct")
    rules = Rules(policy=policy_named("FirstFit"))

    first, second = place(a_job(), [relayed, direct], rules).ranked

    assert (first.id, first.parts["relayed"]) == (direct.id, 0)
    assert (second.id, second.parts["relayed"]) == (relayed.id, WISH_UNIT)
    assert "relayed" not in place(a_job(), [relayed]).ranked[0].parts


@pytest.mark.rows("S2-87")
def test_ac_comes_before_battery_unless_nobody_cares():
    battery = a_node(1, on_battery=True, battery_percent=90)
    mains = a_node(2)
    policy = policy_named("FirstFit")

    careful = place(a_job(), [battery, mains], Rules(policy=policy))
    careless = place(
        a_job(), [battery, mains], Rules(policy=policy, power=PowerPolicy(prefer_ac_power=False))
    )

    assert [r.id for r in careful.ranked] == [mains.id, battery.id]
    assert careful.ranked[1].parts["battery"] == WISH_UNIT
    assert "battery" not in careless.ranked[0].parts
