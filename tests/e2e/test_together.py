"""Kernel, agent and keeper together, through the deaths of each."""

import json
import os
import signal
import time
from pathlib import Path

import pytest

PATIENCE_S = 20


@pytest.fixture
def home(grid, tmp_path):
    folder = tmp_path / "h"
    env = {"GRID_HOME": str(folder)}
    assert grid("up", "--detach", env=env).returncode == 0
    yield folder
    done = grid("down", "--stop-jobs", env=env)
    assert done.returncode == 0, done.stderr


def view(grid, home: Path, name: str) -> dict:
    done = grid("job", name, "--json", env={"GRID_HOME": str(home)})
    return json.loads(done.stdout) if done.returncode == 0 else {"state": "unknown"}


def until(is_so, what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < deadline, f"waited in vain: {what}"


def pid(home: Path, name: str) -> int:
    return int((home / f"{name}.pid").read_text())


def ends(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    return False


@pytest.mark.slow
def test_a_dead_keeper_loses_its_job_which_starts_again_under_the_next(grid, home):
    env = {"GRID_HOME": str(home)}
    grid("run", "--detach", "--name", "long", "sleep", "600", env=env)
    until(lambda: view(grid, home, "long")["state"] == "running", "the job runs")
    keeper, agent = pid(home, "keeper"), pid(home, "agent")
    os.kill(keeper, signal.SIGKILL)
    until(lambda: ends(keeper) and ends(agent), "both are gone")

    assert grid("up", "--detach", env=env).returncode == 0
    until(lambda: len(view(grid, home, "long")["attempts"]) == 2, "it is tried again")
    found = view(grid, home, "long")

    assert found["state"] in ("waiting", "running")
    assert found["attempts"][0]["state"] == "lost"


@pytest.mark.slow
def test_a_job_that_runs_is_shown_as_running_after_the_agent_was_killed(grid, home):
    env = {"GRID_HOME": str(home)}
    grid("run", "--detach", "--name", "long", "sleep", "600", env=env)
    until(lambda: view(grid, home, "long")["state"] == "running", "the job runs")
    old = pid(home, "agent")
    os.kill(old, signal.SIGKILL)
    until(lambda: view(grid, home, "long").get("story") and pid(home, "agent") != old, "it is back")

    assert view(grid, home, "long")["state"] == "running"


@pytest.mark.slow
def test_what_waits_stays_waiting_when_the_agent_is_told_to_stop_the_jobs(grid, home):
    env = {"GRID_HOME": str(home)}
    stubborn = ["sh", "-c", "trap '' TERM; sleep 600 & wait; wait"]
    grid("run", "--detach", "--cpus", "0.6", "--name", "stubborn", "--", *stubborn, env=env)
    for name in ("one", "two", "three", "four"):
        grid("run", "--detach", "--cpus", "0.6", "--name", name, "sleep", "600", env=env)
    assert grid("down", "--stop-jobs", env=env, timeout_s=60).returncode == 0
    assert grid("up", "--detach", env=env).returncode == 0

    states = {name: view(grid, home, name)["state"] for name in ("one", "two", "three", "four")}
    assert set(states.values()) <= {"waiting", "running"}, states
