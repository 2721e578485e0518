"""Where this node stands in the network, and when that is worth telling.

Lives here: round trips turned into a coordinate, and the limit on saying so. Never here: measuring
round trips (`liveness`), the arithmetic (`coordinates`).
Invariant: a position is told at most every five seconds, and only if it moved; one that merely
wanders is told less and less often.
"""

from collections.abc import Callable, Iterable
from typing import Final

from distributed_grid.kernel.mesh.coordinates import (
    Coordinate,
    Vivaldi,
    estimate_us,
    packed,
    unpacked,
)
from distributed_grid.model.ids import NodeId
from distributed_grid.wire.mesh_records import Position

AGAIN_US: Final = 5_000_000
PAUSE_US_MAX: Final = 60_000_000
LEAP: Final = 4  # So many times what counts as moved, and it is told without a pause.
MOVE_US: Final = 1_000  # Less is noise, of processors too; on a long line a quarter is.


class Positioning:
    """The place of one node."""

    def __init__(self, *, chance: Callable[[int], int], now_us: int) -> None:
        self._vivaldi = Vivaldi(chance=chance)
        self._told = Position()
        self._looked_us = self._told_us = now_us - AGAIN_US
        self._pause_us = AGAIN_US  # Twice as long each time that it only wandered.

    @property
    def coordinate(self) -> Coordinate:
        """As it is now."""
        return self._vivaldi.coordinate

    def learn(self, peer: NodeId, there: Coordinate, rtt_us: int) -> None:
        """A round trip to somebody whose place is known."""
        self._vivaldi.observe(peer, there, rtt_us)

    def forget(self, peer: NodeId) -> None:
        """It is no longer measured."""
        self._vivaldi.forget(peer)

    def news(
        self, rtts_us: Iterable[int], speeds_kbps: Iterable[int], now_us: int
    ) -> Position | None:
        """What to tell others now; None: nothing new."""
        if now_us - self._looked_us < AGAIN_US:
            return None
        self._looked_us = now_us
        ordered = sorted(rtts_us)
        latency_us = ordered[len(ordered) // 2] if ordered else None
        steps = self._steps(latency_us) if self._told.coordinate else LEAP
        if steps < 1 or (steps < LEAP and now_us - self._told_us < self._pause_us):
            return None
        self._pause_us = min(2 * self._pause_us, PAUSE_US_MAX) if steps < LEAP else AGAIN_US
        self._told_us = now_us
        self._told = Position(
            coordinate=packed(self.coordinate),
            latency_us=latency_us,
            bandwidth_kbps=max(speeds_kbps, default=None),
        )
        return self._told

    def _steps(self, latency_us: int | None) -> int:
        """How far it is from where it was told, in steps that count."""
        was = unpacked(self._told.coordinate)
        assert was is not None, "our own"
        # Without the heights, which are there even when nothing moved.
        moved_us = estimate_us(self.coordinate, was) - self.coordinate.height_us - was.height_us
        scale_us = max(self._told.latency_us or 0, latency_us or 0)
        return moved_us // max(MOVE_US, scale_us // 4)
