"""What a project says for `grid run`: where it is found, what it may say, and who wins."""

import os

import click
import pytest

from distributed_grid.cli import project, run
from distributed_grid.errors import BadInput, BadValue, UnknownName
from distributed_grid.model.priority import priority
from tests.agent_stand_in import CannedAgent, serving

MANY = """\
cpus = 2
memory = "1GiB"
gpus = "H100:1"
resource = ["tpu=4"]
priority = "high"
timeout = "5m"
retries = 2
max_losses = 1
env = ["SEED=7"]
no-battery = true
output = "results/**"
python-env = "auto"
ship = ["data", "train.py"]
"""


def refused(asked) -> BadValue:
    with pytest.raises(BadValue) as caught:
        asked()
    return caught.value


@pytest.fixture
def agent(tmp_path, clean_env):
    """A canned agent where `grid` looks for the real one."""
    canned = CannedAgent()
    home = tmp_path / "g"
    home.mkdir()
    clean_env["GRID_HOME"] = str(home)
    with serving(canned, home / "agent.sock"):
        yield canned


@pytest.fixture
def here(tmp_path, monkeypatch):
    """The top of a repository, in which somebody is."""
    top = tmp_path / "project"
    (top / ".git").mkdir(parents=True)
    monkeypatch.chdir(top)
    return top


def refusal() -> BadInput:
    with pytest.raises(BadInput) as caught:
        project.defaults(project.found(), click.Context(run.command))
    return caught.value


@pytest.mark.parametrize(
    ("file", "head"), [("grid.toml", ""), ("pyproject.toml", "[project]\nname='x'\n[tool.grid]\n")]
)
def test_a_project_says_what_nobody_says_on_the_command_line(agent, grid, here, file, head):
    (here / file).write_text(head + MANY)
    (here / "requirements.txt").touch()
    (here / "below").mkdir()
    done = grid("run", "tool", cwd=here / "below")
    assert done.returncode == 0, done.stderr
    (spec,) = agent.submitted

    assert (spec.request.cpu_milli, spec.request.memory_bytes) == (2_000, 1 << 30)
    assert (spec.request.gpus.model, dict(spec.request.custom)) == ("H100", {"tpu": 4_000})
    assert (spec.priority, spec.work.timeout_ms) == ("high", 300_000)
    assert (spec.retries, spec.losses_max) == (2, 1)
    assert (spec.work.env["SEED"], spec.battery_safe) == ("7", False)
    assert spec.outputs == ("results/**",)
    ((_, packed),) = [one for one in agent.across.asked if one[0] == "pack"]
    assert packed.paths == (f"{here}/data", f"{here}/train.py")  # From where they are named.
    assert packed.python_env == f"{here}/requirements.txt"


def test_the_command_line_wins(agent, grid, here):
    (here / "grid.toml").write_text('cpus = 4\nmemory = "1GiB"\nlabel = ["room=attic"]\n')
    done = grid("run", "--cpus", "2", "--label", "room=cellar", "tool", cwd=here)
    assert done.returncode == 0, done.stderr
    (spec,) = agent.submitted

    assert (spec.request.cpu_milli, spec.request.memory_bytes) == (2_000, 1 << 30)
    assert spec.require.labels == (("room", "cellar"),)


def test_a_wrong_value_of_the_command_line_is_not_blamed_on_the_file(agent, grid, here):
    (here / "grid.toml").write_text('memory = "lots"\n')
    of_file = grid("run", "tool", cwd=here)
    of_line = grid("run", "--memory", "plenty", "tool", cwd=here)

    assert (of_file.returncode, of_line.returncode) == (2, 2)
    assert f"{here}/grid.toml: memory: expected an amount" in of_file.stderr
    assert "grid.toml" not in of_line.stderr
    assert "plenty" in of_line.stderr
    assert agent.submitted == []


@pytest.mark.parametrize(
    ("key", "error"),
    [
        ("max-latency", BadValue("x", expected="a span", remedy="Mend", field="max_latency")),
        ("resource", BadValue("x", expected="a pair", remedy="Mend", field="resources")),
        ("output", BadValue("x", expected="a pattern", remedy="Mend", field="outputs")),
        ("policy", UnknownName("policy", "Nope", known=["BestFit"])),
        ("priority", refused(lambda: priority("hgh"))),
    ],
)
def test_whoever_refuses_a_word_its_file_is_named(key, error):
    said = project.Project("/p/grid.toml", {key: "x"})
    told = said.named(error)

    assert (told.file, told.path) == ("/p/grid.toml", key)
    assert (told.problem, told.remedy) == (error.message, error.remedy)
    assert project.NONE.named(error) is error


def test_help_is_shown_beside_a_file_that_cannot_be_used(agent, grid, here):
    (here / "grid.toml").write_text("retries = -1\n")
    asked, ran = grid("run", "--help", cwd=here), grid("run", "tool", "--help", cwd=here)

    assert (asked.returncode, "--retries" in asked.stdout) == (0, True), asked.stderr
    assert (ran.returncode, agent.submitted) == (2, [])


def test_the_nearest_file_counts_and_none_above_the_repository(here, monkeypatch):
    (here.parent / "grid.toml").write_text("cpus = 9\n")
    assert project.found() is None
    (here / "pyproject.toml").write_text("[tool.grid]\ncpus = 1\n")
    (here / "low" / "lower").mkdir(parents=True)
    (here / "low" / "pyproject.toml").write_text('[project]\nname = "tool of a grid"\n')
    monkeypatch.chdir(here / "low" / "lower")
    assert project.found() == project.Project(f"{here}/pyproject.toml", {"cpus": 1})
    (here / "grid.toml").write_text("cpus = 2\n")
    assert project.found().table == {"cpus": 2}

    monkeypatch.setenv("HOME", str(here / "low"))  # It ends at the home directory, too.
    assert project.found() is None


@pytest.mark.parametrize(
    "text",
    ["[tool.grid]\ncpus = 2", "[ tool . 'grid' ]\ncpus = 2", "[tool]\ngrid.cpus = 2",
     "tool = {grid = {cpus = 2}}", '["tool"]\n"grid" = {cpus = 2}', "tool.grid.cpus = 2"],
)  # fmt: skip
def test_a_table_is_found_however_it_is_written(here, text):
    (here / "pyproject.toml").write_text(text)

    assert project.found().table == {"cpus": 2}


def test_who_is_nowhere_has_no_project(tmp_path, monkeypatch):
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()

    assert project.found() is None


def test_the_file_of_another_user_is_left_alone_and_that_is_said(here, monkeypatch, capfd):
    file = here / "grid.toml"
    file.write_text('env = ["LD_PRELOAD=evil.so"]\n')
    if os.geteuid() == 0:
        os.chown(file, 12_345, -1)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: 12_345)

    assert project.found() is None
    assert capfd.readouterr().err == f"grid: {file} is left alone: it is another user's\n"


@pytest.mark.parametrize(
    ("text", "where", "problem", "remedy"),
    [
        ("cpu = 2", "cpu", "is no default of grid run", "Did you mean 'cpus'"),
        ("xyzzy = 2", "xyzzy", "is no default of grid run", "Known: cpus, memory, "),
        ("detach = true", "detach", "is no default of grid run", "Known: "),
        ("cpus = true", "cpus", "expected text or a number, got True", "Mend it"),
        ("cpus = [1]", "cpus", "expected text or a number, got [1]", "Mend it"),
        ("env = [[1]]", "env", "expected text or a number, or a list of them", "Mend it"),
        ("no-battery = 1", "no-battery", "expected true or false, got 1", "Mend it"),
        ("retries = -1", "retries", "-1 is not in the range", "See grid run --help for --retries"),
        ("[memory]\nx = 1", "memory", "expected text or a number", "Mend it"),
    ],
)
def test_a_wrong_word_is_named_with_its_place_and_what_was_meant(
    here, text, where, problem, remedy
):
    (here / "grid.toml").write_text(text)
    error = refusal()

    assert (error.file, error.path) == (f"{here}/grid.toml", where)
    assert problem in error.problem
    assert error.remedy.startswith(remedy)


@pytest.mark.parametrize("name", ["{top}/vars", "../vars", "link", "below/../../vars"])
def test_variables_come_only_from_within_the_project(here, tmp_path, name):
    (tmp_path / "vars").write_text("PASSWORD=1\n")
    (here / "link").symlink_to(tmp_path / "vars")
    (here / "below").mkdir()
    name = name.format(top=tmp_path)
    (here / "grid.toml").write_text(f'env-file = ["below/vars", "{name}"]\n')
    error = refusal()

    assert (error.path, error.problem) == ("env-file", f"{name} is outside of {here}")
    assert error.remedy.startswith("Say it with --env-file")


@pytest.mark.parametrize(
    ("file", "body", "where", "problem"),
    [
        ("grid.toml", b"cpus = ", "$", "is no TOML"),
        ("grid.toml", b"\xff\xfe", "$", "is no TOML"),
        ("grid.toml", b"cpus = " + b"[" * 60_000, "$", "is no TOML"),
        ("grid.toml", b"cpus = " + b"9" * 6_000, "$", "is no TOML"),
        ("grid.toml", b"a." * 30_000 + b"a = 1", "$", "has a line with more than 1000 dots"),
        ("grid.toml", b"#" * (project.OWN_BYTES_MAX + 1), "$", "has more than 65536 bytes"),
        ("pyproject.toml", b"[tool.grid]\n" + b"#" * (1 << 20), "$", "has more than 1048576 bytes"),
        ("pyproject.toml", b"[tool]\ngrid = 7\n", "tool.grid", "is no table"),
        ("pyproject.toml", b"tool = 'grid'\n", "tool.grid", "is no table"),
        ("pyproject.toml", b"[tool.grid]\ncpu = 1\n", "tool.grid.cpu", "is no default"),
    ],
)
def test_a_file_that_cannot_be_used_says_why(here, file, body, where, problem):
    (here / file).write_bytes(body)
    error = refusal()

    assert (error.file, error.path) == (f"{here}/{file}", where)
    assert problem in error.problem


def test_a_file_that_cannot_be_read_or_says_nothing_of_grid_is_none(here):
    (here / "grid.toml").mkdir()
    (here / "pyproject.toml").write_text("[tool.ruff]\n")

    assert project.found() is None


def test_every_default_is_an_option_of_grid_run():
    options = {name[2:] for one in run.command.params for name in one.opts}

    assert set(project.KEYS) <= options
