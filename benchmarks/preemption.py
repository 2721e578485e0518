"""How long it takes to choose whom to stop among many running jobs.

`python -m benchmarks.preemption` prints JSON. The worlds are the easy case, the mixed one, and
those that are made to be hard: everybody distinct, every core shared by two, and a request that
nobody's end can help. Each is planned again and again in the same process, on the same ledger.
"""

import argparse
import json
import random
from collections.abc import Callable, Iterator
from statistics import median
from time import perf_counter_ns

from distributed_grid.kernel.inventory import Inventory
from distributed_grid.kernel.ledger import Ledger
from distributed_grid.kernel.preemption import Candidate, Plan, plan
from distributed_grid.model.gpus import Gpu, GpuRequest
from distributed_grid.model.ids import JobId
from distributed_grid.model.lease import Lease
from distributed_grid.model.resources import Request

JOBS = 1_000
GOAL_MS = 10.0
Draw = Callable[[random.Random], Request]


def equal(_: random.Random) -> Request:
    """One core and a gigabyte each."""
    return Request(cpu_milli=1_000, memory_bytes=1 << 30)


def mixed(rng: random.Random) -> Request:
    """What people run: a few sizes, now and then a GPU or a part of one."""
    gpus = GpuRequest(milli=rng.choice([250, 500, 1_000])) if rng.random() < 0.1 else None
    cpu_milli = rng.choice([250, 500, 1_000, 1_000, 2_000, 4_000])
    return Request(cpu_milli=cpu_milli, memory_bytes=rng.choice([1, 2, 4, 8]) << 30, gpus=gpus)


def distinct(rng: random.Random) -> Request:
    """No two alike."""
    return Request(
        cpu_milli=1_000 * rng.randint(1, 4),
        memory_bytes=rng.randrange(1, 8 << 30),
        storage_bytes=rng.randrange(1, 64 << 30),
    )


def halves(_: random.Random) -> Request:
    """Two to a core."""
    return Request(cpu_milli=500, memory_bytes=1 << 30)


WORLDS: dict[str, tuple[Draw, Request]] = {
    "equal, 8 cores": (equal, Request(cpu_milli=8_000, memory_bytes=8 << 30)),
    "mixed, 1 core": (mixed, Request(cpu_milli=1_000, memory_bytes=8 << 30)),
    "mixed, 16 cores, 2 GPUs": (
        mixed,
        Request(cpu_milli=16_000, memory_bytes=64 << 30, gpus=GpuRequest(milli=2_000)),
    ),
    "distinct, 12 cores": (
        distinct,
        Request(cpu_milli=12_000, memory_bytes=20 << 30, storage_bytes=160 << 30),
    ),
    "distinct, everything": (
        distinct,
        Request(cpu_milli=2_000_000, memory_bytes=3_000 << 30, storage_bytes=30_000 << 30),
    ),
    "halves, 2 whole cores": (halves, Request(cpu_milli=2_000)),
    "halves, 0.75 of a core": (halves, Request(cpu_milli=750)),
    "halves, never": (halves, Request(cpu_milli=500_000, memory_bytes=1 << 50)),
}


def a_full_machine(draw: Draw, jobs: int, seed: int) -> tuple[Ledger, list[Candidate]]:
    """So many jobs in a machine that has exactly what they hold, each core in use."""
    rng = random.Random(seed)
    wanted = [draw(rng) for _ in range(jobs)]
    roomy = Inventory(
        cores=tuple((core, core // 64) for core in range(4 * jobs)),
        cpu_milli=4_000 * jobs,
        memory_bytes=1 << 50,
        storage_bytes=1 << 50,
        gpus=tuple(Gpu(device=f"gpu{number:04}", model="H100") for number in range(1_000)),
    )
    leases = list(_leases(Ledger(roomy), wanted))
    cores = sorted({core for lease in leases for core, _ in lease.cores})
    devices = {gpu.device for lease in leases for gpu in lease.resources.gpus}
    ledger = Ledger(
        Inventory(
            cores=tuple((core, core // 64) for core in cores),
            cpu_milli=1_000 * len(cores),
            memory_bytes=sum(lease.resources.memory_bytes for lease in leases),
            storage_bytes=sum(lease.resources.storage_bytes for lease in leases),
            gpus=tuple(gpu for gpu in roomy.gpus if gpu.device in devices),
        )
    )
    for lease in leases:
        ledger.restore(lease)
    return ledger, [
        Candidate(
            lease=lease.id,
            job=lease.job,
            rank=rng.randint(1, 3),
            is_shared=rng.random() < 0.5,
            started_ms=rng.randrange(86_400_000),
        )
        for lease in leases
    ]


def _leases(ledger: Ledger, wanted: list[Request]) -> Iterator[Lease]:
    for number, request in enumerate(wanted):
        got = ledger.reserve(f"lease{number:04}", JobId(f"{number:064x}"), "1", request, now_ms=0)
        if isinstance(got, Lease):
            yield ledger.commit(got.id, now_ms=0)


def measured(name: str, jobs: int, repeats: int) -> dict[str, object]:
    """Times of one world, and what was planned."""
    draw, request = WORLDS[name]
    ledger, candidates = a_full_machine(draw, jobs, seed=1)
    found: Plan | None = None
    samples_ns = []
    for _ in range(repeats + 2):
        start = perf_counter_ns()
        found = plan(ledger, candidates, request, 86_400_000)
        samples_ns.append(perf_counter_ns() - start)
    ordered = sorted(samples_ns[2:])
    return {
        "world": name,
        "running": len(candidates),
        "victims": len(found.victims) if found else None,
        "best_ms": round(ordered[0] / 1e6, 3),
        "p50_ms": round(median(ordered) / 1e6, 3),
        "p99_ms": round(ordered[len(ordered) * 99 // 100] / 1e6, 3),
    }


def main() -> None:
    """Measure every world, print JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=JOBS)
    parser.add_argument("--repeats", type=int, default=50)
    chosen = parser.parse_args()
    results = [measured(name, chosen.jobs, chosen.repeats) for name in WORLDS]
    print(json.dumps({"goal_p50_ms": GOAL_MS, "results": results}, indent=2))


if __name__ == "__main__":
    main()
