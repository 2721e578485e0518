"""Every rule over clusters is looked at: with a guard broken a seed or a scene fails."""

import pytest

from distributed_grid.sim.across.scenes import SCENES
from tests.sim.across_mutants import MUTANTS, SEEDS, broken, problem_of


@pytest.mark.slow
@pytest.mark.unmeasured
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.breaks)
def test_a_cluster_with_a_broken_guard_fails_its_seed(mutant):
    is_run_whole = mutant.seed in range(SEEDS) or mutant.seed in SCENES
    assert is_run_whole, "the same seed or scene passes with the guard whole: see test_across"
    with broken(mutant):
        problem = problem_of(mutant.seed)
    assert problem
    assert mutant.shows in problem
