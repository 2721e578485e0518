"""Dask with its defaults: a scheduler and two workers; a worker dies, with the nanny over it.

kill -9 closes its connections, which the scheduler sees. A machine that hangs or is cut off closes
none: SIGSTOP of both stands for it, and the scheduler waits for `worker-ttl`.
"""

import json
import os
import signal
import subprocess
import sys
import time
from typing import Any

SCHEDULER = "tcp://127.0.0.1:8786"  # In a network of its own.


def main(bound_s: int) -> None:
    """Measure and print."""
    import dask
    from distributed import Client

    start = [sys.executable, "-m", "dask"]
    quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    argv = [*start, "scheduler", "--host", "127.0.0.1", "--port", "8786", "--no-dashboard"]
    scheduler = subprocess.Popen(argv, **quiet)
    worker = [*start, "worker", SCHEDULER, "--nworkers", "1", "--nthreads", "1", "--no-dashboard"]
    nannies = [subprocess.Popen(worker, **quiet) for _ in range(2)]
    pids: list[int] = []
    try:
        with Client(SCHEDULER, timeout=60) as client:
            client.wait_for_workers(2, timeout=60)
            parents = dict(client.run(_who).values())
            pids = [*parents, *parents.values()]

            def until_gone(number: int, nanny: int) -> float | None:
                left = len(_workers(client)) - 1
                begin = time.monotonic()
                for pid in (nanny, *(pid for pid, parent in parents.items() if parent == nanny)):
                    os.kill(pid, number)
                while time.monotonic() - begin < bound_s:
                    if len(_workers(client)) <= left:
                        return round(time.monotonic() - begin, 2)
                    time.sleep(0.02)
                return None

            found = {
                "killed_s": until_gone(signal.SIGKILL, nannies[0].pid),
                "stopped_s": until_gone(signal.SIGSTOP, nannies[1].pid),
                "bound_s": bound_s,
                "settings": {
                    "worker-ttl": dask.config.get("distributed.scheduler.worker-ttl"),
                    "comm.timeouts.tcp": dask.config.get("distributed.comm.timeouts.tcp"),
                },
            }
            print(json.dumps(found), flush=True)
    finally:
        for pid in pids:
            _kill(pid)
        for process in (*nannies, scheduler):
            process.kill()


def _workers(client: Any) -> list[str]:
    """As the scheduler itself has them; the client's copy is older."""
    found: list[str] = client.run_on_scheduler(lambda dask_scheduler: list(dask_scheduler.workers))
    return found


def _who() -> tuple[int, int]:
    """Runs in a worker: itself, and the nanny."""
    return os.getpid(), os.getppid()


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


if __name__ == "__main__":
    main(int(sys.argv[1]))
