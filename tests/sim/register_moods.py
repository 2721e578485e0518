"""What may go wrong in a small world of at-most-once jobs: a seed chooses which of it, how often.

Lives here: the switches. Never here: doing it (`register_world`).
"""

import random
from typing import NamedTuple

SECOND_US = 1_000_000


class Mood(NamedTuple):
    """Rates are events in a hundred seconds of the whole world; milli are chances in a thousand."""

    seed: int = 0
    nodes: int = 3
    span_us: int = 90 * SECOND_US  # With faults; then everything heals.
    jobs: int = 1
    size: int = 3  # Of the first set.
    work_us: int = 20 * SECOND_US
    fail_milli: int = 0  # Attempts that end badly, and soon.
    drift_milli: int = 0
    delay_us: int = 20_000  # Up to; so messages overtake each other.
    loss_milli: int = 0
    twice_milli: int = 0
    late_milli: int = 0  # By seconds, not milliseconds.
    sync_us: int = 2_000
    crash: int = 0  # Of a machine, its disk stays.
    agent_crash: int = 0  # The keeper and its processes go on.
    amnesia: int = 0  # A crash, and an empty disk.
    old_disk: int = 0  # A crash, and the disk as it was some time before.
    pause: int = 0  # The whole machine sleeps; its clock goes on.
    stall: int = 0  # The agent alone stands still.
    split: int = 0  # In two halves, or one node alone, or one way only.
    takeover: int = 0  # Without a reason, by some at once.
    replace: int = 0  # An attempt, though its node lives.
    set_change: int = 0
    spells_s: tuple[float, ...] = (1,)  # How long things are down, cut, asleep.
    spite_milli: int = 30  # That whoever votes, or asks for votes, fails just then.
    is_stubborn: bool = False  # Who is outbid often goes on, though the other lives.


RATES = (
    "crash", "agent_crash", "amnesia", "old_disk", "pause", "stall", "split", "takeover",
    "replace", "set_change",
)  # fmt: skip


def mood_of(seed: int) -> Mood:
    """Much of something in some runs finds more than a little of everything in each."""
    rng = random.Random(f"register mood {seed}")
    nodes = rng.choice((3, 3, 4, 4, 5, 5, 6, 7))
    rates = {
        name: rng.choice((2, 5, 12) if name not in {"amnesia", "old_disk"} else (2, 5))
        for name in RATES
        if rng.random() < 0.5
    }
    return Mood(
        seed=seed,
        nodes=nodes,
        span_us=rng.choice((60, 120, 240)) * SECOND_US,
        fail_milli=rng.choice((0, 300, 950, 950)),
        spells_s=rng.choice(((0.05, 0.5), (0.05, 0.5, 3, 8, 11, 25), (1.5, 4, 8), (0.5, 11, 25))),
        spite_milli=rng.choice((0, 10, 30, 60)),
        is_stubborn=rng.random() < 0.3,
        jobs=rng.choice((1, 1, 2)),
        size=rng.choice((1, 3, 3, 3, 3, 5)),
        work_us=rng.choice((8, 25, 60)) * SECOND_US,
        drift_milli=rng.choice((0, 20, 20)),
        delay_us=rng.choice((20_000, 200_000, 1_000_000, 2_500_000)),
        loss_milli=rng.choice((0, 0, 20, 100, 300)),
        twice_milli=rng.choice((0, 20, 100)),
        late_milli=rng.choice((0, 10, 50)),
        sync_us=rng.choice((500, 2_000, 20_000, 200_000)),
        **rates,
    )
