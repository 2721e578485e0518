"""How far away peers are: each heartbeat echoes the other's clock, and says how long it held it.

Lives here: stamps out, samples in. Never here: what they are used for (`coordinates`).
Invariant: no clock is compared with another machine's; memory is bounded.
"""

from typing import Final

from distributed_grid.kernel.mesh.liveness_roster import Peer
from distributed_grid.model.ids import NodeId
from distributed_grid.wire.heartbeat import CLOCK_MASK, NO_ECHO, Heartbeat

HELD_US_MAX: Final = 60_000_000  # An older stamp is not echoed; the clock wraps after 71 minutes.
RTT_US_MAX: Final = 60_000_000  # More is a mistake, or a lie.
SAMPLES_MAX: Final = 256  # Untaken ones; 20 come in a second.
_WEIGHT_OF_OLD: Final = 7  # Of eight, as in TCP.


class RoundTrips:
    """Measures round trips as a side effect of heartbeats."""

    def __init__(self) -> None:
        self._samples: list[tuple[NodeId, int]] = []

    def clocks(self, to: Peer, now_us: int) -> tuple[int, int, int]:
        """(our clock, the echo of theirs, how long it was held)."""
        held_us = now_us - to.their_clock_us
        if to.their_clock is None or held_us > HELD_US_MAX:
            return now_us & CLOCK_MASK, 0, NO_ECHO
        return now_us & CLOCK_MASK, to.their_clock, held_us

    def heard(self, peer: Peer, beat: Heartbeat, now_us: int) -> None:
        """Takes the clock of a heartbeat, and the sample if it has one."""
        if not beat.has_clocks:
            return
        peer.their_clock, peer.their_clock_us = beat.sent_us, now_us
        if beat.held_us > HELD_US_MAX:  # NO_ECHO among them.
            return
        rtt_us = (now_us - beat.echo_us - beat.held_us) & CLOCK_MASK
        if rtt_us > RTT_US_MAX:  # Below zero among them.
            return
        old_us = rtt_us if peer.rtt_us is None else peer.rtt_us
        peer.rtt_us = (old_us * _WEIGHT_OF_OLD + rtt_us) // (_WEIGHT_OF_OLD + 1)
        if len(self._samples) < SAMPLES_MAX:
            self._samples.append((peer.id, rtt_us))

    def take(self) -> list[tuple[NodeId, int]]:
        """The samples since this was last asked."""
        taken, self._samples = self._samples, []
        return taken
