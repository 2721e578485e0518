"""What the machine itself can do: `posix_spawn` in a loop, and Python's own start."""

import os
import subprocess
import sys
import time
from statistics import median

TRUE = "/bin/true"


def spawn_per_second(count: int, width: int) -> float:
    """Processes a second with so many at once, and nothing else."""
    live = started = ended = 0
    begin = time.perf_counter()
    while ended < count:
        while live < width and started < count:
            os.posix_spawn(TRUE, [TRUE], {})
            live, started = live + 1, started + 1
        os.wait()
        live, ended = live - 1, ended + 1
    return count / (time.perf_counter() - begin)


def python_start_s(times: int = 9) -> float:
    """`python -c pass`, the middle of several."""
    return median(command_s([sys.executable, "-c", "pass"]) for _ in range(times))


def command_s(argv: list[str], env: dict[str, str] | None = None) -> float:
    """How long a whole command takes."""
    begin = time.perf_counter()
    subprocess.run(argv, check=True, env=env, capture_output=True)
    return time.perf_counter() - begin
