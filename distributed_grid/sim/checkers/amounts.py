"""Nothing is sold twice, nothing is remembered without bound.

Lives here: sums over what the keeper runs, and the sizes of what the kernel keeps.
"""

from collections import Counter
from typing import Final

from distributed_grid.kernel.coordinator import FINISHED_KEPT
from distributed_grid.kernel.node import Met, Node, NodeEvent
from distributed_grid.kernel.ready import Ready
from distributed_grid.model import milli
from distributed_grid.sim.world import Checker, Violation, World

_SLACK: Final = 64  # Of what may be kept for a moment longer than it is needed.


class NothingOversold(Checker):
    """What the keeper runs fits the machine, device by device, and each has a lease on disk."""

    def stepped(self, world: World, node: Node, event: NodeEvent, ready: Ready) -> None:
        """Add up what runs, from the requests and from what the keeper was told."""
        if not (ready.tell or ready.save_jobs or isinstance(event, Met)):
            return  # Nothing has changed since the last look.
        node.check()
        machine = world.mood.machine
        sums: Counter[str] = Counter()
        shares: Counter[str] = Counter()
        for process in world.keeper.firsts:
            run = process.run
            request = world.spec(run.job).request
            sums.update(
                cpu=request.cpu_milli, memory=request.memory_bytes, storage=request.storage_bytes
            )
            shares.update(dict.fromkeys((f"core {core}" for core in run.slot.cores), milli.WHOLE))
            if request.gpus is not None:
                each = min(request.gpus.milli, milli.WHOLE)
                shares.update(dict.fromkeys(run.env["GRID_GPUS"].split(","), each))
                count = len(run.env["GRID_GPUS"].split(","))
                _demand(each * count == request.gpus.milli, "another number of GPUs than asked for")
            _demand(run.lease in world.store.leases, f"{run.attempt} runs, its lease is not saved")
        _demand(sums["cpu"] <= machine.cpu_milli, "cores are sold twice")
        _demand(sums["memory"] <= machine.memory_bytes, "memory is sold twice")
        _demand(sums["storage"] <= machine.storage_bytes, "storage is sold twice")
        for device, share in shares.items():
            _demand(share <= milli.WHOLE, f"{device} is sold twice")


class Bounded(Checker):
    """What the kernel keeps grows with what waits and runs, not with what was."""

    def stepped(self, world: World, node: Node, event: NodeEvent, ready: Ready) -> None:
        """Look at everything that could grow."""
        coordinator, host = node.coordinator, node.host
        unfinished = coordinator.unfinished
        way = coordinator.giving_way
        leases = len(host.ledger.leases)
        sizes = {
            "jobs": (len(coordinator.jobs), unfinished + FINISHED_KEPT + 1),
            "the line": (len(host.line), unfinished),
            "leases on disk": (len(world.store.leases), leases),
            "leaving": (len(way.leaving), leases),
            "suspended": (len(way.suspended), leases),
            "awaited": (len(host.awaited), len(host.line)),
            "looked at": (len(way._looked_ms), unfinished + _SLACK),  # noqa: SLF001
            "starts": (len(coordinator._starts._dates), 2 * unfinished + _SLACK),  # noqa: SLF001
            "deadlines": (len(coordinator.deadlines._dates), 2 * unfinished + _SLACK),  # noqa: SLF001
            "dependents": (len(coordinator.dependents), unfinished),
        }
        for name, (size, most) in sizes.items():
            _demand(size <= most, f"{name}: {size} are kept, at most {most} are of use")


def _demand(is_so: bool, otherwise: str) -> None:
    if not is_so:
        raise Violation(otherwise)
