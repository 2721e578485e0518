"""Clusters made from a seed: the real kernel of every node, a made-up world around them.

`outcome_of(7)` plays one run and tells what became of it; `python -m distributed_grid.sim.across
--seed 7` prints it. `World` with a `Mood` and checkers of one's own tries something else.
"""

from distributed_grid.sim.across.checker import Checker, Violation
from distributed_grid.sim.across.moods import Mood, mood_of
from distributed_grid.sim.across.run import Outcome, outcome_of
from distributed_grid.sim.across.world import World

__all__ = ["Checker", "Mood", "Outcome", "Violation", "World", "mood_of", "outcome_of"]
