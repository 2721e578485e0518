"""The first half of the tour: real jobs, a limit that holds, a chain, and an agent that is killed.

Lives here: what is run, how it is shown while it runs, what is told in the end. The agent lives in
a temporary directory and is gone afterwards.
"""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from distributed_grid.cli import render
from distributed_grid.client.cluster import Cluster, JobHandle, connect
from distributed_grid.client.resting import rest
from distributed_grid.model import bytesize, duration
from distributed_grid.wire.api import ENDED, JobView

GRID: Final = (sys.executable, "-P", "-m", "distributed_grid")
DEADLINE_S: Final = 60.0
LOOK_S: Final = 0.1

_HOG: Final = "hog = []\nwhile True: hog.append(b'x' * (1 << 20))"


def square(number: int) -> int:
    """What `map` calls."""
    return number * number


def show_jobs(console: Console) -> None:
    """Run the workload, show it live, and tell what happened."""
    with _agent() as home, connect(f"{home}/agent.sock") as cluster:
        begin = time.monotonic()
        jobs = _submitted(cluster, home)
        _watch(console, cluster, jobs, until=_some_ran)
        console.print(Text(_kill_agent(home), "yellow"))
        views = _watch(console, cluster, jobs, until=_all_ended)
        console.print(_table(views))
        numbers = list(cluster.map(square, range(2_000)))
        console.print(
            f"map: 2,000 calls of a Python function, sum {sum(numbers):,}; "
            f"all in {time.monotonic() - begin:.1f} s"
        )
    console.print(Text("the agent is down, its directory removed", "dim"))


def _submitted(cluster: Cluster, home: str) -> list[JobHandle]:
    slow = cluster.submit("sleep 2; echo half; sleep 1", name="slow", cpus=0.5, cwd=home)
    hog = cluster.submit([sys.executable, "-c", _HOG], name="hog", memory="64MiB", cwd=home)
    fetch = cluster.submit("echo data > data.txt", name="fetch", cwd=home)
    train = cluster.submit("wc -c < data.txt", name="train", after=[fetch], cwd=home)
    mend = cluster.submit("rm data.txt", name="mend", after=[f"{train.id}:failed"], cwd=home)
    sweep = cluster.submit(["/bin/true"], name="sweep", array=range(1_000), cwd=home)
    return [slow, hog, fetch, train, mend, sweep]


def _kill_agent(home: str) -> str:
    pid = int(Path(home, "agent.pid").read_text())
    os.kill(pid, signal.SIGKILL)
    begin = time.monotonic()
    _until(lambda: _new_pid(home, pid) is not None, "the agent did not come back")
    return (
        f"agent {pid} killed with SIGKILL; its keeper had {_new_pid(home, pid)} up "
        f"{(time.monotonic() - begin) * 1_000:.0f} ms later, and the jobs went on"
    )


def _new_pid(home: str, old: int) -> int | None:
    try:
        pid = int(Path(home, "agent.pid").read_text())
    except (OSError, ValueError):
        return None
    return pid if pid != old and Path(home, "agent.sock").exists() else None


def _watch(
    console: Console,
    cluster: Cluster,
    jobs: list[JobHandle],
    *,
    until: Callable[[list[JobView]], bool],
) -> list[JobView]:
    """Look until it is so; on a terminal the table is redrawn meanwhile."""
    views: list[JobView] = []
    with Live(console=console, transient=True, refresh_per_second=10) as live:

        def seen() -> bool:
            views[:] = [cluster.job(job) for job in jobs]
            if console.is_terminal:
                live.update(_table(views))
            return until(views)

        _until(seen, "the jobs did not come to their end")
    return views


def _until(is_so: Callable[[], bool], otherwise: str) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not is_so():
        assert time.monotonic() < deadline, otherwise
        rest(LOOK_S)


def _some_ran(views: list[JobView]) -> bool:
    states = {view.name: view.state for view in views}
    return states["slow"] == states["sweep"] == "running"


def _all_ended(views: list[JobView]) -> bool:
    return all(view.state in ENDED for view in views)


def _table(views: list[JobView]) -> Table:
    rows = [(view.name, view.state, _progress(view), _took(view), _note(view)) for view in views]
    return render.table("", ("job", "state", "progress#", "ran#", "what happened"), rows)


def _progress(view: JobView) -> str:
    if view.array is None:
        return "" if view.exit_code is None else f"exit {view.exit_code}"
    return f"{view.array.succeeded}/{view.array.total}"


def _took(view: JobView) -> str:
    if view.started_ms is None or view.ended_ms is None:
        return ""
    return duration.text(view.ended_ms - view.started_ms)


def _note(view: JobView) -> str:
    notes = [attempt.note for attempt in view.attempts if attempt.note]
    peak = max((attempt.memory_bytes_peak for attempt in view.attempts), default=0)
    if view.name == "hog" and peak:
        notes.append(f"peak {bytesize.text(peak)}")
    return "; ".join([view.reason, *notes] if view.reason not in notes else notes).strip("; ")


@contextmanager
def _agent() -> Iterator[str]:
    """An agent in a temporary directory, and nothing of it afterwards."""
    with tempfile.TemporaryDirectory(prefix="grid-demo-") as home:
        env = dict(os.environ) | {"GRID_HOME": home}
        subprocess.run([*GRID, "up", "--detach"], env=env, check=True, capture_output=True)  # noqa: S603
        try:
            yield home
        finally:
            down = [*GRID, "down", "--stop-jobs"]
            subprocess.run(down, env=env, check=True, capture_output=True)  # noqa: S603
