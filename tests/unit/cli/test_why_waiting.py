"""Whoever waits for a job in the foreground is told why it has not begun, in a pipe too."""

import asyncio

import msgspec
import pytest

from distributed_grid.client.why_waiting import LETTERS_MAX, News, sentence
from distributed_grid.model.ids import JobId
from distributed_grid.wire.api import Explanation, Jobs
from tests.agent_stand_in import CannedAgent, a_view, an_attempt, serving

LENT = "node-2: position 1, waits for an offer: cpu_percent_max is 30 %, measured {} %"
REASONS = [
    *(Explanation(
        id=JobId("a" * 64), state="waiting", summary="it waits for room on another node",
        remedies=(f"{LENT.format(used)}; on node-2: grid offer all, or: grid offer set KEY VALUE",),
    ) for used in (86, 91)),
    Explanation(
        id=JobId("a" * 64), state="waiting", summary="it waits for resources that others use",
        shortfall=(("cpu_milli", 2_000, 500),), waits_for=("train",),
        remedies=("cancel one of them: grid cancel train",),
    ),
]  # fmt: skip
FIRST = "waits: it waits for room on another node. What would help: node-2: position 1, waits for "
THEN = (
    "waits: it waits for resources that others use (train); wants 2 cores, 0.5 cores free. "
    "What would help: cancel one of them: grid cancel train\n"
)


class Full(CannedAgent):
    """An agent whose jobs begin when somebody has heard all reasons."""

    def __init__(self):
        super().__init__()
        self.told = 0

    async def explain(self, word):
        await super().job(word)
        self.told += 1
        return REASONS[min(self.told, len(REASONS)) - 1]

    async def job(self, word):
        view = await super().job(word)
        if self.told < len(REASONS):
            return msgspec.structs.replace(view, state="waiting", attempts=())
        return view

    async def wait_many(self, words, *, timeout_ms):
        return Jobs(jobs=tuple([await self.wait(word, timeout_ms=timeout_ms) for word in words]))

    async def wait(self, word, *, timeout_ms):
        while self.told < len(REASONS) and timeout_ms > 0:
            await asyncio.sleep(0.02)
            timeout_ms -= 20
        return await self.job(word)

    async def logs(self, word, *, stream, **_):
        while self.told < len(REASONS):
            await asyncio.sleep(0.02)
        yield b"done\n" if stream == "stdout" else b""


@pytest.fixture
def agent(tmp_path, clean_env):
    home = tmp_path / "g"
    home.mkdir()
    clean_env["GRID_HOME"] = str(home)
    canned = Full()
    with serving(canned, home / "agent.sock"):
        yield canned


@pytest.mark.parametrize(
    ("words", "out"),
    [
        (("run",), "done\n"),
        (("run-shared", "-r", "cpu", "-a", "1"), "done\n"),
        (("run", "--array", "0-1"), ""),
    ],
)
def test_a_reason_is_told_once_and_again_when_it_changes(agent, grid, words, out):
    done = grid(*words, "echo")

    assert done.stdout == out
    assert done.stderr.count(f"grid: job echo {FIRST}") == 1  # 91 % is no other reason than 86 %.
    assert done.stderr.count(f"grid: job echo {THEN}") == 1


def test_a_job_that_is_suspended_for_the_owner_of_its_machine_says_so(agent, grid):
    why = "it is suspended on attic, its owner is back: cpu_percent_max is 30 %, measured 86 %"
    agent.told, agent.views = len(REASONS), {(view := a_view("one")).id: view}

    async def job(word):
        view = await CannedAgent.job(agent, word)
        attempts = (an_attempt(state="running", suspended="the owner is back"),)
        if agent.told == len(REASONS):
            return msgspec.structs.replace(view, state="running", attempts=attempts)
        return view

    async def explain(_word):
        agent.told += 1
        return Explanation(id=JobId("a" * 64), state="running", summary=why)

    async def wait(word, *, timeout_ms):
        while agent.told == len(REASONS) and timeout_ms > 0:
            await asyncio.sleep(0.02)
            timeout_ms -= 20
        return await job(word)

    agent.job, agent.explain, agent.wait = job, explain, wait
    done = grid("wait", "one")

    assert done.stderr.count(f"one: {why}") == 1


def test_who_waits_for_several_is_told_of_each(agent, grid):
    agent.views = {view.id: view for view in (a_view("one"), a_view("two"))}
    done = grid("wait", "one", "two", "--json")

    assert done.returncode == 0
    assert f"grid: job one {FIRST}" in done.stderr
    assert f"grid: job two {FIRST}" in done.stderr
    assert len(msgspec.json.decode(done.stdout)) == 2


def test_files_that_are_packed_for_long_are_told_of_too(agent, grid):
    pack, asked = agent.across.pack, []

    async def job(word):
        asked.append(word)
        return await CannedAgent.job(agent, word)

    async def slow(wanted):
        while not asked:
            await asyncio.sleep(0.02)
        return await pack(wanted)

    agent.across.pack, agent.job = slow, job
    done = grid("run", "--detach", "--ship", "x", "echo")

    assert (done.returncode, done.stderr) == (0, "grid: echo: its files are packed\n")


def test_a_sentence_has_a_moment_no_codes_of_others_and_an_end():
    why = msgspec.structs.replace(REASONS[0], start_ms=86_400_000, remedies=("\x1b[2J" * 900,))
    said = sentence("x", why)

    assert "; not before 1970-01-0" in said
    assert "\x1b" not in said
    assert len(said) == LETTERS_MAX + 2


def test_numbers_alone_are_no_news():
    news = News()
    assert news.of("86 % of 4") == "86 % of 4"
    assert news.of("7 % of 12") is None
    assert news.of("7 of 12") == "7 of 12"
