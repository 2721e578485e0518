"""How long somebody waits at most.

Lives here: the bounds. An owner's job for which others must give way runs one grace period, one
look and one tick later. One that has waited for three steps of ageing is passed by nobody: it waits
for those who were there before it.
"""

from typing import Final

from distributed_grid.kernel.giving_way import AGAIN_MS
from distributed_grid.kernel.host import OVERTAKING_MS_MAX
from distributed_grid.kernel.node import Node, NodeEvent
from distributed_grid.kernel.ready import Ready
from distributed_grid.model.ids import JobId
from distributed_grid.model.lease import Lease
from distributed_grid.sim.arrivals import GRACE_MS_MAX, LONGEST_MS
from distributed_grid.sim.checkers.precedence import rank_of, ready_ms_of, standing
from distributed_grid.sim.world import TICK_MS, Checker, Violation, World

# A grace period, a look, two ticks that may just have been missed, and the way of the report.
PROMPT_MS: Final = GRACE_MS_MAX + AGAIN_MS + 2 * TICK_MS + 100


class VictimsMakeRoom(Checker):
    """Whoever is first of the owner's work and may evict, runs within one grace period."""

    def __init__(self) -> None:
        self._since_ms: dict[JobId, int] = {}

    def crashed(self, world: World) -> None:
        """What was asked may be forgotten: it is asked again."""
        self._since_ms.clear()

    def stepped(self, world: World, node: Node, event: NodeEvent, ready: Ready) -> None:
        """Whether the first could run if all who must give way to it were gone."""
        first = self._first(world, node)
        if first is None or not self._would_help(world, node, first):
            self._since_ms.clear()
            return
        since_ms = self._since_ms.get(first, world.now_ms)
        self._since_ms = {first: since_ms}
        if world.now_ms - since_ms > PROMPT_MS:
            who = "urgent" if world.spec(first).priority == "urgent" else "the owner's"
            raise Violation(f"{world.spec(first).name} is {who}, and others do not give way")

    def _first(self, world: World, node: Node) -> JobId | None:
        """The first of the owner's work: by class, then by age; only where that is clear."""
        if len(node.host.bookings):
            return None  # Whoever booked comes first.
        own = [job for job in node.host.line if not world.spec(job).is_shared]
        places = {job: standing(world, node, job) for job in own}
        best = min(places.values(), default=None)
        top = [job for job, place in places.items() if place == best]
        if len(top) > 1 and best is not None and best[1] == 2:
            return None  # Of medium work the shares decide.
        return min(top, key=lambda job: (ready_ms_of(node, job), job), default=None)

    def _would_help(self, world: World, node: Node, first: JobId) -> bool:
        trial = node.ledger.copy()
        is_any = False
        for process in world.keeper.firsts:
            if process.run.lease in node.ledger.leases and may_evict(
                world, node, first, process.run.lease
            ):
                trial.release(process.run.lease)
                is_any = True
        request = world.spec(first).request
        return is_any and isinstance(
            trial.reserve("trial", first, "", request, world.now_ms), Lease
        )


def may_evict(world: World, node: Node, who: JobId, lease: str) -> bool:
    """Whether the owner's job may make this lease give way."""
    held = node.ledger.leases[lease]
    spec = world.spec(held.job)
    if spec.preempt.is_forbidden:
        return False  # A borrower's needs a permission; without it, it was refused.
    if spec.is_shared:
        return True
    submitted_ms = ready_ms_of(node, held.job)
    rank = rank_of(world, held.job, submitted_ms, held.granted_ms)
    return world.spec(who).priority == "urgent" and rank > 0


class StoppedWorkStops(Checker):
    """What was cancelled, or is over its deadline, is told to stop, whatever was lost meanwhile."""

    def __init__(self) -> None:
        self._since_ms: dict[str, int] = {}

    def stepped(self, world: World, node: Node, event: NodeEvent, ready: Ready) -> None:
        """Look at what runs of jobs that are to stop."""
        jobs = node.coordinator.jobs
        stuck = [
            attempt
            for attempt, process in world.keeper.attempts.items()
            if process.leaves_ms is None and jobs[process.run.job].is_stopping
        ]
        self._since_ms = {one: self._since_ms.get(one, world.now_ms) for one in stuck}
        for attempt, since_ms in self._since_ms.items():
            if world.now_ms - since_ms > PROMPT_MS:
                raise Violation(f"{attempt} is to stop, and nobody told it")


class NobodyStarves(Checker):
    """After three steps of ageing the owner's work waits only for what was there before it."""

    def __init__(self) -> None:
        self._until_ms: dict[JobId, int] = {}

    def stepped(self, world: World, node: Node, event: NodeEvent, ready: Ready) -> None:
        """Give each that is lifted to the top a bound, and hold the kernel to it."""
        jobs = node.coordinator.jobs
        for waiting in list(self._until_ms):
            if waiting not in node.host.line:
                del self._until_ms[waiting]
        for waiting in node.host.line:
            is_shared, rank = standing(world, node, waiting)
            if is_shared or rank > 0:
                continue
            if waiting not in self._until_ms:
                mine = ready_ms_of(node, waiting), waiting
                ahead_ms = sum(
                    _takes_ms(world, other)
                    for other, job in jobs.items()
                    if not job.has_ended and (ready_ms_of(node, other), other) < mine
                )
                self._until_ms[waiting] = (
                    world.now_ms + ahead_ms + _running_ms(world) + OVERTAKING_MS_MAX + _BOOKED_MS
                )
            if world.now_ms > self._until_ms[waiting]:
                raise Violation(f"{world.spec(waiting).name} starves")


_BOOKED_MS: Final = 2 * 180_000  # As long as windows last, one after the other.


def _takes_ms(world: World, job: JobId) -> int:
    """A job, as often as it may be tried or lost."""
    spec = world.spec(job)
    count = len(spec.array.indices) if spec.array else 1
    tries = 1 + spec.retries + spec.losses_max
    return (world.life(job).takes_ms + 2 * GRACE_MS_MAX) * count * tries


def _running_ms(world: World) -> int:
    """Whoever runs must end first; a chunk is a few in turn."""
    return max((len(one.indices) * LONGEST_MS for one in world.keeper.firsts), default=0)
