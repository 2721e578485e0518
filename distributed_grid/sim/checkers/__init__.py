"""What must be true of every run, each rule by itself, judged from outside of the kernel.

Lives here: one file for each kind of rule. Never here: making a rule true (`kernel`).
Invariant: a checker counts for itself, from what was asked for and what the keeper runs; it never
asks the kernel whether the kernel is right.
"""

from distributed_grid.sim.checkers.amounts import Bounded, NothingOversold
from distributed_grid.sim.checkers.booked import BookedRoomIsFree
from distributed_grid.sim.checkers.endings import DatesAreKept, EmptyAtTheEnd, EveryJobEndsOnce
from distributed_grid.sim.checkers.lent import BorrowersGiveWay, OnlyOffersAreLent
from distributed_grid.sim.checkers.precedence import (
    LowTakesLeftovers,
    NobodyIsOvertakenForLong,
    NobodyIsPassed,
)
from distributed_grid.sim.checkers.prompt import NobodyStarves, StoppedWorkStops, VictimsMakeRoom
from distributed_grid.sim.checkers.shares import SharesFollowWeights
from distributed_grid.sim.checkers.victims import (
    NobodyIsEvictedInVain,
    OnlyLessImportantGiveWay,
    VictimsAreQueuedAgain,
)
from distributed_grid.sim.world import Checker


def all_checkers() -> list[Checker]:
    """New ones, for one run."""
    return [
        NothingOversold(),
        Bounded(),
        NobodyIsPassed(),
        NobodyIsOvertakenForLong(),
        LowTakesLeftovers(),
        VictimsMakeRoom(),
        StoppedWorkStops(),
        NobodyStarves(),
        OnlyOffersAreLent(),
        BorrowersGiveWay(),
        BookedRoomIsFree(),
        OnlyLessImportantGiveWay(),
        NobodyIsEvictedInVain(),
        VictimsAreQueuedAgain(),
        DatesAreKept(),
        EveryJobEndsOnce(),
        EmptyAtTheEnd(),
        SharesFollowWeights(),
    ]
