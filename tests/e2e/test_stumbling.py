"""A kernel that breaks off again and again costs pauses: no job, no exit status, no process."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from distributed_grid.client.cluster import connect
from tests.e2e.test_crash import ROOT, patiently

pytestmark = pytest.mark.slow
JOBS = 24


@pytest.fixture
def agent(request, tmp_path, clean_env):
    """A real agent and its keeper; its kernel breaks off at each so many steps."""
    data = tmp_path / "d"
    data.mkdir(mode=0o700)
    keeper = subprocess.Popen(
        [
            *(sys.executable, "-m", "distributed_grid.edges.runner.keeper"),
            *("--data-dir", str(data), "--"),
            *(sys.executable, "-m", "tests.e2e.stumbling_app", "--data-dir", str(data)),
        ],
        env=clean_env
        | {
            "PYTHONPATH": str(ROOT),
            "GRID_TEST_STUMBLE": str(request.param),
            "GRID_TEST_MARKER": str(tmp_path / "stumbled"),
        },
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    try:
        yield data
    finally:
        os.kill(int((data / "keeper.pid").read_text()), signal.SIGTERM)
        keeper.communicate(timeout=20)


@pytest.mark.parametrize("agent", [5, 11, 16], indirect=True)
def test_steps_that_break_off_cost_no_job_no_exit_status_and_no_process(agent, tmp_path):
    socket, ran = str(agent / "agent.sock"), tmp_path / "ran"
    ran.mkdir()
    pid = patiently((agent / "agent.pid").read_text)

    jobs = [submitted(socket, tmp_path, number) for number in range(JOBS)]
    codes = [patiently(lambda job=job: ended(socket, job)) for job in jobs]

    assert codes == [number % 3 for number in range(JOBS)]
    assert {file.name: file.read_text() for file in ran.iterdir()} == {
        str(number): "x\n" for number in range(JOBS)
    }
    assert (agent / "agent.pid").read_text() == pid
    assert len((tmp_path / "stumbled").read_text().split()) > 1, "the test proves nothing"


def submitted(socket: str, folder: Path, number: int) -> str:
    """Every third runs at most once."""
    job = f"{number:064x}"

    def submit() -> None:
        with connect(socket) as cluster:
            command = f"echo x >> ran/{number}; sleep 0.1; exit {number % 3}"
            once = {"at_most_once": True} if number % 3 == 0 else {}
            cluster.submit(command, id=job, name=f"job-{number}", cwd=str(folder), **once)

    patiently(submit)
    return job


def ended(socket: str, job: str) -> int:
    with connect(socket) as cluster:
        view = cluster.wait(job, timeout=20)
    assert view.exit_code is not None, view
    return view.exit_code
