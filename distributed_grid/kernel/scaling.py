"""How many nodes should be in service: thresholds, limits, and the calm between two changes.

Lives here: the decision. Never here: which nodes, and bringing them in or letting them rest
(`cluster_mesh.scaler`).
Invariant: what is decided is within the limits. Those that are left when some rest are not above
the target, so under constant work the number settles; two changes are a cooldown apart, unless a
limit is broken.
"""

from typing import Final

import msgspec

from distributed_grid.errors import BadValue
from distributed_grid.model import duration
from distributed_grid.model.lending import percent
from distributed_grid.model.milli import WHOLE

NODES_MAX: Final = 10_000


class ScalingPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """When the number of nodes changes."""

    nodes_min: int = 1
    nodes_max: int = 5
    target_milli: int = 700  # So much of what is in service should be in use; more: scale out.
    slack_milli: int = 150  # So far below the target, and further: scale in.
    scale_out_cooldown_ms: int = 120_000
    scale_in_cooldown_ms: int = 300_000

    def __post_init__(self) -> None:
        _expect("nodes_min", self.nodes_min, 1, NODES_MAX)
        _expect("nodes_max", self.nodes_max, self.nodes_min, NODES_MAX)
        _expect("target_milli", self.target_milli, 1, WHOLE)
        _expect("slack_milli", self.slack_milli, 0, self.target_milli)
        for field in ("scale_out_cooldown_ms", "scale_in_cooldown_ms"):
            _expect(field, getattr(self, field), 0, duration.DURATION_MS_MAX)


class Load(msgspec.Struct, frozen=True, kw_only=True):
    """What is in service, and how busy it is."""

    nodes: int
    used_milli: int  # Of the scarcer of cores and GPUs, of all of them together.
    jobs_waiting: int = 0


class Scaling(msgspec.Struct, frozen=True, kw_only=True):
    """How many nodes there should be, and why."""

    before: int
    nodes: int
    why: str

    @property
    def change(self) -> int:
        """Above 0: so many more; below: so many fewer."""
        return self.nodes - self.before


class Scaler:
    """One policy over time; `now_ms` never goes back."""

    def __init__(self, policy: ScalingPolicy) -> None:
        self.policy = policy
        self._seen_ms: int | None = None  # The first look: rest has to be seen to last, too.
        self._changed_ms: int | None = None

    def decide(self, load: Load, now_ms: int) -> Scaling:
        """What to do now. Nothing is remembered of it before `changed`."""
        if self._seen_ms is None:
            self._seen_ms = now_ms
        policy = self.policy
        if load.nodes < policy.nodes_min:
            return _scaling(load, policy.nodes_min, f"{policy.nodes_min} is the least")
        if load.nodes > policy.nodes_max:
            return _scaling(load, policy.nodes_max, f"{policy.nodes_max} is the most")
        told = f"{percent(load.used_milli)} in use, the target is {percent(policy.target_milli)}"
        wanted = self._wanted(load)
        if wanted == load.nodes:
            return _scaling(load, wanted, told)
        if wanted < load.nodes and load.jobs_waiting:
            return _scaling(load, load.nodes, f"{told}, and jobs wait")
        left_ms = self._cooldown_ms(now_ms, is_out=wanted > load.nodes)
        if left_ms > 0:
            waits = f"the last change was just now: {wanted} in {duration.text(left_ms)}"
            return _scaling(load, load.nodes, f"{told}; {waits}")
        return _scaling(load, wanted, told)

    def changed(self, now_ms: int) -> None:
        """Nodes were brought in, or rest."""
        self._changed_ms = now_ms

    def _wanted(self, load: Load) -> int:
        policy = self.policy
        is_over = load.used_milli > policy.target_milli
        is_under = load.used_milli < policy.target_milli - policy.slack_milli
        if not is_over and not is_under:
            return load.nodes
        # Rounded up also on the way in: rounded down, those that are left would be over the target,
        # and the next look would bring back what this one let go.
        fitting = -(-load.nodes * load.used_milli // policy.target_milli)
        return min(max(fitting, policy.nodes_min), policy.nodes_max)

    def _cooldown_ms(self, now_ms: int, *, is_out: bool) -> int:
        """How long until the next change of this kind."""
        policy, since_ms = self.policy, self._changed_ms
        if is_out:
            return 0 if since_ms is None else since_ms + policy.scale_out_cooldown_ms - now_ms
        since_ms = self._seen_ms if since_ms is None else since_ms
        assert since_ms is not None, "it is decided at a look"
        return since_ms + policy.scale_in_cooldown_ms - now_ms


def _scaling(load: Load, nodes: int, why: str) -> Scaling:
    return Scaling(before=load.nodes, nodes=nodes, why=why)


def _expect(field: str, value: int, least: int, most: int) -> None:
    if not least <= value <= most:
        expected = f"{least} to {most}"
        raise BadValue(value, expected=expected, remedy=f"Change {field}", field=field)
