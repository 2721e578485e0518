"""Who comes first: the owner, then classes as waiting has lifted them.

Lives here: rules about each single grant. Never here: how long somebody waits (`prompt`).
"""

from distributed_grid.kernel.host import OVERTAKING_MS_MAX
from distributed_grid.kernel.node import Node, NodeEvent
from distributed_grid.kernel.ready import Ready
from distributed_grid.model.ids import JobId
from distributed_grid.model.lease import Lease
from distributed_grid.model.priority import LOW, RANKS
from distributed_grid.model.resources import Resources
from distributed_grid.sim.world import Checker, Violation, World


def ready_ms_of(node: Node, job: JobId) -> int:
    """Since when only room is lacking; a job that waits for its time has not begun to."""
    known = node.coordinator.jobs[job]
    return known.submitted_ms if known.ready_ms is None else known.ready_ms


def rank_of(world: World, job: JobId, submitted_ms: int, now_ms: int) -> int:
    """The class of a job as waiting has lifted it."""
    steps = (now_ms - submitted_ms) // world.mood.ageing_ms
    return max(0, RANKS[world.spec(job).priority] - steps)


def standing(world: World, node: Node, job: JobId) -> tuple[bool, int]:
    """Where a job stands now: the owner's before borrowed work, then by class."""
    submitted_ms = ready_ms_of(node, job)
    return world.spec(job).is_shared, rank_of(world, job, submitted_ms, world.now_ms)


def could_take(world: World, node: Node, waiting: JobId, lease: Lease) -> bool:
    """Whether somebody who waits would fit if this lease had not been granted."""
    trial = node.ledger.copy()
    trial.release(lease.id)
    request = world.spec(waiting).request
    among = None
    if world.spec(waiting).is_shared:
        borrowed = node.host.borrowed
        if world.spec(lease.job).is_shared:
            borrowed -= lease.resources
        found = node.host.lending.admits(request, trial.free(), borrowed, world.now_ms)
        if found.reasons:
            return False
        among = found.devices
    got = trial.reserve("trial", waiting, "", request, world.now_ms, among=among)
    return isinstance(got, Lease)


class NobodyIsPassed(Checker):
    """Nothing is granted that somebody who comes first waits for and could use."""

    def stepped(self, world: World, node: Node, event: NodeEvent, ready: Ready) -> None:
        """Compare each new lease with those who still wait."""
        if len(node.host.bookings):
            return  # What one cannot have, another may: see `booked`.
        for lease in ready.save_leases:
            place = standing(world, node, lease.job)
            for waiting in node.host.line:
                mine = standing(world, node, waiting)
                # What is low waits for leftovers, and a borrower who can be evicted takes none.
                if mine < place and mine[1] < LOW and could_take(world, node, waiting, lease):
                    names = world.spec(lease.job).name, world.spec(waiting).name
                    raise Violation(f"{names[0]} got what {names[1]} waits for and comes first")


class LowTakesLeftovers(Checker):
    """Nothing of class low starts while more important work of the owner lacks room."""

    def stepped(self, world: World, node: Node, event: NodeEvent, ready: Ready) -> None:
        """Look at the new leases of class low."""
        if len(node.host.bookings):
            return
        for lease in ready.save_leases:
            if standing(world, node, lease.job)[1] != LOW:
                continue
            for waiting in node.host.line:
                is_shared, rank = standing(world, node, waiting)
                if not is_shared and rank < LOW and waiting != lease.job:
                    names = world.spec(lease.job).name, world.spec(waiting).name
                    raise Violation(f"{names[0]} is low and started, though {names[1]} lacks room")


class NobodyIsOvertakenForLong(Checker):
    """Smaller work may overtake what waits for room for a minute, and no longer."""

    def stepped(self, world: World, node: Node, event: NodeEvent, ready: Ready) -> None:
        """Look at who got a lease, and who has waited for too long to be overtaken."""
        if len(node.host.bookings):
            return
        for lease in ready.save_leases:
            place = standing(world, node, lease.job)
            for waiting in node.host.line:
                waited_ms = world.now_ms - ready_ms_of(node, waiting)
                mine = standing(world, node, waiting)
                if waited_ms <= OVERTAKING_MS_MAX or mine >= place or mine[1] == LOW:
                    continue
                if waiting in node.host.gave_way or (
                    mine[0] and not _is_offered(world, node, waiting)
                ):
                    continue
                names = world.spec(lease.job).name, world.spec(waiting).name
                raise Violation(f"{names[0]} overtook {names[1]}, which waits for {waited_ms} ms")


def _is_offered(world: World, node: Node, waiting: JobId) -> bool:
    """Whether the owner would lend this if nobody had borrowed anything."""
    trial = node.ledger.copy()
    for lease in node.host.borrowers:
        trial.release(lease)
    request = world.spec(waiting).request
    found = node.host.lending.admits(request, trial.free(), Resources(), world.now_ms)
    got = trial.reserve("trial", waiting, "", request, world.now_ms, among=found.devices)
    return not found.reasons and isinstance(got, Lease)
