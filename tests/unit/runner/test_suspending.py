"""Attempts that are stopped where they are, and go on, with real processes."""

import os
import signal
import subprocess
from pathlib import Path

import pytest

from distributed_grid.edges.runner.suspending import Suspension
from distributed_grid.wire.keeper import (
    Limits,
    Preempt,
    Quit,
    Resume,
    Stop,
    StopIndex,
    Suspend,
)
from tests.keeper_lab import KeeperLab, is_alive, wait_until

SLEEPS = "echo $$ >ready; exec sleep 600"


def state_of(pid: int) -> str:
    """As the kernel has it: T is stopped."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "gone"


def suspended(lab: KeeperLab, script: str = SLEEPS, **fields: object) -> int:
    """A process that was stopped, or waits for a child that was stopped before its exec."""
    lab.send(lab.a_shell(script, **fields))
    pid = lab.pid_from(lab.directory / "ready")
    lab.send(Suspend(attempt="one"))
    wait_until(lambda: state_of(pid) in {"T", "D"})
    return pid


def test_the_whole_tree_stops_and_goes_on(any_lab: KeeperLab, tmp_path: Path) -> None:
    script = (
        "sleep 600 & echo $! >child; setsid sleep 600 & echo $! >session;"
        "sh -c 'setsid sleep 600 & echo $! >orphan'; echo $$ >ready; wait"
    )
    main = suspended(any_lab, script)
    pids = [main, *(any_lab.pid_from(tmp_path / n) for n in ("child", "session", "orphan"))]

    wait_until(lambda: [state_of(pid) for pid in pids] == ["T"] * 4)
    any_lab.send(Resume(attempt="one"))
    wait_until(lambda: [state_of(pid) for pid in pids] == ["S"] * 4)


def test_who_forks_without_end_is_stopped_too(any_lab: KeeperLab, tmp_path: Path) -> None:
    """The number of its children, as they count themselves, stands still."""
    script = "echo $$ >ready; while :; do sh -c 'echo x >>count'; done"
    any_lab.send(any_lab.a_shell(script))
    count = tmp_path / "count"
    wait_until(lambda: count.exists() and count.stat().st_size > 20)
    any_lab.send(Suspend(attempt="one"))
    before = [count.stat().st_size]

    def stands_still() -> bool:
        before.append(count.stat().st_size)
        return len(before) > 40 and len(set(before[-40:])) == 1

    wait_until(stands_still)


def test_who_is_woken_by_somebody_else_is_stopped_again(any_lab: KeeperLab) -> None:
    pid = suspended(any_lab)
    os.kill(pid, signal.SIGCONT)

    wait_until(lambda: state_of(pid) == "T")


def test_both_are_idempotent_and_of_nobody_change_nothing(lab: KeeperLab, tmp_path: Path) -> None:
    lab.send(Suspend(attempt="nobody"), Resume(attempt="nobody"))
    script = "echo $$ >ready; while ! [ -e go ]; do sleep 0.01; done; exit 4"
    suspended(lab, script, timeout_ms=600_000)
    lab.send(Suspend(attempt="one"), Resume(attempt="one"), Resume(attempt="one"))
    (tmp_path / "go").touch()
    ended = lab.ended()[-1]

    assert (ended.how, ended.code, ended.note) == ("exited", 4, "")


def test_time_stands_still_and_what_is_left_of_it_counts_afterwards(any_lab: KeeperLab) -> None:
    pid = suspended(any_lab, timeout_ms=1_500)
    any_lab.send(Suspend(attempt="one"))  # Told twice, what is left is still known.
    asked: list[None] = []

    def is_long_past() -> bool:
        asked.append(None)
        return len(asked) > 400  # Of 5 ms and more each.

    wait_until(is_long_past)
    assert state_of(pid) == "T"
    any_lab.send(Resume(attempt="one"))
    ended = any_lab.ended()[-1]

    assert (ended.how, ended.code) == ("timeout", 124)
    assert ended.ended_ms - ended.started_ms >= 3_000


@pytest.mark.parametrize("wish", [Stop(attempt="one"), Quit(stop_jobs=True)])
def test_who_is_to_be_ended_is_woken_first(
    any_lab: KeeperLab, tmp_path: Path, wish: Stop | Quit
) -> None:
    script = "trap 'echo asked >asked; exit 0' TERM; echo $$ >ready; while :; do sleep 0.01; done"
    suspended(any_lab, script, grace_ms=20_000)
    any_lab.send(wish)
    ended = any_lab.ended()[-1]

    assert (ended.how, ended.code, ended.note) == ("stopped", 143, "")
    assert (tmp_path / "asked").exists()


def test_a_kill_needs_no_waking(any_lab: KeeperLab) -> None:
    pid = suspended(any_lab)
    any_lab.send(Stop(attempt="one", signal=signal.SIGKILL))

    assert (any_lab.ended()[-1].how, any_lab.ended()[-1].code) == ("stopped", 137)
    assert not is_alive(pid)


def test_whoever_is_killed_by_somebody_else_is_told_as_usual(any_lab: KeeperLab) -> None:
    os.kill(suspended(any_lab, timeout_ms=600_000), signal.SIGKILL)

    assert (any_lab.ended()[-1].how, any_lab.ended()[-1].code) == ("signalled", 137)


def test_memory_is_still_watched(any_lab: KeeperLab, tmp_path: Path) -> None:
    """What it holds may have grown just before, or its limit is looked at only now and then."""
    script = (
        "import os, time; open('ready', 'w').write(str(os.getpid())); open('go').read();"
        "x = b'x' * (200 << 20); time.sleep(600)"
    )
    os.mkfifo(tmp_path / "go")
    any_lab.send(any_lab.a_run("python3", "-c", script, limits=Limits(memory_bytes=64 << 20)))
    any_lab.pid_from(tmp_path / "ready")
    (tmp_path / "go").write_text("")
    any_lab.send(Suspend(attempt="one"), Resume(attempt="one"), Suspend(attempt="one"))
    any_lab.send(Resume(attempt="one"))
    ended = any_lab.ended()[-1]

    assert (ended.how, ended.note) == ("signalled", "killed: out of memory, used more than 64 MiB")


CHUNK = "echo $GRID_ARRAY_INDEX >>ran; echo $$ >ready; [ $GRID_ARRAY_INDEX != 1 ] || exec sleep 600"


def held(lab: KeeperLab) -> None:
    """A chunk whose first index has ended, and whose others wait."""
    pid = suspended(lab, CHUNK, indices=(1, 2, 3))
    os.kill(pid, signal.SIGKILL)
    lab.until(lambda: lab.reports and lab.reports[-1].attempt == "one" and len(lab.reports) == 2)


def test_the_next_index_waits_until_it_goes_on(lab: KeeperLab, tmp_path: Path) -> None:
    held(lab)
    assert (tmp_path / "ran").read_text() == "1\n"
    lab.send(Resume(attempt="one"))

    assert [report.index for report in lab.ended()] == [1, 2, 3]
    assert (tmp_path / "ran").read_text() == "1\n2\n3\n"


@pytest.mark.parametrize(
    ("wish", "code", "note"),
    [
        (Stop(attempt="one"), 143, "did not start"),
        (Quit(stop_jobs=True), 143, "did not start"),
        (Preempt(attempt="one"), 125, "given back before it started"),
    ],
)
def test_indices_that_wait_can_be_ended(
    lab: KeeperLab, tmp_path: Path, wish: Stop | Quit | Preempt, code: int, note: str
) -> None:
    held(lab)
    lab.send(wish)
    ended = lab.ended()[-1]

    assert (ended.index, ended.how, ended.code, ended.note) == (2, "stopped", code, note)
    assert (tmp_path / "ran").read_text() == "1\n"


def test_indices_that_wait_can_be_skipped_one_by_one(lab: KeeperLab) -> None:
    held(lab)
    lab.send(StopIndex(attempt="one", index=2), StopIndex(attempt="one", index=3))
    ended = lab.ended()

    assert [(report.index, report.is_last) for report in ended] == [
        (1, False), (2, False), (3, True),
    ]  # fmt: skip


def test_a_running_index_can_be_ended_and_the_next_one_waits(
    lab: KeeperLab, tmp_path: Path
) -> None:
    suspended(lab, CHUNK, indices=(1, 2))
    lab.send(StopIndex(attempt="one", index=1))
    lab.until(lambda: len(lab.reports) == 2)
    assert (tmp_path / "ran").read_text() == "1\n"
    lab.send(Resume(attempt="one"))

    assert [(report.index, report.how) for report in lab.ended()] == [
        (1, "stopped"), (2, "exited"),
    ]  # fmt: skip


def test_one_that_is_being_ended_is_not_stopped_any_more(any_lab: KeeperLab) -> None:
    script = "trap 'sleep 0.1; exit 0' TERM; echo $$ >ready; while :; do sleep 0.01; done"
    any_lab.send(any_lab.a_shell(script))
    any_lab.pid_from(any_lab.directory / "ready")
    any_lab.send(Stop(attempt="one", grace_ms=20_000), Suspend(attempt="one"))

    assert (any_lab.ended()[-1].code, any_lab.ended()[-1].note) == (143, "")


def test_the_next_agent_is_told_who_is_suspended(lab: KeeperLab) -> None:
    pid = suspended(lab)
    lab.send(lab.a_run("sleep", "600", attempt="two"))
    lab.started("two")
    os.kill(lab.agent_pid, signal.SIGKILL)
    hello = lab.connect()

    assert (hello.running, hello.suspended) == (("one", "two"), ("one",))
    assert state_of(pid) == "T"
    lab.send(Resume(attempt="one"))
    wait_until(lambda: state_of(pid) == "S")


def test_who_appears_while_others_are_being_stopped_is_stopped_too() -> None:
    processes = [subprocess.Popen(["sleep", "600"]) for _ in range(3)]
    pids = [process.pid for process in processes]
    seen: list[None] = []

    def members() -> list[int]:
        """One more at each look, as if they forked."""
        seen.append(None)
        return pids[: len(seen)]

    suspension = Suspension(members)
    suspension.stop(0)
    try:
        wait_until(lambda: [state_of(pid) for pid in pids] == ["T"] * 3)
        seen.clear()
        assert suspension.go_on() == 0
        wait_until(lambda: [state_of(pid) for pid in pids] == ["S"] * 3)
    finally:
        for process in processes:
            process.kill()
            process.wait()
