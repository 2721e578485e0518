"""The benchmark of placement runs, prints what it promises, and the ratio holds."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.rows("S1-23", "S1-74", "S1-81", "S2-123")
def test_columns_are_thirty_times_as_fast_as_the_scalar_reference():
    done = subprocess.run(
        [
            *(sys.executable, "-m", "benchmarks.placement"),
            *("--sizes", "1000", "10000", "--repeats", "40"),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["against_scalar"]["ratio"] >= 30
    # The seed's own limit; ours, a hundredth of it, is reported and not gated.
    assert found["decision"]["1000"]["BestFit"]["p50_ms"] < 10
    assert {"BestFit", "Balanced", "Spread", "rank only"} <= set(found["decision"]["1000"])
    assert found["growth_exponent"] < 1.5
    assert found["update_us"] > 0
    assert found["bytes_a_node"]["arrays_and_tables"] < 4_096
    assert "BestFit" in done.stderr
