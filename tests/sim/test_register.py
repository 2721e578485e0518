"""At-most-once jobs under every fault: never two live processes, and they end; each rule is needed.

`python -m tests.sim.register_world --seeds 600` is the whole of it.
"""

import os
import subprocess
import sys

import pytest

from tests.sim import register_world
from tests.sim.register_moods import RATES, Mood, mood_of
from tests.sim.register_mutants import MUTANTS, TRUSTED, broken, problem_of
from tests.sim.register_scenes import SCENES, played

pytestmark = pytest.mark.unmeasured

SEEDS = 60  # Of six hundred: some fifteen seconds of two cores.
HALVES = 2


def told(first: int, count: int, **variables: str) -> subprocess.Popen:
    """A run of some seeds in a process of its own; not measured, as that would take three times."""
    kept = {name: value for name, value in os.environ.items() if "COVERAGE" not in name}
    return subprocess.Popen(
        [sys.executable, "-m", "tests.sim.register_world",
         "--seed", str(first), "--seeds", str(count)],
        env=kept | variables, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.rows("S0-87")
def test_no_job_runs_twice_at_once_whatever_fails_and_all_end_after_healing():
    each = SEEDS // HALVES
    runs = [told(first, each) for first in range(0, SEEDS, each)]
    lines = [line for run in runs for line in run.communicate()[0].splitlines()]

    assert [line for line in lines if "FAILED" in line] == []
    assert sum(line.startswith("seed ") for line in lines) == SEEDS
    assert [run.returncode for run in runs] == [0] * HALVES


@pytest.mark.parametrize("scene", SCENES)
def test_no_job_runs_twice_at_once_in_any_scene(scene):
    assert played(scene) == ""


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.breaks)
def test_a_register_without_one_of_its_rules_fails_its_seed(mutant):
    is_run_whole = mutant.seed in range(SEEDS) or mutant.seed in SCENES
    assert is_run_whole or not problem_of(mutant.seed), "it passes with the rule whole"
    with broken(mutant):
        assert problem_of(mutant.seed)


@pytest.mark.parametrize(
    "mutant",
    [one for one in MUTANTS if one.needs == TRUSTED and one.where.startswith("register_chair")],
    ids=lambda mutant: mutant.breaks,
)
def test_who_votes_holds_out_against_a_home_that_breaks_a_rule(mutant):
    """Homes that lie in this way run nothing twice: the scene needs voters that trust them."""
    with broken(mutant._replace(needs=())):
        assert problem_of(mutant.seed) == ""


@pytest.mark.slow
def test_a_seed_is_one_story_whatever_the_order_of_hashes():
    runs = [told(0, 3, PYTHONHASHSEED=hashes) for hashes in ("0", "1", "77")]
    stories = {run.communicate()[0] for run in runs}

    assert len(stories) == 1
    assert "story" in stories.pop()


def test_the_seeds_switch_on_every_fault():
    moods = [mood_of(seed) for seed in range(SEEDS)]
    plain = Mood()
    never = [
        name
        for name in Mood._fields
        if all(getattr(mood, name) == getattr(plain, name) for mood in moods)
    ]

    assert never == []
    assert {mood.nodes for mood in moods} == {3, 4, 5, 6, 7}
    assert all(any(getattr(mood, name) for mood in moods) for name in RATES)


def test_a_failure_tells_the_seed_the_mood_and_the_story(capsys, monkeypatch):
    def fail(self, job):
        raise register_world.Violation("made up")

    monkeypatch.setattr(register_world.World, "_check", fail)
    assert register_world.main(["--seed", "0"]) == 1
    said = capsys.readouterr().out

    assert "seed 0 FAILED: Violation: made up" in said
    assert "Mood(seed=0" in said
    assert "started job0" in said
