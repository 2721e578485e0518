"""`grid events -f` beside a real agent: what it says last."""

import subprocess
import sys

import pytest

from tests.agent_lab import AgentLab


@pytest.fixture
def lab():
    made = AgentLab().up()
    yield made
    made.close()


@pytest.mark.slow
def test_who_follows_is_told_that_the_agent_was_stopped(lab):
    following = subprocess.Popen(
        [sys.executable, "-P", "-m", "distributed_grid", "events", "-f"],
        env=lab.env,
        cwd=lab.dir,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    first = following.stdout.readline()
    down = lab("down")
    _, said = following.communicate(timeout=60)

    assert "agent.started" in first
    assert down.returncode == 0
    assert following.returncode == 4
    assert said.splitlines() == [
        "grid: no more events: the agent was stopped, or this was read too slowly"
    ]
