"""How much slower the owner's own programs are while all cores are lent.

`python -m benchmarks.lending` prints JSON. An agent lends every core, and programs that only burn
CPU borrow them all. Beside them the owner runs a program of his own on each core, outside of Grid:
once while the borrowers run, once while lending is paused and they are suspended, in turns. Each
pair gives one slowdown; the median of all counts. A machine that is busy with something else says
nothing: `noise_percent` is how far the times of the quiet runs lie apart.
"""

import argparse
import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.agent_home import GRID, Running, running_agent

PAIRS = 10
GOAL_PERCENT = 5.0
PATIENCE_S = 30.0
BURNER = "while True: pass"
# About half a second of work that no other process can make cheaper.
WORK = "sum(number * number % 7 for number in range({rounds}))"
# What is measured is pretended, so that whatever else this machine does lends no less; the load
# that counts is real. Nothing but the owner's word suspends a borrower.
CONFIG = """
pretend: {{cpus: {cores}, memory: 64GiB, load: {{cpu_percent: 0, idle_seconds: 900}}}}
resource_sharing:
  policy: aggressive
  thresholds:
    cpu_percent_max: 100
    cpu_min_cores: 0
    cpu_pressure_high: 1.0
    cpu_pressure_low: 0.99
    memory_pressure_high: 1.0
    memory_pressure_low: 0.99
"""


def grid(running: Running, *words: str) -> str:
    """A command of the owner."""
    done = subprocess.run(
        [*GRID, *words], env=running.env, check=True, capture_output=True, text=True
    )
    return done.stdout


def until(question: Callable[[], bool]) -> None:
    """Ask until the answer is yes."""
    deadline = time.monotonic() + PATIENCE_S
    while not question():
        if time.monotonic() > deadline:
            raise TimeoutError("the borrowers did not do as they were told")
        time.sleep(0.02)


@contextlib.contextmanager
def borrowers(running: Running, count: int) -> Iterator[list[int]]:
    """One for each core; their processes."""
    words = ["run-shared", "-r", "cpu", "-a", "1", "-j"]
    started = [
        subprocess.Popen(
            [*GRID, *words, f"burner{number}", sys.executable, "-c", BURNER],
            env=running.env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        )
        for number in range(count)
    ]  # fmt: skip
    pids: list[int] = []

    def all_run() -> bool:
        pids[:] = [pid for number in range(count) if (pid := _pid(running, f"burner{number}"))]
        return len(pids) == count

    try:
        until(all_run)
        yield pids
    finally:
        for number, process in enumerate(started):
            subprocess.run(
                [*GRID, "cancel", f"burner{number}"], env=running.env, check=False,
                capture_output=True,
            )  # fmt: skip
            process.wait(PATIENCE_S)


def _pid(running: Running, job: str) -> int:
    done = subprocess.run(
        [*GRID, "job", job, "--json"], env=running.env, check=False, capture_output=True
    )
    attempts: list[dict[str, Any]] = json.loads(done.stdout)["attempts"] if done.stdout else []
    return int(attempts[-1]["pid"] or 0) if attempts else 0


def are_stopped(pids: list[int]) -> bool:
    """Whether no borrower runs."""
    return all(_state(pid) == "T" for pid in pids)


def are_running(pids: list[int]) -> bool:
    """Whether every borrower does."""
    return all(_state(pid) == "R" for pid in pids)


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def owner_s(cores: list[int], rounds: int) -> float:
    """How long the owner's programs take, one on each core; as each measures itself."""
    source = (
        "import os, time; os.sched_setaffinity(0, {core}); started = time.perf_counter();"
        f"{WORK.format(rounds=rounds)}; print(time.perf_counter() - started)"
    )
    programs = [
        subprocess.Popen(
            [sys.executable, "-I", "-c", source.replace("{core}", f"{{{core}}}")],
            stdout=subprocess.PIPE,
        )
        for core in cores
    ]
    return max(float(program.communicate()[0]) for program in programs)


def measured(pairs: int, rounds: int) -> dict[str, object]:
    """All pairs, and what follows."""
    cores = sorted(os.sched_getaffinity(0))
    alone: list[float] = []
    beside: list[float] = []
    with (
        running_agent(CONFIG.format(cores=len(cores))) as running,
        borrowers(running, len(cores)) as pids,
    ):
        owner_s(cores, rounds)  # Whatever is loaded for the first time.
        for number in range(pairs):
            for is_lent in (True, False) if number % 2 else (False, True):
                grid(running, "offer", "resume" if is_lent else "pause")
                until(partial(are_running if is_lent else are_stopped, pids))
                (beside if is_lent else alone).append(owner_s(cores, rounds))
        grid(running, "offer", "resume")
    slowdowns = [100 * (lent / quiet - 1) for lent, quiet in zip(beside, alone, strict=True)]
    return {
        "cores": len(cores),
        "pairs": pairs,
        "alone_s": round(median(alone), 4),
        "beside_borrowers_s": round(median(beside), 4),
        "slowdown_percent": round(median(slowdowns), 2),
        "slowdowns_percent": [round(one, 2) for one in slowdowns],
        "noise_percent": round(100 * (max(alone) / min(alone) - 1), 2),
        "goal_percent": GOAL_PERCENT,
    }


def main() -> None:
    """Measure, print JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=PAIRS)
    parser.add_argument("--rounds", type=int, default=6_000_000)
    chosen = parser.parse_args()
    print(json.dumps(measured(chosen.pairs, chosen.rounds), indent=2))


if __name__ == "__main__":
    main()
