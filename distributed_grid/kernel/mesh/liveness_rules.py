"""How patient the watching of others is, and what it comes to.

Lives here: the presets with their reasons, verdicts as values, their words. Never here: watching
(`liveness`).
"""

from typing import Final, Literal

import msgspec

from distributed_grid.model.ids import NodeId

Health = Literal["alive", "suspect", "dead"]


class LivenessRules(msgspec.Struct, frozen=True, kw_only=True):
    """Times in microseconds. The ratios matter: see the model in `tests/liveness_model.py`."""

    period_us: int = 200_000
    fanout: int = 4  # Peers in a period; with fewer the period shrinks, and the rate is the same.
    suspect_us: int = 1_600_000
    dead_us: int = 2_600_000
    probe_us: int = 200_000
    relays: int = 3  # Others through whom a suspect is probed.
    confirm_us: int = 3_000_000  # A linked peer that gave no sign itself for so long is asked,
    relay_us: int = 4_000_000  # for so long: through others too,
    trust_us: int = 10_000_000  # for so long: what others say of it no longer counts.
    everyone: int = 100  # Up to so many nodes each watches all; beyond, a bounded few.
    observers: int = 8  # These few; with more each would hear of a node less often.


LAN: Final = LivenessRules()
WAN: Final = LivenessRules(
    period_us=500_000,
    suspect_us=5_000_000,
    dead_us=8_000_000,
    probe_us=500_000,
    confirm_us=7_500_000,
    relay_us=10_000_000,
    trust_us=25_000_000,
)


class Vital(msgspec.Struct, frozen=True):
    """What is believed of a node."""

    health: Health
    since_us: int
    why: str
    age_us: int  # Since it last spoke, as far as is known.


class Change(msgspec.Struct, frozen=True):
    """A belief that changed."""

    node: NodeId
    health: Health
    why: str
    since_us: int
    was: Health


GOODBYE: Final = "it said goodbye"  # Why a node is gone that was told to stop.


def seconds(duration_us: int) -> str:
    """A duration for people: `2.6 s`."""
    tenths = duration_us // 100_000
    return f"{tenths // 10}.{tenths % 10} s"


def why_suspect(age_us: int, *, is_doubted: bool) -> str:
    """Why a node is suspected."""
    if is_doubted:
        return f"no answer for {seconds(age_us)}, though others say that they hear it"
    return f"silent for {seconds(age_us)}; it is being probed"


def why_dead(age_us: int, asked: int, *, is_doubted: bool) -> str:
    """Why a node is given up."""
    others = {0: "nobody else could be asked", 1: "1 other could not reach it"}.get(
        asked, f"{asked} others could not reach it"
    )
    if is_doubted:
        return f"no answer for {seconds(age_us)}; {others}"
    return f"silent for {seconds(age_us)}; {others}"
