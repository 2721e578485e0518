"""`grid cache`, against a canned agent with a real store behind it."""

import json

import pytest

from distributed_grid.agent.caching import Cache
from distributed_grid.model import artifact
from tests.agent_stand_in import CannedAgent, serving
from tests.unit.artifacts.lab import a_store, files_of, noise


@pytest.fixture
def store(tmp_path):
    return a_store(tmp_path / "cache")


@pytest.fixture
def agent(tmp_path, clean_env, store):
    canned = CannedAgent()
    canned.cache = Cache(store, files_of(store))
    home = tmp_path / "g"
    home.mkdir()
    clean_env["GRID_HOME"] = str(home)
    with serving(canned, home / "agent.sock"):
        yield canned


def lines(done) -> list[str]:
    assert done.returncode == 0, done.stderr
    return [" ".join(line.split()) for line in done.stdout.splitlines()]


def keep(store, size, seed=1) -> bytes:
    data = noise(size, seed)
    store.put(artifact.digest(data), data, draft="job" if seed == 2 else "")
    return artifact.digest(data)


def test_an_empty_cache_says_so(agent, grid):
    assert lines(grid("cache")) == [
        "kept 0 B of 1 GiB",
        "pieces 0, of 0 directories",
        "hits nothing was asked for yet",
    ]


@pytest.mark.rows("S0-74")
def test_the_cache_shows_what_it_holds_and_how_often_that_helped(agent, grid, store):
    store.lacking([keep(store, 2_048), keep(store, 1_024, 2), b"x" * 32])
    shown = lines(grid("cache", "show"))
    told = json.loads(grid("cache", "--json").stdout)

    assert shown == [
        "kept 3 KiB of 1 GiB",
        "needed 1 KiB",
        "pieces 2, of 0 directories",
        "hits 2 of 3 (66 %), 3 KiB not sent",
    ]
    assert (told["hits"], told["misses"], told["bytes_saved"]) == (2, 1, 3_072)
    assert (told["bytes_used"], told["bytes_pinned"], told["chunks"]) == (3_072, 1_024, 2)


@pytest.mark.rows("S0-74")
def test_a_bounded_cache_tells_what_made_room_and_what_was_damaged(agent, grid, store, tmp_path):
    store.bytes_max = 5_000
    keep(store, 2_048)
    keep(store, 2_048, 3)
    broken = keep(store, 2_048, 4)
    (tmp_path / "cache/chunks" / broken.hex()).write_text("else")
    store._sound.clear()
    store.get(broken)

    assert lines(grid("cache"))[-2:] == ["made room 1", "damaged 1"]


def test_clearing_removes_what_no_job_needs(agent, grid, store):
    keep(store, 2_048)
    keep(store, 1_024, 2)

    assert lines(grid("cache", "clear")) == ["removed 2 KiB in 1 piece, 1 KiB are needed and stay"]
    assert json.loads(grid("cache", "clear", "--json").stdout) == {
        "chunks": 0,
        "bytes_removed": 0,
        "bytes_left": 1_024,
    }
    store.release("job")
    assert lines(grid("cache", "clear")) == ["removed 1 KiB in 1 piece"]


def test_without_an_agent_it_says_how_to_start_one(grid):
    done = grid("cache")

    assert done.returncode == 4
    assert "grid up" in done.stderr


def test_the_metrics_name_the_cache(store):
    keep(store, 2_048)

    assert "grid_cache_bytes 2048" in list(Cache(store, files_of(store)).metrics())
