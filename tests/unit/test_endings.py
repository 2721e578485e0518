"""How a process ended, in words."""

import pytest

from distributed_grid.kernel.endings import in_words
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
