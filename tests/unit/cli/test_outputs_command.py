"""`grid outputs`, against a canned agent."""

import json

import msgspec
import pytest

from distributed_grid.wire.across_api import BringOutputs
from tests.agent_stand_in import CannedAgent, a_view, serving


@pytest.fixture
def agent(tmp_path, clean_env):
    canned = CannedAgent(a_view("train"))
    home = tmp_path / "g"
    home.mkdir()
    clean_env["GRID_HOME"] = str(home)
    with serving(canned, home / "agent.sock"):
        yield canned


def brought(agent, **facts):
    agent.across.brought = msgspec.structs.replace(agent.across.brought, **facts)


def test_outputs_come_into_the_directory_that_was_named_which_is_made(agent, grid, tmp_path):
    done = grid("outputs", "train", "--to", "new/er", "--overwrite")

    assert (done.returncode, done.stdout, done.stderr) == (0, "out.txt\n", "")
    wanted = BringOutputs(directory=f"{tmp_path}/new/er", overwrite=True)
    assert agent.across.asked[-1] == ("hand out", "", "train", wanted)
    assert (tmp_path / "new/er").is_dir()


def test_what_stays_as_it_is_here_is_named_and_counts_as_failed(agent, grid):
    brought(
        agent, written=(), files=0, unchanged=("same",), conflicts=(("a.csv", "another is here"),)
    )
    done = grid("outputs", "train")

    assert (done.returncode, done.stdout) == (1, "")
    assert "a.csv stays as it is: another is here. To replace it: --overwrite" in done.stderr
    assert "1 were in" in done.stderr


def test_of_very_many_the_first_are_named_and_json_has_them_too(agent, grid):
    brought(agent, files=5_000)
    done = grid("outputs", "train")

    assert "and 4999 more" in done.stderr
    assert json.loads(grid("outputs", "train", "--json").stdout)["files"] == 5_000


def test_a_place_that_cannot_be_is_refused_before_anybody_is_asked(agent, grid, tmp_path):
    (tmp_path / "file").write_text("x")
    done = grid("outputs", "train", "--to", "file")

    assert done.returncode == 2
    assert "file" in done.stderr
    assert not agent.across.asked
    assert grid("outputs", "ghost").returncode == 3
