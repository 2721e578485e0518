"""What must be true of every cluster, whatever fails, judged from outside of the kernels.

Lives here: one file for each kind of rule. Never here: making a rule true (`kernel.across`); what
must be true once it is calm (`settling`).
Invariant: a checker counts for itself, from what was asked for, what was acknowledged, what is on
disks, and what keepers really run.
"""

from distributed_grid.sim.across.checker import Checker
from distributed_grid.sim.across.checkers.amounts import Bounded, NothingSoldTwice, Quiet
from distributed_grid.sim.across.checkers.borrowing import OnlyBorrowed
from distributed_grid.sim.across.checkers.copies import CopiesAreThere
from distributed_grid.sim.across.checkers.ends import EndsAreTrue, OneEnd
from distributed_grid.sim.across.checkers.processes import (
    NeverTwiceAtOnce,
    NoOrphans,
    OverIsOver,
)


def all_checkers() -> list[Checker]:
    """New ones, for one run."""
    return [
        NothingSoldTwice(),
        OnlyBorrowed(),
        Bounded(),
        Quiet(),
        CopiesAreThere(),
        NeverTwiceAtOnce(),
        OverIsOver(),
        NoOrphans(),
        OneEnd(),
        EndsAreTrue(),
    ]
