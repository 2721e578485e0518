"""Dask with its defaults: a task runs on one of two workers, which dies with its nanny.

Measured is how long it takes from the kill until the task has begun on the other. kill -9 closes
connections, which the scheduler sees: a machine that loses its power closes none (`dask_deaths`).
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from typing import Any

from benchmarks.peers.beginnings import begin_and_sleep, begun

SCHEDULER = "tcp://127.0.0.1:8786"  # In a network of its own.
BOUND_S = 60.0


def main(kills: int) -> None:
    """Measure and print."""
    from distributed import Client

    start = [sys.executable, "-m", "dask"]
    quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    argv = [*start, "scheduler", "--host", "127.0.0.1", "--port", "8786", "--no-dashboard"]
    worker = [*start, "worker", SCHEDULER, "--nworkers", "1", "--nthreads", "1", "--no-dashboard"]
    processes = [subprocess.Popen(argv, **quiet)]
    processes += [subprocess.Popen(worker, **quiet) for _ in range(2)]
    samples: list[float] = []
    workers: set[int] = set()
    try:
        with Client(SCHEDULER, timeout=60) as client, tempfile.TemporaryDirectory() as folder:
            for number in range(kills):
                client.wait_for_workers(2, timeout=60)
                workers |= set(client.run(os.getpid).values())
                path = f"{folder}/{number}"
                future = client.submit(begin_and_sleep, path, pure=False)
                _, pid, parent = begun(path, 1, BOUND_S)
                killed = time.time()
                for one in (parent, pid):
                    os.kill(one, signal.SIGKILL)
                again, pid, parent = begun(path, 2, BOUND_S)
                samples.append(again - killed)
                future.cancel()
                for one in (parent, pid):  # What sleeps in a thread cannot be cancelled.
                    os.kill(one, signal.SIGKILL)
                processes += [subprocess.Popen(worker, **quiet) for _ in range(2)]
    finally:
        for pid in workers:
            _kill(pid)
        for process in processes:
            process.kill()
            process.wait()
    print(json.dumps({"from_kill_s": samples}), flush=True)


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


if __name__ == "__main__":
    main(int(sys.argv[1]))
