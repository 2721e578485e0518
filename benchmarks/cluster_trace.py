"""Jobs that come to a cluster: who submits what, where, when, and how long it will take.

Lives here: traces, and a central scheduler that is greedy and all-knowing, to compare with. Never
here: the real kernel (`cluster_crowd`).
"""

import heapq
import math
import random
from typing import Final

import msgspec

from distributed_grid.model.bytesize import GIB
from distributed_grid.model.ids import JobId
from distributed_grid.model.job import JobSpec, Work
from distributed_grid.model.resources import Request

CORES: Final = (4, 8, 8, 12)  # Of machines, in turn.
SIZES: Final = (1, 1, 1, 1, 1, 1, 2, 2, 2, 4)  # Cores of jobs, equally likely.
SHORTEST_MS, LONGEST_MS = 1_000, 40_000  # As many between 1 and 2 s as between 20 and 40.
FRONTS_PART: Final = 20  # Half of all jobs come from every so manieth node, where people sit.


class Coming(msgspec.Struct, frozen=True, kw_only=True):
    """A job, with what only the future knows."""

    at_ms: int
    node: int  # Where it is submitted.
    spec: JobSpec
    cores: int
    takes_ms: int


class Use(msgspec.Struct, frozen=True):
    """So many cores were busy."""

    from_ms: int
    to_ms: int
    cores: int
    user: str = ""


def cores_of(node: int) -> int:
    """Of one machine."""
    return CORES[node % len(CORES)]


def trace(nodes: int, jobs: int, *, load: float, seed: int) -> list[Coming]:
    """So many jobs, as fast as they come if they want this part of all cores."""
    dice = random.Random(f"{seed}/{nodes}/{jobs}")
    capacity = sum(cores_of(node) for node in range(nodes))
    spread = math.log(LONGEST_MS / SHORTEST_MS)
    mean_ms = (LONGEST_MS - SHORTEST_MS) / spread
    gap_ms = mean_ms * sum(SIZES) / len(SIZES) / (capacity * load)
    fronts = max(nodes // FRONTS_PART, 1)
    at_ms, found = 0.0, []
    for number in range(jobs):
        at_ms += dice.expovariate(1 / gap_ms)
        node = (
            dice.randrange(fronts) * FRONTS_PART if dice.random() < 0.5 else dice.randrange(nodes)
        )
        takes_ms = round(SHORTEST_MS * math.exp(dice.random() * spread))
        cores = dice.choice(SIZES)
        spec = job_of(f"job-{number}", dice, cores=cores, user="ada")
        found.append(
            Coming(at_ms=round(at_ms), node=node % nodes, spec=spec, cores=cores, takes_ms=takes_ms)
        )
    return found


def job_of(name: str, dice: random.Random, *, cores: int, user: str) -> JobSpec:
    """A job that runs on what is offered, wherever that is."""
    return JobSpec(
        id=JobId(f"{dice.getrandbits(256):064x}"),
        name=name,
        request=Request(cpu_milli=cores * 1_000, memory_bytes=cores * GIB),
        work=Work(argv=("work", "--on", name), cwd="/data"),
        user=user,
        is_shared=True,
    )


def central(nodes: int, coming: list[Coming]) -> list[Use]:
    """One scheduler that knows everything at once: in order, whatever fits starts, best fit."""
    free = [cores_of(node) for node in range(nodes)]
    by_free: dict[int, set[int]] = {count: set() for count in range(max(CORES) + 1)}
    for node, count in enumerate(free):
        by_free[count].add(node)
    waiting: dict[int, list[Coming]] = {size: [] for size in sorted(set(SIZES))}
    heads = dict.fromkeys(waiting, 0)
    running: list[tuple[int, int, int, int]] = []  # (end, number, node, cores)
    used: list[Use] = []

    def change(node: int, by: int) -> None:
        by_free[free[node]].discard(node)
        free[node] += by
        by_free[free[node]].add(node)

    def fill(now_ms: int) -> None:
        while True:
            most = max(count for count, some in by_free.items() if some)
            fitting = [
                (line[heads[size]].at_ms, size)
                for size, line in waiting.items()
                if size <= most and heads[size] < len(line)
            ]
            if not fitting:
                return
            size = min(fitting)[1]
            one = waiting[size][heads[size]]
            heads[size] += 1
            node = min(by_free[next(n for n in range(size, max(CORES) + 1) if by_free[n])])
            change(node, -size)
            heapq.heappush(running, (now_ms + one.takes_ms, len(used), node, size))
            used.append(Use(now_ms, now_ms + one.takes_ms, size))

    for one in coming:
        while running and running[0][0] <= one.at_ms:
            end_ms, _, node, size = heapq.heappop(running)
            change(node, size)
            fill(end_ms)
        waiting[one.cores].append(one)
        fill(one.at_ms)
    while running:
        end_ms, _, node, size = heapq.heappop(running)
        change(node, size)
        fill(end_ms)
    return used


def busy(used: list[Use], from_ms: int, to_ms: int) -> float:
    """Core-seconds in a window."""
    return (
        sum(max(0, min(one.to_ms, to_ms) - max(one.from_ms, from_ms)) * one.cores for one in used)
        / 1_000
    )
