"""What a heartbeat says of others.

Lives here: choosing the members that a datagram names. Never here: who is alive (`liveness`).
Invariant: up to a hundred nodes all are named; in a larger mesh those around this node, then what
changed of late, then some of the rest in turn, so that whoever missed a change hears of it.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from distributed_grid.kernel.mesh.liveness_roster import UNHEARD, Peer, Roster
from distributed_grid.kernel.mesh.liveness_rules import Health
from distributed_grid.wire import heartbeat as wire

RUMOURS_MAX: Final = 12  # In one datagram: 20 with the rest of it stay below 10 kB/s.
REST_MAX: Final = 12  # As above. All of 1,000 nodes come round in seconds.
WAITING_MAX: Final = 4_096  # Rumours; when more happens at once, the rest learns it in turn.
_CODES: Final[dict[Health, int]] = {
    "alive": wire.ALIVE,
    "suspect": wire.SUSPECT,
    "dead": wire.DEAD,
}


class News:
    """Remembers what is to be passed on."""

    def __init__(self) -> None:
        self._rumours: dict[str, Peer] = {}  # Oldest first.
        self._turn = 0

    def spread(self, peer: Peer, nodes: int) -> None:
        """Passes on what became of this peer, for as many rounds as an epidemic needs, twice."""
        if len(self._rumours) < WAITING_MAX:
            self._rumours[peer.id] = peer
            peer.rumour_rounds = 2 * nodes.bit_length()

    @property
    def is_stirred(self) -> bool:
        """Whether there is something to pass on."""
        return bool(self._rumours)

    def body(self, roster: Roster, now_us: int) -> bytes:
        """The members that the next datagrams name."""
        if not roster.is_large:
            return packed(roster.watched, now_us)
        named = dict.fromkeys(roster.around) | dict.fromkeys(self._whispered())
        return packed(named | dict.fromkeys(self._in_turn(roster)), now_us)

    def _whispered(self) -> Iterator[Peer]:
        for peer in list(self._rumours.values())[-RUMOURS_MAX:]:
            peer.rumour_rounds -= 1
            if peer.rumour_rounds <= 0:
                del self._rumours[peer.id]
            yield peer

    def _in_turn(self, roster: Roster) -> list[Peer]:
        everyone = roster.all
        start = self._turn % len(everyone)
        self._turn = start + REST_MAX
        return everyone[start : start + REST_MAX]


def packed(peers: Iterable[Peer], now_us: int) -> bytes:
    """What is known of these, as far as it fits; nothing of those who share a short id."""
    return wire.joined(
        [
            wire.packed_member(p.short, p.stamp, _CODES[p.health], now_us - p.spoke_us)
            for p in peers
            if p.stamp != UNHEARD and p.is_unique
        ]
    )
