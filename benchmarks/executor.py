"""What trivial calls through `Executor` cost, against `map`, and Dask's and Ray's in the same run.

`python -m benchmarks.executor` prints JSON; `--peers` adds the peers, each in a Python of its own.
Both of ours begin without a worker (cold: the start of the workers is in the figure), then do the
same again (warm). Every call has a future of its own, whose result is read. Interleaved rounds,
medians; a ratio is taken within each round.
"""

import argparse
import json
import statistics
from collections.abc import Callable
from typing import Any

from benchmarks.map import an_agent, took_s, trivial
from benchmarks.peers.environment import run_peer
from distributed_grid.client.cluster import connect
from distributed_grid.client.futures.executor import Executor

GOAL_RATIO = 0.7  # Of the speed of `map`.


def by_map(socket: str, calls: int) -> tuple[float, float]:
    """Cold and warm."""
    with connect(socket) as cluster:
        return twice(lambda: list(cluster.map(trivial, range(calls))), calls)


def by_executor(socket: str, calls: int) -> tuple[float, float]:
    """Cold and warm."""
    with connect(socket) as cluster, Executor(cluster=cluster) as executor:

        def work() -> list[int]:
            futures = [executor.submit(trivial, number) for number in range(calls)]
            return [future.result() for future in futures]

        return twice(work, calls)


def twice(work: Callable[[], list[int]], calls: int) -> tuple[float, float]:
    """The first time, and the better of two more."""
    cold = took_s(work, calls)
    return cold, min(took_s(work, calls), took_s(work, calls))


def measured(calls: int, rounds: int) -> dict[str, Any]:
    """Ours."""
    with an_agent() as socket:
        found = [(*by_map(socket, calls), *by_executor(socket, calls)) for _ in range(rounds)]
    names = ("map_cold_s", "map_warm_s", "executor_cold_s", "executor_warm_s")
    figures = {
        name: round(statistics.median(column), 4)
        for name, column in zip(names, zip(*found, strict=True), strict=True)
    }
    return {
        **figures,
        "ratio_cold": round(statistics.median(one[0] / one[2] for one in found), 2),
        "ratio_warm": round(statistics.median(one[1] / one[3] for one in found), 2),
        "ratio_warm_best": round(max(one[1] / one[3] for one in found), 2),
    }


def main() -> None:
    """Print what was measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=5_000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--peers", action="store_true")
    arguments = parser.parse_args()
    grid = measured(arguments.calls, arguments.rounds)
    found = {"benchmark": "executor", "calls": arguments.calls, "grid": grid, "goal": GOAL_RATIO}
    if arguments.peers:
        numbers = (arguments.calls, 3)
        peers = {name: run_peer(name, *numbers, what="calls") for name in ("dask", "ray")}
        found["peers"] = peers
        found["is_ahead"] = all(
            grid["executor_warm_s"] < one.get("warm_s", 0) for one in peers.values()
        )
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
