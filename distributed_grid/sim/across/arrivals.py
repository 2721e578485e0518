"""Who asks for what, where and when, and how long it will take, which only the world knows.

Lives here: the jobs of one mood. Never here: what becomes of them (`world`), who asks (`people`).
Invariant: whatever is asked for fits some machine that is never lost, so everything can end.
"""

import random
from collections.abc import Sequence
from typing import Final

import msgspec

from distributed_grid.model.bytesize import GIB
from distributed_grid.model.ids import JobId
from distributed_grid.model.job import VOTERS, VOTERS_MAX, After, Array, JobSpec, Where, Work
from distributed_grid.model.priority import Priority
from distributed_grid.model.resources import Request
from distributed_grid.sim.across.moods import Mood
from distributed_grid.sim.arrivals import Life

LONGEST_MS: Final = 12_000  # Of one process: longer than it takes to be thought dead.
_CLASSES: Final[tuple[Priority, ...]] = ("high", "medium", "medium", "low")
_USERS: Final = ("ada", "ben", "cleo")


class Arrival(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody submits on a machine, and may change his mind on the same or another."""

    at_us: int
    machine: int
    spec: JobSpec
    life: Life
    cancel_us: int = 0  # 0: never.
    cancel_at: int = 0


def arrivals_of(mood: Mood, names: Sequence[str], safe: Sequence[str]) -> list[Arrival]:
    """Every job of a run, as they come. `safe` are the machines that will not be lost."""
    rng = random.Random(f"{mood.seed}/across jobs")
    found: list[Arrival] = []
    times_us = sorted(rng.randrange(mood.span_us * 3 // 4) for _ in range(mood.jobs))
    for at_us in times_us:
        found.append(_arrival(rng, mood, at_us, names=names, safe=safe, before=found))
    return found


def _arrival(
    rng: random.Random,
    mood: Mood,
    at_us: int,
    *,
    names: Sequence[str],
    safe: Sequence[str],
    before: Sequence[Arrival],
) -> Arrival:
    def happens(of_thousand: int) -> bool:
        return rng.randrange(1_000) < of_thousand

    machine = rng.randrange(len(names) - mood.latecomers)
    is_once = happens(mood.once_milli)
    takes_ms = rng.choice(
        (rng.randint(5, 50), rng.randint(500, 4_000), rng.randint(500, LONGEST_MS))
    )
    array = Array(start=0, stop=rng.randint(2, 12), width=rng.randint(0, 3))
    is_array = happens(mood.array_milli) and not is_once
    is_gang = happens(mood.gang_milli) and not is_once and not is_array
    is_picky = happens(mood.picky_milli) and not is_gang
    require = Where(nodes=(rng.choice(safe),)) if is_picky else Where()
    own = [one.spec.id for one in before if one.machine == machine]
    after: tuple[After, ...] = ()
    if own and happens(mood.after_milli):
        after = (After(job=rng.choice(own), when=rng.choice(("ok", "any", "any", "failed"))),)
    fails = rng.randint(1, 2) if happens(mood.failing_milli) else 0
    spec = JobSpec(
        id=JobId(f"{rng.getrandbits(256):064x}"),
        name=f"job-{len(before)}",
        request=Request(
            cpu_milli=_cpu_milli(rng, is_large=happens(mood.large_milli), is_gang=is_gang),
            memory_bytes=GIB // 4,
        ),
        work=Work(argv=("work",), cwd="/", grace_ms=rng.choice((0, 500, 2_000))),
        array=array if is_array else None,
        after=after,
        require=require,
        retries=rng.choice((fails, fails, 0)),
        losses_max=100,  # Chance brings more of them than three.
        user=rng.choice(_USERS),
        priority="urgent" if happens(mood.urgent_milli) else rng.choice(_CLASSES),
        is_shared=happens(mood.shared_milli),
        at_most_once=is_once,
        voters=VOTERS_MAX if len(before) % 3 == 2 else VOTERS,
        gang=rng.randint(2, 3) if is_gang else 1,
        wait_for_capacity=is_picky or is_gang,  # Whoever it needs may be away just then.
    )
    cancel_us = at_us + rng.randrange(15_000_000) if happens(mood.cancelled_milli) else 0
    return Arrival(
        at_us=at_us,
        machine=machine,
        spec=spec,
        life=Life(takes_ms=takes_ms, fails_first=fails),
        cancel_us=cancel_us,
        cancel_at=rng.choice((machine, rng.randrange(len(names)))),
    )


def _cpu_milli(rng: random.Random, *, is_large: bool, is_gang: bool) -> int:
    if is_gang:  # Its ranks must fit the machines that are left, two at the least.
        return rng.choice((500, 1_000))
    return 3_000 if is_large else rng.choice((500, 1_000, 2_000))
