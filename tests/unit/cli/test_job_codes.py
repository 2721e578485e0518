"""The exit codes of `run` and `wait`: the job's own, 125 for Grid's, 2 for a wrong word."""

import pytest

from distributed_grid.cli import outcome
from distributed_grid.errors import Ambiguous, BadValue, GridError, NoAgent, NotFound, Overloaded
from tests.agent_stand_in import CannedAgent, a_view, serving


@pytest.fixture
def agent(tmp_path, clean_env):
    """A canned agent where `grid` looks for the real one."""
    canned = CannedAgent()
    home = tmp_path / "g"
    home.mkdir()
    clean_env["GRID_HOME"] = str(home)
    with serving(canned, home / "agent.sock"):
        yield canned


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (NoAgent("/s", why="none"), 125),
        (NotFound("job", "x"), 125),
        (Overloaded("jobs", most=5), 125),
        (GridError("it broke", remedy="Mend it"), 125),
        (BadValue("x", expected="a number", remedy="Write one"), 2),
        (Ambiguous("job", "x", matches=["a", "b"]), 2),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_is_not_the_callers_mistake_is_125(error, code):
    assert outcome.code_of(error) == code


@pytest.mark.parametrize(
    "words",
    [["run", "true"], ["run", "--detach", "true"], ["wait", "x"], ["wait", "x", "y"]],
    ids=" ".join,
)
def test_without_an_agent_a_job_is_125_with_one_line(grid, tmp_path, words):
    done = grid(*words, env={"GRID_HOME": str(tmp_path / "none")})

    assert (done.returncode, done.stdout) == (125, "")
    assert done.stderr.count("\n") == 1
    assert "grid up" in done.stderr


@pytest.mark.parametrize("words", [["wait", "nothing"], ["wait", "build", "nothing"]])
def test_waiting_for_a_job_that_is_not_there_is_125(agent, grid, words):
    agent.views[a_view().id] = a_view()
    done = grid(*words)

    assert done.returncode == 125
    assert "there is no job 'nothing'" in done.stderr


def test_coming_after_a_job_that_is_not_there_is_125(agent, grid):
    done = grid("run", "--after", "nothing", "tool")

    assert (done.returncode, agent.submitted) == (125, [])


def test_a_condition_that_means_nothing_names_the_three_that_do(agent, grid):
    agent.views[a_view().id] = a_view()
    done = grid("run", "--after", "build:bogus", "tool")

    assert (done.returncode, agent.submitted) == (2, [])
    assert all(word in done.stderr for word in (":ok", ":any", ":failed"))


@pytest.mark.parametrize("word", ["id:abcd", "name:abcd"])
def test_a_forced_id_or_name_is_no_condition(agent, grid, word):
    done = grid("run", "--after", word, "tool")

    assert done.returncode == 125
    assert "there is no job" in done.stderr


@pytest.mark.parametrize(
    ("array", "limit"),
    [("0-99999999", "10000000"), ("0-99999999999", "1000000000"), ("5000000000", "1000000000")],
)
def test_an_array_over_the_limit_is_told_the_limit(agent, grid, array, limit):
    done = grid("run", "--array", array, "tool")

    assert (done.returncode, agent.submitted) == (2, [])
    assert limit in done.stderr


def test_a_variable_with_a_space_in_its_name_is_refused(agent, grid):
    done = grid("run", "--env", "A B=1", "tool")

    assert (done.returncode, agent.submitted) == (2, [])
    assert "'A B'" in done.stderr


def test_several_jobs_are_waited_for_at_once_and_told_in_the_order_of_the_words(agent, grid):
    views = [a_view(name, state="failed", exit_code=code) for name, code in (("a", 5), ("b", 7))]
    agent.views = {view.id: view for view in views}
    done = grid("wait", "b", "a")

    assert done.returncode == 7
    asked = [asked for asked in agent.asked if asked[0].startswith("wait")]
    assert [(kind, words) for kind, words, _ in asked] == [
        ("wait_many", (f"id:{views[1].id}", f"id:{views[0].id}"))
    ]
