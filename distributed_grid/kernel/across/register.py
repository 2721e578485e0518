"""A node's part in at-most-once jobs: voter, coordinator and executor, side by side.

Lives here: which of the three a message is for. Never here: their rules (`register_voter`,
`register_writer`, `register_lease`).
Invariant: the three know of each other by messages only, also on one node.
"""

from collections.abc import Mapping
from typing import Final

from distributed_grid.kernel.across.register_effects import Effects
from distributed_grid.kernel.across.register_lease import Leases
from distributed_grid.kernel.across.register_voter import Chance, Voter
from distributed_grid.kernel.across.register_writer import Writer
from distributed_grid.model.bounds import RISING_MAX
from distributed_grid.model.ids import NodeId
from distributed_grid.wire.register import (
    Accept,
    Accepted,
    LeasesRenewed,
    NotAccepted,
    NotPromised,
    Prepare,
    Promised,
    RegisterMessage,
)

PREFIX: Final = "vote/"  # Of all that is saved.


class Register:
    """All three, with one clock: CLOCK_BOOTTIME in microseconds."""

    def __init__(self, node: NodeId, chance: Chance) -> None:
        self.voter = Voter(node, chance)
        self.writer = Writer(node, chance)
        self.leases = Leases(chance)

    def start(self, saved: Mapping[str, bytes], running: Mapping[str, int], now_us: int) -> Effects:
        """Once: with what was saved, and the deadlines of the attempts that the keeper runs."""
        return Effects().add(
            self.voter.start(saved, now_us), self.leases.start(saved, running, now_us)
        )

    def hear(self, sender: NodeId, message: RegisterMessage, now_us: int) -> Effects:
        """A message of any node, this one included; none that leaves no epoch to come after it."""
        if _highest(message) >= RISING_MAX:
            return Effects()
        match message:
            case Promised() | NotPromised() | Accepted() | NotAccepted():
                named = self.voter.hear_of(sender, message.store)
                return named.add(self.writer.hear(sender, message, now_us))
            case LeasesRenewed():
                named = self.voter.hear_of(sender, message.store)
                return named.add(self.leases.hear(sender, message, now_us))
            case _:
                return self.voter.hear(sender, message, now_us)

    def tick(self, now_us: int) -> Effects:
        """Each 100 ms: timers of the loop stand still while the machine sleeps, this clock not."""
        return Effects().add(
            self.voter.tick(now_us), self.writer.tick(now_us), self.leases.tick(now_us)
        )


def _highest(message: RegisterMessage) -> int:
    """The greatest epoch that it names, of those that its hearers count on from."""
    counters = [0]
    if isinstance(message, Prepare):
        counters.append(message.epoch.counter)
    if isinstance(message, NotPromised | NotAccepted):
        counters.append(message.promised.counter)
    if isinstance(message, Accept | Promised | NotPromised) and message.written is not None:
        version = message.written.standing.version
        counters += (version.epoch.counter, version.seq)
    return max(counters)
