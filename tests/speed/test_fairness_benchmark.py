"""A simulated day is shared out evenly, and the benchmark draws it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.rows("S0-77", "S3-108")
def test_equal_users_get_equal_shares_of_a_day(tmp_path):
    plot = tmp_path / "fairness.svg"
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.fairness", "--out", str(plot)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["equal"]["jain_min"] >= 0.95
    assert found["weighted"]["jain_min"] >= 0.9
    assert plot.read_text().startswith("<svg")
