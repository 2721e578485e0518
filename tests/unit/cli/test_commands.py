"""Every command that asks the agent, as a process, against a canned agent behind real routes."""

import json
import os
import signal
import subprocess
import sys

import pytest

from distributed_grid.cli import is_plain_run, run
from distributed_grid.cli.placing_words import told_of
from distributed_grid.cli.running import Told
from tests.agent_stand_in import (
    CannedAgent,
    a_view,
    an_array,
    an_attempt,
    answering,
    hangs_up,
    http,
    says,
    serving,
)
from tests.conftest import VENV_BIN

HEAVY = (
    "asyncio",
    "numpy",
    "psutil",
    "pynvml",
    "rich",
    "starlette",
    "structlog",
    "uvicorn",
    "yaml",
)
NOT_EVEN = (  # Each a millisecond or more of every start.
    "click",
    "ctypes",
    "dataclasses",
    "h11",
    "hashlib",
    "importlib.metadata",
    "json",
    "locale",
    "pathlib",
    "shutil",
    "socket",
    "subprocess",
    "tempfile",
    "threading",
    "urllib",
)


@pytest.fixture
def agent(tmp_path, clean_env):
    """A canned agent where `grid` looks for the real one."""
    canned = CannedAgent()
    home = tmp_path / "g"
    home.mkdir()
    clean_env["GRID_HOME"] = str(home)
    with serving(canned, home / "agent.sock"):
        yield canned


def test_run_in_the_foreground_gives_the_jobs_bytes_and_its_code(agent, grid):
    agent.write("tool", b"out\n")
    agent.write("tool", b"err\n", stream="stderr")
    agent.ends_as = lambda spec: a_view(spec.name, state="failed", exit_code=7, reason="exited 7")
    done = grid("run", "tool", "--json", "-x")

    assert (done.returncode, done.stdout, done.stderr) == (7, "out\n", "err\n")
    assert agent.submitted[0].work.argv == ("tool", "--json", "-x")


def test_every_option_of_run_reaches_the_agent(agent, grid, tmp_path):
    (tmp_path / "vars").write_text("A=file\nB=file\n")
    agent.views[a_view().id] = a_view()
    done = grid(
        "run", "--cpus", "0.5", "--memory", "1GiB", "--storage", "2GiB", "--gpus", "H100:2",
        "--resource", "tpu=4", "--resource", "fpga=0.5", "--name", "n", "--env-file", "vars",
        "--env", "A=word", "--env", "MY_TOKEN", "--cwd", "/tmp", "--timeout", "5m", "--retries", "2",
        "--max-losses", "1", "--array", "0-9:3%2", "--after", "build:any", "--image", "alpine",
        "--wait-for-capacity", "--shell", "--detach", "echo", "$A", env={"MY_TOKEN": "t", "API_KEY": "k"},
    )  # fmt: skip
    (spec,) = agent.submitted

    assert done.stdout == f"{spec.id}\n", done.stderr
    assert (spec.name, spec.retries, spec.losses_max, spec.wait_for_capacity) == ("n", 2, 1, True)
    assert spec.work.argv == ("/bin/sh", "-c", "echo $A")
    assert (spec.work.cwd, spec.work.image, spec.work.timeout_ms) == ("/tmp", "alpine", 300_000)
    assert (spec.array.start, spec.array.stop, spec.array.step, spec.array.width) == (0, 10, 3, 2)
    assert [(after.job, after.when) for after in spec.after] == [(a_view().id, "any")]
    assert spec.request.custom == (("fpga", 500), ("tpu", 4_000))
    assert (spec.work.env["A"], spec.work.env["B"], spec.work.env["MY_TOKEN"]) == (
        "word",
        "file",
        "t",
    )
    assert "API_KEY" not in spec.work.env


def test_a_plain_job_inherits_the_environment_and_one_in_a_container_does_not(agent, grid):
    grid("run", "tool", env={"API_KEY": "k", "PLAIN": "p"})
    grid("run", "--image", "alpine", "tool", env={"PLAIN": "p"})
    plain, contained = (spec.work.env for spec in agent.submitted)

    assert (plain["PLAIN"], "API_KEY" in plain, contained) == ("p", False, {})


def test_run_as_json_is_one_object_and_no_stream(agent, grid):
    agent.write("tool", b"not shown")
    done = grid("run", "--json", "tool")
    shown = json.loads(done.stdout)

    assert {"id", "name", "state", "exit_code", "node", "attempts"} <= set(shown)
    assert (shown["state"], done.stderr) == ("succeeded", "")


def test_a_refused_job_is_125_with_the_reason_in_both_places(agent, grid):
    plain = grid("run", "--cpus", "99", "tool")
    as_json = grid("run", "--cpus", "99", "--json", "tool")

    assert (plain.returncode, plain.stdout) == (125, "")
    assert "larger than this machine" in plain.stderr
    assert as_json.returncode == 125
    assert json.loads(as_json.stdout)["state"] == "refused"
    assert "larger" in json.loads(as_json.stdout)["reason"]


@pytest.mark.parametrize("state", ["cancelled", "lost", "skipped"])
def test_what_grid_did_to_a_job_is_125_with_the_reason(agent, grid, state):
    agent.ends_as = lambda spec: a_view(spec.name, state=state, exit_code=None, reason="because")
    done = grid("run", "tool")

    assert (done.returncode, done.stdout) == (125, "")
    assert f"{state}: because" in done.stderr


def test_an_array_exits_with_1_if_one_failed_and_says_which(agent, grid):
    agent.ends_as = lambda spec: an_array(spec.name)
    done = grid("run", "--array", "0-2", "tool")

    assert (done.returncode, done.stdout) == (1, "")
    assert "2 of 3 succeeded, 1 failed" in done.stderr


def test_the_lines_of_an_array_carry_their_index(agent, grid):
    agent.ends_as = lambda spec: an_array(spec.name)
    for index in range(2):
        agent.write("tool", b"a\nb", stream="stdout", index=index)
    agent.write("tool", b"warn\n", stream="stderr", index=1)
    done = grid("run", "--array", "0-1", "--stream", "tool")

    assert done.stdout == "0: a\n0: b\n1: a\n1: b\n"
    assert done.stderr.startswith("1: warn\n")


@pytest.mark.parametrize(
    "options",
    [
        ["--nope"], ["--cpus", "many"], ["--memory", "1XB"], ["--gpus", "H100"], ["--array", "9-1"],
        ["--resource", "tpu"], ["--env", "NOT_SET"], ["--env-file", "missing"], ["--timeout", "0"],
        ["--retries", "-1"], ["--name", ""], ["--env", "GRID_JOB_ID=1"],
    ],
    ids=" ".join,
)  # fmt: skip
def test_a_wrong_option_is_2_and_nothing_is_submitted(agent, grid, options):
    done = grid("run", *options, "tool")

    assert done.returncode == 2
    assert done.stderr
    assert "Traceback" not in done.stderr
    assert agent.submitted == []


@pytest.mark.parametrize(
    "words",
    [["jobs"], ["status"], ["job", "x"], ["logs", "x"], ["down"], ["cancel", "x"],
     ["explain", "x"]],
    ids=" ".join,
)  # fmt: skip
def test_without_an_agent_a_command_is_4_with_one_line(grid, tmp_path, words):
    done = grid(*words, env={"GRID_HOME": str(tmp_path / "none")})

    assert (done.returncode, done.stdout) == (4, "")
    assert done.stderr.count("\n") == 1
    assert "grid up" in done.stderr


@pytest.mark.parametrize(
    "words", [["job"], ["logs"], ["logs", "-f"], ["cancel"], ["explain"]], ids=" ".join
)
def test_a_job_that_is_not_there_is_3(agent, grid, words):
    done = grid(*words, "nothing")

    assert done.returncode == 3
    assert "there is no job 'nothing'" in done.stderr


def test_a_word_that_means_two_jobs_lists_them(agent, grid):
    agent.views = {id_: a_view("same", id=id_) for id_ in ("ab" * 32, "cd" * 32)}
    done = grid("job", "same")

    assert done.returncode == 2
    assert "ab" * 32 in done.stderr
    assert "cd" * 32 in done.stderr


def test_jobs_are_a_table_or_json_from_the_same_value(agent, grid):
    views = [a_view(), an_array(), a_view("[bold]", state="running", exit_code=None)]
    agent.views = {view.id: view for view in views}
    table = grid("jobs", "--limit", "2")
    shown = json.loads(grid("jobs", "--json", "--state", "running").stdout)
    everything = grid("jobs", env={"TERM": "dumb"}).stdout

    assert "build" in table.stdout
    assert "there are more" in table.stderr
    assert [job["name"] for job in shown] == ["[bold]"]
    assert "[bold]" in everything
    assert "failed 2/3, 1 failed" in everything
    assert "\x1b" not in everything


def test_no_jobs_is_an_empty_list_and_a_hint(agent, grid):
    assert grid("jobs", "--json").stdout == "[]\n"
    assert "grid run" in grid("jobs").stderr


def test_a_job_in_full_tells_its_attempts_usage_and_limits(agent, grid):
    view = a_view(attempts=(an_attempt(),), reason="exited 0")
    agent.views[view.id] = view
    text = grid("job", "build").stdout

    for words in (
        "make all",
        "2 cores, 1 GiB",
        "peak memory",
        "5 MiB",
        "memory by cgroup v2",
        "1.5s",
    ):
        assert words in text
    assert json.loads(grid("job", "build", "--json").stdout)["id"] == view.id


def test_logs_are_the_bytes_themselves(agent, grid, clean_env, tmp_path):
    agent.views[a_view().id] = a_view()
    agent.write("build", b"\xff\x00\n")
    agent.write("build", b"err", stream="stderr")
    raw = subprocess.run(
        [VENV_BIN / "grid", "logs", "build"], env=clean_env, capture_output=True, check=True
    )
    shown = json.loads(grid("logs", "build", "--stderr", "--json").stdout)

    assert raw.stdout == b"\xff\x00\n"
    assert grid("logs", "build", "-f", "--stderr").stdout == "err"
    assert (shown["text"], shown["bytes"], shown["stream"]) == ("err", 3, "stderr")


def test_waiting_gives_the_first_code_that_is_not_zero(agent, grid):
    views = [a_view("a"), a_view("b", state="failed", exit_code=5), a_view("c", state="lost")]
    agent.views = {view.id: view for view in views}

    assert grid("wait", "a").returncode == 0
    assert grid("wait", "a", "b", "c").returncode == 5
    assert [job["name"] for job in json.loads(grid("wait", "a", "b", "--json").stdout)] == [
        "a",
        "b",
    ]
    assert json.loads(grid("wait", "a", "--json").stdout)["name"] == "a"


def test_waiting_has_an_end(agent, grid):
    agent.views[a_view().id] = a_view(state="running", exit_code=None)
    done = grid("wait", "--timeout", "50ms", "build")

    assert done.returncode == 124
    assert "still running" in done.stderr


def test_one_wrong_word_does_not_save_the_others_from_being_cancelled(agent, grid):
    agent.views = {view.id: view for view in (a_view("a"), a_view("b"))}
    done = grid("cancel", "a", "nothing", "b")

    assert done.returncode == 3
    assert agent.cancelled == ["a", "b"]
    assert [job["state"] for job in json.loads(grid("cancel", "a", "--json").stdout)] == [
        "cancelled"
    ]


def test_why_a_job_waits_is_told_in_the_units_of_people(agent, grid):
    agent.views[a_view().id] = a_view(state="waiting")
    text = grid("explain", "build").stdout

    for words in ("place in the queue: 2", "cores: wants 2, 0.5 free", "memory: wants 2 GiB, 1 GiB free",
                  "waits for: train", "cancel train"):  # fmt: skip
        assert words in text
    assert json.loads(grid("explain", "build", "--json").stdout)["position"] == 2


def test_status_shows_what_is_free_and_what_is_pretended(agent, grid):
    text = grid("status").stdout

    for words in (
        "desk",
        "6.5 of 8 free",
        "4 GiB of 16 GiB",
        "1.5 of 2 free",
        "1 running, 3 waiting",
        "pretended",
    ):
        assert words in text
    assert json.loads(grid("status", "--json").stdout)["jobs_waiting"] == 3


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_can_learn_our_words(grid, shell):
    done = grid("completion", shell)

    assert "_GRID_COMPLETE" in done.stdout
    assert done.returncode == 0


def test_job_names_are_completed_and_without_an_agent_nothing_is(agent, grid):
    agent.views[a_view().id] = a_view()
    asking = {"_GRID_COMPLETE": "bash_complete", "COMP_WORDS": "grid logs bu", "COMP_CWORD": "2"}

    assert "build" in grid(env=asking).stdout
    assert "build" not in grid(env={**asking, "GRID_HOME": "/nowhere"}).stdout


def test_an_agent_that_answers_nonsense_is_one_line(grid, tmp_path):
    home = tmp_path / "g"
    home.mkdir()
    with answering(home / "agent.sock", says(http(b"<html>", kind="text/html"))):
        done = grid("status", env={"GRID_HOME": str(home)})

    assert (done.returncode, done.stderr.count("\n")) == (1, 1)


def test_losing_the_agent_after_submitting_says_how_to_find_the_job(grid, tmp_path):
    home = tmp_path / "g"
    home.mkdir()
    accepted = says(http(b'{"ids": ["%s"]}' % (b"ab" * 32)))
    with answering(home / "agent.sock", accepted, hangs_up, hangs_up):
        done = grid("run", "--json", "tool", env={"GRID_HOME": str(home)})

    assert done.returncode == 125
    assert "grid wait" in done.stderr


def loaded_by_run(clean_env, *options: str) -> list[str]:
    """The modules `grid run` holds at its end; no hook of the environment loads any before."""
    program = (
        "import sys\n"
        f"sys.argv = ['grid', 'run', *{options!r}, 'tool']\n"
        "from distributed_grid.cli import main\n"
        "try:\n"
        "    main()\n"
        "except SystemExit as done:\n"
        "    loaded = sorted(sys.modules)\n"
        "    assert done.code == 0\n"
        "print(*loaded)"
    )
    env = {name: value for name, value in clean_env.items() if not name.startswith("COVERAGE_")}
    done = subprocess.run(
        [sys.executable, "-S", "-c", program],
        env=env | {"PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.split()


@pytest.mark.parametrize(
    "options",
    [("--cpus", "1"), ("--node", "gpu1", "--gang", "2", "--avoid", "class:laptop")],
    ids=["cpus", "places"],
)
def test_run_loads_nothing_heavy(agent, clean_env, options):
    loaded = loaded_by_run(clean_env, *options)

    assert [name for name in HEAVY if name in loaded] == []


def test_run_loads_what_is_about_places_only_if_a_place_was_named(agent, clean_env):
    places = {"distributed_grid.client.placing", "distributed_grid.wire.across_api"}

    assert places.isdisjoint(loaded_by_run(clean_env, "--cpus", "1"))
    assert "distributed_grid.client.placing" in loaded_by_run(clean_env, "--node", "gpu1")


def test_run_without_options_loads_as_little_as_it_can(agent, clean_env):
    loaded = loaded_by_run(clean_env)

    assert [name for name in (*HEAVY, *NOT_EVEN) if name in loaded] == []


def test_run_without_options_means_what_the_options_say_when_nobody_gives_them():
    told = run.command.make_context("run", ["tool", "--cpus", "2"]).params

    placing = told_of(told)

    assert Told(placing=placing, **told) == Told(words=("tool", "--cpus", "2"))


@pytest.mark.parametrize(
    ("words", "env", "is_plain"),
    [
        (["run", "tool"], {}, True),
        (["run", "tool", "--cpus", "2"], {}, True),
        (["run", ""], {}, True),
        (["run"], {}, False),
        (["run", "--cpus", "2", "tool"], {}, False),
        (["run", "--", "tool"], {}, False),
        (["runs", "tool"], {}, False),
        (["wait", "run"], {}, False),
        ([], {}, False),
        # A wrong value of these is refused, and who completes a line runs nothing.
        (["run", "tool"], {"GRID_LOG_LEVEL": "loud"}, False),
        (["run", "tool"], {"GRID_LOG_FORMAT": "json"}, False),
        (["run", "tool"], {"_GRID_COMPLETE": "bash_complete"}, False),
    ],
)
def test_only_run_without_options_goes_past_the_options(monkeypatch, words, env, is_plain):
    for name in ("GRID_LOG_LEVEL", "GRID_LOG_FORMAT", "_GRID_COMPLETE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in env.items():
        monkeypatch.setenv(name, value)

    assert is_plain_run(words) is is_plain


@pytest.mark.parametrize("words", [["run", ""], ["run", "--cpus", "1", ""]], ids=" ".join)
def test_a_command_that_is_none_is_refused_on_both_ways(agent, grid, words):
    done = grid(*words)

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("grid: ")
    assert "command" in done.stderr
    assert agent.submitted == []


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_a_signal_without_a_terminal_cancels_at_once(agent, clean_env, number, code):
    # A job whose output never ends: the canned agent is asked to follow, and does not answer.
    agent.logs = never_ending(agent)
    process = subprocess.Popen(
        [VENV_BIN / "grid", "run", "tool"], env=clean_env, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout.read(5) == b"begun"  # It watches now.
    process.send_signal(number)
    _, told = process.communicate(timeout=20)

    assert process.returncode == code
    assert b"cancelled" in told
    assert agent.cancelled == ["tool"]


def test_a_reader_that_has_gone_ends_the_job_as_a_pipe_would(agent, clean_env):
    agent.logs = never_ending(agent, repeat=True)
    read_end, write_end = os.pipe()
    process = subprocess.Popen(
        [VENV_BIN / "grid", "run", "tool"],
        env=clean_env,
        stdin=subprocess.DEVNULL,
        stdout=write_end,
    )
    os.close(write_end)
    os.read(read_end, 5)
    os.close(read_end)

    assert process.wait(timeout=20) == 141
    assert agent.cancelled == ["tool"]


def never_ending(agent, *, repeat=False):
    import asyncio

    async def logs(word, *, stream, index, follow, offset, attempt):
        del word, index, follow, offset
        if stream == "stdout":
            yield b"begun"
        while not agent.cancelled:
            await asyncio.sleep(0.01)
            if repeat and stream == "stdout":
                yield b"more" * 1_000

    return logs
