"""Borrowed processes yield to the owner's programs."""

import os
from pathlib import Path

import pytest

from distributed_grid.wire.keeper import Limits, Preempt
from tests.keeper_lab import KeeperLab, wait_until

SLEEPS = "sleep 600 & echo $! >child; echo $$ >ready; wait"


def niceness(pid: int) -> tuple[int, int]:
    return os.getpriority(os.PRIO_PROCESS, pid), os.sched_getscheduler(pid)


def test_borrowed_work_is_put_back_and_the_keeper_is_not(
    any_lab: KeeperLab, tmp_path: Path
) -> None:
    any_lab.send(any_lab.a_shell(SLEEPS, niceness=19))
    pids = [any_lab.pid_from(tmp_path / name) for name in ("ready", "child")]

    wait_until(lambda: [niceness(pid) for pid in pids] == [(19, os.SCHED_IDLE)] * 2)
    assert niceness(any_lab.pid) == niceness(os.getpid()) == (0, os.SCHED_OTHER)


def test_the_session_is_put_back_where_the_kernel_schedules_by_session(
    any_lab: KeeperLab, tmp_path: Path
) -> None:
    any_lab.send(any_lab.a_shell(SLEEPS, niceness=19))
    pid = any_lab.pid_from(tmp_path / "ready")
    told = Path(f"/proc/{pid}/autogroup")
    if not told.exists():
        pytest.skip("this kernel does not")

    wait_until(lambda: told.read_text().split()[-1] == "19")


def test_the_owners_work_is_as_it_was(any_lab: KeeperLab, tmp_path: Path) -> None:
    any_lab.outcome("true", attempt="borrowed", niceness=19)  # Its group is used again.
    any_lab.send(any_lab.a_shell(SLEEPS, limits=Limits(cpu_milli=500)))
    pid = any_lab.pid_from(tmp_path / "ready")

    assert niceness(pid) == (0, os.SCHED_OTHER)
    assert "-lent" not in _group(pid)


@pytest.mark.parametrize("limits", [Limits(), Limits(cpu_milli=500)])
def test_the_groups_of_borrowed_work_yield_together_and_the_keeper_is_in_none(
    lab: KeeperLab, tmp_path: Path, limits: Limits
) -> None:
    """Else its niceness would count among borrowers only, and the keeper would starve."""
    home = _group(lab.pid)
    lab.send(lab.a_shell(SLEEPS, niceness=19, limits=limits))
    pid = lab.pid_from(tmp_path / "ready")
    files = [path / "cpu.idle" for path in lab.groups() if path.name.endswith("-lent")]
    if not (files and files[0].exists()):
        pytest.skip("no control groups of version 1 here, or a kernel before 5.15")
    wait_until(lambda: files[0].read_text().strip() == "1")
    lab.outcome("true", attempt="two", niceness=19)

    assert files[0].read_text().strip() == "1"
    assert _group(pid).split("/")[-2].endswith("-lent")
    assert _group(lab.pid) == home


def test_the_command_of_borrowed_work_is_put_back_as_well(lab: KeeperLab, tmp_path: Path) -> None:
    lab.send(lab.a_shell(SLEEPS, niceness=19))
    lab.pid_from(tmp_path / "ready")
    beside = ("sh", "-c", "echo $$ >beside; exec sleep 600")
    lab.send(Preempt(attempt="one", command=beside, grace_ms=600_000))
    pid = lab.pid_from(tmp_path / "beside")

    wait_until(lambda: niceness(pid) == (19, os.SCHED_IDLE))


def _group(pid: int) -> str:
    """Of the cpu controller: version 1, or the only one of version 2."""
    lines = Path(f"/proc/{pid}/cgroup").read_text().splitlines()
    found = [line for line in lines if line.split(":")[1] in {"cpu", "cpu,cpuacct"}]
    return (found or lines)[-1].split(":")[2]
