"""What the owner does not offer is not lent, and when the owner is back, borrowed work gives way.

Lives here: the owner's view, from the last sample, the pause and the terms alone.
"""

from typing import Final

from distributed_grid.kernel.lending_policies import POLICIES
from distributed_grid.kernel.node import Node, NodeEvent
from distributed_grid.kernel.offers import STILL_MILLI
from distributed_grid.kernel.ready import Ready
from distributed_grid.model.lending import Sample
from distributed_grid.model.resources import Resources
from distributed_grid.sim.keeper import Process
from distributed_grid.sim.world import TICK_MS, Checker, Violation, World

_SOON_MS: Final = 2 * TICK_MS + 100  # One look may just have been missed.


class OnlyOffersAreLent(Checker):
    """A borrower's lease is granted only while the machine lends, and beside the owner's use."""

    def stepped(self, world: World, node: Node, event: NodeEvent, ready: Ready) -> None:
        """Look at the new leases of borrowers."""
        borrowed = [one for one in ready.save_leases if world.spec(one.job).is_shared]
        if not borrowed:
            return
        name = world.spec(borrowed[0].job).name
        terms, sample = world.mood.terms, world.heard
        if sample is None:
            raise Violation(f"{name} is lent something, and nothing was measured")
        if world.now_ms - sample.at_ms >= terms.offer_expiry_ms:
            raise Violation(f"{name} is lent something, and the last sample is old")
        if is_closed(world, node):
            raise Violation(f"{name} is lent something, though lending is closed")
        used_milli = sample.cpu_used_milli * 1_000 // sample.cpu_total_milli
        new = [lease.resources for lease in borrowed]
        # A GPU is lent whatever the cores do, and one core goes with each.
        if used_milli >= terms.thresholds.cpu_used_max_milli and not all(map(_with_gpus, new)):
            raise Violation(f"{name} is lent something, though the owner is busy")
        _judge_amounts(world, node, sample, name, new)
        busy = {
            gpu.device
            for gpu in sample.gpus
            if gpu.utilization_milli >= terms.thresholds.gpu_utilization_max_milli
        }
        for lease in borrowed:
            if busy & {gpu.device for gpu in lease.resources.gpus}:
                raise Violation(f"{name} is lent a GPU that the owner uses")


def _with_gpus(held: Resources) -> bool:
    return bool(held.gpus) and held.cpu_milli <= 1_000 * len(held.gpus)


def _judge_amounts(
    world: World, node: Node, sample: Sample, name: str, new: list[Resources]
) -> None:
    """What all hold, what the owner uses and what the owner keeps fit the machine together."""
    terms, machine = world.mood.terms, world.mood.machine
    held = sum(lease.resources.cpu_milli for lease in node.ledger.leases.values())
    if held + terms.reserved_cpu_milli > machine.cpu_milli:
        raise Violation(f"{name} is lent cores that the owner keeps")
    used_milli = sample.cpu_used_milli * 1_000 // sample.cpu_total_milli  # As it is told.
    is_still = sample.cpu_total_milli * used_milli // 1_000 < STILL_MILLI
    # Whoever came now with a GPU may share its one core with the owner, and came maybe last.
    held -= sum(one.cpu_milli for one in new if _with_gpus(one))
    is_strict = POLICIES[terms.policy].counts_used_cores and not is_still
    owners = terms.reserved_cpu_milli + sample.cpu_used_milli
    if is_strict and not all(map(_with_gpus, new)) and held + owners > machine.cpu_milli:
        raise Violation(f"{name} is lent cores that the owner uses")
    held = sum(lease.resources.memory_bytes for lease in node.ledger.leases.values())
    owners = terms.reserved_memory_bytes + sample.memory_used_bytes
    if held + owners > machine.memory_bytes:
        raise Violation(f"{name} is lent memory that the owner uses or keeps")


class BorrowersGiveWay(Checker):
    """While lending is closed or the owner is back, borrowed work stands still or goes; then on."""

    def __init__(self) -> None:
        self._wrong_since_ms: dict[str, int] = {}

    def crashed(self, world: World) -> None:
        """The next agent has a look of its own."""
        self._wrong_since_ms.clear()

    def stepped(self, world: World, node: Node, event: NodeEvent, ready: Ready) -> None:
        """Whoever does the wrong thing for longer than a look is a violation."""
        wrong = {}
        if world.mood.terms.yield_to != "ignore":
            for process in world.keeper.firsts:
                what = self._is_wrong(world, node, process)
                if what:
                    key = f"{process.run.attempt} {what}"
                    wrong[key] = self._wrong_since_ms.get(key, world.now_ms)
        self._wrong_since_ms = wrong
        for key, since_ms in wrong.items():
            if world.now_ms - since_ms > _SOON_MS:
                raise Violation(f"{key}, for {world.now_ms - since_ms} ms")

    def _is_wrong(self, world: World, node: Node, process: Process) -> str:
        run = process.run
        if not world.spec(run.job).is_shared or process.leaves_ms is not None:
            return ""
        if is_closed(world, node):
            return "" if process.is_suspended else "runs, though lending is closed"
        if world.heard is None:
            return ""  # A new agent waits for its first sample.
        way = node.host.lending.gives_way(world.now_ms)
        is_spared = way.spares_gpus and _with_gpus(node.ledger.leases[run.lease].resources)
        if way.action == "none" or is_spared:
            return "stands still, though nothing is in the way" if process.is_suspended else ""
        return "" if process.is_suspended else "runs, though the owner is back"


def is_closed(world: World, node: Node) -> bool:
    """Whether the owner has closed lending: by a pause that was acknowledged, or by the hour."""
    is_paused = node.host.lending.paused_until_ms is not None and world.paused
    minute = world.now_ms // 60_000
    return is_paused or not world.mood.terms.hours.is_open(minute)
