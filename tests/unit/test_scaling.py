"""How many nodes should be in service: thresholds, limits, cooldowns."""

import pytest

from distributed_grid.errors import BadValue
from distributed_grid.kernel.scaling import Load, Scaler, ScalingPolicy

MINUTE_MS = 60_000
POLICY = ScalingPolicy()


def decided(used_milli: int, *, nodes: int = 4, policy: ScalingPolicy = POLICY, waiting: int = 0):
    """What a policy wants once everything has been calm for long."""
    scaler = Scaler(policy)
    load = Load(nodes=nodes, used_milli=used_milli, jobs_waiting=waiting)
    scaler.decide(load, 0)
    return scaler.decide(load, 10 * MINUTE_MS)


@pytest.mark.rows("S0-82")
@pytest.mark.parametrize(
    ("used_milli", "wanted"),
    [
        (1_000, 5),  # ceil(4 * 100 / 70) would be 6, and 5 is the most.
        (701, 5),
        (700, 4),
        (550, 4),  # Fifteen points below the target are not more than fifteen.
        (549, 4),  # 3.14 nodes would do: three would be too few.
        (525, 3),
        (349, 2),
        (1, 1),
        (0, 1),
    ],
)
def test_thresholds_and_limits(used_milli, wanted):
    assert decided(used_milli).nodes == wanted


@pytest.mark.rows("S0-82")
def test_the_way_out_needs_no_patience_the_first_time_and_the_way_in_does():
    busy, idle = Load(nodes=2, used_milli=1_000), Load(nodes=3, used_milli=0)
    scaler = Scaler(POLICY)
    assert scaler.decide(busy, 0).change == 1

    scaler = Scaler(POLICY)
    assert scaler.decide(idle, 0).change == 0
    assert scaler.decide(idle, 5 * MINUTE_MS - 1).change == 0
    assert scaler.decide(idle, 5 * MINUTE_MS).change == -2


@pytest.mark.rows("S0-82")
def test_two_changes_are_a_cooldown_apart():
    busy, idle = Load(nodes=2, used_milli=1_000), Load(nodes=3, used_milli=0)
    scaler = Scaler(POLICY)
    scaler.decide(busy, 0)
    scaler.changed(MINUTE_MS)
    held = scaler.decide(busy, 3 * MINUTE_MS - 1_000)
    assert (held.change, held.why) == (
        0,
        "100 % in use, the target is 70 %; the last change was just now: 3 in 1s",
    )
    assert scaler.decide(busy, 3 * MINUTE_MS).change == 1
    assert scaler.decide(idle, 6 * MINUTE_MS - 1).change == 0
    assert scaler.decide(idle, 6 * MINUTE_MS).change == -2


@pytest.mark.rows("S0-82")
def test_a_limit_waits_for_nothing():
    policy = ScalingPolicy(nodes_min=2, nodes_max=3)
    scaler = Scaler(policy)
    scaler.changed(0)
    few = scaler.decide(Load(nodes=1, used_milli=0), 1)
    many = scaler.decide(Load(nodes=9, used_milli=1_000), 1)

    assert (few.nodes, few.why) == (2, "2 is the least")
    assert (many.nodes, many.why) == (3, "3 is the most")


def test_nobody_rests_while_jobs_wait():
    assert decided(0, waiting=1).change == 0
    assert decided(0, waiting=1).why == "0 % in use, the target is 70 %, and jobs wait"
    assert decided(1_000, waiting=1).change == 1


def test_nothing_in_service_is_brought_to_the_least():
    assert decided(0, nodes=0).nodes == 1


@pytest.mark.parametrize(
    "wrong",
    [
        {"nodes_min": 0},
        {"nodes_min": 6},
        {"nodes_max": 10_001},
        {"target_milli": 0},
        {"target_milli": 1_001},
        {"slack_milli": 701},
        {"slack_milli": -1},
        {"scale_out_cooldown_ms": -1},
        {"scale_in_cooldown_ms": -1},
    ],
)
def test_what_cannot_be_is_refused_by_name(wrong):
    with pytest.raises(BadValue) as refused:
        ScalingPolicy(**wrong)
    assert refused.value.field in {*wrong, "nodes_max"}
