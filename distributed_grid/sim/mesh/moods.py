"""The mood of a run: how many machines, how they watch each other, which faults, all from one seed.

Lives here: the numbers. Never here: what they do (`faults`, `world`).
Invariant: each seed switches a random part of the faults on, so that some seeds are rough in one
way only: a run with everything at once hides what a single fault would show.

A run costs machines times seconds times heartbeats. So the larger a mesh is here, the slower it
watches: the rules are those of the presets, with every time multiplied.
"""

import random
from typing import Final, Literal

import msgspec

from distributed_grid.kernel.mesh.dialling import Backoff
from distributed_grid.kernel.mesh.liveness import LAN, WAN, LivenessRules
from distributed_grid.kernel.mesh.rules import MeshRules
from distributed_grid.sim.mesh.timeline import SECOND_US

Pace = Literal["lan", "wan", "slow"]
Act = Literal["none", "kill", "restart", "pause", "asymmetric", "clone", "years"]
SLOWER: Final = 5  # So much slower than LAN does the slow pace watch.
PAUSE_US: Final = 60 * SECOND_US
_SIZES: Final[tuple[tuple[Pace, int, int], ...]] = (
    ("lan", 5, 6),
    ("lan", 5, 8),
    ("wan", 5, 8),
    ("slow", 5, 7),
    ("slow", 6, 9),
    ("slow", 8, 12),
)
_SPANS_US: Final[dict[Pace, int]] = {"lan": 1_000_000, "wan": 2_000_000, "slow": 2_500_000}
_LARGE_EVERY: Final = 20  # One mesh in so many is larger, and suffers for a shorter time.
_LARGE_SPAN_US: Final = 700_000
_SHORT_ACTS: Final[tuple[Act, ...]] = ("none", "kill", "restart", "clone")
# Being deaf is told from being dead after four times the limit, which is long for the slow ones;
# and a minute is long for those who watch closely.
_ACTS: Final[dict[Pace, tuple[Act, ...]]] = {
    "lan": ("kill", "restart", "clone", "asymmetric"),
    "wan": ("kill", "restart", "restart", "clone", "clone", "pause"),
    "slow": ("kill", "restart", "clone", "pause", "years"),
}


class Mood(msgspec.Struct, frozen=True, kw_only=True):
    """One run. A rate of 0 switches a fault off; `_every_us` is the mean time between two."""

    seed: int
    nodes: int
    pace: Pace
    span_us: int  # How long things fail; then the mesh must heal.
    connections_max: int = 50
    backoff_most_us: int = 5 * SECOND_US
    delay_us: int = 1_000
    jitter_us: int = 2_000
    loss_milli: int = 0
    duplicate_milli: int = 0
    partition_every_us: int = 0
    one_way_every_us: int = 0
    asymmetric: int = 0  # Pairs, one of which never hears the other.
    crash_every_us: int = 0
    amnesia_every_us: int = 0
    old_disk_every_us: int = 0
    full_disk_every_us: int = 0
    torn_every_us: int = 0
    crash_milli: int = 0  # Of the saves.
    pause_every_us: int = 0
    drift_ppm: int = 0
    jump_every_us: int = 0
    old_protocol_milli: int = 0  # Of the machines.
    hidden_milli: int = 0
    move_every_us: int = 0  # Another address.
    stranger_every_us: int = 0
    forger_every_us: int = 0  # A member lies about others.
    kicks: int = 0
    leaves: int = 0
    latecomers: int = 0
    act: Act = "none"  # At the end, on a calm mesh.


def mood_of(seed: int) -> Mood:
    """The mood of a seed."""
    rng = random.Random(f"{seed}/mesh mood")
    pace, least, most = rng.choice(_SIZES)
    if is_large := seed % _LARGE_EVERY == _LARGE_EVERY - 1:
        pace, least, most = "slow", 13, 30
    nodes = rng.randint(least, most)

    def rarely(mean_s: int) -> int:
        return rng.randint(mean_s // 2, 2 * mean_s) * SECOND_US if rng.random() < 0.3 else 0

    def some(*choices: int) -> int:
        return rng.choice(choices) if rng.random() < 0.3 else 0

    is_sparse = nodes > 9 and rng.random() < 0.5
    return Mood(
        seed=seed,
        nodes=nodes,
        pace=pace,
        span_us=rng.randint(8, 13) * (_LARGE_SPAN_US if is_large else _SPANS_US[pace]),
        connections_max=6 if is_sparse else 50,
        backoff_most_us=rng.choice((3, 5, 20)) * SECOND_US,
        delay_us=rng.choice((500, 1_000, 20_000)),
        jitter_us=rng.choice((0, 2_000, 60_000)),
        loss_milli=some(50, 200) if is_sparse else some(50, 200, 400),
        duplicate_milli=some(20, 200),
        partition_every_us=rarely(12),
        one_way_every_us=rarely(12),
        asymmetric=some(1, 2),
        crash_every_us=rarely(8),
        amnesia_every_us=rarely(15),
        old_disk_every_us=rarely(15),
        full_disk_every_us=rarely(15),
        torn_every_us=rarely(10),
        crash_milli=some(5, 30),
        pause_every_us=rarely(10),
        drift_ppm=some(50, 500),
        jump_every_us=rarely(15),
        old_protocol_milli=some(300, 1_000),
        hidden_milli=some(100, 300),
        move_every_us=rarely(12),
        stranger_every_us=rarely(3),
        forger_every_us=rarely(3),
        kicks=some(1, 2),
        leaves=some(1, 2),
        latecomers=some(1, 2, 3),
        act=rng.choice(_ACTS[pace] if nodes <= 8 else _SHORT_ACTS),
    )


def liveness_of(pace: Pace) -> LivenessRules:
    """How closely everyone is watched."""
    if pace == "slow":
        times = {
            name: getattr(LAN, name) * SLOWER
            for name in LAN.__struct_fields__
            if name.endswith("_us")
        }
        return msgspec.structs.replace(LAN, **times)
    return LAN if pace == "lan" else WAN


def rules_of(mood: Mood) -> MeshRules:
    """What the owners of these machines have set."""
    pace = {"lan": 1, "wan": 3, "slow": SLOWER}[mood.pace]
    return MeshRules(
        liveness=liveness_of(mood.pace),
        connections_max=mood.connections_max,
        gossip_us=200_000 * pace,
        backoff=Backoff(most_us=mood.backoff_most_us),
    )
