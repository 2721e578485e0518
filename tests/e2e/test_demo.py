"""`make demo` and `grid demo`: the tour works, from set-up to the refusal."""

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_make_demo_profiles_places_and_explains():
    done = subprocess.run(
        ["make", "demo"], cwd=ROOT, capture_output=True, text=True, timeout=300, check=False
    )

    assert done.returncode == 0, done.stderr
    assert "class " in done.stdout
    assert "1,000 nodes" in done.stdout
    for policy in ("BestFit", "FirstFit", "RoundRobin", "PowerAware", "LocalityAware"):
        assert policy in done.stdout
    for policy in ("CostOptimized", "Balanced", "Spread", "by rank alone"):
        assert policy in done.stdout
    assert "fits on none of 1000 nodes" in done.stdout
    assert "closest to fitting" in done.stdout
    assert "killed with SIGKILL" in done.stdout
    assert "1000/1000" in done.stdout
    assert "killed: out of memory, used more than 64 MiB" in done.stdout
    assert "map: 2,000 calls" in done.stdout
    assert "known to be dead after" in done.stdout
    assert "6 of 6 jobs succeeded" in done.stdout


@pytest.mark.slow
def test_the_demo_leaves_nothing_behind(grid, tmp_path):
    done = grid("demo", "--only", "jobs", env={"TMPDIR": str(tmp_path)}, timeout_s=120)

    assert done.returncode == 0, done.stderr
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("grid-demo")] == []
    assert "the agent is down" in done.stdout


def test_the_demo_says_when_every_job_found_a_node(grid):
    done = grid("demo", "--only", "fleet", "--nodes", "50", "--jobs", "1", "--seed", "4")

    assert done.returncode == 0, done.stderr
    assert "every job found a node" in done.stdout


def test_the_demo_is_the_same_for_the_same_seed(grid):
    def placed(seed: str) -> list[list[str]]:
        words = ("demo", "--only", "fleet", "--nodes", "80", "--jobs", "20", "--seed", seed)
        lines = grid(*words).stdout.splitlines()
        rows = [line.replace("|", " ").split() for line in lines]
        return [row[:-1] for row in rows if row and row[0] in ("BestFit", "Spread")]

    assert len(placed("9")) == 2
    assert placed("9") == placed("9")
    assert placed("9") != placed("10")
