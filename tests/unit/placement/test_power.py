"""Do batteries and heat keep work away, as the owner says?"""

import pytest

from distributed_grid.errors import BadValue
from distributed_grid.kernel.placement import PowerPolicy, Rules, place
from tests.builders import a_job, a_node


def takes(node, job=None, **power):
    return place(job or a_job(), [node], Rules(power=PowerPolicy(**power))).responsible is not None


def test_the_defaults_are_20_percent_ac_first_and_85_degrees():
    policy = PowerPolicy()

    assert policy.battery_percent_min == 20
    assert policy.prefer_ac_power is True
    assert policy.temperature_centi_max == 8_500


@pytest.mark.rows("S2-17", "S2-86")
@pytest.mark.parametrize(("level", "taken"), [(19, False), (20, True), (100, True), (None, False)])
def test_nothing_is_placed_on_a_battery_below_its_minimum(level, taken):
    assert takes(a_node(on_battery=True, battery_percent=level)) is taken


@pytest.mark.rows("S2-86")
def test_the_minimum_is_the_owners():
    node = a_node(on_battery=True, battery_percent=49)

    assert takes(node, battery_percent_min=49)
    assert not takes(node, battery_percent_min=50)
    assert not takes(a_node(on_battery=True), battery_percent_min=0)


def test_the_level_of_a_battery_that_is_not_in_use_does_not_matter():
    assert takes(a_node(on_battery=False, battery_percent=1))


@pytest.mark.rows("S2-17")
def test_a_job_that_is_not_battery_safe_never_runs_on_battery():
    job = a_job(battery_safe=False)
    (refusal,) = place(job, [a_node(on_battery=True, battery_percent=100)]).refused

    assert [(r.what, r.wanted, r.has, r.kind) for r in refusal.reasons] == [
        ("on_battery", False, True, "policy")
    ]
    assert takes(a_node(), job)


@pytest.mark.rows("S2-88")
@pytest.mark.parametrize(
    ("centi", "taken"), [(8_500, True), (8_501, False), (None, True), (-2_000, True)]
)
def test_a_node_hotter_than_the_limit_is_not_used(centi, taken):
    assert takes(a_node(temperature_centi=centi)) is taken
    assert takes(a_node(temperature_centi=8_001), temperature_centi_max=8_000) is False


@pytest.mark.rows("S2-85", "S2-86", "S2-87", "S2-88", "S2-89")
def test_the_builder_of_the_seed_builds_the_policy_of_the_seed():
    policy = (
        PowerPolicy.builder().min_battery_level(30).prefer_ac_power(False).thermal_limit(80).build()
    )

    assert policy == PowerPolicy(
        battery_percent_min=30, prefer_ac_power=False, temperature_centi_max=8_000
    )
    assert PowerPolicy.builder().build() == PowerPolicy()


@pytest.mark.parametrize("percent", [-1, 101])
def test_a_battery_level_is_a_percentage(percent):
    with pytest.raises(BadValue, match="0 to 100 percent"):
        PowerPolicy.builder().min_battery_level(percent)


@pytest.mark.parametrize("celsius", [-1, 201])
def test_a_thermal_limit_is_a_temperature_that_machines_have(celsius):
    with pytest.raises(BadValue, match="0 to 200 degrees"):
        PowerPolicy.builder().thermal_limit(celsius)
