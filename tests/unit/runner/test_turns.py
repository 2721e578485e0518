import os
import signal
import subprocess
from pathlib import Path

import pytest

from distributed_grid.wire.keeper import Ended, Quit, Slot, Started, Stop, Withdraw
from tests.keeper_lab import ROOT, KeeperLab, is_alive, wait_until

WAIT_FOR_GO = "while ! [ -e go ]; do sleep 0.02; done"


def told(lab: KeeperLab) -> list[tuple[str, str]]:
    """Every report so far: whose, and what."""
    return [
        (report.attempt, report.how if isinstance(report, Ended) else "started")
        for report in lab.reports
    ]


def test_who_waits_costs_no_process_no_group_and_no_directory(
    lab: KeeperLab, tmp_path: Path
) -> None:
    lab.send(lab.a_shell(WAIT_FOR_GO, attempt="a", lease="l"))
    for number in range(20):
        lab.send(lab.a_run("true", attempt=f"b{number}", lease="l"))
    lab.started("a")
    lab.outcome("true", attempt="c")  # Everything before has been obeyed.

    assert {path.name for path in (tmp_path / "scratch").iterdir()} <= {"a", "c"}
    assert not list((tmp_path / "output").glob("b*"))
    slots = {path.name for group in lab.groups() for path in group.glob("slot-*")}
    assert slots <= {"slot-0", "slot-1"}
    (tmp_path / "go").touch()
    assert [lab.ended(f"b{number}")[-1].how for number in range(20)] == ["exited"] * 20


def test_the_next_starts_before_the_end_of_the_last_is_told(lab: KeeperLab) -> None:
    """Else the cores of the lease would idle while the agent thinks."""
    for number in range(50):
        lab.send(lab.a_run("true", attempt=f"a{number}", lease="l"))
    lab.ended("a49")

    names = [f"a{number}" for number in range(50)]
    assert told(lab) == [(name, what) for name in names for what in ("started", "exited")]
    assert [report.number for report in lab.reports] == list(range(1, 101))


def test_other_leases_and_attempts_without_one_do_not_wait(lab: KeeperLab) -> None:
    lab.send(lab.a_run("sleep", "600", attempt="a", lease="l"))
    lab.send(lab.a_run("true", attempt="b", lease="m"), lab.a_run("true", attempt="c"))

    assert [lab.ended(attempt)[-1].code for attempt in ("b", "c")] == [0, 0]


def test_a_lease_can_be_used_again_after_its_line_was_empty(lab: KeeperLab) -> None:
    for attempt in ("a", "b"):
        assert lab.outcome("true", attempt=attempt, lease="l").code == 0


def test_starts_that_fail_let_the_next_go_on_and_use_one_group(lab: KeeperLab) -> None:
    lab.send(lab.a_shell(WAIT_FOR_GO, attempt="a", lease="l"))
    for number in range(1_500):  # More than a stack of calls would hold.
        lab.send(lab.a_run("no-such-command", attempt=f"b{number}", lease="l"))
    lab.send(lab.a_run("true", attempt="c", cwd="/no/such/place", lease="l"))
    lab.send(lab.a_run("true", attempt="d", lease="l"))
    lab.started("a")
    (lab.directory / "go").touch()

    assert lab.ended("d")[-1].code == 0
    assert (lab.ended("b1499")[-1].code, lab.ended("c")[-1].how) == (127, "failed")
    assert {path.name for group in lab.groups() for path in group.glob("slot-*")} <= {"slot-0"}


def test_the_timeout_of_who_waited_counts_from_its_own_start(lab: KeeperLab) -> None:
    lab.send(lab.a_run("sleep", "0.6", attempt="a", lease="l"))
    lab.send(lab.a_run("sleep", "0.2", attempt="b", lease="l", timeout_ms=500))
    lab.send(lab.a_run("sleep", "600", attempt="c", lease="l", timeout_ms=100))

    assert lab.ended("b")[-1].how == "exited"
    assert lab.ended("c")[-1].how == "timeout"
    assert lab.ended("b")[-1].started_ms >= lab.ended("a")[-1].ended_ms


def test_the_next_starts_only_when_the_tree_of_the_last_is_gone(
    any_lab: KeeperLab, tmp_path: Path
) -> None:
    lab = any_lab
    survivor = tmp_path / "survivor"
    script = f"(setsid sh -c 'echo $$ >{survivor}; exec sleep 600' &); until [ -s {survivor} ]; "
    lab.send(lab.a_shell(f"{script} do sleep 0.01; done", attempt="a", lease="l"))
    # Dead and not yet reaped is gone, too: a signal would still reach it.
    is_alive = "p=$(cat survivor); kill -0 $p && ! grep -q zombie /proc/$p/status"
    lab.send(lab.a_shell(is_alive, attempt="b", lease="l"))

    assert lab.ended("b")[-1].code == 1
    assert "left behind" in lab.ended("a")[-1].note


def test_stopping_who_runs_lets_the_next_start(lab: KeeperLab) -> None:
    lab.send(lab.a_run("sleep", "600", attempt="a", lease="l"))
    lab.send(lab.a_run("true", attempt="b", lease="l"))
    lab.started("a")
    lab.send(Stop(attempt="a"))

    assert lab.ended("b")[-1].how == "exited"


def test_a_chunk_waits_and_lets_wait(lab: KeeperLab) -> None:
    lab.send(lab.a_run("true", attempt="a", indices=(1, 2), lease="l"))
    lab.send(lab.a_run("false", attempt="b", indices=(3, 4), lease="l"))
    lab.ended("b")

    ends = [(r.index, r.code) for r in lab.reports if isinstance(r, Ended)]
    assert ends == [(1, 0), (2, 0), (3, 1), (4, 1)]


def test_every_attempt_of_a_lease_has_its_own_slot(lab: KeeperLab) -> None:
    cores = sorted(os.sched_getaffinity(0))
    for number, core in enumerate(cores[:2]):
        slot = Slot(cores=(core,))
        lab.send(lab.a_run("nproc", attempt=f"a{number}", lease="l", slot=slot))
        lab.ended(f"a{number}")

    assert lab.output(attempt="a0") == b"1\n"


def test_who_waits_goes_on_under_a_keeper_without_agent(lab: KeeperLab, tmp_path: Path) -> None:
    lab.send(lab.a_shell(WAIT_FOR_GO, attempt="a", lease="l"))
    lab.send(lab.a_shell("touch ran", attempt="b", lease="l"))
    lab.started("a")
    lab.send(Quit())
    lab.let_agent_go()
    wait_until(lambda: not is_alive(lab.agent_pid))
    (tmp_path / "go").touch()

    assert lab.wait() == 0
    assert (tmp_path / "ran").exists()


def test_the_keeper_ends_at_once_when_the_last_of_a_line_cannot_start(
    lab: KeeperLab, tmp_path: Path
) -> None:
    lab.send(lab.a_shell(WAIT_FOR_GO, attempt="a", lease="l"))
    lab.send(lab.a_run("no-such-command", attempt="b", lease="l"))
    lab.started("a")
    lab.send(Quit())
    lab.let_agent_go()
    wait_until(lambda: not is_alive(lab.agent_pid))
    (tmp_path / "go").touch()
    assert lab.process

    assert lab.process.wait(5) == 0  # Sooner than it waits for an agent that stays.


def test_a_keeper_that_is_told_to_end_tells_who_never_started(lab: KeeperLab) -> None:
    for attempt in ("a", "b"):
        lab.send(lab.a_run("sleep", "600", attempt=attempt, lease="l"))
    lab.started("a")
    os.kill(lab.pid, signal.SIGTERM)

    (ended,) = lab.ended("b")
    assert (ended.how, ended.note) == ("stopped", "did not start")
    assert [what for name, what in told(lab) if name == "b"] == ["stopped"]


def test_the_next_keeper_tells_what_ran_from_what_waited(lab: KeeperLab, tmp_path: Path) -> None:
    lab.send(lab.a_run("true", attempt="a", lease="l"))
    for attempt in ("b", "c"):
        lab.send(lab.a_run("sleep", "600", attempt=attempt, lease="l"))
    lab.started("b")
    lab.acknowledge()
    lab.kill()
    lab.wait()
    lab.start()

    assert (lab.ended("b")[-1].how, lab.ended("b")[-1].note) == ("lost", "the keeper died")
    (waited,) = lab.ended("c")
    assert (waited.how, waited.code) == ("stopped", 125)
    assert waited.note == "the keeper died before it started"
    assert not (tmp_path / "scratch/c").exists()


def test_whoever_is_given_back_last_leaves_the_lease_free(lab: KeeperLab) -> None:
    lab.send(lab.a_shell(WAIT_FOR_GO, attempt="a", lease="l"))
    lab.send(lab.a_run("true", attempt="b", lease="l"), Withdraw(attempt="b"))
    assert lab.ended("b")[-1].code == 125
    (lab.directory / "go").touch()
    lab.ended("a")

    assert lab.outcome("true", attempt="c", lease="l").code == 0


PLANTED = """
from distributed_grid.edges.runner import spawn
true_start = spawn.Recipe.start
def start(self, index, out, err):
    if self._run.argv[0] == "bug-before":
        raise ZeroDivisionError("planted")
    return true_start(self, index, out, err)
spawn.Recipe.start = start
from distributed_grid.edges.runner import attempts
true_next = attempts.Attempt.start_next
def start_next(self):
    reports = true_next(self)
    if self.run.argv[0] == "false":
        raise ZeroDivisionError("planted")
    return reports
attempts.Attempt.start_next = start_next
"""


@pytest.mark.parametrize("lease", ["", "l"])
def test_a_bug_of_the_keeper_is_told_and_holds_up_nobody(
    new_lab: KeeperLab, tmp_path: Path, lease: str
) -> None:
    (tmp_path / "sitecustomize.py").write_text(PLANTED)
    lab = new_lab.start(env={"PYTHONPATH": f"{tmp_path}:{ROOT}"}, stderr=subprocess.DEVNULL)
    lab.send(lab.a_run("bug-before", attempt="a", lease=lease))
    lab.send(lab.a_run("false", attempt="b", lease=lease))
    lab.send(lab.a_run("true", attempt="c", lease=lease))

    (ended,) = lab.ended("a")
    assert (ended.how, ended.code) == ("failed", 125)
    assert ended.note == "a bug of the keeper: ZeroDivisionError: planted"
    # Its process was made before the mistake: how it ended is told all the same.
    assert (lab.ended("b")[-1].how, lab.ended("b")[-1].code) == ("exited", 1)
    assert lab.ended("c")[-1].code == 0
    assert [r.attempt for r in lab.reports if isinstance(r, Started)] == ["c"]


def test_a_keeper_that_leaves_with_a_bug_runs_who_waits_first(
    new_lab: KeeperLab, tmp_path: Path
) -> None:
    (tmp_path / "sitecustomize.py").write_text(PLANTED)
    env = {"PYTHONPATH": f"{tmp_path}:{ROOT}"}
    lab = new_lab.start(env=env, stderr=subprocess.DEVNULL)
    lab.send(lab.a_shell(WAIT_FOR_GO, attempt="a", lease="l"))
    lab.send(lab.a_run("bug-before", attempt="b", lease="l"))
    lab.send(lab.a_shell("touch ran", attempt="c", lease="l"))
    lab.started("a")
    lab.send(Quit())
    lab.let_agent_go()
    wait_until(lambda: not is_alive(lab.agent_pid))
    (tmp_path / "go").touch()

    assert lab.wait() == 0
    assert (tmp_path / "ran").exists()
