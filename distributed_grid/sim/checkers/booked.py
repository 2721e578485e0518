"""What is booked is there for its holder when the window begins, and nobody else is let in.

Lives here: sums over one window. Never here: whether two bookings fit beside each other (the kernel
refuses one of them).
"""

from distributed_grid.kernel.node import Node, NodeEvent
from distributed_grid.kernel.ready import Ready
from distributed_grid.model.booking import Booking
from distributed_grid.sim.checkers.prompt import PROMPT_MS
from distributed_grid.sim.world import Checker, Violation, World


class BookedRoomIsFree(Checker):
    """Others hold no more than the machine has beside the windows that are open."""

    def __init__(self) -> None:
        self._since_ms: int | None = None

    def crashed(self, world: World) -> None:
        """The next agent evicts again."""
        self._since_ms = None

    def stepped(self, world: World, node: Node, event: NodeEvent, ready: Ready) -> None:
        """A new lease of others must fit beside; an old one is gone after a grace period."""
        machine = world.mood.machine
        for booking in world.booked:
            if booking.until_ms > world.now_ms and booking.name not in node.host.bookings:
                raise Violation(f"{booking.name} was promised, and is forgotten")
        now = [one for one in node.host.bookings if one.holds_at(world.now_ms)]
        cpu_milli = sum(one.request.cpu_milli for one in now)
        memory_bytes = sum(one.request.memory_bytes for one in now)
        others = [
            lease
            for lease in node.ledger.leases.values()
            if not any(_is_member(world, lease.job, one) for one in now)
        ]
        over = now and (
            sum(one.resources.cpu_milli for one in others) > machine.cpu_milli - cpu_milli
            or sum(one.resources.memory_bytes for one in others)
            > machine.memory_bytes - memory_bytes
        )
        if not over:
            self._since_ms = None
            return
        new = {lease.id for lease in ready.save_leases} & {lease.id for lease in others}
        if new:
            raise Violation(f"{min(new)} was granted what is booked by {now[0].name}")
        members = [lease for lease in node.ledger.leases.values() if lease not in others]
        is_too_late = any(world.spec(lease.job).preempt.is_forbidden for lease in others)
        # Members who hold more than was booked: nobody gives way if that would not help.
        is_too_much = (
            sum(one.resources.cpu_milli for one in members) > cpu_milli
            or sum(one.resources.memory_bytes for one in members) > memory_bytes
        )
        if is_too_late or is_too_much:
            self._since_ms = None
            return
        self._since_ms = world.now_ms if self._since_ms is None else self._since_ms
        if world.now_ms - self._since_ms > PROMPT_MS:
            raise Violation(f"{now[0].name} has begun, and others do not give way")


def _is_member(world: World, job: str, booking: Booking) -> bool:
    spec = world.arrivals[job].spec  # type: ignore[index]
    return booking.is_open_to(spec.user, spec.project, spec.booking)
