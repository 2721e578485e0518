"""Meshes made from a seed: the real kernel of every machine, a made-up network between them.

`outcome_of(7)` plays one run and tells what became of it; `python -m distributed_grid.sim.mesh
--seed 7` prints it. `World` with a `Mood` and checkers of one's own tries something else.
`convergence.rounds_of(100)` counts how many rounds news takes.
"""

from distributed_grid.sim.mesh.checker import Checker, Violation
from distributed_grid.sim.mesh.moods import Mood, mood_of
from distributed_grid.sim.mesh.run import Outcome, outcome_of
from distributed_grid.sim.mesh.world import World

__all__ = ["Checker", "Mood", "Outcome", "Violation", "World", "mood_of", "outcome_of"]
