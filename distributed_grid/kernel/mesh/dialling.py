"""Whom to dial, and when again: capped, doubling, jittered waits.

Lives here: the policy of one node towards all others. Never here: connecting (`edges.transport`),
who should be a neighbour (`topology`).
Invariant: nobody is dialled twice at once, and nobody more often than the policy says.
"""

from collections.abc import Callable, Collection, Iterable
from typing import Final

import msgspec

from distributed_grid.model.ids import NodeId

ABREAST: Final = 8  # Dials at once: thirty machines that start together finish within a second.
YIELD_US: Final = 1_000_000  # The higher id waits so long for the lower one to dial first.


class Backoff(msgspec.Struct, frozen=True, kw_only=True):
    """How long to wait after failures."""

    first_us: int = 500_000
    factor: int = 2
    most_us: int = 60_000_000  # A laptop that wakes up is found within a minute, or finds us.
    settled_us: int = 30_000_000  # A link that held so long makes the next failure the first.

    def wait_us(self, failures: int, chance: Callable[[int], int]) -> int:
        """After so many failures in a row; at least half of the step, the rest by chance."""
        step: int = min(self.most_us, self.first_us * self.factor ** min(failures - 1, 20))
        return step // 2 + chance(step // 2 + 1)


class Dialling:
    """What was tried, and what may be tried now."""

    def __init__(self, *, me: NodeId, backoff: Backoff, chance: Callable[[int], int]) -> None:
        self.under_way: set[NodeId] = set()
        self._me = me
        self._backoff = backoff
        self._chance = chance
        self._failures: dict[NodeId, int] = {}
        self._not_before_us: dict[NodeId, int] = {}

    def due(
        self, wanted: Iterable[NodeId], linked: Collection[NodeId], now_us: int
    ) -> list[NodeId]:
        """Those of the wanted to dial now; they count as under way."""
        chosen = []
        for peer in wanted:
            if len(self.under_way) >= ABREAST:
                break
            if peer in linked or peer in self.under_way:
                continue
            if peer not in self._not_before_us and self._me > peer:
                self._not_before_us[peer] = now_us + YIELD_US
            if now_us >= self._not_before_us.get(peer, now_us):
                self.under_way.add(peer)
                chosen.append(peer)
        return chosen

    def at_once(self, peers: Iterable[NodeId], linked: Collection[NodeId]) -> list[NodeId]:
        """Those of the peers that somebody just named as there; they count as under way."""
        chosen = [peer for peer in peers if peer not in linked and peer not in self.under_way]
        self.under_way.update(chosen)
        return chosen

    def up(self, peer: NodeId) -> None:
        """There is a link, whoever dialled."""
        self.under_way.discard(peer)
        self._not_before_us.pop(peer, None)

    def failed(self, peer: NodeId, now_us: int) -> None:
        """There was none to be had."""
        self.under_way.discard(peer)
        self._later(peer, now_us)

    def refused(self, peer: NodeId, now_us: int) -> None:
        """It answered, and said no: asking often would not change that."""
        self.under_way.discard(peer)
        self._failures[peer] = self._failures.get(peer, 0) + 1
        most_us = self._backoff.most_us
        self._not_before_us[peer] = now_us + most_us // 2 + self._chance(most_us // 2 + 1)

    def down(self, peer: NodeId, *, up_us: int, now_us: int) -> None:
        """The link is gone after so long."""
        if up_us >= self._backoff.settled_us:
            self._failures.pop(peer, None)
        self._later(peer, now_us)

    def soon(self, peer: NodeId) -> None:
        """Something new is known about it: try at once."""
        self._failures.pop(peer, None)
        self._not_before_us.pop(peer, None)

    def forget(self, peer: NodeId) -> None:
        """It is no longer one of us."""
        self.soon(peer)
        self.under_way.discard(peer)

    def _later(self, peer: NodeId, now_us: int) -> None:
        failures = self._failures[peer] = self._failures.get(peer, 0) + 1
        self._not_before_us[peer] = now_us + self._backoff.wait_us(failures, self._chance)
