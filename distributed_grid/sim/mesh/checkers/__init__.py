"""What must be true of every mesh, whatever fails, judged from outside of the kernels.

Lives here: one file for each kind of rule. Never here: making a rule true (`kernel.mesh`); what
must be true once it is calm (`world.disagreement`), and of one fault alone (`acts`).
Invariant: a checker counts for itself, from what was said, signed and sent.
"""

from distributed_grid.sim.mesh.checker import Checker
from distributed_grid.sim.mesh.checkers.outsiders import (
    NothingForged,
    RevokedStayOut,
    TicketsAreExact,
)
from distributed_grid.sim.mesh.checkers.said import Bounded, NobodyIsRolledBack, SavedBeforeSaid
from distributed_grid.sim.mesh.checkers.vital import (
    DeathsAreNoticed,
    NobodyDiesForNothing,
    NobodyIsACloneForNothing,
    SleepersWakeQuietly,
)


def all_checkers() -> list[Checker]:
    """New ones, for one run."""
    return [
        NobodyDiesForNothing(),
        DeathsAreNoticed(),
        SleepersWakeQuietly(),
        NobodyIsACloneForNothing(),
        NobodyIsRolledBack(),
        SavedBeforeSaid(),
        Bounded(),
        NothingForged(),
        RevokedStayOut(),
        TicketsAreExact(),
    ]
