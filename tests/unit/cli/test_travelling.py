"""Whoever waits at a terminal sees how far files are; a program sees nothing of it."""

import asyncio
import contextlib
import os
import pty
import subprocess
import termios

import msgspec
import pytest

from distributed_grid.model.ids import job_id_of
from distributed_grid.model.transit import Transit
from tests.agent_stand_in import CannedAgent, a_view, an_array, an_attempt, serving
from tests.conftest import VENV_BIN

HALF = Transit(doing="receiving", node="attic", bytes_done=50, bytes_total=100, files=7)
LINE = "attic is receiving 50 B of 100 B (7 files)"


class Slow(CannedAgent):
    """An agent whose jobs begin once somebody has looked how far their files are."""

    def __init__(self):
        super().__init__()
        self.looks = 0
        self.transits = (HALF,)

    @property
    def is_moving(self):
        return self.looks < 3

    async def job(self, word):
        self.looks += 1
        return await self.wait(word, timeout_ms=0)

    async def wait(self, word, *, timeout_ms):
        view = await super().job(word)
        if timeout_ms and self.is_moving:
            await asyncio.sleep(0.05)
        if not self.is_moving:
            return view
        granted = an_attempt(state="granted")
        return msgspec.structs.replace(
            view, state="waiting", transits=self.transits, attempts=(granted,)
        )

    async def logs(self, word, *, stream, **_):
        while self.is_moving:
            await asyncio.sleep(0.01)
        view = await super().job(word)
        yield b"".join(self.output.get((job_id_of(view.name), stream, -1), []))


@pytest.fixture
def agent(tmp_path, clean_env):
    canned = Slow()
    home = tmp_path / "g"
    home.mkdir()
    clean_env["GRID_HOME"] = str(home)
    with serving(canned, home / "agent.sock"):
        yield canned


def on_a_terminal(*words, env, columns=100):
    """Exit code, stdout through a pipe, and what the terminal of stderr was sent."""
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, columns))
    with subprocess.Popen(
        [VENV_BIN / "grid", *words], env=env, stdin=theirs, stderr=theirs, stdout=subprocess.PIPE
    ) as process:
        os.close(theirs)
        seen = b""
        with contextlib.suppress(OSError):  # EIO: nobody writes there any more.
            while part := os.read(ours, 65_536):
                seen += part
        out = process.stdout.read()
    os.close(ours)
    return process.returncode, out.decode(), seen.decode()


def left(seen: str) -> str:
    """What stands on the terminal in the end."""
    shown = ""
    for line in seen.split("\n"):
        shown += line.split("\x1b[K")[-1].replace("\r", "")
    return shown


@pytest.mark.parametrize("words", [("run",), ("run-shared", "-r", "cpu", "-a", "1")])
def test_a_line_tells_how_far_the_files_are_and_nothing_of_it_stays(agent, clean_env, words):
    agent.write("echo", b"done\n")
    code, out, seen = on_a_terminal(*words, "echo", env=clean_env)

    assert (code, out) == (0, "done\n")
    assert f"grid: echo: {LINE}\x1b[K" in seen
    assert left(seen) == ""


def test_the_line_is_no_longer_than_the_terminal_is_wide_and_has_no_codes_of_others(
    agent, clean_env
):
    agent.transits = (msgspec.structs.replace(HALF, node="at\x1b[2Jtic" * 9),)
    _, _, seen = on_a_terminal("run", "echo", env=clean_env, columns=40)
    (first, *_) = [line for line in seen.split("\r") if "at?[2Jtic" in line]

    assert len(first.removesuffix("\x1b[K")) == 39
    assert "\x1b[2J" not in seen


def test_with_json_the_line_is_there_too_and_stdout_is_json(agent, clean_env):
    class Answer(msgspec.Struct):
        state: str

    code, out, seen = on_a_terminal("run", "--json", "echo", env=clean_env)

    assert code == 0
    assert msgspec.json.decode(out, type=Answer).state == "succeeded"
    assert LINE in seen


def test_while_files_are_packed_the_job_is_not_known_and_that_is_told(agent, clean_env):
    asked = []
    pack = agent.across.pack

    async def slow(wanted):
        while len(asked) < 2:
            await asyncio.sleep(0.01)
        return await pack(wanted)

    async def job(word):
        asked.append(word)
        return await Slow.job(agent, word)

    agent.across.pack, agent.job = slow, job
    code, out, seen = on_a_terminal("run", "--detach", "--ship", "x", "echo", env=clean_env)

    assert code == 0
    assert len(out.strip()) == 64
    assert "grid: echo: its files are packed\x1b[K" in seen
    assert left(seen) == ""


def test_a_line_tells_why_a_job_waits(agent, clean_env):
    agent.transits = ()
    code, _, seen = on_a_terminal("run", "echo", env=clean_env)

    assert code == 0
    assert "grid: echo waits: it waits for cores\x1b[K" in seen
    assert left(seen) == ""


def test_a_line_that_a_job_has_begun_is_not_written_over(agent, clean_env):
    async def logs(word, *, stream, **_):
        if stream == "stdout":
            yield b"half a li"
            while agent.is_moving:
                await asyncio.sleep(0.01)
            yield b"ne\n"

    agent.logs = logs
    code, out, seen = on_a_terminal("run", "echo", env=clean_env)

    assert (code, out) == (0, "half a line\n")
    assert LINE not in seen


def test_without_a_terminal_nobody_asks_and_nothing_is_told(agent, grid):
    async def logs(*_, **__):
        await asyncio.sleep(1.2)  # Twice as long as the first look takes.
        agent.looks += 100
        yield b""

    agent.logs = logs
    done = grid("run", "echo")

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert agent.looks == 200


def test_the_bar_of_an_array_tells_it_too(agent, clean_env):
    async def wait(word, *, timeout_ms):
        view = await Slow.wait(agent, word, timeout_ms=0)
        if not agent.is_moving:
            return view
        agent.looks += 1
        await asyncio.sleep(0.2)
        array = msgspec.structs.replace(view.array, succeeded=0, failed=0, waiting=3)
        return msgspec.structs.replace(view, array=array)

    agent.wait = wait
    agent.ends_as = lambda job: an_array(job.name)
    code, _, seen = on_a_terminal("run", "--array", "0-2", "echo", env=clean_env)

    assert code == 1
    assert LINE in seen


def test_job_and_jobs_show_it(agent, grid):
    copy = Transit(doing="copying", node="barn", bytes_done=1, bytes_total=4)
    moving = a_view("moving", state="waiting", reason=str(HALF), transits=(HALF, copy))
    copied = a_view("copied", state="running", transits=(copy,))
    agent.views = {view.id: view for view in (moving, copied)}
    agent.looks = 100
    text = grid("job", "moving").stdout

    assert f"waiting: {LINE}" in text
    assert "barn is getting a copy of its files, 1 B of 4 B" in text
    rows = {
        line.split()[1]: line for line in grid("jobs").stdout.splitlines() if "make all" in line
    }
    assert "receiving 50 %" in rows["moving"]
    assert " running " in rows["copied"]
