"""`make test` runs everything, in order, and cannot call a failure a success."""

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from scripts import stages
from scripts.stages import Result, Stage
from tests.keeper_lab import is_alive, wait_until


def python(code: str, name: str = "stage") -> Stage:
    return Stage(name, [sys.executable, "-c", code])


def test_a_stage_that_fails_is_a_problem_with_its_exit_code():
    assert stages.run(python("raise SystemExit(3)")).problem == "exit 3"
    assert stages.run(python("pass")).problem == ""


def test_a_process_that_outlives_its_stage_is_told_and_ended():
    # The child holds both ends of its input: it waits for ever, unless somebody ends it.
    child = "import sys; sys.stdin.read()"
    code = (
        "import os, subprocess, sys; read, write = os.pipe();"
        f"subprocess.Popen([sys.executable, '-c', {child!r}], stdin=read, pass_fds=(write,))"
    )
    result = stages.run(python(code))

    assert result.problem.startswith("left behind: python")
    assert result.problem.endswith(child)  # By its command: a name tells nobody what to mend.


# Starts a child in a session of its own, as a keeper is, says which, and forgets it.
DAEMON = """
import subprocess, sys
below = "import os, sys; print(os.getpid(), file=open(sys.argv[1], 'w')); sys.stdin.read()"
held, mine = __import__("os").pipe()
subprocess.Popen(["setsid", "--fork", sys.executable, "-c", below, {pid!r}],
                 stdin=held, pass_fds=(mine,)).wait()
"""


def pid_of(file: Path) -> int:
    wait_until(lambda: file.exists() and file.read_text().strip())
    return int(file.read_text())


def test_what_has_made_itself_a_session_of_its_own_is_told_and_ended_too(tmp_path):
    pid = tmp_path / "pid"
    waits = f"import time\nwhile not (__import__('os').path.exists({str(pid)!r})): time.sleep(.01)"
    result = stages.run(python(DAEMON.format(pid=str(pid)) + waits), grace_s=0.2)

    assert result.problem.startswith("left behind: python")
    assert not is_alive(pid_of(pid))


def test_what_ends_by_itself_in_a_moment_is_not_left_behind(tmp_path):
    # Popen returns when the new process has its session: before that it would count as ours.
    code = "import subprocess; subprocess.Popen(['sleep', '0.3'], start_new_session=True)"

    assert stages.run(python(code)).problem == ""


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_a_limit_from_outside_ends_the_stages_with_all_they_started_and_no_other_begins(
    tmp_path, how
):
    pids, never = [tmp_path / "one", tmp_path / "two"], tmp_path / "never"
    waits = "import signal; signal.alarm(60); signal.pause()"
    stays = [DAEMON.format(pid=str(pid)) + waits for pid in pids]
    driver = f"""
import signal, sys
from scripts import stages
from scripts.stages import Stage
signal.signal(signal.SIGTERM, stages._leave)
stages.PHASES = ((("one", "never"), ("two",)),)
names = ("tests/one", "tests/two", "tests/never")
codes = {[*stays, f"open({str(never)!r}, 'w')"]!r}
stages.run_all([Stage(n, [sys.executable, "-c", c]) for n, c in zip(names, codes)])
"""
    with subprocess.Popen([sys.executable, "-c", driver], cwd=stages.ROOT) as limited:
        started = [pid_of(file) for file in pids]
        limited.send_signal(how)
        code = limited.wait(timeout=30)
    try:
        wait_until(lambda: not any(map(is_alive, started)))
    finally:
        for pid in started:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    assert code in {143, -signal.SIGKILL}
    assert not never.exists()


def test_the_lanes_of_a_phase_run_at_once_and_are_over_before_the_next(
    tmp_path, monkeypatch, capfd
):
    monkeypatch.setattr(stages, "PHASES", ((("waits", "follows"), ("opens",)),))
    gate, done = tmp_path / "gate", tmp_path / "done"
    os.mkfifo(gate)
    results = stages.run_all(
        [
            python("pass", "first"),
            python(f"open({str(gate)!r}).read(); print('was here')", "tests/waits"),
            python(f"open({str(gate)!r}, 'w').close()", "tests/opens"),
            python(f"open({str(done)!r}, 'x')", "tests/follows"),
            python(f"open({str(done)!r})", "measures"),
            python("raise SystemExit(1)", "fails"),
        ]
    )

    assert [(each.name, each.problem) for each in results] == [
        ("first", ""),
        ("tests/waits", ""),
        ("tests/opens", ""),
        ("tests/follows", ""),
        ("measures", ""),
        ("fails", "exit 1"),
    ]
    assert "--- tests/waits\nwas here" in capfd.readouterr().out


@pytest.mark.parametrize(("kind", "is_measured"), [("e2e", True), ("mesh", False)])
def test_a_folder_that_is_shared_out_runs_whole(tmp_path, kind, is_measured):
    dealt = [stage.command for stage in stages.pytest_stages(kind, tmp_path)]
    files = [word for command in dealt for word in command if word.startswith(f"tests/{kind}/")]

    assert len(dealt) == 2
    assert all(("coverage" in command) == is_measured for command in dealt)
    assert sorted(files) == sorted(
        str(file.relative_to(stages.ROOT)) for file in stages.ROOT.glob(f"tests/{kind}/test_*.py")
    )


def test_every_stage_of_a_phase_is_there(tmp_path):
    there = {
        stage.name
        for kind in stages.kinds(stages.ROOT / "tests")
        for stage in stages.pytest_stages(kind, tmp_path)
    }

    assert {f"tests/{k}" for phase in stages.PHASES for lane in phase for k in lane} <= there


def test_every_folder_of_tests_runs_known_ones_first(tmp_path):
    for name in ("new", "e2e", "unit", "tidy", "deep/er"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "test_it.py").touch()
    (tmp_path / "accept").mkdir()

    assert stages.kinds(tmp_path) == ["tidy", "unit", "e2e", "deep", "new"]


def test_no_test_file_stands_where_no_stage_looks():
    tests = stages.ROOT / "tests"

    assert list(tests.glob("test_*.py")) == []


@pytest.mark.rows("S1-75")
@pytest.mark.parametrize(
    ("results", "no_skips", "code"),
    [
        ([Result(name="a", seconds=1, passed=2)], True, 0),
        ([Result(name="a", seconds=1, passed=2, skipped=1)], False, 0),
        ([Result(name="a", seconds=1, passed=2, skipped=1)], True, 1),
        (
            [Result(name="a", seconds=1, passed=9), Result(name="b", seconds=1, problem="x")],
            False,
            1,
        ),
    ],
)
def test_one_failed_stage_fails_the_whole(results, no_skips, code):
    assert stages.verdict(results, no_skips=no_skips) == code


def test_the_last_line_counts_all_tests():
    page = stages.summary(
        [
            Result(name="lint", seconds=0.5, problem="exit 1"),
            Result(name="tests/unit", seconds=1.25, passed=7, failed=1, problem="exit 1"),
            Result(name="tests/e2e", seconds=2, passed=3),
        ],
        3.75,
    )

    assert page.splitlines()[-2:] == ["failed: lint, tests/unit", "10 passed, 1 failed"]


@pytest.mark.slow
@pytest.mark.rows("S1-75")
def test_the_counts_are_those_of_pytest(tmp_path: Path):
    test = tmp_path / "test_it.py"
    test.write_text(
        "import pytest\n"
        "def test_a(): pass\n"
        "def test_b(): pass\n"
        "def test_c(): assert False\n"
        "def test_d(): pytest.skip('why')\n",
        encoding="utf-8",
    )
    junit = tmp_path / "r.xml"
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        f"--rootdir={tmp_path}",
    ]
    result = stages.run(
        Stage("t", [*command, "-c", "/dev/null", f"--junitxml={junit}", str(test)], junit)
    )

    assert (result.passed, result.failed, result.skipped) == (2, 1, 1)
    assert result.problem == "exit 1"
