"""What the machine itself can do: `posix_spawn` in a loop; and a command beside Python's start."""

import os
import subprocess
import time
from statistics import median

from benchmarks.installation import plain_installation

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


def starts_s(env: dict[str, str], pairs: int = 15) -> tuple[float, float]:
    """`python -c pass` and `grid run true` in turns, the middle of each, plainly installed."""
    bare, run = [], []
    with plain_installation() as installed:
        for _ in range(pairs + 1):
            bare.append(command_s([installed.python, "-c", "pass"], env))
            run.append(command_s([installed.grid, "run", "true"], env))
    return median(bare[1:]), median(run[1:])  # Without the first, which reads from the disk.


def command_s(argv: list[str], env: dict[str, str] | None = None) -> float:
    """How long a whole command takes."""
    begin = time.perf_counter()
    subprocess.run(argv, check=True, env=env, capture_output=True)
    return time.perf_counter() - begin
