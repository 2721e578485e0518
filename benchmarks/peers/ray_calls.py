"""Ray: a local instance with two CPUs, warm; a `concurrent.futures.Future` for each task."""

import json
import os
import statistics
import sys
import time

from benchmarks.peers.work import WIDTH, trivial


def main(calls: int, rounds: int) -> None:
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
    call = ray.remote(num_cpus=1)(trivial)
    took = []
    for _ in range(rounds + 1):
        start = time.perf_counter()
        futures = [call.remote(number).future() for number in range(calls)]
        assert [future.result() for future in futures][-1] == calls
        took.append(time.perf_counter() - start)
    ray.shutdown()
    print(json.dumps({"warm_s": statistics.median(took[1:])}))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:3]))
