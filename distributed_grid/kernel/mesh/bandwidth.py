"""How fast a link is, seen from what is sent over it anyway.

Lives here: timing large messages from sending to acknowledgement. Never here: sending them.
Invariant: nothing is sent to measure; a link without large messages has no figure.
"""

from typing import Final

from distributed_grid.model.ids import NodeId
from distributed_grid.model.node import BANDWIDTH_KBPS_MAX

ENOUGH_BYTES: Final = 8 << 10  # Smaller ones time the round trip, not the line.


class Bandwidth:
    """The large messages that are under way, one for each peer."""

    def __init__(self) -> None:
        self._sent: dict[NodeId, tuple[int, int]] = {}

    def sent(self, peer: NodeId, size_bytes: int, now_us: int) -> None:
        """A message that will be acknowledged has left."""
        if size_bytes >= ENOUGH_BYTES:
            self._sent[peer] = (size_bytes, now_us)
        else:
            self._sent.pop(peer, None)

    def taken(self, peer: NodeId, rtt_us: int | None, now_us: int) -> int | None:
        """It was acknowledged: kilobits a second, at least; None: it was too small to tell."""
        size_bytes, sent_us = self._sent.pop(peer, (0, 0))
        if not size_bytes:
            return None
        elapsed_us = max(now_us - sent_us - (rtt_us or 0), 1)
        return min(size_bytes * 8_000 // elapsed_us, BANDWIDTH_KBPS_MAX)

    def forget(self, peer: NodeId) -> None:
        """The link is gone."""
        self._sent.pop(peer, None)
