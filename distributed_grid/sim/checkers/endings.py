"""How jobs end: once, as their processes did, and with nothing left behind.

Lives here: the books over ends. Never here: when somebody starts (`precedence`, `prompt`).
"""

from distributed_grid.kernel.node import Node, NodeEvent
from distributed_grid.kernel.ready import Ready
from distributed_grid.model.ids import JobId
from distributed_grid.sim.checkers.prompt import PROMPT_MS
from distributed_grid.sim.world import Checker, Violation, World
from distributed_grid.wire.api import ENDED


class DatesAreKept(Checker):
    """Nothing starts before its time or after its deadline, nothing goes on after that."""

    def __init__(self) -> None:
        self._up_ms = 0

    def crashed(self, world: World) -> None:
        """While there is no agent nobody looks at the clock."""
        self._up_ms = 0

    def stepped(self, world: World, node: Node, event: NodeEvent, ready: Ready) -> None:
        """Look at new leases, and at everything that has not ended."""
        self._up_ms = self._up_ms or world.now_ms
        for lease in ready.save_leases:
            spec = world.spec(lease.job)
            if world.now_ms < spec.start_ms or 0 < spec.deadline_ms < world.now_ms:
                raise Violation(f"{spec.name} starts out of its time")
        for job in node.coordinator.jobs.values():
            due_ms = max(job.spec.deadline_ms, self._up_ms) + PROMPT_MS
            if job.spec.deadline_ms and world.now_ms > due_ms and not job.has_ended:
                raise Violation(f"{job.spec.name} goes on after its deadline")


class EveryJobEndsOnce(Checker):
    """An end is final, one attempt runs at a time, and success is the success of its processes.

    Whatever is to end was told so, by this agent or by one before it.
    """

    def __init__(self) -> None:
        self._ended: dict[JobId, str] = {}

    def stepped(self, world: World, node: Node, event: NodeEvent, ready: Ready) -> None:
        """Look at whoever was saved."""
        for job in ready.save_jobs:
            state, before = world.store.states[job], self._ended.get(job)
            if before is not None and state != before:
                raise Violation(f"{world.spec(job).name} ended {before}, and then {state}")
            if state in ENDED:
                self._ended[job] = state
        running = [one.run.job for one in world.keeper.attempts.values() if not one.run.indices]
        if len(running) != len(set(running)):
            raise Violation("two attempts of one job run at the same time")
        for process in world.keeper.firsts:
            job = process.run.job
            if node.coordinator.jobs[job].is_stopping and process.leaves_ms is None:
                raise Violation(f"{world.spec(job).name} is to stop, and nobody tells it")

    def ended(self, world: World, node: Node) -> None:
        """Compare what is on disk with what really happened."""
        for job, state in world.store.states.items():
            spec = world.spec(job)
            for index in spec.array.indices if spec.array else (-1,):
                ends = world.keeper.ends.get((job, index), [])
                is_good = any(code == 0 for _, code in ends)
                if state == "succeeded" and not is_good:
                    raise Violation(f"{spec.name} succeeded, and its process never did")
                if sum(code == 0 for _, code in ends) > 1:
                    raise Violation(f"{spec.name} was run again after it had succeeded")
            is_lost = sum(how == "lost" for how, _ in world.keeper.ends.get((job, -1), []))
            if state == "lost" and is_lost <= spec.losses_max:
                raise Violation(f"{spec.name} is given up after {is_lost} losses")


class EmptyAtTheEnd(Checker):
    """When everything has ended, nothing is held, nothing waits, nothing is kept for anybody."""

    def ended(self, world: World, node: Node) -> None:
        """Look everywhere."""
        node.check()
        way, host = node.coordinator.giving_way, node.host
        left = {
            "leases": node.ledger.leases,
            "leases on disk": world.store.leases,
            "processes": world.keeper.attempts,
            "waiting": list(host.line),
            "awaited": host.awaited,
            "leaving": way.leaving,
            "suspended": way.suspended,
            "lenders": host.borrowers,
            "holders": host.holders,
        }
        for name, things in left.items():
            if things:
                raise Violation(f"at the end there are still {name}: {things}")
        if node.ledger.free() != world.mood.machine.total:
            raise Violation("at the end not everything is free")
        for user in {arrival.spec.user for arrival in world.arrivals.values()}:
            if host.accounts.share_milli(user):
                raise Violation(f"at the end {user} still pays for something")
