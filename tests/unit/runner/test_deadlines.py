"""Attempts that must end at a moment, with real processes."""

import os
import signal
from pathlib import Path

from distributed_grid.edges.runner.attempts import LAPSED
from distributed_grid.edges.runner.deadlines import Deadlines, boot_us
from distributed_grid.wire.keeper import Deadline, Run, Suspend
from tests.keeper_lab import KeeperLab, is_alive, wait_until

SECOND_US = 1_000_000
FAR_US = 600 * SECOND_US


def ends_in(lab: KeeperLab, us: int, script: str = "exec sleep 600", **fields: object) -> Run:
    """A run with a deadline."""
    return lab.a_shell(script, until_boot_us=boot_us() + us, **fields)


def test_the_whole_tree_is_gone_at_the_deadline_and_not_before(
    any_lab: KeeperLab, tmp_path: Path
) -> None:
    script = (
        "(env -i setsid sh -c 'echo $$ >daemon; exec sleep 600' &)\n"
        "sh -c 'trap \"\" TERM; echo $$ >child; while :; do sleep 1; done'"
    )
    run = ends_in(any_lab, 2 * SECOND_US, script)
    any_lab.send(run)
    pids = [any_lab.started().pid, *(any_lab.pid_from(tmp_path / n) for n in ("child", "daemon"))]
    assert boot_us() < run.until_boot_us
    wait_until(lambda: not any(map(is_alive, pids)))
    late_us = boot_us() - run.until_boot_us

    assert 0 <= late_us < 2 * SECOND_US  # Looked at each 100 ms, on a busy machine.
    ended = any_lab.ended()[-1]
    assert (ended.how, ended.code, ended.is_last) == ("lost", 125, True)
    assert LAPSED in ended.note


def test_a_deadline_that_moves_is_not_the_old_one_and_an_earlier_one_is_not_heard(
    lab: KeeperLab, tmp_path: Path
) -> None:
    run = ends_in(lab, SECOND_US, "while ! [ -e go ]; do sleep 0.02; done; exit 4")
    lab.send(run, Deadline(attempt="one", until_boot_us=run.until_boot_us + FAR_US))
    lab.send(Deadline(attempt="one", until_boot_us=1))
    wait_until(lambda: boot_us() > run.until_boot_us + SECOND_US // 4)
    (tmp_path / "go").touch()

    assert lab.ended()[-1].code == 4


def test_who_had_no_deadline_may_get_one(lab: KeeperLab) -> None:
    lab.send(lab.a_run("sleep", "600"))
    lab.started()
    lab.send(Deadline(attempt="one", until_boot_us=boot_us() + SECOND_US // 5))
    lab.send(Deadline(attempt="nobody", until_boot_us=boot_us() + SECOND_US // 5))

    assert lab.ended()[-1].how == "lost"


def test_what_comes_after_its_deadline_never_starts(lab: KeeperLab, tmp_path: Path) -> None:
    lab.send(ends_in(lab, -1, "touch started"))
    ended = lab.ended()[-1]

    assert (ended.how, ended.note) == ("lost", LAPSED)
    assert not (tmp_path / "started").exists()


def test_who_waits_for_its_turn_at_its_deadline_never_starts(
    lab: KeeperLab, tmp_path: Path
) -> None:
    lab.send(lab.a_shell("while ! [ -e go ]; do sleep 0.02; done", lease="both"))
    lab.send(ends_in(lab, SECOND_US // 2, "touch started", attempt="two", lease="both"))
    ended = lab.ended("two")[-1]
    (tmp_path / "go").touch()
    lab.ended()

    assert (ended.how, ended.note) == ("stopped", "given back before it started")
    assert not (tmp_path / "started").exists()


def test_who_waits_for_its_turn_may_get_a_later_one(lab: KeeperLab, tmp_path: Path) -> None:
    lab.send(lab.a_shell("while ! [ -e go ]; do sleep 0.02; done", lease="both"))
    waits = ends_in(lab, FAR_US, attempt="two", lease="both")
    later_us = waits.until_boot_us + 1
    lab.send(waits, Deadline(attempt="two", until_boot_us=later_us))
    (tmp_path / "go").touch()
    lab.started("two")
    os.kill(lab.agent_pid, signal.SIGKILL)

    assert lab.connect().deadlines == {"two": later_us}


def test_of_a_chunk_nothing_more_starts(lab: KeeperLab) -> None:
    lab.send(ends_in(lab, SECOND_US // 2, indices=(3, 4, 5)))
    ended = lab.ended()

    assert [(one.index, one.how, one.is_last) for one in ended] == [(3, "lost", True)]


def test_who_is_stopped_where_it_is_ends_at_its_deadline_too(lab: KeeperLab) -> None:
    lab.send(ends_in(lab, SECOND_US // 2))
    lab.started()
    lab.send(Suspend(attempt="one"))

    assert lab.ended()[-1].how == "lost"


def test_a_chunk_held_between_two_indices_is_given_back_at_its_deadline(lab: KeeperLab) -> None:
    lab.send(ends_in(lab, 2 * SECOND_US, indices=(3, 4)))
    pid = lab.started().pid
    lab.send(Suspend(attempt="one"))
    lab.send(lab.a_run("true", attempt="two"))
    lab.ended("two")
    os.kill(pid, signal.SIGKILL)
    ended = lab.ended()

    assert [(one.index, one.how) for one in ended] == [(3, "signalled"), (4, "stopped")]
    assert ended[-1].note == LAPSED


def test_the_next_agent_hears_of_the_deadlines(lab: KeeperLab) -> None:
    run = ends_in(lab, FAR_US)
    lab.send(run, lab.a_run("sleep", "600", attempt="two"))
    lab.started("two")
    os.kill(lab.agent_pid, signal.SIGKILL)
    first = lab.connect().deadlines
    lab.send(Deadline(attempt="one", until_boot_us=run.until_boot_us + 1))
    lab.outcome("true", attempt="three")
    os.kill(lab.agent_pid, signal.SIGKILL)

    assert first == {"one": run.until_boot_us}
    assert lab.connect().deadlines == {"one": run.until_boot_us + 1}


def test_a_deadline_falls_due_once() -> None:
    deadlines = Deadlines()
    deadlines.set("one", 1)
    deadlines.set("two", boot_us() + FAR_US)
    deadlines.set("two", 1)

    assert deadlines
    assert deadlines.take_due() == ["one"]
    assert deadlines.take_due() == []
    deadlines.forget("two")
    assert not deadlines
    assert deadlines.take_due() == []
