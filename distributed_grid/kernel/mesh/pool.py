"""Which links to keep: one of two with the same peer, and no more than there may be.

Lives here: the rules, as functions of what is known of links. Never here: whom to dial
(`dialling`), who should be a neighbour (`topology`), the links themselves (`edges.transport`).
Invariant: both ends of two links keep the same one; a neighbour is never given up.
"""

from collections.abc import Container, Mapping
from typing import Final

import msgspec

from distributed_grid.model.ids import NodeId

CROSSING_US: Final = 10_000_000  # Two dials cross within a connection timeout; with room.


class LinkFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What decides between two links to the same peer."""

    is_dialled: bool  # By this node.
    since_us: int
    nonce: str = ""  # From the peer's `Hello`: another at every start of its agent.


def is_better(new: LinkFacts, old: LinkFacts, *, own: NodeId, peer: NodeId) -> bool:
    """True if the new link is to be kept and the old one closed; both ends say the same.

    Dials that cross: the link that the lower id dialled stays. Otherwise whoever dials anew has
    lost the old one: it started again, or dials for the second time, or long after.
    """
    if new.nonce != old.nonce or new.is_dialled == old.is_dialled:
        return True
    if new.since_us - old.since_us > CROSSING_US:
        return True
    return new.is_dialled == (own < peer)


def surplus(
    used_us: Mapping[NodeId, int],
    *,
    neighbours: Container[NodeId],
    connections_max: int,
    idle_us: int,
    now_us: int,
) -> list[NodeId]:
    """Links to give up, given when each was last used: idle ones, the least used of too many."""
    others = sorted((at_us, node) for node, at_us in used_us.items() if node not in neighbours)
    idle = [node for at_us, node in others if now_us - at_us >= idle_us]
    beyond = max(0, len(used_us) - connections_max)
    # Both are taken from the least used end.
    return [node for _, node in others[: max(beyond, len(idle))]]
