"""How a process ended, in words, and how long the next one waits."""

import pytest

from distributed_grid.kernel.endings import in_words, index_in_words, pause_after
from distributed_grid.wire.keeper import Ended, Usage


@pytest.mark.parametrize(
    ("how", "code", "words"),
    [
        ("exited", 3, "exit code 3"),
        ("signalled", 137, "killed by SIGKILL (exit 137)"),
        ("signalled", 128 + 40, "killed by signal 40 (exit 168)"),
        ("timeout", 124, "timeout (exit 124)"),
    ],
)
def test_an_end_in_words(how, code, words):
    report = Ended(
        number=1, attempt="a", how=how, code=code, started_ms=1, ended_ms=2, usage=Usage()
    )
    assert in_words(report) == words


@pytest.mark.parametrize(
    ("code", "note", "words"),
    [
        (1, "", "exit 1"),
        (124, "", "exit 124: timeout"),
        (139, "", "exit 139: SIGSEGV"),
        (137, "killed: out of memory", "exit 137: killed: out of memory"),
    ],
)
def test_the_end_of_an_index_in_words(code, note, words):
    assert index_in_words(code, note) == words


def test_a_failure_after_a_long_run_is_tried_again_at_once():
    assert pause_after(5, 59_999) == 8_000
    assert pause_after(5, 60_000) == 0
    assert pause_after(1_000_000, 1) == 60_000
