"""The mood of a run: which machine, whose work, which faults and how often, all from one seed.

Lives here: the numbers. Never here: what they do (`world`), the jobs themselves (`arrivals`).
Invariant: each seed switches a random part of the faults on, so that some seeds are rough in one
way only: a run with everything at once hides what a single fault would show.
"""

import random
from typing import Final

import msgspec

from distributed_grid.kernel.inventory import Inventory
from distributed_grid.model.bytesize import GIB
from distributed_grid.model.gpus import Gpu
from distributed_grid.model.lending import Hours, SharingPolicy, Terms, Thresholds, YieldTo
from distributed_grid.model.priority import Weights

MINUTE_MS: Final = 60_000
USERS: Final = ("ada", "ben", "cleo", "dina")
PROJECTS: Final = ("", "maps", "tides")
_SHAPES: Final = ((2, 16, 0), (4, 32, 0), (6, 32, 2), (8, 64, 4))  # Cores, GiB, GPUs.
_POLICIES: Final[tuple[SharingPolicy, ...]] = (
    "conservative",
    "balanced",
    "balanced",
    "aggressive",
    "predictive",
)
_YIELDS: Final[tuple[YieldTo, ...]] = ("suspend", "suspend", "stop")


class Mood(msgspec.Struct, frozen=True, kw_only=True):
    """One run. A rate of 0 switches a fault off; `_every_ms` is the mean time between two."""

    seed: int
    machine: Inventory
    terms: Terms
    weights: Weights
    ageing_ms: int
    span_ms: int  # How long things come and fail; then what is left must drain.
    jobs: int
    is_backlogged: bool = False  # Users who always have medium work waiting, and nothing else.
    shared_milli: int = 0  # Of the jobs, in thousandths, as the following.
    urgent_milli: int = 0
    array_milli: int = 0
    short_milli: int = 0
    dated_milli: int = 0  # With a start, a deadline or a timeout.
    stubborn_milli: int = 0  # Must not be stopped.
    failing_milli: int = 0
    cancelled_milli: int = 0
    crash_milli: int = 0  # Of the agent's steps.
    keeper_dies_every_ms: int = 0
    owner_comes_every_ms: int = 0
    owner_pauses_every_ms: int = 0
    sampler_dies_every_ms: int = 0
    bookings: int = 0


def mood_of(seed: int) -> Mood:
    """The mood of a seed; every fifth is about shares alone."""
    rng = random.Random(f"{seed}/mood")
    if seed % 5 == 4:
        return _backlogged(seed, rng)

    def some(most: int) -> int:
        return rng.randint(1, most) if rng.random() < 0.5 else 0

    def rarely(least_ms: int, most_ms: int) -> int:
        return rng.randint(least_ms, most_ms) if rng.random() < 0.5 else 0

    return Mood(
        seed=seed,
        machine=_machine(*rng.choice(_SHAPES)),
        terms=_terms(rng),
        weights=_weights(rng),
        ageing_ms=rng.choice((1, 2, 4)) * MINUTE_MS,
        span_ms=rng.randint(4, 8) * MINUTE_MS,
        jobs=rng.randint(15, 35),
        shared_milli=rng.choice((0, 200, 500, 800)),
        urgent_milli=rng.choice((0, 50, 200)),
        array_milli=some(300),
        short_milli=some(300),
        dated_milli=some(300),
        stubborn_milli=some(200),
        failing_milli=some(300),
        cancelled_milli=some(150),
        crash_milli=some(40),
        keeper_dies_every_ms=rarely(2 * MINUTE_MS, 6 * MINUTE_MS),
        owner_comes_every_ms=rarely(MINUTE_MS, 3 * MINUTE_MS),
        owner_pauses_every_ms=rarely(MINUTE_MS, 4 * MINUTE_MS),
        sampler_dies_every_ms=rarely(2 * MINUTE_MS, 6 * MINUTE_MS),
        bookings=rng.choice((0, 0, 1, 2)),
    )


def _backlogged(seed: int, rng: random.Random) -> Mood:
    cores, gib, gpus = rng.choice(_SHAPES[1:])
    return Mood(
        seed=seed,
        machine=_machine(cores, gib, gpus),
        terms=Terms(),
        weights=_weights(rng),
        ageing_ms=600 * MINUTE_MS,  # Those who are lifted are served by age.
        span_ms=6 * MINUTE_MS,
        jobs=14 * cores,  # Nearly twice what can run in that time.
        is_backlogged=True,
        failing_milli=rng.choice((0, 100)),
    )


def _machine(cores: int, gib: int, gpus: int) -> Inventory:
    return Inventory(
        cores=tuple((core, core * 2 // cores) for core in range(cores)),
        cpu_milli=cores * 1_000,
        memory_bytes=gib * GIB,
        storage_bytes=100 * GIB,
        gpus=tuple(
            Gpu(device=f"gpu-{number}", model="H100", memory_bytes=80 * GIB)
            for number in range(gpus)
        ),
    )


def _terms(rng: random.Random) -> Terms:
    opens_minute = rng.choice((0, 0, 0, 3))
    return Terms(
        policy=rng.choice(_POLICIES),
        check_interval_ms=rng.choice((10_000, 30_000)),
        monitoring_interval_ms=rng.choice((5_000, 10_000)),
        offer_expiry_ms=rng.choice((60_000, 120_000)),
        offers_max=20,
        thresholds=Thresholds(cpu_min_milli=0),
        reserved_cpu_milli=rng.choice((0, 0, 500)),
        hours=Hours(from_minute=opens_minute, to_minute=opens_minute and 23 * 60),
        quiet_ms=rng.choice((None, 0, 0)),
        yield_to=rng.choice(_YIELDS),
        suspended_ms_max=rng.choice((20_000, 60_000, 300_000)),
        allocation_ms_max=rng.choice((0, 0, 45_000)),
        allow_urgent=rng.random() < 0.5,
        allow_no_preempt=rng.random() < 0.5,
    )


def _weights(rng: random.Random) -> Weights:
    return Weights(
        users={user: rng.choice((1_000, 1_000, 2_000, 3_000)) for user in USERS},
        projects={project: rng.choice((1_000, 2_000)) for project in PROJECTS if project},
    )
