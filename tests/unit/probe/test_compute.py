"""The compute score: measured, honest about how, and never in the way."""

import subprocess
import sys
from pathlib import Path

import pytest

from distributed_grid.edges.probe.compute import short_score
from distributed_grid.edges.probe.compute_full import full_score


def test_the_short_score_takes_a_few_milliseconds_on_one_core() -> None:
    score = short_score(span_ns=3_000_000)

    assert score.cores == 1
    assert score.milliseconds >= 3
    assert "lower bound" in score.method
    # A microcontroller does more than 1, no scalar loop does a million.
    assert 1 < score.mega_flops < 1_000_000


@pytest.mark.slow
def test_the_full_score_uses_matrix_products_and_is_better() -> None:
    absent: dict[str, str] = {}
    full = full_score(cores=2, absent=absent, span_ns=200_000_000)

    assert full is not None, absent
    assert full.method == "numpy float64 matrix product"
    assert full.cores == 2
    assert full.milliseconds >= 200
    assert full.mega_flops > short_score().mega_flops


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("exit 3", "exit code 3"),
        ("echo ImportError: no numpy >&2; exit 1", "exit code 1: ImportError: no numpy"),
        ("echo junk", "its answer is not understood: JSONDecodeError"),
        ("echo '{}'", "its answer is not understood: KeyError"),
        ('echo \'{"operations": 5, "nanoseconds": 0}\'', "not understood: ZeroDivisionError"),
        ("exec tail -f /dev/null", "no answer within 1 s"),
    ],
)
def test_a_child_that_fails_is_a_reason(tmp_path: Path, script: str, why: str) -> None:
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\n{script}\n")
    python.chmod(0o755)
    absent: dict[str, str] = {}

    assert full_score(cores=1, absent=absent, python=str(python), deadline_s=1) is None
    assert why in absent["compute.full"]


def test_a_missing_interpreter_is_a_reason() -> None:
    absent: dict[str, str] = {}

    assert full_score(cores=1, absent=absent, python="/nonexistent/python") is None
    assert "No such file" in absent["compute.full"]


def test_a_child_that_boasts_is_not_believed(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\necho \'{"operations": 1' + "0" * 30 + ', "nanoseconds": 1}\'\n')
    python.chmod(0o755)
    absent: dict[str, str] = {}

    assert full_score(cores=1, absent=absent, python=str(python)) is None
    assert absent["compute.full"] == "the measuring process told nonsense"


def test_full_falls_back_to_the_short_score() -> None:
    """Where Python is embedded in another program, it has no interpreter to start a child with."""
    script = (
        "import sys; sys.executable = ''\n"
        "from distributed_grid.edges.probe.machine import profile\n"
        "made = profile(full=True); print(made.compute.method, '/', made.absent['compute.full'])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True
    )

    method, _, reason = done.stdout.partition(" / ")
    assert "lower bound" in method
    assert reason.startswith("the measuring process failed")
