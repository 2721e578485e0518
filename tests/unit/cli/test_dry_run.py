"""`grid run --dry-run`, and what --ship and --output say, against a canned agent."""

import json

import pytest

from distributed_grid.wire.across_api import LeftOut, Pack, Packed, Travelling
from tests.agent_stand_in import CannedAgent, serving

FOUND = Travelling(
    files=(("a.py", 2048), ("data/b.csv", 10)),
    size_bytes=2058,
    links=2,
    left_out=(
        LeftOut(why="may hold secrets, name it to send it", count=1, paths=(".env",)),
        LeftOut(why="left out by default", count=9, paths=tuple(f"x{n}/" for n in range(9))),
    ),
)


@pytest.fixture
def agent(tmp_path, clean_env):
    """A canned agent where `grid` looks for the real one."""
    canned = CannedAgent()
    home = tmp_path / "g"
    home.mkdir()
    clean_env["GRID_HOME"] = str(home)

    async def pack(wanted):
        canned.across.asked.append(wanted)
        return Packed(travelling=canned.found)

    canned.found, canned.across.pack = FOUND, pack
    with serving(canned, home / "agent.sock"):
        yield canned


def test_it_lists_what_travels_with_sizes_and_what_stays_with_the_reason(agent, grid, tmp_path):
    done = grid("run", "--dry-run", "python", "a.py")

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        f"2 files and 2 links, 2 KiB, would travel from {tmp_path}",
        "       2 KiB  a.py",
        "        10 B  data/b.csv",
        "stays at home",
        "  may hold secrets, name it to send it: .env",
        "  left out by default: x0/, x1/, x2/, x3/, x4/ and 4 more",
    ]
    assert agent.across.asked == [Pack(directory=str(tmp_path), is_dry=True)]
    assert not agent.submitted


def test_it_names_the_files_of_variables_that_are_read(agent, grid, tmp_path):
    (tmp_path / "vars").write_text("A=1\n")
    (tmp_path / "grid.toml").write_text('env-file = "vars"\n')
    shown = grid("run", "--dry-run").stdout.splitlines()
    told = json.loads(grid("run", "--dry-run", "--json").stdout)

    assert shown[:2] == [f"defaults of {tmp_path}/grid.toml", f"variables of {tmp_path}/vars"]
    assert told["env_files"] == [f"{tmp_path}/vars"]


def test_it_needs_no_command_and_says_in_a_sentence_why_nothing_travels(agent, grid):
    agent.found = Travelling(note="nothing of /root travels (it is your home directory)")
    done = grid("run", "--dry-run")

    assert (done.returncode, done.stdout) == (0, f"{agent.found.note}\n")


def test_json_has_all_of_it(agent, grid, tmp_path):
    told = json.loads(grid("run", "--dry-run", "--json").stdout)

    assert (told["directory"], told["size_bytes"]) == (str(tmp_path), 2058)
    assert told["files"][0] == ["a.py", 2048]
    assert len(told["left_out"][1]["paths"]) == 9


def test_what_is_asked_for_is_what_would_be(agent, grid, tmp_path):
    (tmp_path / "requirements.txt").touch()
    grid("run", "--dry-run", "--ship-ignored")
    grid("run", "--dry-run", "--ship", "data", "--ship", ".env")
    grid("run", "--dry-run", "--ship", "none")
    done = grid("run", "--dry-run", "--python-env", "auto")

    where = str(tmp_path)
    assert agent.across.asked == [
        Pack(directory=where, is_dry=True, ship_ignored=True),
        Pack(directory=where, is_dry=True, paths=(f"{where}/data", f"{where}/.env")),
        Pack(directory=where, is_dry=True, is_nothing=True),
        Pack(directory=where, is_dry=True, python_env=f"{where}/requirements.txt"),
    ]
    assert done.stdout.endswith(f"environment built from {where}/requirements.txt\n")


@pytest.mark.parametrize("words", [("--ship", "a"), ("--ship-ignored",)])
def test_nothing_and_something_contradict_each_other(agent, grid, words):
    done = grid("run", "--ship", "none", *words, "true")

    assert done.returncode == 2
    assert "./none" in done.stderr
    assert not agent.across.asked


def test_output_narrows_and_no_output_ends_what_comes_back(agent, grid):
    for words, told in [
        ((), (True, ())),
        (("--output", "*.csv"), (True, ("*.csv",))),
        (("--no-output",), (False, ())),
    ]:
        grid("run", "--detach", *words, "true")
        spec = agent.submitted[-1]
        assert (spec.brings_changes, spec.outputs) == told
    both = grid("run", "--output", "x", "--no-output", "true")
    assert both.returncode == 2
    assert "contradict" in both.stderr
