"""The first hour: an ordinary project (500 MB, 20,000 files, 2 MB of them wanted) and two machines.

`python -m benchmarks.first_hour` prints a table on stderr and JSON on stdout. Two real agents share
a network that is nothing but a loopback. Commands are run as people run them, from Enter to the
prompt, with Grid as pip installs it; `true` and `python -c pass` in the same run say what of that
is the machine's.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.installation import Installation, plain_installation
from benchmarks.mesh_fleet import Agent, at_once, enter_network, fleet, form
from benchmarks.ordinary import many, new_sources, ordinary_project
from distributed_grid.client import across_calls
from distributed_grid.edges.artifacts.chunks import ChunkStore
from distributed_grid.edges.artifacts.files import DiskFiles
from distributed_grid.model.artifact import ASKED, RETURNED
from distributed_grid.wire.across_api import Pack

CONFIG = "pretend: {cpus: 2, memory: 8GiB}\nresource_sharing: {thresholds: {cpu_min_cores: 0}}\n"
GOALS = {
    "first_elsewhere_s": 1.0,
    "second_elsewhere_s": 0.3,
    "listing_s": 0.2,
    "changes_ms": 3.0,
}
KEPT = 2_000  # Files in a larger directory in which a job wrote nothing.


def taken_s(argv: list[str], where: Path, agent: Agent | None = None) -> float:
    """From Enter to the prompt."""
    env = agent.env if agent is not None else None
    begin = time.perf_counter()
    done = subprocess.run(argv, cwd=where, env=env, capture_output=True, text=True, check=False)
    took = time.perf_counter() - begin
    assert done.returncode == 0, (argv, done.stderr)
    return took


def median_of(rounds: int, work: Callable[[], float]) -> float:
    """Of several, after one that does not count."""
    work()
    return statistics.median(work() for _ in range(rounds))


def elsewhere(grid: str, agent: Agent, other: Agent, project: Path, rounds: int) -> dict[str, Any]:
    """A job with files that the other machine has not seen, and the next ones."""
    argv = [grid, "run", "--node", other.name, "--"]
    writing = [*argv, "sh", "-c", "date +%N > result.txt"]
    firsts, seconds, written = [], [], []
    for number in range(rounds):
        new_sources(project, seed=number + 2)
        firsts.append(taken_s([*argv, "true"], project, agent))
        seconds += [taken_s([*argv, "true"], project, agent) for _ in range(3)]
        written += [taken_s(writing, project, agent) for _ in range(3)]
    return {
        "first_elsewhere_s": statistics.median(firsts),
        "second_elsewhere_s": statistics.median(seconds),
        "with_a_result_s": statistics.median(written),
    }


def looking_ms(tree: Path, place: Path, rounds: int) -> float:
    """For what changed in a copy of a directory in which nothing did."""
    store = ChunkStore(str(place / "cache"), bytes_max=1 << 30)
    store.open()
    files = DiskFiles(store, user_home="/nobody")
    made = str(place / "made")
    base = files.pack(str(tree), owner="bench", amount=ASKED).id
    files.unpack(base, made)

    def look() -> float:
        begin = time.perf_counter()
        found = files.changed(made, base=base, amount=RETURNED)
        took = time.perf_counter() - begin
        assert not found.coming
        return took

    return median_of(rounds, look) * 1e3


def measured(installed: Installation, options: argparse.Namespace) -> dict[str, Any]:
    """Everything."""
    rounds = options.rounds
    with (
        tempfile.TemporaryDirectory(prefix="grid-hour-", dir="/var/tmp") as folder,
        fleet(2, config=CONFIG) as agents,
    ):
        place = Path(folder)
        project = ordinary_project(place / "project", files=options.files)
        at_once(agents, Agent.up)
        form(agents)
        grid, (agent, other) = installed.grid, agents

        def plain(*argv: str) -> float:
            return median_of(rounds, lambda: taken_s(list(argv), project, agent))

        found = {
            "true_s": plain("true"),
            "python_s": plain(installed.python, "-c", "pass"),
            "run_true_s": plain(grid, "run", "true"),
            "dry_run_s": plain(grid, "run", "--dry-run", "true"),
            **elsewhere(grid, agent, other, project, rounds),
        }
        found["listing_s"] = median_of(rounds, lambda: listing_s(agent, project))
        found["changes_ms"] = looking_ms(project, place / "small", rounds * 5)
        many(place / "tree", KEPT)
        found["changes_of_2000_ms"] = looking_ms(place / "tree", place / "large", rounds * 5)
        return {name: round(value, 4) for name, value in found.items()}


def listing_s(agent: Agent, project: Path) -> float:
    """What travels, as the agent lists it."""
    begin = time.perf_counter()
    answer = agent.caller.run(across_calls.pack(Pack(directory=str(project), is_dry=True)))
    took = time.perf_counter() - begin
    assert answer.travelling is not None
    assert len(answer.travelling.files) > 1
    return took


def main() -> int:
    """Measure, and tell."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--files", type=int, default=20_000)
    options.add_argument("--rounds", type=int, default=7)
    told = options.parse_args()
    enter_network()
    with plain_installation() as installed:
        found = measured(installed, told)
    for name, value in found.items():
        goal = f"  goal {GOALS[name]}" if name in GOALS else ""
        sys.stderr.write(f"{name:>22} {value:8.3f}{goal}\n")
    sys.stdout.write(json.dumps({"files": told.files, **found, "goals": GOALS}) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
