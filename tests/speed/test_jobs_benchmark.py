"""The benchmark of jobs runs beside raw posix_spawn, and the ratios hold with room for noise."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.rows("S4-114")
def test_jobs_keep_their_ratios():
    done = subprocess.run(
        [
            *(sys.executable, "-m", "benchmarks.jobs", "--no-peers", "--pairs", "5"),
            *("--jobs", "800", "--separate", "100", "--calls", "2000", "--queued", "2000"),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    grid = json.loads(done.stdout)["grid"]
    # Goals are 0.6, 10 ms, 6, 60 MB, 2; a busy machine of two cores gets room.
    # The best of the pairs: on cores that others use, the rest tell about them, not about us.
    assert grid["array_to_raw_best"] >= 0.4
    assert grid["pipelined_per_s"] >= grid["separate_per_s"]
    assert grid["single_ms"]["p50"] <= 50
    assert grid["run_to_python"] <= 15
    assert grid["rest_pss_mb"] <= 75
    assert grid["array_100k_pss_mb"] <= 150
    assert grid["queue"]["ratio"] <= 3
    assert grid["map_s"] <= 5
