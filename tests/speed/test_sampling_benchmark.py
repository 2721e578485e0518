"""The benchmark of sampling runs, and looking costs what it may."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_looking_every_second_costs_half_a_percent_of_a_core_at_most():
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.sampling", "--looks", "50"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)["percent_of_a_core"]
    assert found["every 60 s"] < found["every 10 s"] < found["every 1 s"] <= 0.5
