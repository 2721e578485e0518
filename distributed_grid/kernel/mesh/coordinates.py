"""Where a node is in the network: Vivaldi coordinates, with height.

Lives here: moving a coordinate by measured round trips, and predicting one from two coordinates.
Never here: measuring (`round_trips`), publishing (`machine`).
Invariant: whatever is measured or told, a coordinate stays finite, within bounds, and moves at most
`_STEP_US_MAX` at a time; so one lying peer among many is a small pull, and no more.

Three dimensions stand for the core of the network, the height for the way from a machine to it
(its home line), which is added at both ends. Dabek et al., "Vivaldi", 2004.
"""

from collections.abc import Callable
from math import sqrt
from typing import Final

import msgspec

from distributed_grid.model.bounds import Count, Signed
from distributed_grid.model.ids import NodeId

COORDINATE_BYTES_MAX: Final = 64
PART_US_MAX: Final = 10_000_000  # Nobody is further away than ten seconds.
RTT_US_MIN: Final = 10  # Less is a clock's grain.
RTT_US_MAX: Final = 10_000_000
WHOLE_PPM: Final = 1_000_000

_PULL: Final = 0.25  # Of the error corrected at once; and the weight of a sample in our own error.
_ERROR_MIN: Final = 0.02  # Nobody is believed to be surer.
_ERROR_MAX: Final = 1.5
_HEIGHT_US_MIN: Final = 10.0
_STEP_US_MAX: Final = 50_000.0  # A machine across the world is in place after a dozen samples.
_SAMPLES: Final = 8  # Of a peer; a low one counts: queues and busy processors only ever add.
_PEERS_MAX: Final = 256  # With samples kept: as many as there can be links, with room.

Chance = Callable[[int], int]
Vector = tuple[float, float, float]


class Coordinate(msgspec.Struct, frozen=True, array_like=True):
    """A place, as it is published: whole microseconds, and how sure it is."""

    x_us: Signed = 0
    y_us: Signed = 0
    z_us: Signed = 0
    height_us: Count = 10
    # Of a prediction; as large as it gets, before anything is measured.
    error_ppm: Count = 1_500_000


def packed(coordinate: Coordinate) -> bytes:
    """A coordinate as bytes."""
    return msgspec.msgpack.encode(coordinate)


def unpacked(data: bytes) -> Coordinate | None:
    """A coordinate from what any member may have published; None: it is none."""
    try:
        told = _decoder.decode(data)
    except msgspec.DecodeError:
        return None
    places = (told.x_us, told.y_us, told.z_us)
    if any(abs(part) > PART_US_MAX for part in places) or not 0 <= told.height_us <= PART_US_MAX:
        return None
    return told if 0 <= told.error_ppm <= _ERROR_MAX * WHOLE_PPM else None


_decoder = msgspec.msgpack.Decoder(Coordinate)


def estimate_us(a: Coordinate, b: Coordinate) -> int:
    """The round-trip time that is expected between two nodes."""
    x, y, z = a.x_us - b.x_us, a.y_us - b.y_us, a.z_us - b.z_us
    return int(sqrt(x * x + y * y + z * z)) + a.height_us + b.height_us


class Vivaldi:
    """The coordinate of this node."""

    def __init__(self, *, chance: Chance, start: Coordinate | None = None) -> None:
        self._chance = chance
        start = start or Coordinate()
        self._place: Vector = (float(start.x_us), float(start.y_us), float(start.z_us))
        self._height = max(float(start.height_us), _HEIGHT_US_MIN)
        self._error = min(max(start.error_ppm / WHOLE_PPM, _ERROR_MIN), _ERROR_MAX)
        self._samples: dict[NodeId, list[int]] = {}
        self.refused = 0  # Samples that were absurd.

    @property
    def coordinate(self) -> Coordinate:
        """As published."""
        x, y, z = self._place
        height, error = round(self._height), round(self._error * WHOLE_PPM)
        return Coordinate(round(x), round(y), round(z), height, error)

    def forget(self, peer: NodeId) -> None:
        """This peer is no longer measured."""
        self._samples.pop(peer, None)

    def observe(self, peer: NodeId, there: Coordinate, rtt_us: int) -> None:
        """A round trip to a peer that says it is there."""
        if not RTT_US_MIN <= rtt_us <= RTT_US_MAX:
            self.refused += 1
            return
        self._move(there, float(self._low(peer, rtt_us)))

    def _low(self, peer: NodeId, rtt_us: int) -> int:
        samples = self._samples.pop(peer, [])
        while len(self._samples) >= _PEERS_MAX:
            del self._samples[next(iter(self._samples))]
        samples = self._samples[peer] = [*samples[1 - _SAMPLES :], rtt_us]
        return sorted(samples)[len(samples) // 4]

    def _move(self, there: Coordinate, rtt: float) -> None:
        direction, distance = self._away_from(there)
        expected = distance + self._height + there.height_us
        their_error = min(max(there.error_ppm / WHOLE_PPM, _ERROR_MIN), _ERROR_MAX)
        weight = self._error / (self._error + their_error)
        wrong = min(abs(expected - rtt) / rtt, _ERROR_MAX)
        share = _PULL * weight
        self._error = min(max(wrong * share + self._error * (1 - share), _ERROR_MIN), _ERROR_MAX)
        force = min(max(share * (rtt - expected), -_STEP_US_MAX), _STEP_US_MAX)
        x, y, z = (
            _bounded(part + force * along)
            for part, along in zip(self._place, direction, strict=True)
        )
        self._place = (x, y, z)
        rise = force * (self._height + there.height_us) / max(expected, 1.0)
        self._height = min(max(self._height + rise, _HEIGHT_US_MIN), float(PART_US_MAX))

    def _away_from(self, there: Coordinate) -> tuple[Vector, float]:
        """The direction from there to here, of length one, and the distance."""
        x, y, z = self._place
        away = (x - there.x_us, y - there.y_us, z - there.z_us)
        distance = _length(away)
        if distance < 1.0:  # In one spot: anywhere is away.
            away = (self._any(), self._any(), self._any())
        long = max(_length(away), 1.0)
        return (away[0] / long, away[1] / long, away[2] / long), distance

    def _any(self) -> float:
        return float(self._chance(2_001) - 1_000)


def _length(vector: Vector) -> float:
    x, y, z = vector
    return sqrt(x * x + y * y + z * z)


def _bounded(part: float) -> float:
    return min(max(part, -float(PART_US_MAX)), float(PART_US_MAX))
