"""How long a placement decision takes, how that grows, and what a change costs.

`python -m benchmarks.placement` prints a table on stderr and JSON on stdout. The peer is the
plain scalar snapshot, which decides by the same rules one node at a time; both run interleaved
in the same process. A decision is measured to the responsible node and its cluster of three;
jobs differ in every call, so nothing is remembered between them but tables of GPU models.
"""

import argparse
import json
import math
import sys
import tracemalloc
from collections.abc import Callable
from functools import partial
from statistics import median
from time import perf_counter_ns
from typing import Any

import msgspec

from distributed_grid.kernel.placement import Rules, place
from distributed_grid.kernel.placement.columns import Columns
from distributed_grid.kernel.placement.plain import PlainSnapshot
from distributed_grid.kernel.placement.policies import POLICIES
from distributed_grid.model.gpus import GpuRequest
from distributed_grid.model.ids import job_id_of
from distributed_grid.model.job import JobSpec
from distributed_grid.model.node import NodeRecord
from distributed_grid.model.resources import Request
from distributed_grid.sim.fleet import random_fleet

SIZES = (10, 100, 1_000, 10_000, 100_000)
GOALS_MS = {1_000: 0.1, 10_000: 1.0, 100_000: 10.0}  # BestFit with a GPU job, p50.
RATIO_SIZE = 10_000
RATIO_GOAL = 30
PAIRS = 9


def gpu_job(number: int) -> JobSpec:
    """A training job that has not been seen before."""
    name = f"training-{number}"
    gpus = GpuRequest(milli=1_000, memory_bytes=20 << 30)
    request = Request(cpu_milli=4_000, memory_bytes=16 << 30, gpus=gpus)
    return JobSpec(id=job_id_of(name), name=name, request=request)


def took_ns(call: Callable[[], object]) -> int:
    """How long one call takes."""
    start = perf_counter_ns()
    call()
    return perf_counter_ns() - start


def percentiles(samples_ns: list[int]) -> dict[str, float]:
    """The middle and the slow end, in milliseconds."""
    ordered = sorted(samples_ns)
    p99 = ordered[min(len(ordered) - 1, len(ordered) * 99 // 100)]
    return {"p50_ms": round(median(ordered) / 1e6, 4), "p99_ms": round(p99 / 1e6, 4)}


def decisions(fleet: list[NodeRecord], repeats: int) -> dict[str, dict[str, float]]:
    """Decision time for each policy, and for rank alone."""
    columns = Columns(fleet)
    found = {}
    for policy in (*POLICIES, None):
        rules = Rules(policy=policy)
        jobs = [gpu_job(number) for number in range(repeats + 3)]
        samples = [took_ns(partial(place, job, columns, rules)) for job in jobs]
        found[policy.name if policy else "rank only"] = percentiles(samples[3:])
    return found


def update_cost_us(fleet: list[NodeRecord]) -> float:
    """What one changed record costs, in microseconds; every second one changes its GPUs too."""
    columns = Columns(fleet)
    place(gpu_job(0), columns)
    changed = [
        msgspec.structs.replace(
            node,
            age_ms=1,
            free=msgspec.structs.replace(node.free, gpus=node.free.gpus[: index % 2]),
        )
        for index, node in enumerate(fleet[:2_000])
    ]
    return round(median(took_ns(partial(columns.update, node)) for node in changed) / 1e3, 2)


def memory_bytes_a_node(fleet: list[NodeRecord]) -> dict[str, int]:
    """What the columns cost a node, beside the records that the caller holds anyway."""
    tracemalloc.start()
    columns = Columns(fleet)
    traced = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return {
        "arrays": columns.bytes_used() // len(fleet),
        "arrays_and_tables": traced // len(fleet),
    }


def ratio_to_scalar(fleet: list[NodeRecord]) -> dict[str, float]:
    """Plain scalar against columns, in interleaved pairs, BestFit with a GPU job."""
    rules = Rules(policy=POLICIES[0])
    plain, columns = PlainSnapshot(fleet), Columns(fleet)
    place(gpu_job(0), columns, rules)
    ratios, scalar_ms = [], []
    for number in range(PAIRS):
        job = gpu_job(number)
        slow = took_ns(partial(place, job, plain, rules))
        fast = median(took_ns(partial(place, job, columns, rules)) for _ in range(5))
        assert place(job, plain, rules).cluster == place(job, columns, rules).cluster
        ratios.append(slow / fast)
        scalar_ms.append(slow / 1e6)
    return {
        "nodes": len(fleet),
        "scalar_p50_ms": round(median(scalar_ms), 3),
        "ratio": round(median(ratios), 1),
        "goal": RATIO_GOAL,
    }


def growth(per_size: dict[str, Any]) -> float:
    """The exponent of growth between the two largest sizes: 1 is linear."""
    small, large = sorted(int(size) for size in per_size)[-2:]
    times = [per_size[str(n)]["BestFit"]["p50_ms"] for n in (small, large)]
    return round(math.log(times[1] / times[0]) / math.log(large / small), 2)


def measure(sizes: list[int], repeats: int) -> dict[str, Any]:
    """Everything, as one document."""
    fleets = {size: random_fleet(size, seed=size) for size in sizes}
    per_size = {str(size): decisions(fleet, repeats) for size, fleet in fleets.items()}
    ratio_fleet = fleets.get(RATIO_SIZE) or random_fleet(RATIO_SIZE, seed=RATIO_SIZE)
    largest = fleets[max(sizes)]
    goals = {
        str(size): {"goal_ms": goal, "met": per_size[str(size)]["BestFit"]["p50_ms"] <= goal}
        for size, goal in GOALS_MS.items()
        if size in fleets
    }
    return {
        "benchmark": "placement",
        "decision": per_size,
        "best_fit_goals": goals,
        "growth_exponent": growth(per_size) if len(sizes) > 1 else None,
        "update_us": update_cost_us(largest),
        "bytes_a_node": memory_bytes_a_node(largest),
        "against_scalar": ratio_to_scalar(ratio_fleet),
    }


def show(found: dict[str, Any]) -> None:
    """The table, for people."""
    sizes = list(found["decision"])
    head = "".join(f"{int(size):>22,}" for size in sizes)
    print(f"{'p50 / p99 in ms':16}{head}", file=sys.stderr)
    for policy in found["decision"][sizes[0]]:
        cells = (found["decision"][size][policy] for size in sizes)
        row = "".join(f"{cell['p50_ms']:>12.3f} /{cell['p99_ms']:>8.3f}" for cell in cells)
        print(f"{policy:16}{row}", file=sys.stderr)
    scalar = found["against_scalar"]
    print(
        f"growth exponent {found['growth_exponent']}, update {found['update_us']} us, "
        f"{found['bytes_a_node']['arrays_and_tables']} bytes a node, "
        f"{scalar['ratio']}x the scalar reference at {scalar['nodes']:,} nodes "
        f"({scalar['scalar_p50_ms']} ms)",
        file=sys.stderr,
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES))
    parser.add_argument("--repeats", type=int, default=100)
    options = parser.parse_args()
    found = measure(options.sizes, options.repeats)
    show(found)
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
