"""Killed at any named step, the agent loses no acknowledged job and no exit status."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from distributed_grid.agent.carrying import STEPS
from distributed_grid.client.cluster import connect
from distributed_grid.errors import GridError

ROOT = Path(__file__).resolve().parents[2]
JOBS = 12


@pytest.mark.slow
@pytest.mark.parametrize("count", [1, 2, 5, 9])
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.rows("S4-112", "S4-113", "S4-69")
def test_nothing_that_was_promised_is_lost(step, count, tmp_path, clean_env):
    marker = tmp_path / "crashed"
    data = tmp_path / "d"
    data.mkdir(mode=0o700)
    keeper = subprocess.Popen(
        [
            *(sys.executable, "-m", "distributed_grid.edges.runner.keeper"),
            *("--data-dir", str(data), "--"),
            *(sys.executable, "-m", "tests.e2e.crashing_app", "--data-dir", str(data)),
        ],
        env=clean_env
        | {
            "PYTHONPATH": str(ROOT),
            "GRID_TEST_CRASH": f"{step}:{count}",
            "GRID_TEST_MARKER": str(marker),
        },
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    try:
        acknowledged = submitted(str(data / "agent.sock"), tmp_path)
        codes = {number: ended(str(data / "agent.sock"), job) for number, job in acknowledged}

        assert marker.exists(), "the agent was never killed: the test proves nothing"
        assert codes == {number: number % 3 for number, _ in acknowledged}
        ran = sorted(path.name for path in (tmp_path / "ran").iterdir())
        assert ran == sorted(str(number) for number in range(JOBS))
    finally:
        keeper_pid = (data / "keeper.pid").read_text()
        os.kill(int(keeper_pid), signal.SIGTERM)
        keeper.communicate(timeout=20)


def submitted(socket: str, folder: Path) -> list[tuple[int, str]]:
    """Submit until acknowledged; the same id again changes nothing."""
    (folder / "ran").mkdir()
    acknowledged = []
    for number in range(JOBS):
        job = f"{number:064x}"

        def submit(number: int = number, job: str = job) -> None:
            with connect(socket) as cluster:
                command = f"touch ran/{number}; exit {number % 3}"
                cluster.submit(command, id=job, name=f"job-{number}", cwd=str(folder))

        patiently(submit)
        acknowledged.append((number, job))
    return acknowledged


def ended(socket: str, job: str) -> int:
    def code() -> int:
        with connect(socket) as cluster:
            view = cluster.wait(job, timeout=20)
            assert view.exit_code is not None, view
            return view.exit_code

    return patiently(code)


def patiently(call):
    """Again while the agent is away; bounded."""
    until = time.monotonic() + 20
    while True:
        try:
            return call()
        except (GridError, OSError):
            if time.monotonic() > until:
                raise
