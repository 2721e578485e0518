"""What people see of jobs and their output, where it is much or nothing."""

import pytest

from distributed_grid.wire.api import StoryLine
from tests.agent_stand_in import CannedAgent, a_view, an_array, an_attempt, serving


@pytest.fixture
def agent(tmp_path, clean_env):
    """A canned agent where `grid` looks for the real one."""
    canned = CannedAgent()
    home = tmp_path / "g"
    home.mkdir()
    clean_env["GRID_HOME"] = str(home)
    with serving(canned, home / "agent.sock"):
        yield canned


def test_into_a_pipe_a_job_is_one_line_whatever_its_name_and_command_are(agent, grid):
    argv = ("sh", "-c", "echo one\necho two", "word" * 100)
    views = [a_view("n" * 250, id=f"{number:064x}", argv=argv) for number in range(3)]
    agent.views = {view.id: view for view in views}
    lines = grid("jobs").stdout.rstrip("\n").split("\n")
    rows = [line for line in lines if "n" * 250 in line]

    assert len(rows) == 3
    assert all("echo one echo two" in row and "word" * 100 in row for row in rows)


def test_a_command_that_is_a_whole_script_is_cut_even_there(agent, grid):
    agent.views[a_view().id] = a_view(argv=("sh", "-c", "x" * 100_000))

    assert len(grid("jobs").stdout) < 10_000


def test_of_many_attempts_the_newest_are_shown_and_the_others_counted(agent, grid):
    attempts = tuple(an_attempt(number=number) for number in range(1, 21))
    view = an_array(attempts=attempts)
    agent.views[view.id] = view
    text = grid("job", "sweep").stdout

    assert [number for number in range(1, 21) if f"attempt {number}\n" in text] == [*range(16, 21)]
    assert "and 15 more attempts" in text
    assert grid("job", "sweep", "--json").stdout.count('"number"') == 20


def test_an_index_of_what_is_no_array_is_refused(agent, grid):
    agent.views[a_view().id] = a_view()
    done = grid("logs", "--index", "3", "build")

    assert (done.returncode, done.stdout) == (2, "")
    assert "no array" in done.stderr


def test_following_ends_with_what_was_cut(agent, grid):
    note = "output cut: 12 bytes dropped"
    agent.views[a_view().id] = a_view(attempts=(an_attempt(note=note),))
    agent.write("build", b"end")
    done = grid("logs", "-f", "build")

    assert (done.stdout, done.stderr) == ("end", f"grid: {note}\n")


@pytest.mark.parametrize("word", [
    "nothing matched *.csv: no outputs", "its outputs stay behind: the disk is full",
])  # fmt: skip
def test_whoever_ran_it_is_told_of_outputs_that_are_not_there(agent, grid, word):
    agent.ends_as = lambda spec: a_view(spec.name, attempts=(an_attempt(note=word),))
    done = grid("run", "--output", "*.csv", "build")

    assert (done.returncode, done.stderr) == (0, f"grid: {word}\n")


def test_whoever_ran_it_is_told_of_files_that_were_left_as_they_are(agent, grid):
    word = "1 file written, left as here: a.csv (it has changed here since the job was submitted)"
    story = (StoryLine(at_ms=1, what="outputs", detail=word),)
    agent.ends_as = lambda spec: a_view(spec.name, story=story)

    assert grid("run", "--output", "*.csv", "build").stderr == f"grid: {word}\n"


def test_what_may_be_tried_again_is_streamed_once_it_has_ended(agent, grid):
    agent.ends_as = lambda spec: an_array(spec.name)
    for index in range(2):
        agent.write("tool", b"last\n", index=index)
    done = grid("run", "--array", "0-1", "--retries", "1", "--stream", "tool")
    asked = [asked[0] for asked in agent.asked]

    assert done.stdout == "0: last\n1: last\n"
    assert asked.index("wait") < asked.index("logs")
