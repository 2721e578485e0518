"""Two hundred worlds of an owner, borrowers and faults: no rule is broken; a seed is a story."""

import os
import subprocess
import sys

import pytest

from distributed_grid.sim import owner
from distributed_grid.sim.owner import outcome_of
from tests.sim.mutants import MUTANTS, SEEDS, broken

HALVES = 2  # At the same time: machines with one core are rare.


def told(first: int, count: int, **variables: str) -> subprocess.Popen:
    """A run of some seeds in a process of its own.

    It is not measured: that would make it three times as long, and the broken kernels below go the
    same ways.
    """
    kept = {name: value for name, value in os.environ.items() if "COVERAGE" not in name}
    return subprocess.Popen(
        [sys.executable, "-m", "distributed_grid.sim.owner",
         "--seed", str(first), "--seeds", str(count)],
        env=kept | variables, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip


@pytest.mark.slow
def test_every_rule_holds_in_two_hundred_seeds_whatever_fails():
    each = SEEDS // HALVES
    runs = [told(first, each) for first in range(0, SEEDS, each)]
    lines = [line for run in runs for line in run.communicate()[0].splitlines()]
    assert [line for line in lines if "FAILED" in line] == []
    assert sum(line.startswith("seed ") for line in lines) == SEEDS
    assert [run.returncode for run in runs] == [0] * HALVES


@pytest.mark.slow
@pytest.mark.unmeasured
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.breaks)
def test_a_kernel_with_a_broken_rule_fails_its_seed(mutant):
    assert mutant.seed < SEEDS, "the same seed passes with the rule whole: see above"
    with broken(mutant):
        assert outcome_of(mutant.seed).problem


@pytest.mark.slow
def test_a_seed_is_one_story_whatever_the_order_of_hashes():
    runs = [told(3, 4, PYTHONHASHSEED=hashes) for hashes in ("0", "1", "77")]
    stories = {run.communicate()[0] for run in runs}
    assert len(stories) == 1


def test_a_failure_tells_the_seed_the_mood_and_the_story(capsys):
    mutant = next(one for one in MUTANTS if one.breaks == "borrowers need no offer")
    with broken(mutant):
        assert owner.main(["--seed", str(mutant.seed)]) == 1
    told = capsys.readouterr().out
    assert f"seed {mutant.seed} FAILED: Violation: " in told
    assert "crash_milli=" in told
    assert "Submit: job.submitted" in told


def test_the_whole_story_is_told_on_request(capsys):
    assert owner.main(["--seed", "1", "--trace"]) == 0
    told = capsys.readouterr().out
    assert " calm\n" in told
    assert "seed 1: " in told
