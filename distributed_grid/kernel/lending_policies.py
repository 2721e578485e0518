"""What the modes and policies of lending mean, in numbers.

Lives here: the one table; `docs/concepts/lending.md` shows the same. Never here: applying it
(`lending`).
"""

from typing import Final

import msgspec

from distributed_grid.model.lending import Mode, SharingPolicy, Terms


class ModeRule(msgspec.Struct, frozen=True):
    """What a mode does."""

    lends: bool  # Makes offers.
    gives_way: bool  # Borrowed work yields to the owner's load and keys.


class PolicyRule(msgspec.Struct, frozen=True, kw_only=True):
    """How freely a policy lends."""

    part_milli: int  # Of what is free beyond the reserve.
    counts_used_cores: bool  # Cores that the owner's programs use are not lent.
    quiet_ms: int  # No key, no terminal input for so long; 0: not looked at.
    is_wary: bool  # Gives way as soon as the machine is not idle, not only under pressure.
    suspended_ms_max: int  # Then borrowed work is stopped.
    learns: bool  # Does not offer in hours of the week in which the owner is usually active.


MODES: Final[dict[Mode, ModeRule]] = {
    "offload_only": ModeRule(lends=False, gives_way=False),
    "share_and_offload": ModeRule(lends=True, gives_way=False),
    "dynamic_balancing": ModeRule(lends=True, gives_way=True),
}
# `balanced`, the default, does not look at keys: whoever types `grid run-shared` at his own
# machine would otherwise wait for himself to go away.
POLICIES: Final[dict[SharingPolicy, PolicyRule]] = {
    "conservative": PolicyRule(
        part_milli=500,
        counts_used_cores=True,
        quiet_ms=600_000,
        is_wary=True,
        suspended_ms_max=60_000,
        learns=False,
    ),
    "balanced": PolicyRule(
        part_milli=1_000,
        counts_used_cores=True,
        quiet_ms=0,
        is_wary=False,
        suspended_ms_max=600_000,
        learns=False,
    ),
    # Borrowed work runs at the lowest niceness, so that a core that both want is the owner's.
    "aggressive": PolicyRule(
        part_milli=1_000,
        counts_used_cores=False,
        quiet_ms=0,
        is_wary=False,
        suspended_ms_max=3_600_000,
        learns=False,
    ),
    "predictive": PolicyRule(
        part_milli=1_000,
        counts_used_cores=True,
        quiet_ms=120_000,
        is_wary=False,
        suspended_ms_max=600_000,
        learns=True,
    ),
}


def quiet_ms(terms: Terms) -> int:
    """How long no key must have been touched: the owner's word, else the policy's."""
    told = terms.quiet_ms
    return POLICIES[terms.policy].quiet_ms if told is None else told


def suspended_ms_max(terms: Terms) -> int:
    """How long work stays suspended: the owner's word, else the policy's."""
    told = terms.suspended_ms_max
    return POLICIES[terms.policy].suspended_ms_max if told is None else told
