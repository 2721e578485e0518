from pathlib import Path

import pytest

from distributed_grid.wire.keeper import Ended, Started, Stop, StopIndex
from tests.keeper_lab import KeeperLab, wait_until


def test_a_thousand_indices_run_in_order_with_their_own_results(lab: KeeperLab) -> None:
    indices = tuple(range(1_000))
    lab.send(lab.a_shell("exit $((GRID_ARRAY_INDEX % 7))", indices=indices))
    ended = lab.ended()

    assert [report.index for report in ended] == list(indices)
    assert [report.code for report in ended] == [index % 7 for index in indices]
    assert [report.is_last for report in ended] == [False] * 999 + [True]
    assert [report.index for report in lab.reports if isinstance(report, Started)] == [0]
    assert [report.number for report in lab.reports] == list(range(1, 1_002))


def test_stopping_in_the_middle_starts_no_later_index(lab: KeeperLab, tmp_path: Path) -> None:
    script = "echo $GRID_ARRAY_INDEX >>ran; [ $GRID_ARRAY_INDEX -lt 2 ] || exec sleep 600"
    lab.send(lab.a_shell(script, indices=(0, 1, 2, 3, 4)))
    ran = tmp_path / "ran"
    wait_until(lambda: ran.exists() and ran.read_text() == "0\n1\n2\n")
    lab.send(Stop(attempt="one"))
    ended = lab.ended()

    assert [(report.index, report.how) for report in ended] == [
        (0, "exited"), (1, "exited"), (2, "stopped"),
    ]  # fmt: skip
    assert ran.read_text() == "0\n1\n2\n"


def test_one_index_can_be_ended_and_one_skipped(lab: KeeperLab, tmp_path: Path) -> None:
    script = "echo $GRID_ARRAY_INDEX >>ran; [ $GRID_ARRAY_INDEX != 0 ] || exec sleep 600"
    lab.send(lab.a_shell(script, indices=(0, 1, 2)))
    wait_until((tmp_path / "ran").exists)
    lab.send(StopIndex(attempt="one", index=1), StopIndex(attempt="one", index=0))
    ended = {report.index: report for report in lab.ended()}

    assert (ended[1].how, ended[1].note) == ("stopped", "did not start")
    assert ended[0].how == "stopped"
    assert (ended[2].how, ended[2].is_last) == ("exited", True)
    assert (tmp_path / "ran").read_text() == "0\n2\n"


def test_an_index_that_cannot_start_does_not_hold_up_the_others(lab: KeeperLab) -> None:
    lab.send(lab.a_run("no-such-command", indices=(1, 2, 3)))
    ended = lab.ended()

    assert [(report.index, report.code) for report in ended] == [(1, 127), (2, 127), (3, 127)]


def test_timeouts_of_indices_that_ended_are_not_kept(lab: KeeperLab) -> None:
    """Else a chunk with a long timeout would grow the keeper by every index."""
    lab.send(lab.a_run("true", indices=tuple(range(1_500)), timeout_ms=10**8))

    assert {report.how for report in lab.ended()} == {"exited"}


def test_every_index_has_its_own_timeout(lab: KeeperLab) -> None:
    lab.send(lab.a_run("sleep", "600", indices=(1, 2), timeout_ms=100))

    assert [report.how for report in lab.ended()] == ["timeout", "timeout"]


@pytest.mark.parametrize("message", [Stop(attempt="none"), StopIndex(attempt="none", index=1)])
def test_what_is_not_there_cannot_be_stopped(lab: KeeperLab, message: Stop | StopIndex) -> None:
    lab.send(message)
    ended = lab.outcome("true")

    assert isinstance(ended, Ended)
    assert ended.code == 0
