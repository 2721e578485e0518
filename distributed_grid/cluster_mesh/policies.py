"""Seed 002's names for how work is distributed.

Lives here: names. Never here: what the policies do (`kernel.placement`).
"""

from enum import Enum

from distributed_grid.kernel.placement.power import PowerPolicy as PowerAwarePolicy
from distributed_grid.kernel.placement.registry import policy_named
from distributed_grid.kernel.placement.rules import Policy

__all__ = ["PowerAwarePolicy", "SchedulingPolicy"]


class SchedulingPolicy(Enum):
    """The seven policies of the seed."""

    BestFit = "BestFit"
    FirstFit = "FirstFit"
    RoundRobin = "RoundRobin"
    PowerAware = "PowerAware"
    LocalityAware = "LocalityAware"
    CostOptimized = "CostOptimized"
    Balanced = "Balanced"

    @property
    def policy(self) -> Policy:
        """The policy itself, as `distributed_grid.place` takes it."""
        return policy_named(self.value)
