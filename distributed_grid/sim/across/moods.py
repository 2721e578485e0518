"""The mood of a run: how many machines, whose work, which faults and how often, all from one seed.

Lives here: the numbers. Never here: what they do (`faults`, `world`), the jobs (`arrivals`).
Invariant: each seed switches a random part of the faults on, so that some seeds are rough in one
way only: a run with everything at once hides what a single fault would show.
"""

import random

import msgspec

from distributed_grid.sim.mesh.timeline import SECOND_US


class Mood(msgspec.Struct, frozen=True, kw_only=True):
    """One run. A rate of 0 switches a fault off; `_every_us` is the mean time between two."""

    seed: int
    nodes: int
    span_us: int  # How long things come and fail; then what was acknowledged must end.
    jobs: int
    cores: int = 0  # Of each machine; 0: chance decides.
    # The network
    delay_us: int = 1_000
    jitter_us: int = 2_000  # And up to so much more, which reorders.
    loss_milli: int = 0
    duplicate_milli: int = 0
    late_milli: int = 0  # Of the messages: seconds late.
    partition_every_us: int = 0
    lone_every_us: int = 0  # One against all others.
    one_way_every_us: int = 0
    flap_every_us: int = 0  # A partition that comes and goes.
    link_every_us: int = 0  # Two machines lose sight of each other.
    false_verdict_every_us: int = 0
    stale_us: int = SECOND_US  # How old what is known of others may be.
    hidden_milli: int = 0  # Of the machines: nobody can dial them.
    laptop_milli: int = 0
    # Machines
    crash_every_us: int = 0  # Of an agent; the keeper and its processes go on.
    reboot_every_us: int = 0  # Of a machine, with all that runs there.
    keeper_every_us: int = 0
    restart_every_us: int = 0  # As told before.
    losses: int = 0  # Machines that never come back.
    amnesia_every_us: int = 0
    old_disk_every_us: int = 0
    full_disk_every_us: int = 0
    torn_every_us: int = 0
    crash_milli: int = 0  # Of the saves.
    sync_us: int = 0  # At most, for one sync.
    pause_every_us: int = 0  # A lid is closed.
    freeze_every_us: int = 0  # An agent is stopped; its keeper goes on.
    drift_ppm: int = 0
    owner_every_us: int = 0  # Comes back to the own machine.
    drain_every_us: int = 0  # The owner wants the machine to be left, for a while.
    latecomers: int = 0
    # Work: thousandths of the jobs
    array_milli: int = 0
    once_milli: int = 0
    after_milli: int = 0
    failing_milli: int = 0
    cancelled_milli: int = 0
    picky_milli: int = 0  # Runs on one machine only, not the own.
    large_milli: int = 0  # Does not fit beside another.
    shared_milli: int = 0
    urgent_milli: int = 0
    gang_milli: int = 0


def mood_of(seed: int) -> Mood:
    """The mood of a seed."""
    rng = random.Random(f"{seed}/across mood")

    def rarely(mean_s: int) -> int:
        return rng.randint(mean_s // 2, 2 * mean_s) * SECOND_US if rng.random() < 0.25 else 0

    def some(*choices: int) -> int:
        return rng.choice(choices) if rng.random() < 0.3 else 0

    return Mood(
        seed=seed,
        nodes=rng.choice((3, 3, 4, 5, 5, 5, 6, 7, 9)),
        span_us=rng.randint(15, 40) * SECOND_US,
        jobs=rng.randint(6, 16),
        delay_us=rng.choice((500, 1_000, 20_000)),
        jitter_us=rng.choice((0, 2_000, 60_000)),
        loss_milli=some(20, 100, 300),
        duplicate_milli=some(20, 200),
        late_milli=some(10, 50),
        partition_every_us=rarely(12),
        lone_every_us=rarely(12),
        one_way_every_us=rarely(12),
        flap_every_us=rarely(15),
        link_every_us=rarely(8),
        false_verdict_every_us=rarely(6),
        stale_us=rng.choice((1, 1, 5)) * SECOND_US,
        hidden_milli=some(200, 400),
        laptop_milli=some(200, 500),
        crash_every_us=rarely(8),
        reboot_every_us=rarely(12),
        keeper_every_us=rarely(12),
        restart_every_us=rarely(15),
        losses=some(1, 1, 2),
        amnesia_every_us=rarely(20),
        old_disk_every_us=rarely(20),
        full_disk_every_us=rarely(15),
        torn_every_us=rarely(12),
        crash_milli=some(5, 20),
        sync_us=some(1_000, 20_000, 400_000),
        pause_every_us=rarely(12),
        freeze_every_us=rarely(12),
        drift_ppm=some(500, 20_000),
        owner_every_us=rarely(15),
        latecomers=some(1, 2),
        array_milli=some(100, 300),
        once_milli=some(200, 500, 1_000),
        after_milli=some(100, 300),
        failing_milli=some(100, 300),
        cancelled_milli=some(100, 250),
        picky_milli=rng.choice((0, 300, 600)),  # What runs elsewhere is what this is about.
        large_milli=rng.choice((0, 200, 400)),
        shared_milli=some(200, 600),
        urgent_milli=some(50, 200),
        gang_milli=some(100, 300),
        drain_every_us=rarely(15),
    )
