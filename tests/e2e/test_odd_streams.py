"""Streams that are closed, full or cut: one line, no traceback, nobody else's bytes."""

import json
import subprocess

import pytest

pytestmark = pytest.mark.unmeasured


@pytest.fixture
def agent(grid, tmp_path):
    env = {"GRID_HOME": str(tmp_path / "h")}
    assert grid("up", "--detach", env=env).returncode == 0
    yield env
    grid("down", "--stop-jobs", env=env)


def shell(line: str, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["sh", "-c", line], env=env, capture_output=True, text=True, timeout=60, check=False
    )


def test_a_closed_stdout_leads_nowhere_and_the_exit_code_is_the_jobs(agent, clean_env):
    done = shell("grid run -- sh -c 'echo one; sleep 0.2; echo two; exit 3' >&-", clean_env | agent)

    assert (done.returncode, done.stderr) == (3, "")


def test_a_closed_stderr_does_not_change_the_exit_code(agent, clean_env):
    done = shell("grid run -- sh -c 'echo one >&2; exit 3' 2>&-", clean_env | agent)

    assert done.returncode == 3


def test_a_list_into_a_closed_stdout_is_no_traceback(agent, clean_env):
    shell("grid run true", clean_env | agent)
    done = shell("grid jobs >&-", clean_env | agent)

    assert "Traceback" not in done.stderr


def test_a_full_device_is_told_in_one_line(agent, clean_env):
    shell("grid run true", clean_env | agent)
    done = shell("grid jobs > /dev/full", clean_env | agent)

    assert done.returncode == 1
    assert done.stderr.startswith("grid: cannot write: ")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("options", ["", "--array 0-1 --stream"])
def test_a_full_stdout_cancels_the_job_and_is_125_with_the_reason(agent, clean_env, grid, options):
    done = shell(f"grid run {options} -- sh -c 'echo one; sleep 60' > /dev/full", clean_env | agent)
    (job,) = json.loads(grid("jobs", "--json", env=agent).stdout)

    assert done.returncode == 125
    assert "cannot write: No space left" in done.stderr
    assert grid("wait", "--timeout", "20s", job["id"], env=agent).returncode == 125
    assert json.loads(grid("job", job["id"], "--json", env=agent).stdout)["state"] == "cancelled"


@pytest.mark.parametrize("options", ["--json", "--detach", "--detach --json"])
def test_what_a_full_stdout_does_not_take_is_125_with_the_reason(agent, clean_env, options):
    done = shell(f"grid run {options} -- sh -c 'exit 3' > /dev/full", clean_env | agent)

    assert done.returncode == 125
    assert done.stderr.startswith("grid: cannot write: No space left")
    assert ("The job goes on: grid wait" in done.stderr) == ("--detach" in options)


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("grid run -- sh -c 'echo one >&2; echo two >&2; exit 3'", 3),
        ("grid run -- no-such-command", 127),
        ("grid run --array 0-1 --stream -- sh -c 'echo one >&2; exit 3'", 1),
        ("grid wait nothing", 125),
    ],
)
@pytest.mark.parametrize("target", ["/dev/full", "torn"])
def test_a_stderr_that_takes_nothing_costs_only_the_words(agent, clean_env, line, code, target):
    redirected = f"{line} 2> {target}"
    if target == "torn":  # A pipe whose reader has gone before anything is written.
        redirected = f"mkfifo torn; exec 4<> torn 5> torn 4>&-; {line} 2>&5"
    done = subprocess.run(
        ["sh", "-c", redirected],
        env=clean_env | agent,
        cwd=clean_env["HOME"],
        capture_output=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == code


def test_a_reader_of_both_streams_that_leaves_ends_the_job(agent, clean_env, grid):
    shell("grid run -- sh -c 'while :; do echo y >&2; done' 2>&1 | head -1", clean_env | agent)
    (job,) = json.loads(grid("jobs", "--json", env=agent).stdout)

    assert grid("wait", "--timeout", "20s", job["id"], env=agent).returncode == 125


@pytest.mark.parametrize("words", ["run true", "wait x"])
def test_too_few_files_are_told_as_that(agent, clean_env, words):
    env = {name: value for name, value in clean_env.items() if not name.startswith("COVERAGE_")}
    done = shell(f"ulimit -n 5; grid {words}", env | agent)

    assert done.returncode == 125
    assert done.stderr.startswith("grid: Too many open files")
    assert done.stderr.count("\n") == 1


def test_the_logs_of_an_array_in_which_nothing_failed_say_how_to_see_the_others(agent, grid):
    grid("run", "--array", "0-1", "--name", "sweep", "true", env=agent)
    done = grid("logs", "sweep", env=agent)

    assert (done.returncode, done.stdout) == (0, "")
    assert "--index" in done.stderr


def test_a_start_that_fails_tells_its_own_reason_and_no_older_one(grid, tmp_path):
    env = {"GRID_HOME": str(tmp_path / "h")}
    first, second = tmp_path / "first.yaml", tmp_path / "second.yaml"
    first.write_text("oldmistake: 1\n")
    second.write_text("newmistake: 1\n")
    grid("up", "--detach", "--config", first, env=env)
    done = grid("up", "--detach", "--config", second, env=env)

    assert done.returncode != 0
    assert "newmistake" in done.stderr
    assert "oldmistake" not in done.stderr


@pytest.mark.slow
def test_output_that_was_cut_is_told_on_stderr(grid, tmp_path):
    config = tmp_path / "small.yaml"
    config.write_text("jobs:\n  log_bytes: 1MiB\n")
    env = {"GRID_HOME": str(tmp_path / "h")}
    assert grid("up", "--detach", "--config", config, env=env).returncode == 0
    done = grid("run", "--", "sh", "-c", "head -c 8000000 /dev/zero; sleep 0.5", env=env)
    grid("down", "--stop-jobs", env=env)

    assert done.returncode == 0
    assert "output cut" in done.stderr


@pytest.mark.parametrize(
    ("given", "is_told"),
    [
        ("echo data |", True),
        ("true |", False),
        ("", False),
    ],
)
def test_what_comes_on_stdin_is_said_to_reach_no_job(agent, clean_env, given, is_told):
    told = "grid: stdin was not passed on: a job has none. Write it to a file that the job reads.\n"
    done = shell(f"{given} grid run -- wc -c", clean_env | agent)

    assert (done.returncode, done.stdout) == (0, "0\n")
    assert done.stderr == (told if is_told else "")


def test_a_file_on_stdin_is_told_of_as_far_as_nobody_has_read_it(agent, clean_env, tmp_path):
    (tmp_path / "data").write_text("one\ntwo\n")
    whole = shell(f"grid run -- true < {tmp_path}/data", clean_env | agent)
    read = shell(f"(cat > /dev/null; grid run -- true) < {tmp_path}/data", clean_env | agent)
    closed = shell("grid run --detach --json -- true <&-", clean_env | agent)

    assert "stdin was not passed on" in whole.stderr
    assert (read.stderr, closed.stderr) == ("", "")
