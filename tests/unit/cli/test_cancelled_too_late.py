"""Cancelling a job whose process has ended, while its outputs come home: nobody is told a tale."""

import asyncio
import signal
import subprocess

import msgspec
import pytest

from distributed_grid.cli.outcome import too_late
from distributed_grid.model.transit import Transit
from tests.agent_stand_in import CannedAgent, a_view, an_array, serving
from tests.conftest import VENV_BIN

COMING = Transit(doing="bringing", node="desk", bytes_done=1, bytes_total=2)


class LateAgent(CannedAgent):
    """The process of its jobs has ended, and their outputs come."""

    async def cancel(self, word):
        view = await super().cancel(word)
        return msgspec.structs.replace(view, state="running", transits=(COMING,))

    async def logs(self, word, *, stream, index, follow, offset, attempt):
        del word, index, follow, offset
        if stream == "stdout":
            yield b"begun"
        while not self.cancelled:
            await asyncio.sleep(0.01)


@pytest.fixture
def agent(tmp_path, clean_env):
    home = tmp_path / "g"
    home.mkdir()
    clean_env["GRID_HOME"] = str(home)
    canned = LateAgent()
    with serving(canned, home / "agent.sock"):
        yield canned


@pytest.mark.usefixtures("agent")
def test_a_signal_does_not_claim_that_the_job_is_cancelled(clean_env):
    process = subprocess.Popen(
        [VENV_BIN / "grid", "run", "tool"], env=clean_env, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout.read(5) == b"begun"
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=20)

    assert (process.returncode, b"cancelled" in told) == (130, False)
    assert b"has already ended, and its outputs still come home: grid wait " in told


def test_cancel_says_that_only_outputs_were_left_to_come(agent, grid):
    view = a_view()
    agent.views[view.id] = view
    done = grid("cancel", view.name)

    assert (done.returncode, done.stdout) == (0, f"{view.id[:12]}  {view.name}  running\n")
    assert done.stderr == (
        f"grid: the process of job {view.name} ({view.id[:12]}) has already ended, and its outputs "
        f"still come home: grid wait {view.id}\n"
    )


@pytest.mark.parametrize(
    "view",
    [
        a_view(state="cancelled", transits=(COMING,)),
        a_view(state="running", gang=2, transits=(COMING,)),
        an_array(state="running", transits=(COMING,)),
        a_view(state="running"),
        a_view(state="running", transits=(Transit(doing="copying", node="desk"),)),
    ],
    ids=["ended", "gang", "array", "runs", "copied"],
)
def test_of_what_has_ended_or_still_runs_it_is_not_said(view):
    assert too_late(view) is None
