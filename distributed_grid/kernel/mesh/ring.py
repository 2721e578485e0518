"""All members in a circle, by a hash of their ids: the same circle for everybody.

Lives here: the order, and who is near whom in it. Never here: what it is used for (`topology`,
`liveness`).
Invariant: a circle is a function of the set of ids.
"""

import functools
import hashlib
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import Final

from distributed_grid.model.ids import NodeId

PLACE_BITS: Final = 64


@functools.lru_cache(
    maxsize=1 << 15
)  # 20,000 nodes at most; each is hashed once, not at each change.
def place(node: NodeId) -> int:
    """Where a node stands: a number of 64 bits."""
    return int.from_bytes(
        hashlib.blake2b(node.encode(), digest_size=PLACE_BITS // 8).digest(), "big"
    )


def ring(ids: Iterable[NodeId]) -> list[NodeId]:
    """The ids in the order of the circle."""
    return sorted(sorted(set(ids)), key=place)


def alike(circle: Sequence[NodeId], node: NodeId, bits: int) -> Sequence[NodeId]:
    """The part of a circle in which places begin with the same bits as the node's."""
    unlike = PLACE_BITS - bits
    start = place(node) >> unlike
    low, high = (bisect_left(circle, each << unlike, key=place) for each in (start, start + 1))
    return circle[low:high]


def vicinity(me: NodeId, others: Iterable[NodeId], count: int) -> tuple[NodeId, ...]:
    """So many of the others: half of them before, half behind me. Who is in mine has me in its."""
    circle = ring((*others, me))
    at, size = circle.index(me), len(circle)
    near = dict.fromkeys(
        circle[(at + sign * step) % size] for step in range(1, count // 2 + 1) for sign in (1, -1)
    )
    near.pop(me, None)
    return tuple(near)
