"""Nobody runs the work of others as if it were the own.

Lives here: what keepers are told of jobs that were submitted elsewhere. Never here: how much an
owner lends and when (`kernel.lending` has its own tests).
"""

from distributed_grid.kernel.ready import Ready
from distributed_grid.model.ids import JobId
from distributed_grid.sim.across.checker import Checker, Violation
from distributed_grid.sim.across.machine import Machine
from distributed_grid.sim.across.world import World
from distributed_grid.wire.keeper import Run


class OnlyBorrowed(Checker):
    """What somebody submitted elsewhere gives way here, whoever is its home by now."""

    def carried_out(self, world: World, machine: Machine, ready: Ready) -> None:
        """Look at what is started."""
        for run in ready.tell:
            if not isinstance(run, Run) or run.niceness:
                continue
            wish = world.wishes[JobId(run.env["GRID_JOB_ID"])]
            if wish.arrival.machine != machine.number:
                raise Violation(f"{machine} runs {wish.spec.name} of others as its own")
