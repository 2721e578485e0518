"""Who asks for what and when, and how long it will take, which only the world knows.

Lives here: jobs and bookings of one mood. Never here: what becomes of them (`world`).
Invariant: whatever is asked for fits the machine, and what is borrowed fits an idle owner's offers;
so everything can end.
"""

import random
from typing import Final

import msgspec

from distributed_grid.model.booking import Booking
from distributed_grid.model.bytesize import GIB
from distributed_grid.model.gpus import GpuRequest
from distributed_grid.model.ids import JobId
from distributed_grid.model.job import Array, JobSpec, Preempt, Work
from distributed_grid.model.priority import Priority
from distributed_grid.model.resources import Request
from distributed_grid.sim.moods import PROJECTS, USERS, Mood

GRACE_MS_MAX: Final = 5_000
LONGEST_MS: Final = 70_000  # Of one process; none runs for longer.
_CLASSES: Final[tuple[Priority, ...]] = ("high", "medium", "medium", "low")


class Life(msgspec.Struct, frozen=True, kw_only=True):
    """What a job's processes do."""

    takes_ms: int
    fails_first: int = 0  # So many of its ends are failures before one is good.


class Arrival(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody submits, and may change his mind."""

    at_ms: int
    spec: JobSpec
    life: Life
    cancel_ms: int = 0  # 0: never.


def arrivals_of(mood: Mood, start_ms: int) -> list[Arrival]:
    """Every job of a run, as they come."""
    rng = random.Random(f"{mood.seed}/jobs")
    make = _backlog if mood.is_backlogged else _any
    found = [make(rng, mood, number, start_ms) for number in range(mood.jobs)]
    return sorted(found, key=lambda one: one.at_ms)


def bookings_of(mood: Mood, start_ms: int) -> list[Booking]:
    """Windows in the first part of the run; some are refused, because two do not fit."""
    rng = random.Random(f"{mood.seed}/bookings")
    cores = mood.machine.cpu_milli // 1_000
    found = []
    for number in range(mood.bookings):
        from_ms = start_ms + rng.randrange(30_000, mood.span_ms // 2)
        found.append(
            Booking(
                name=f"window-{number}",
                request=Request(cpu_milli=rng.randint(1, cores) * 1_000, memory_bytes=GIB),
                from_ms=from_ms,
                until_ms=from_ms + rng.randrange(60_000, 180_000),
                user=rng.choice(USERS),
            )
        )
    return found


def _any(rng: random.Random, mood: Mood, number: int, start_ms: int) -> Arrival:
    def happens(of_thousand: int) -> bool:
        return rng.randrange(1_000) < of_thousand

    at_ms = start_ms + (rng.randrange(mood.span_ms) if rng.random() < 0.7 else 0)
    is_shared = happens(mood.shared_milli)
    is_short = happens(mood.short_milli)
    takes_ms = rng.randint(3, 15) if is_short else rng.randint(2_000, LONGEST_MS)
    has_date = happens(mood.dated_milli)
    timeout_ms = takes_ms * rng.choice((1, 3)) // 2 if has_date and rng.random() < 0.5 else 0
    start_at_ms = at_ms + rng.randrange(60_000) if has_date and rng.random() < 0.4 else 0
    deadline_ms = 0
    if has_date and rng.random() < 0.4:
        deadline_ms = max(at_ms, start_at_ms) + rng.randint(20_000, 300_000)
    # What takes longer than a loan must save its state, or it would never end.
    is_loan_short = is_shared and mood.terms.allocation_ms_max > 0
    array = None
    if happens(mood.array_milli):
        array = Array(start=0, stop=rng.randint(1, 6), width=rng.randint(0, 2))
    spec = JobSpec(
        id=JobId(f"{rng.getrandbits(256):064x}"),
        name=f"job-{number}",
        request=_short_request() if is_short else _request(rng, mood, is_shared=is_shared),
        work=Work(argv=("work",), cwd="/", timeout_ms=timeout_ms, grace_ms=2_000),
        array=array,
        retries=rng.randint(0, 2),
        user=rng.choice(USERS),
        project=rng.choice(PROJECTS),
        priority="urgent" if happens(mood.urgent_milli) else rng.choice(_CLASSES),
        is_shared=is_shared,
        preempt=Preempt(
            grace_ms=rng.randint(0, GRACE_MS_MAX),
            command=("save",) if is_loan_short or rng.random() < 0.5 else (),
            is_forbidden=happens(mood.stubborn_milli),
        ),
        start_ms=start_at_ms,
        deadline_ms=deadline_ms,
    )
    return Arrival(
        at_ms=at_ms,
        spec=spec,
        life=Life(
            takes_ms=takes_ms, fails_first=rng.randint(1, 2) if happens(mood.failing_milli) else 0
        ),
        cancel_ms=at_ms + rng.randrange(90_000) if happens(mood.cancelled_milli) else 0,
    )


def _backlog(rng: random.Random, mood: Mood, number: int, start_ms: int) -> Arrival:
    """One core, one user's share of a heap that never ends."""
    fails = rng.randrange(1_000) < mood.failing_milli
    return Arrival(
        at_ms=start_ms,
        spec=JobSpec(
            id=JobId(f"{rng.getrandbits(256):064x}"),
            name=f"job-{number}",
            request=Request(cpu_milli=1_000),
            work=Work(argv=("work",), cwd="/"),
            retries=1,
            user=USERS[number % len(USERS)],
        ),
        life=Life(takes_ms=rng.randint(50_000, LONGEST_MS), fails_first=int(fails)),
    )


def _short_request() -> Request:
    """All alike, so that they may stand in one row."""
    return Request(cpu_milli=500, memory_bytes=GIB // 4)


def _request(rng: random.Random, mood: Mood, *, is_shared: bool) -> Request:
    cores = mood.machine.cpu_milli // 1_000
    most_milli = min(mood.machine.cpu_milli // 4, 2_000) if is_shared else cores * 1_000
    cpu_milli = rng.choice((500, 1_000, 1_000, 2_000, rng.randint(1, cores) * 1_000))
    gib = mood.machine.memory_bytes // GIB
    gpus = None
    if mood.machine.gpus and rng.random() < 0.3:
        whole = 1 if is_shared else rng.randint(1, len(mood.machine.gpus))
        gpus = GpuRequest(milli=rng.choice((500, whole * 1_000)))
    return Request(
        cpu_milli=min(cpu_milli, most_milli),
        memory_bytes=rng.randint(1, max(1, gib // (8 if is_shared else 2))) * GIB,
        storage_bytes=0 if is_shared else rng.choice((0, 0, 30 * GIB)),
        gpus=gpus,
    )
