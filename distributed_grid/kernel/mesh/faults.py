"""Peers whose words this node could not handle: for how long each has no link.

Lives here: the count, and the wait that follows from it. Never here: what a fault is (`agent`),
closing links.
Invariant: who makes no more faults is a peer like any other after a while.
"""

from typing import Final

import msgspec

from distributed_grid.model import duration
from distributed_grid.model.ids import NodeId

FIRST_US: Final = 10_000_000  # Without a link after the first fault; doubled by each that follows.
MOST_US: Final = 3_600_000_000
FORGOTTEN_US: Final = 3_600_000_000  # Without a fault since it was let in again: as if never.


class Fault(msgspec.Struct, frozen=True):
    """What one peer has done last."""

    kind: str  # Of its message.
    count: int
    until_us: int


class Faults:
    """Of all peers."""

    def __init__(self) -> None:
        self._of: dict[NodeId, Fault] = {}
        self.total = 0

    def blame(self, peer: NodeId, kind: str, now_us: int) -> Fault:
        """One more."""
        count = self.count(peer, now_us) + 1
        wait_us = min(FIRST_US << min(count - 1, 20), MOST_US)
        fault = self._of[peer] = Fault(kind, count, now_us + wait_us)
        self.total += 1
        return fault

    def left_us(self, peer: NodeId, now_us: int) -> int:
        """For how long it has no link yet; 0: it may have one."""
        fault = self._of.get(peer)
        return max(0, fault.until_us - now_us) if fault is not None else 0

    def count(self, peer: NodeId, now_us: int) -> int:
        """How many there were that are not forgotten yet."""
        fault = self._of.get(peer)
        return fault.count if fault is not None and now_us < fault.until_us + FORGOTTEN_US else 0

    def refused(self, now_us: int) -> tuple[NodeId, ...]:
        """Those that have none now."""
        return tuple(peer for peer in self._of if self.left_us(peer, now_us))

    def note(self, peer: NodeId, now_us: int) -> str:
        """For people: what is with it now; empty: nothing."""
        left_us = self.left_us(peer, now_us)
        if not left_us:
            return ""
        fault, left = self._of[peer], duration.text(-(-left_us // 1_000_000) * 1_000)
        times = f" ({fault.count} times)" if fault.count > 1 else ""
        return f"refused here for {left}: its {fault.kind} could not be handled{times}"

    def forget(self, peer: NodeId) -> None:
        """It is no longer one of us."""
        self._of.pop(peer, None)
