"""The other nodes, as far as jobs are concerned.

Lives here: what is known of each, in one noun. Never here: finding it out (`kernel.mesh`).
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from distributed_grid.kernel.accounts import Rank
from distributed_grid.model.ids import NodeId
from distributed_grid.model.node import NodeRecord
from distributed_grid.model.resources import Resources


class Peer(msgspec.Struct, frozen=True, kw_only=True):
    """One other member of the mesh. A verdict on its life is this node's own, and may be wrong."""

    id: NodeId
    name: str
    is_alive: bool = True
    is_dialable: bool = True
    is_laptop: bool = False
    may_submit: bool = True  # By its role: admin, member, guest.
    may_lend: bool = True  # By its role: admin, member, worker.
    is_own: bool = False  # A machine of the same person as this one.
    record: NodeRecord | None = None  # None: it has not told yet what it is.
    lent: Resources | None = None  # Of what is free there: so much it would lend. None: all.
    restarting_until_ms: int = 0  # It said that it goes and comes back; 0: it did not.
    jobs_waiting: int = 0  # As it told; whoever is idle asks for them.
    is_draining: bool = False  # It takes nothing new.
    is_disk_full: bool = False  # Nor does it keep anything for others, or vote.
    usage: tuple[tuple[str, int], ...] = ()  # Who borrowed how much there lately, in core-ms,
    usage_step: int = 0  # and as of which step of time there; 0: it has not told.

    @property
    def rank(self) -> Rank:
        """How much of this node it may take up; who only lends as little as a guest."""
        if self.is_own:
            return "own"
        return "member" if self.may_submit and self.may_lend else "guest"


Peers = Mapping[NodeId, Peer]
NOBODY: Final[Peers] = MappingProxyType({})


def turned(before: Peers, now: Peers) -> tuple[list[NodeId], list[NodeId]]:
    """Between two views: who died or left, and who came or came back, each in order."""
    died: list[NodeId] = []
    came: list[NodeId] = []
    for node, peer in now.items():
        was = before.get(node)
        if was is peer:  # Most are as they were, and a view comes every moment.
            continue
        was_alive = was is not None and was.is_alive
        if was_alive != peer.is_alive:
            (came if peer.is_alive else died).append(node)
    died += [node for node in before.keys() - now.keys() if before[node].is_alive]
    return sorted(died), sorted(came)
