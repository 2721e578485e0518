"""Ray: a local instance with two CPUs; tasks of one CPU each."""

import json
import os
import sys
import time

from benchmarks.peers.work import WIDTH, spawn_true, trivial


def main(jobs: int, separate: int, calls: int) -> None:
    """Measure and print."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    import ray

    ray.init(
        address="local",  # What an interrupted run left behind is not connected to.
        num_cpus=WIDTH,
        include_dashboard=False,
        logging_level="ERROR",
        log_to_driver=False,
    )
    spawn, call = ray.remote(num_cpus=1)(spawn_true), ray.remote(num_cpus=1)(trivial)
    ray.get([call.remote(number) for number in range(WIDTH * 4)])
    start = time.perf_counter()
    ray.get([spawn.remote() for _ in range(jobs)])
    array_s = time.perf_counter() - start
    start = time.perf_counter()
    ray.get([spawn.remote() for _ in range(separate)])
    separate_s = time.perf_counter() - start
    start = time.perf_counter()
    ray.get([call.remote(number) for number in range(calls)])
    map_s = time.perf_counter() - start
    ray.shutdown()
    print(json.dumps({"array_s": array_s, "separate_s": separate_s, "map_s": map_s}))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:4]))
