"""The benchmarks of real agents run in short, and their ratios hold with room for noise."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def found_by(module, *words):
    done = subprocess.run(
        [sys.executable, "-m", module, *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.slow
def test_several_nodes_do_their_work_and_a_death_costs_little_beyond_its_verdict():
    found = found_by("benchmarks.cluster", "--nodes", "3", "--jobs", "500", "--repeats", "1",
                     "--starts", "20", "--kills", "1", "--no-peers")["grid"]  # fmt: skip

    # Beside the peers it is ahead of all; here only that nothing has become many times slower.
    assert found["array_per_s"] >= 0.1 * found["raw_per_s"]
    assert found["start_elsewhere_ms"]["p50"] <= 15 * found["start_here_ms"]["p50"]
    assert found["replacing"]["from_verdict_s"]["p50"] <= found["replacing"]["from_kill_s"]["p50"]
    assert found["replacing"]["from_verdict_s"]["p50"] <= 2


@pytest.mark.slow
def test_what_was_sent_once_is_not_sent_again():
    found = found_by("benchmarks.shipping", "--megabytes", "60", "--rounds", "1", "--no-pipe")

    # Goals of the whole benchmark: 0.5 of rsync over ssh; five times as fast the second time.
    assert found["mesh"].get("of_rsync", 1) >= 0.15
    assert found["mesh"]["second_times_faster"] >= 1.3
