import os
import signal
from pathlib import Path

import pytest

from distributed_grid.wire.keeper import Stop
from tests.keeper_lab import KeeperLab, is_alive, wait_until


@pytest.mark.parametrize("code", [0, 1, 3, 255])
def test_an_exit_code_is_told_as_it_is(lab: KeeperLab, code: int) -> None:
    ended = lab.shell_outcome(f"exit {code}")

    assert (ended.how, ended.code, ended.is_last) == ("exited", code, True)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM])
def test_a_signal_is_told_as_a_shell_would(lab: KeeperLab, number: int) -> None:
    ended = lab.shell_outcome(f"kill -{int(number)} $$")

    assert (ended.how, ended.code) == ("signalled", 128 + number)


def test_a_command_that_is_not_there(lab: KeeperLab) -> None:
    ended = lab.outcome("no-such-command")

    assert (ended.how, ended.code) == ("not-found", 127)
    assert ended.note == "no-such-command: command not found"


def test_a_file_that_is_not_executable(lab: KeeperLab, tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("text")
    ended = lab.outcome("./plain")

    assert (ended.how, ended.code) == ("not-executable", 126)


def test_a_directory_is_not_executable(lab: KeeperLab, tmp_path: Path) -> None:
    ended = lab.outcome(str(tmp_path))

    assert (ended.how, ended.code, ended.note) == (
        "not-executable", 126, f"{tmp_path} is a directory",
    )  # fmt: skip


def test_a_script_without_interpreter_line_runs_with_the_shell(
    lab: KeeperLab, tmp_path: Path
) -> None:
    script = tmp_path / "script"
    script.write_text('echo "$1"; exit 4\n')
    script.chmod(0o700)
    ended = lab.outcome("./script", "word")

    assert ended.code == 4
    assert lab.output() == b"word\n"


def test_an_interpreter_that_is_not_there(lab: KeeperLab, tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text("#!/no/such/interpreter\n")
    script.chmod(0o700)

    assert lab.outcome("./script").code == 127


def test_ten_megabytes_of_arguments_are_told_to_be_too_long(lab: KeeperLab) -> None:
    ended = lab.outcome("/bin/true", *["x" * 100_000] * 100)

    assert (ended.how, ended.code) == ("failed", 125)
    assert "too long" in ended.note


def test_a_missing_directory_is_told(lab: KeeperLab, tmp_path: Path) -> None:
    ended = lab.outcome("true", cwd=str(tmp_path / "nowhere"))

    assert (ended.how, ended.code) == ("failed", 125)
    assert ended.note == f"the directory {tmp_path / 'nowhere'}: No such file or directory"


def test_a_directory_that_was_made_again_is_the_new_one(lab: KeeperLab, tmp_path: Path) -> None:
    place = tmp_path / "place"
    place.mkdir()
    lab.outcome("true", cwd=str(place))
    place.rmdir()
    place.mkdir()
    (place / "file").write_text("")
    lab.outcome("ls", cwd=str(place), attempt="two")

    assert lab.output(attempt="two") == b"file\n"


def test_a_timeout_is_124_even_if_it_ends_in_order(any_lab: KeeperLab) -> None:
    ended = any_lab.shell_outcome("trap 'exit 0' TERM; sleep 60 & wait", timeout_ms=100)

    assert (ended.how, ended.code) == ("timeout", 124)
    assert ended.ended_ms - ended.started_ms < 5_000


def test_who_ignores_sigterm_is_killed_after_the_grace(any_lab: KeeperLab, tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    any_lab.send(any_lab.a_shell(f"trap '' TERM; echo $$ >{ready}; while :; do sleep 1; done"))
    pid = any_lab.pid_from(ready)
    any_lab.send(Stop(attempt="one", grace_ms=100))
    ended = any_lab.ended()[-1]

    assert (ended.how, ended.code) == ("stopped", 137)
    assert "killed" in ended.note
    assert not is_alive(pid)


def test_a_stopped_job_says_by_which_signal(lab: KeeperLab) -> None:
    lab.send(lab.a_run("sleep", "60"))
    lab.started()
    lab.send(Stop(attempt="one", signal=signal.SIGINT))
    ended = lab.ended()[-1]

    assert (ended.how, ended.code) == ("stopped", 128 + signal.SIGINT)


def test_a_daemonised_child_ends_with_its_job(any_lab: KeeperLab, tmp_path: Path) -> None:
    note = tmp_path / "daemon"
    ended = any_lab.shell_outcome(
        f"setsid sh -c 'echo $$ >{note}; exec sleep 600' & while ! [ -s {note} ]; do :; done"
    )

    assert ended.code == 0
    assert ended.note == "1 processes it left behind were ended"
    assert not is_alive(any_lab.pid_from(note))


def test_a_daemon_that_hides_its_environment_ends_too(any_lab: KeeperLab, tmp_path: Path) -> None:
    note = tmp_path / "daemon"
    ended = any_lab.shell_outcome(
        f"env -i setsid /bin/sh -c 'echo $$ >{note}; exec sleep 600' & while ! [ -s {note} ]; do :; done"
    )

    assert ended.code == 0
    assert not is_alive(any_lab.pid_from(note))


@pytest.mark.rows("S3-98")
def test_stopping_ends_children_in_sessions_of_their_own(
    any_lab: KeeperLab, tmp_path: Path
) -> None:
    note = tmp_path / "child"
    any_lab.send(any_lab.a_shell(f"setsid sh -c 'echo $$ >{note}; exec sleep 600' & wait"))
    child = any_lab.pid_from(note)
    any_lab.send(Stop(attempt="one"))
    any_lab.ended()

    assert not is_alive(child)


def test_orphans_of_a_running_job_are_left_alone(new_lab: KeeperLab, tmp_path: Path) -> None:
    lab = new_lab.start("--cgroup-root", str(tmp_path))
    note = tmp_path / "daemon"
    lab.send(lab.a_shell(f"(setsid sh -c 'echo $$ >{note}; exec sleep 600' &); exec sleep 600"))
    daemon = lab.pid_from(note)
    lab.outcome("true", attempt="two")

    assert is_alive(daemon)


def test_a_job_may_close_its_output(lab: KeeperLab) -> None:
    ended = lab.shell_outcome("echo before; exec >&- 2>&-; exit 5")

    assert ended.code == 5
    assert lab.output() == b"before\n"


def test_no_zombie_is_left(lab: KeeperLab) -> None:
    lab.send(*(lab.a_shell("(sleep 0 &); exit 0", attempt=f"a{n}") for n in range(20)))
    for n in range(20):
        lab.ended(f"a{n}")

    def zombies() -> list[str]:
        children = Path(f"/proc/{lab.pid}/task/{lab.pid}/children").read_text().split()
        return [pid for pid in children if not is_alive(int(pid))]

    wait_until(lambda: not zombies())


def test_many_that_end_at_once_are_all_told(lab: KeeperLab) -> None:
    """More than one turn of the loop takes."""
    lab.send(*(lab.a_run("true", attempt=f"a{n}") for n in range(600)))

    assert [lab.ended(f"a{n}")[-1].code for n in range(600)] == [0] * 600


def test_usage_is_measured(lab: KeeperLab) -> None:
    burn = "import time\nwhile time.process_time() < 0.2: pass\nb = bytearray(50 << 20)"
    ended = lab.outcome("python3", "-c", burn)

    assert ended.usage.user_us + ended.usage.system_us >= 200_000
    assert 50 << 20 < ended.usage.memory_bytes_peak < 200 << 20


def test_a_peak_that_is_the_keepers_own_is_not_told_as_the_jobs(lab: KeeperLab) -> None:
    assert lab.outcome("true").usage.memory_bytes_peak == 0


def test_the_same_attempt_twice_runs_once(lab: KeeperLab, tmp_path: Path) -> None:
    run = lab.a_shell("echo x >>marks; sleep 0.1")
    lab.send(run, run)
    lab.ended()
    lab.outcome("true", attempt="two")

    assert (tmp_path / "marks").read_text() == "x\n"


def test_a_nul_in_an_argument_is_told(lab: KeeperLab) -> None:
    assert lab.outcome("echo", "a\0b").code == 125


def test_cores_that_do_not_exist_are_told(lab: KeeperLab) -> None:
    from distributed_grid.wire.keeper import Slot

    ended = lab.outcome("true", slot=Slot(cores=(9_999,)))

    assert (ended.code, ended.note) == (125, "cannot be pinned to the cores 9999")


@pytest.mark.rows("S3-72", "S3-73")
def test_a_job_is_pinned_to_its_cores(lab: KeeperLab) -> None:
    from distributed_grid.wire.keeper import Slot

    core = max(os.sched_getaffinity(0))
    lab.outcome("sh", "-c", "grep Cpus_allowed_list /proc/self/status", slot=Slot(cores=(core,)))

    assert lab.output().split()[1] == str(core).encode()
