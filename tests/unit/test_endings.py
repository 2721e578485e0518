"""How a process ended, in words."""

import pytest

from distributed_grid.kernel.endings import in_words, index_in_words
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
