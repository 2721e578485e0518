"""What really runs: never twice at once where that was promised, and nothing that nobody wants.

Lives here: rules over the processes of all keepers.
"""

from typing import Final

from distributed_grid.kernel.ready import Ready
from distributed_grid.model.ids import JobId
from distributed_grid.sim.across.checker import Checker, Violation
from distributed_grid.sim.across.keeper import LOOK_US, Truth
from distributed_grid.sim.across.machine import Machine
from distributed_grid.sim.across.people import Wish
from distributed_grid.sim.across.settling import are_voters_lost, is_stuck, sets_of
from distributed_grid.sim.across.world import World
from distributed_grid.sim.mesh.timeline import SECOND_US
from distributed_grid.wire.register import Sets

ORPHAN_US: Final = 90 * SECOND_US  # Of calm: until then somebody has asked after it, or ended it.


class NeverTwiceAtOnce(Checker):
    """At most one process of an at-most-once job, up to one look of a keeper after a wake."""

    def began(self, world: World, machine: Machine, truth: Truth) -> None:
        """Somebody else may run it too."""
        if world.wishes[truth.job].spec.at_most_once:
            self._count(world, truth.job)

    def woke(self, world: World, machine: Machine) -> None:
        """It may go on for one look."""
        for truth in machine.keeper.truths:
            if world.wishes[truth.job].spec.at_most_once:
                world.timeline.after(2 * LOOK_US, self._count, world, truth.job)

    def _count(self, world: World, job: JobId) -> None:
        running = _runners(world, job)
        if len(running) > 1:
            raise Violation(f"{world.name_of(job)} may run once, and runs on {running}")


def _runners(world: World, job: JobId) -> list[Machine]:
    """Who runs it, once for each process; but nobody that sleeps, or has just woken up."""
    return [
        machine
        for machine in world.machines
        if not machine.is_paused and world.timeline.now_us - machine.woke_us >= 2 * LOOK_US
        for truth in machine.keeper.truths
        if truth.job == job
    ]


class OverIsOver(Checker):
    """Once somebody was told that an at-most-once job has ended, nothing of it runs or begins."""

    def __init__(self) -> None:
        self._told: dict[JobId, tuple[str, Sets]] = {}  # By whom, and who had voted on that.

    def carried_out(self, world: World, machine: Machine, ready: Ready) -> None:
        """Look at what is published."""
        for one in ready.happened:
            wish = world.wishes.get(one.job) if one.job is not None else None
            if one.name == "job.ended" and wish is not None and wish.spec.at_most_once:
                self._told.setdefault(wish.spec.id, (machine.name, sets_of(world, wish)))
                for there in _runners(world, wish.spec.id):
                    self._blame(world, wish, f"it runs on {there}")

    def began(self, world: World, machine: Machine, truth: Truth) -> None:
        """Its end may be known already; only a person may take that risk."""
        if truth.job in self._told:
            self._blame(world, world.wishes[truth.job], f"it begins on {machine}")

    def _blame(self, world: World, wish: Wish, what: str) -> None:
        if wish.spec.id in world.forgotten or wish.is_forced:
            return
        by, voted = self._told[wish.spec.id]
        # Of one or two machines one votes alone: with its disk all memory of the end may be lost.
        # Who got no answer then submits the job again, and others vote on it as on a new one.
        if not is_stuck(world, wish) and not are_voters_lost(world, voted):
            raise Violation(f"{by} told that {wish.spec.name} has ended, and {what}")


class NoOrphans(Checker):
    """In the calm, whatever runs is somebody's attempt: else it is ended."""

    def __init__(self) -> None:
        self._since_us: dict[str, int] = {}

    def looked(self, world: World) -> None:
        """Compare keepers with those who wait for what they run."""
        if world.is_rough:
            self._since_us.clear()
            return
        now_us = world.timeline.now_us
        wanted = {
            attempt.id
            for machine in world.live()
            if machine.is_up
            for job in machine.kernel.coordinator.jobs.values()
            if not job.is_guest
            for attempt in job.live_attempts
        }
        for machine in world.live():
            for truth in machine.keeper.truths:
                if truth.attempt in wanted:
                    self._since_us.pop(truth.attempt, None)
                elif now_us - self._since_us.setdefault(truth.attempt, now_us) > ORPHAN_US:
                    name = world.name_of(truth.job)
                    raise Violation(f"{machine} runs {name}, and nobody wants it")
