"""Scaling settles, whatever the policy and the work."""

import itertools

from hypothesis import example, given
from hypothesis import strategies as st

from distributed_grid.kernel.scaling import Load, Scaler, ScalingPolicy

STEP_MS = 10_000


@st.composite
def policies(draw) -> ScalingPolicy:
    least = draw(st.integers(1, 20))
    target = draw(st.integers(1, 1_000))
    return ScalingPolicy(
        nodes_min=least,
        nodes_max=draw(st.integers(least, 40)),
        target_milli=target,
        slack_milli=draw(st.integers(0, target)),
        scale_out_cooldown_ms=draw(st.integers(0, 200_000)),
        scale_in_cooldown_ms=draw(st.integers(0, 400_000)),
    )


def load(nodes: int, work_milli: int) -> Load:
    """So much work, in thousandths of a node, on so many of them."""
    return Load(nodes=nodes, used_milli=min(-(-work_milli // nodes), 1_000) if nodes else 0)


@example(ScalingPolicy(), 5, 2_500)  # Three would be too few, and a fourth would come back.
@given(policies(), st.integers(0, 45), st.integers(0, 50_000))
def test_under_constant_work_the_number_settles_within_its_limits(policy, nodes, work_milli):
    scaler, now_ms, seen = Scaler(policy), 0, [nodes]
    for _ in range(400):
        decided = scaler.decide(load(nodes, work_milli), now_ms)
        if decided.change:
            scaler.changed(now_ms)
            nodes = decided.nodes
            assert policy.nodes_min <= nodes <= policy.nodes_max
            seen.append(nodes)
        now_ms += STEP_MS
    settled = scaler.decide(load(nodes, work_milli), now_ms)

    assert settled.change == 0
    assert load(nodes, work_milli).used_milli <= policy.target_milli or nodes == policy.nodes_max
    # It goes one way: what was brought in is not let go again, nor the other way round.
    within = seen if policy.nodes_min <= seen[0] <= policy.nodes_max else seen[1:]
    ups = [after > before for before, after in itertools.pairwise(within)]
    assert len(set(ups)) < 2


@given(policies(), st.lists(st.tuples(st.integers(0, 45), st.integers(0, 1_000)), max_size=60))
def test_two_changes_within_the_limits_are_a_cooldown_apart(policy, looks):
    scaler, last_ms = Scaler(policy), None
    for number, (nodes, used_milli) in enumerate(looks):
        now_ms = number * STEP_MS
        decided = scaler.decide(Load(nodes=nodes, used_milli=used_milli), now_ms)
        if not decided.change:
            continue
        is_forced = not policy.nodes_min <= nodes <= policy.nodes_max
        if last_ms is not None and not is_forced:
            is_out = decided.change > 0
            pause_ms = policy.scale_out_cooldown_ms if is_out else policy.scale_in_cooldown_ms
            assert now_ms - last_ms >= pause_ms
        scaler.changed(now_ms)
        last_ms = now_ms


@given(policies(), st.integers(1, 45), st.integers(0, 1_000), st.integers(0, 1_000))
def test_more_use_never_wants_fewer_nodes(policy, nodes, one, other):
    least, most = sorted((one, other))
    wanted = []
    for used_milli in (least, most):
        scaler = Scaler(policy)
        looked = Load(nodes=nodes, used_milli=used_milli)
        scaler.decide(looked, 0)
        wanted.append(scaler.decide(looked, 10**9).nodes)

    assert wanted[0] <= wanted[1]
