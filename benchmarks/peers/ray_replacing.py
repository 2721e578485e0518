"""Ray with its defaults: a task runs on one of two nodes, whose raylet and worker are killed.

Measured is how long it takes from the kill until the task has begun on the other.
"""

import contextlib
import json
import os
import signal
import sys
import time

from benchmarks.peers.beginnings import begin_and_sleep, begun
from benchmarks.peers.ray_deaths import ADDRESS, alive, own_cluster, start, until

BOUND_S = 120.0


def main(kills: int) -> None:
    """Measure and print."""
    samples: list[float] = []
    with own_cluster() as home:
        import ray

        start("--head", "--port=6379", "--include-dashboard=false", cpus=0)
        ray.init(address=ADDRESS, logging_level="ERROR", log_to_driver=False)
        task = ray.remote(num_cpus=1, max_retries=-1)(begin_and_sleep)
        for _ in range(2):
            start(f"--address={ADDRESS}")
        for number in range(kills):
            until(lambda: alive(ray) == 3, 60)
            time.sleep(10)  # Beyond the first delay of its health checks.
            path = f"{home}/{number}"
            future = task.remote(path)
            _, pid, raylet = begun(path, 1, BOUND_S)
            killed = time.time()
            for one in (raylet, pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(one, signal.SIGKILL)
            samples.append(begun(path, 2, BOUND_S)[0] - killed)
            ray.cancel(future, force=True)
            start(f"--address={ADDRESS}")
        print(json.dumps({"from_kill_s": samples}), flush=True)
        ray.shutdown()


if __name__ == "__main__":
    main(int(sys.argv[1]))
