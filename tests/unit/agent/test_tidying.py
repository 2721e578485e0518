"""Tidying: what nobody remembers goes, and nothing else, however much there is."""

import asyncio
import threading

import pytest

from distributed_grid.agent import loop, tidying
from distributed_grid.agent.tidying import remove_output
from distributed_grid.edges.runner.memory import MemoryRunner
from distributed_grid.edges.store.memory import MemoryStore
from distributed_grid.model.artifact import ASKED
from tests.unit.agent.test_loop import made
from tests.unit.artifacts.lab import a_store, files_of, noise, picture, plant

JOB, OTHER, STORED = (letter * 64 for letter in "abc")


class Stored:
    """A store of jobs, as tidying sees it."""

    def __init__(self, *names):
        self.names = set(names)
        self.asked = []

    async def job(self, name):
        self.asked.append(name)
        return name if name in self.names else None


def names_of(count, *, first=0):
    return [f"{number:064x}" for number in range(first, first + count)]


async def test_drafts_of_a_job_live_as_long_as_it_is_remembered(tmp_path):
    endings = ("", ".made", ".made.part-17-0")
    plant(tmp_path, {f"{job}{end}": None for job in (JOB, OTHER, STORED) for end in endings})
    removed = await remove_output(str(tmp_path), {JOB}, Stored(STORED))

    assert removed == 3
    assert {path.name for path in tmp_path.iterdir()} == {
        f"{job}{end}" for job in (JOB, STORED) for end in endings
    }


async def test_a_state_that_is_put_back_while_others_tidy_is_whole(tmp_path):
    store = a_store(tmp_path / "cache")
    files = files_of(store)
    state = plant(tmp_path / "state", {f"shard{n}": noise(200_000, n) for n in range(5)})
    kept = files.keep(str(state), owner="job", amount=ASKED)
    root = plant(tmp_path / "checkpoints", {})
    get, is_half_done, may_go_on, left = store.get, threading.Event(), threading.Event(), [4]

    def slow(digest):
        left[0] -= 1
        if not left[0]:
            is_half_done.set()
            may_go_on.wait(10)
        return get(digest)

    store.get = slow
    putting = asyncio.create_task(asyncio.to_thread(files.put_back, kept.id, str(root / JOB)))
    await asyncio.to_thread(is_half_done.wait, 10)
    removed = await remove_output(str(root), {JOB}, Stored())
    may_go_on.set()
    await putting

    assert removed == 0
    assert picture(root / JOB) == picture(state)


async def test_those_that_are_known_do_not_stand_in_the_way_of_the_rest(tmp_path, monkeypatch):
    monkeypatch.setattr(tidying, "FOLDERS_MAX", 10)
    known, forgotten = names_of(30), names_of(5, first=100)
    plant(tmp_path, dict.fromkeys([*known, *forgotten]))

    assert await remove_output(str(tmp_path), set(known), Stored()) == 5
    assert sorted(path.name for path in tmp_path.iterdir()) == known


async def test_those_in_the_store_do_not_stand_in_the_way_for_ever(tmp_path, monkeypatch):
    monkeypatch.setattr(tidying, "FOLDERS_MAX", 10)
    store = Stored(*names_of(30))
    plant(tmp_path, dict.fromkeys([*store.names, *names_of(5, first=100)]))
    removed, asked = [], []
    for turn in range(1, 5):
        removed.append(await remove_output(str(tmp_path), set(), store, turn=turn))
        asked.append(len(store.asked))
        store.asked.clear()

    assert sum(removed) == 5
    assert set(asked) == {10}
    assert {path.name for path in tmp_path.iterdir()} == store.names


async def test_a_job_that_comes_while_it_is_looked_for_keeps_its_folder(tmp_path):
    known = set()

    class Slow(Stored):
        async def job(self, name):
            known.add(name)

    plant(tmp_path, {JOB: None})

    assert await remove_output(str(tmp_path), known, Slow()) == 0
    assert (tmp_path / JOB).exists()


async def test_the_agent_goes_on_where_the_last_turn_ended(tmp_path, monkeypatch):
    turns = []

    async def noted(_root, _known, _store, *, turn):
        turns.append(turn)

    async def rest(_):
        if len(turns) == 3:
            raise asyncio.CancelledError

    monkeypatch.setattr(loop, "remove_output", noted)
    monkeypatch.setattr(loop, "TIDY_TICKS", 2)
    agent = made(MemoryStore(), MemoryRunner(), tmp_path)
    with pytest.raises(asyncio.CancelledError):
        await agent._tick(rest)

    assert turns == [1, 2, 3]
