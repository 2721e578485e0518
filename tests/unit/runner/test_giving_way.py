"""Attempts that are told to give way, with real processes."""

import signal
from pathlib import Path

import pytest

from distributed_grid.wire.keeper import Limits, Preempt, Run, Stop, StopIndex, Suspend
from tests.keeper_lab import KeeperLab, is_alive, wait_until

# Says that it runs, and how it was asked to go; goes on until it is.
CAREFUL = (
    "trap 'echo asked >>asked; exit {code}' TERM; echo $$ >ready; while :; do sleep 0.01; done"
)
DEAF = "trap '' TERM; echo $$ >ready; while :; do sleep 0.01; done"


def running(lab: KeeperLab, run: Run) -> int:
    """Start it; its process once it is ready to be asked."""
    lab.send(run)
    return lab.pid_from(lab.directory / "ready")


@pytest.mark.parametrize("code", [0, 3])
def test_whoever_gives_way_is_preempted_whatever_its_exit_code(
    any_lab: KeeperLab, tmp_path: Path, code: int
) -> None:
    running(any_lab, any_lab.a_shell(CAREFUL.format(code=code)))
    any_lab.send(Preempt(attempt="one"))
    ended = any_lab.ended()[-1]

    assert (ended.how, ended.code, ended.note) == ("preempted", code, "gave way")
    assert (tmp_path / "asked").read_text() == "asked\n"


def test_the_signal_is_the_one_that_was_wished_for(lab: KeeperLab) -> None:
    lab.send(lab.a_run("sleep", "600"))
    lab.started()
    lab.send(Preempt(attempt="one", signal=signal.SIGUSR1))

    assert (lab.ended()[-1].how, lab.ended()[-1].code) == ("preempted", 128 + signal.SIGUSR1)


def test_who_does_not_go_is_killed_after_the_grace_and_its_command_too(
    any_lab: KeeperLab, tmp_path: Path
) -> None:
    pid = running(any_lab, any_lab.a_shell(DEAF))
    script = "trap '' TERM; sleep 600 & echo $! >below; echo $$ >beside; wait"
    any_lab.send(Preempt(attempt="one", grace_ms=300, command=("sh", "-c", script)))
    pids = [pid, *(any_lab.pid_from(tmp_path / name) for name in ("beside", "below"))]
    ended = any_lab.ended()[-1]

    assert (ended.how, ended.code) == ("preempted", 137)
    assert ended.note.startswith("did not end within its grace, was killed")
    assert "its command did not end within its grace, was killed" in ended.note
    assert not any(map(is_alive, pids))


def test_the_command_runs_in_the_jobs_directory_with_its_environment_and_output(
    any_lab: KeeperLab, tmp_path: Path
) -> None:
    saved = tmp_path / "data" / "checkpoints" / "job"
    run = any_lab.a_shell(
        # No shell is left to say of its own that it was terminated.
        "echo from the job; echo $$ >ready; exec sleep 600",
        env={"PATH": "/usr/bin:/bin", "GRID_CHECKPOINT_DIR": str(saved), "OWN": "word"},
        checkpoint_dir=str(saved),
        indices=(7, 8),
    )
    running(any_lab, run)
    script = (
        'pwd; echo "$OWN $GRID_ARRAY_INDEX"; echo trouble >&2; cp ready "$GRID_CHECKPOINT_DIR";'
        '[ -d "$GRID_WORKDIR" ]'
    )
    any_lab.send(Preempt(attempt="one", command=("sh", "-c", script)))
    (ended,) = any_lab.ended()

    assert (ended.note, ended.index) == ("gave way", 7)
    assert any_lab.output("7.stdout").decode() == f"from the job\n{tmp_path}\nword 7\n"
    assert any_lab.output("7.stderr") == b"trouble\n"
    assert (saved / "ready").exists()  # The keeper never removes it.
    assert saved.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(
    ("command", "told"),
    [
        (("sh", "-c", "exit 3"), "gave way; its command exited 3"),
        (("sh", "-c", "kill -9 $$"), "gave way; its command was ended by signal 9"),
        (("no-such-command",), "gave way; its command: no-such-command: command not found"),
    ],
)
def test_how_the_command_went_is_told(lab: KeeperLab, command: tuple[str, ...], told: str) -> None:
    running(lab, lab.a_shell(CAREFUL.format(code=0)))
    lab.send(Preempt(attempt="one", command=command))

    assert (lab.ended()[-1].how, lab.ended()[-1].note) == ("preempted", told)


def test_a_command_goes_on_when_its_job_has_ended_until_it_is_done(
    any_lab: KeeperLab, tmp_path: Path
) -> None:
    pid = running(any_lab, any_lab.a_shell("echo $$ >ready; exec sleep 600"))
    script = "while ! [ -e go ]; do sleep 0.01; done; echo saved >saved"
    any_lab.send(Preempt(attempt="one", command=("sh", "-c", script)))
    wait_until(lambda: not is_alive(pid))
    (tmp_path / "go").touch()
    ended = any_lab.ended()[-1]

    assert (ended.how, ended.code, ended.note) == ("preempted", 143, "gave way")
    assert (tmp_path / "saved").read_text() == "saved\n"


def test_a_command_is_not_waited_for_longer_than_the_grace(
    any_lab: KeeperLab, tmp_path: Path
) -> None:
    running(any_lab, any_lab.a_shell("echo $$ >ready; exec sleep 600"))
    script = "echo $$ >beside; exec sleep 600"
    any_lab.send(Preempt(attempt="one", grace_ms=200, command=("sh", "-c", script)))
    ended = any_lab.ended()[-1]

    assert (ended.how, ended.code) == ("preempted", 143)
    assert ended.note.startswith("gave way")
    assert ended.note.endswith("its command did not end within its grace, was killed")
    assert not is_alive(any_lab.pid_from(tmp_path / "beside"))


def test_what_a_command_leaves_behind_is_ended(any_lab: KeeperLab, tmp_path: Path) -> None:
    running(any_lab, any_lab.a_shell(CAREFUL.format(code=0)))
    script = "setsid sh -c 'echo $$ >left; exec sleep 600' & while ! [ -s left ]; do :; done"
    any_lab.send(Preempt(attempt="one", command=("sh", "-c", script)))
    ended = any_lab.ended()[-1]

    assert "1 processes it left behind were ended" in ended.note
    assert not is_alive(any_lab.pid_from(tmp_path / "left"))


def test_later_indices_do_not_start(lab: KeeperLab, tmp_path: Path) -> None:
    lab.send(lab.a_shell("echo $GRID_ARRAY_INDEX >>ran; exec sleep 600", indices=(4, 5, 6)))
    wait_until((tmp_path / "ran").exists)
    lab.send(Preempt(attempt="one"))
    ended = lab.ended()

    assert [(report.index, report.how, report.is_last) for report in ended] == [
        (4, "preempted", True)
    ]
    assert (tmp_path / "ran").read_text() == "4\n"


def test_a_second_time_changes_nothing(lab: KeeperLab, tmp_path: Path) -> None:
    run = lab.a_shell("trap 'echo x >>asked' TERM; echo $$ >ready; while :; do sleep 0.01; done")
    running(lab, run)
    again = ("sh", "-c", "echo never >again")
    lab.send(Preempt(attempt="one", grace_ms=300))
    lab.send(Preempt(attempt="one", grace_ms=600_000, signal=9, command=again))
    ended = lab.ended()[-1]

    assert ended.how == "preempted"
    assert ended.note.startswith("did not end within its grace, was killed")
    assert (tmp_path / "asked").read_text() == "x\n"
    assert not (tmp_path / "again").exists()


@pytest.mark.parametrize("command", [(), ("sh", "-c", "trap '' TERM; echo $$ >beside; sleep 600")])
def test_whoever_cancels_it_wins(
    any_lab: KeeperLab, tmp_path: Path, command: tuple[str, ...]
) -> None:
    pid = running(any_lab, any_lab.a_shell(DEAF))
    any_lab.send(Preempt(attempt="one", grace_ms=600_000, command=command))
    if command:
        any_lab.pid_from(tmp_path / "beside")
    any_lab.send(Stop(attempt="one", grace_ms=100))
    ended = any_lab.ended()[-1]

    assert (ended.how, ended.code) == ("stopped", 137)
    assert not is_alive(pid)


def test_a_cancel_ends_the_command_of_a_job_that_is_gone(lab: KeeperLab, tmp_path: Path) -> None:
    pid = running(lab, lab.a_shell("echo $$ >ready; exec sleep 600"))
    script = "echo $$ >beside; exec sleep 600"
    lab.send(Preempt(attempt="one", grace_ms=600_000, command=("sh", "-c", script)))
    beside = lab.pid_from(tmp_path / "beside")
    wait_until(lambda: not is_alive(pid))
    lab.send(Stop(attempt="one", grace_ms=600_000))

    assert lab.ended()[-1].how == "stopped"
    assert not is_alive(beside)


def test_a_cancel_gives_no_more_time_than_there_was(lab: KeeperLab) -> None:
    running(lab, lab.a_shell(DEAF))
    lab.send(Preempt(attempt="one", grace_ms=300), Stop(attempt="one", grace_ms=600_000))

    assert (lab.ended()[-1].how, lab.ended()[-1].code) == ("stopped", 137)


def test_one_that_is_stopped_already_stays_stopped(lab: KeeperLab) -> None:
    running(lab, lab.a_shell(DEAF))
    lab.send(Stop(attempt="one", grace_ms=100), Preempt(attempt="one", grace_ms=600_000))

    assert lab.ended()[-1].how == "stopped"


def test_one_that_waits_for_its_turn_is_given_back(lab: KeeperLab) -> None:
    lab.send(lab.a_run("sleep", "600", lease="l"))
    lab.send(lab.a_run("sleep", "600", attempt="two", lease="l"))
    lab.send(Preempt(attempt="two"), Preempt(attempt="nobody"))
    ended = lab.ended("two")[-1]

    assert (ended.how, ended.code, ended.note) == ("stopped", 125, "given back before it started")


def test_one_that_is_suspended_is_woken_first(any_lab: KeeperLab, tmp_path: Path) -> None:
    running(any_lab, any_lab.a_shell(CAREFUL.format(code=0)))
    any_lab.send(Suspend(attempt="one"), Preempt(attempt="one", grace_ms=20_000))
    ended = any_lab.ended()[-1]

    assert (ended.how, ended.code, ended.note) == ("preempted", 0, "gave way")
    assert (tmp_path / "asked").exists()


def test_a_timeout_does_not_come_between(lab: KeeperLab, tmp_path: Path) -> None:
    """Whoever gives way has its grace, and is not told to have been too slow."""
    running(lab, lab.a_shell(DEAF, timeout_ms=2_000))
    script = "echo $$ >beside; while ! [ -e go ]; do sleep 0.01; done"
    lab.send(Preempt(attempt="one", grace_ms=3_000, command=("sh", "-c", script)))

    assert lab.ended()[-1].how == "preempted"


def test_the_command_is_within_the_memory_of_its_job(any_lab: KeeperLab) -> None:
    limits = Limits(memory_bytes=64 << 20)
    running(any_lab, any_lab.a_shell("echo $$ >ready; exec sleep 600", limits=limits))
    greedy = ("python3", "-c", "x = b'x' * (200 << 20); import time; time.sleep(600)")
    any_lab.send(Preempt(attempt="one", grace_ms=600_000, command=greedy))
    ended = any_lab.ended()[-1]

    assert ended.how == "preempted"
    assert "killed: out of memory, used more than 64 MiB" in ended.note


def test_the_command_is_born_in_the_group_and_on_the_cores_of_its_job(
    lab: KeeperLab, tmp_path: Path
) -> None:
    from distributed_grid.wire.keeper import Slot

    script = (
        "grep Cpus_allowed_list /proc/self/status; grep -E 'pids|memory|cpu:' /proc/self/cgroup"
    )
    limits = Limits(cpu_milli=500, memory_bytes=64 << 20)
    run = lab.a_shell(
        f"{script} >job; {CAREFUL.format(code=0)}", limits=limits, slot=Slot(cores=(0,))
    )
    running(lab, run)
    lab.send(Preempt(attempt="one", command=("sh", "-c", f"{script} >command")))
    lab.ended()

    assert (tmp_path / "command").read_text() == (tmp_path / "job").read_text()


def test_a_checkpoint_directory_that_cannot_be_made_is_told(lab: KeeperLab, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    ended = lab.outcome("true", checkpoint_dir=str(tmp_path / "file" / "saved"))

    assert (ended.how, ended.code) == ("failed", 125)
    assert ended.note == "the checkpoint directory: Not a directory"


def test_a_checkpoint_is_there_for_the_next_attempt(lab: KeeperLab, tmp_path: Path) -> None:
    saved = str(tmp_path / "saved")
    lab.outcome("sh", "-c", f"echo state >{saved}/state", checkpoint_dir=saved)
    lab.outcome("cat", f"{saved}/state", checkpoint_dir=saved, attempt="two")

    assert lab.output(attempt="two") == b"state\n"


def test_an_index_that_is_skipped_at_the_same_time_keeps_its_reason(
    lab: KeeperLab, tmp_path: Path
) -> None:
    lab.send(lab.a_shell(DEAF, indices=(1, 2), grace_ms=100))
    lab.pid_from(tmp_path / "ready")
    lab.send(StopIndex(attempt="one", index=1), Preempt(attempt="one"))
    (ended,) = lab.ended()

    assert (ended.index, ended.how, ended.is_last) == (1, "stopped", True)
