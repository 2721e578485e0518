"""Seed 002's names for how work is distributed.

Lives here: names. Never here: what the policies do (`kernel.placement`).
"""

from enum import Enum
from typing import Self

from distributed_grid.errors import UnknownName
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

    @classmethod
    def named(cls, word: "SchedulingPolicy | str") -> Self:
        """The policy of this name, in any spelling: `BestFit`, `best-fit`."""
        plain = _plain(word.value if isinstance(word, SchedulingPolicy) else str(word))
        for policy in cls:
            if _plain(policy.value) == plain:
                return policy
        raise UnknownName("policy", str(word), known=[policy.value for policy in cls])

    @property
    def policy(self) -> Policy:
        """The policy itself, as `distributed_grid.place` takes it."""
        return policy_named(self.value)


def _plain(name: str) -> str:
    return name.lower().replace("-", "").replace("_", "")
