import os
import signal
from pathlib import Path

import pytest

from distributed_grid.wire.keeper import Limits, Slot
from tests.keeper_lab import KeeperLab, groups_of, is_alive, wait_until

HOG = "b = []\nwhile True: b.append(bytearray(4 << 20))"
V1_PIDS = Path("/sys/fs/cgroup/pids")
needs_pids = pytest.mark.skipif(
    not os.access(V1_PIDS, os.W_OK), reason="no writable pids control group: run as root"
)


@pytest.mark.rows("S3-92")
def test_a_job_that_takes_too_much_memory_is_killed_and_told(any_lab: KeeperLab) -> None:
    ended = any_lab.outcome("python3", "-c", HOG, limits=Limits(memory_bytes=64 << 20))

    assert (ended.how, ended.code) == ("signalled", 137)
    assert "killed: out of memory, used more than 64 MiB" in ended.note


def test_a_child_that_takes_too_much_memory_ends_the_whole_job(any_lab: KeeperLab) -> None:
    script = 'python3 -c "$HOG"; sleep 600'
    ended = any_lab.shell_outcome(
        script, env={"PATH": "/usr/bin:/bin", "HOG": HOG}, limits=Limits(memory_bytes=64 << 20)
    )

    assert (ended.how, ended.code) == ("signalled", 137)
    assert "killed: out of memory, used more than 64 MiB" in ended.note


def test_less_memory_than_a_process_needs_ends_the_job_not_the_keeper(lab: KeeperLab) -> None:
    ended = lab.outcome("python3", "-c", "pass", limits=Limits(memory_bytes=1 << 20))
    after = lab.outcome("true", attempt="two")

    assert ended.code == 137
    assert after.code == 0


def test_enough_memory_is_enough(any_lab: KeeperLab) -> None:
    ended = any_lab.outcome(
        "python3", "-c", "b = bytearray(30 << 20)", limits=Limits(memory_bytes=256 << 20)
    )

    assert (ended.code, ended.note) == (0, "")


def test_limits_of_one_job_do_not_stay_for_the_next(lab: KeeperLab) -> None:
    lab.outcome("true", limits=Limits(memory_bytes=32 << 20, cpu_milli=100, processes_max=5))
    script = "import os\nb = bytearray(100 << 20)\n[os.fork() or os._exit(0) for _ in range(20)]\n[os.wait() for _ in range(20)]"
    ended = lab.outcome("python3", "-c", script, attempt="two")

    assert (ended.code, ended.note) == (0, "")


@needs_pids
def test_a_fork_bomb_is_bounded_and_cleared_away(lab: KeeperLab) -> None:
    bomb = "bomb() { bomb | bomb & }; bomb; sleep 600"
    ended = lab.shell_outcome(bomb, timeout_ms=500, grace_ms=100, limits=Limits(processes_max=50))

    assert (ended.how, ended.code) == ("timeout", 124)
    assert lab.outcome("true", attempt="two").code == 0


@needs_pids
def test_the_number_of_processes_is_what_was_asked_for(lab: KeeperLab) -> None:
    script = (
        "import os, sys, time\ncount = 0\n"
        "try:\n    while True:\n        if os.fork() == 0: time.sleep(600)\n        count += 1\n"
        "except BlockingIOError: print(count)"
    )
    lab.outcome("python3", "-c", script, limits=Limits(processes_max=10))

    assert 9 <= int(lab.output()) <= 10


@needs_pids
def test_a_fraction_of_a_core_is_throttled(lab: KeeperLab) -> None:
    burn = "import time\nwhile time.process_time() < 0.15: pass"
    ended = lab.outcome("python3", "-c", burn, limits=Limits(cpu_milli=250))

    # 150 ms of work at a quarter of a core cannot take less than 500 ms.
    assert ended.ended_ms - ended.started_ms >= 400


def test_what_enforces_the_limits_is_told(any_lab: KeeperLab) -> None:
    assert any_lab.hello
    mechanisms = any_lab.hello.limits

    assert set(mechanisms) == {"cpu", "memory", "processes"}
    if not list(groups_of(any_lab.pid)):
        assert mechanisms["memory"] == "watchdog"
        assert mechanisms["cpu"] == "cores pinned"


@needs_pids
def test_groups_are_used_again_and_removed_at_the_end(lab: KeeperLab) -> None:
    from distributed_grid.wire.keeper import Quit

    for number in range(5):
        lab.outcome("true", attempt=f"a{number}")
    slots = [path for group in lab.groups() for path in group.glob("slot-*")]
    assert {path.name for path in slots} == {"slot-0"}

    lab.send(Quit())
    lab.let_agent_go()
    assert lab.wait() == 0
    assert lab.groups() == []


@needs_pids
def test_groups_of_a_killed_keeper_are_removed_by_its_sentinel(lab: KeeperLab) -> None:
    lab.send(lab.a_run("sleep", "600", limits=Limits(memory_bytes=64 << 20)))
    lab.started()
    assert lab.groups()
    lab.kill()
    lab.wait()

    assert lab.groups() == []


@needs_pids
def test_what_a_keeper_and_all_its_sentinels_leave_is_ended_by_the_next(new_lab: KeeperLab) -> None:
    lab = new_lab.start()
    lab.send(lab.a_run("sleep", "600"))
    job = lab.started().pid
    dead = lab.pid
    for sentinel in lab.sentinels():
        os.kill(sentinel, signal.SIGKILL)
    lab.kill()
    lab.wait()
    assert list(groups_of(dead))

    lab.start()
    assert list(groups_of(dead)) == []
    wait_until(lambda: not is_alive(job))


def test_a_pinned_whole_core_needs_no_quota() -> None:
    from distributed_grid.edges.runner.cgroups import needs_quota

    assert not needs_quota(Limits(cpu_milli=2_000), Slot(cores=(0, 1)))
    assert needs_quota(Limits(cpu_milli=500), Slot(cores=(0,)))
    assert needs_quota(Limits(cpu_milli=1_000), Slot())
    assert not needs_quota(Limits(), Slot())
