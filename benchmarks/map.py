"""What a trivial call of `map` costs, against a plain pool of processes in the same run.

`python -m benchmarks.map` prints JSON. Ours: a fresh client, an agent that runs, no worker yet, so
the start of the workers is in the figure; then the same map again, with warm workers, and single
calls. The peer is `concurrent.futures.ProcessPoolExecutor(2)`, started and ended in its figure too,
with chunks of 1 and of 64. Interleaved rounds, medians.
"""

import argparse
import concurrent.futures
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from distributed_grid.client.cluster import connect

WIDTH = 2
GOAL_S = 1.0  # Of 5,000 calls, with the start of the workers: 0.2 ms a call.
SINGLE_CALLS = 50


def trivial(number: int) -> int:
    """As little as a call can be."""
    return number + 1


@contextmanager
def an_agent() -> Iterator[str]:
    """The socket of an agent in a directory of its own."""
    with tempfile.TemporaryDirectory() as folder:
        env = {**os.environ, "GRID_HOME": folder, "PYTHONPATH": os.pathsep.join(sys.path)}
        grid = [sys.executable, "-m", "distributed_grid"]
        subprocess.run([*grid, "up", "--detach"], env=env, check=True, stdout=subprocess.DEVNULL)
        try:
            yield str(Path(folder) / "agent.sock")
        finally:
            down = [*grid, "down", "--stop-jobs"]
            subprocess.run(down, env=env, check=True, stdout=subprocess.DEVNULL)


def took_s(work: Callable[[], list[int]], calls: int) -> float:
    """How long it takes; the results are checked."""
    started = time.perf_counter()
    results = work()
    took = time.perf_counter() - started
    assert results == [number + 1 for number in range(calls)], "wrong results"
    return took


def ours(socket: str, calls: int) -> dict[str, float]:
    """A cold map, a warm one, and single calls."""
    with connect(socket) as cluster:
        cold = took_s(lambda: list(cluster.map(trivial, range(calls))), calls)
        warm = took_s(lambda: list(cluster.map(trivial, range(calls))), calls)
        single = took_s(
            lambda: [cluster.call(trivial, n) for n in range(SINGLE_CALLS)], SINGLE_CALLS
        )
    return {"grid_cold": cold, "grid_warm": warm, "grid_single_call": single / SINGLE_CALLS}


def pool(calls: int, chunk: int) -> float:
    """The same by the standard library."""

    def work() -> list[int]:
        with concurrent.futures.ProcessPoolExecutor(WIDTH) as executor:
            return list(executor.map(trivial, range(calls), chunksize=chunk))

    return took_s(work, calls)


def main() -> None:
    """Print what was measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=5_000)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    rounds: list[dict[str, float]] = []
    with an_agent() as socket:
        for _ in range(arguments.rounds):
            figures = ours(socket, arguments.calls)
            figures["pool_chunk_1"] = pool(arguments.calls, 1)
            figures["pool_chunk_64"] = pool(arguments.calls, 64)
            rounds.append(figures)
    medians = {key: statistics.median(figures[key] for figures in rounds) for key in rounds[0]}
    print(
        json.dumps(
            {
                "calls": arguments.calls,
                "width": WIDTH,
                "seconds": {key: round(value, 4) for key, value in medians.items()},
                "grid_cold_us_per_call": round(medians["grid_cold"] / arguments.calls * 1e6, 1),
                "grid_warm_us_per_call": round(medians["grid_warm"] / arguments.calls * 1e6, 1),
                "goal_s": GOAL_S,
                "is_met": medians["grid_cold"] <= GOAL_S,
            },
            indent=2,
        )
    )


if __name__ == "__main__":
    main()
