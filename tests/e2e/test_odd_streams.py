"""Streams that are closed, full or cut: one line, no traceback, nobody else's bytes."""

import subprocess

import pytest


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


def test_the_logs_of_an_array_want_an_index(agent, grid):
    grid("run", "--array", "0-1", "--name", "sweep", "true", env=agent)
    done = grid("logs", "sweep", env=agent)

    assert done.returncode == 2
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
