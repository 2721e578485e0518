"""What a machine says of itself: what it is, what is free, who waits there, who has used how much.

Lives here: one machine's word. Never here: when others hear it, and how late (`verdicts`).
"""

from typing import TYPE_CHECKING

from distributed_grid.kernel.across.peers import Peer
from distributed_grid.model.node import NodeRecord
from distributed_grid.model.node_class import Laptop, Workstation

if TYPE_CHECKING:
    from distributed_grid.sim.across.machine import Machine


def described(machine: "Machine") -> NodeRecord:
    """What it is, and what is free there."""
    node = machine.kernel
    free = node.ledger.free()
    lent = node.host.lending.survey(free, node.host.borrowed, machine.now_ms()).lent
    return NodeRecord(
        id=machine.id,
        name=machine.name,
        total=machine.inventory.total,
        free=lent,
        node_class=Laptop() if machine.is_laptop else Workstation(),
        jobs=len(node.ledger.leases),
    )


def introduced(machine: "Machine") -> Peer:
    """All that the others are told of it."""
    node = machine.kernel
    assert node.across is not None, "it has joined"
    running = sum(job.state == "running" for job in node.coordinator.jobs.values())
    step, usage = node.across.shares.told()
    return Peer(
        id=machine.id,
        name=machine.name,
        is_dialable=not machine.is_hidden,
        is_laptop=machine.is_laptop,
        record=described(machine),
        jobs_waiting=node.coordinator.unfinished - running,
        is_draining=node.host.is_draining,
        is_disk_full=machine.disk.is_full,
        usage=usage,
        usage_step=step,
    )
