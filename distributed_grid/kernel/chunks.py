"""How many indices of an array go out with one lease.

Lives here: the size of a chunk, its ranges. Short processes go out in large chunks, so that nobody
has to be asked between them; long ones alone, so that no slot idles while another has a queue.
"""

from collections.abc import Sequence
from typing import Final

from distributed_grid.model.bounds import CHUNK_MAX, COUNT_MAX

CHUNK_TARGET_US: Final = 500_000  # A lease for half a second of work hides the cost of asking.
CHUNK_UNKNOWN: Final = 4  # Before the first has ended nobody knows how long they take.


def chunk_size(*, pending: int, slots: int, mean_us: int) -> int:
    """The number of indices for the next lease; at least 1."""
    by_time = CHUNK_UNKNOWN if mean_us == 0 else max(1, CHUNK_TARGET_US // mean_us)
    # Half of an even share, so that the last chunks end at about the same time.
    by_share = -(-pending // (2 * max(slots, 1)))
    return max(1, min(by_time, by_share, CHUNK_MAX))


def smoothed_us(mean_us: int, took_us: int) -> int:
    """The mean duration with one more observation; recent ones count most."""
    took_us = min(took_us, COUNT_MAX)  # Clocks of others may jump over centuries.
    return took_us if mean_us == 0 else (7 * mean_us + took_us) // 8


def ranges_of(positions: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """Positions as ranges, in their order."""
    ranges: list[tuple[int, int]] = []
    for at in positions:
        if ranges and ranges[-1][1] == at:
            ranges[-1] = (ranges[-1][0], at + 1)
        else:
            ranges.append((at, at + 1))
    return tuple(ranges)
