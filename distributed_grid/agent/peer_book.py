"""The members of a mesh as jobs see them, kept from look to look.

Lives here: who looks otherwise than the last time. Never here: how somebody looks (`peers`).
Invariant: whoever has come, died, returned or said something new is seen anew at once; what is
only measured (distances, ages, whether claims hold) within some seconds. Who is as before is the
same object as before.

Among thirty, news comes several times a second, and to look at all of them each time would be a
third of what an agent at rest costs.
"""

from typing import Final, NamedTuple

from distributed_grid.agent.peers import peer_of, record_of
from distributed_grid.kernel.across.peers import Peer, Peers
from distributed_grid.kernel.mesh.events import Now
from distributed_grid.kernel.mesh.machine import Mesh
from distributed_grid.model.ids import NodeId
from distributed_grid.model.node import NodeRecord

AGED_US: Final = 10_000_000  # After so long somebody is looked at again,
AGED_MAX: Final = 32  # but not all at once.
TOLD: Final = ("profile", "load", "offers", "contact")  # What counts of what nodes say.


class Kept(NamedTuple):
    """One member, and by what it is seen whether it has changed."""

    marks: tuple[object, ...]
    at_us: int
    peer: Peer | None  # None: this node itself, or one whose version knows no jobs.
    record: NodeRecord | None


class PeerBook:
    """What the last look has shown."""

    def __init__(self) -> None:
        self._kept: dict[NodeId, Kept] = {}
        self._peers: Peers = {}

    def look(self, mesh: Mesh, now: Now) -> tuple[Peers, NodeRecord | None]:
        """The others that know of jobs across machines, and this node as it tells of itself.

        If all are as before, the first is the same object as before.
        """
        before, self._kept = self._kept, {}
        may_age, is_new = AGED_MAX, False
        for node in mesh.present():
            marks, kept = _marks(mesh, node), before.get(node)
            if kept is not None and kept.marks == marks:
                is_aged = now.mono_us - kept.at_us >= AGED_US
                may_age -= is_aged
                if not is_aged or may_age < 0:
                    self._kept[node] = kept
                    continue
            self._kept[node], is_new = _seen(mesh, node, marks, now), True
        own = self._kept.get(mesh.me)
        if is_new or len(before) != len(self._kept):
            every = self._kept.items()
            self._peers = {node: one.peer for node, one in every if one.peer is not None}
        return self._peers, own.record if own is not None else None


def _seen(mesh: Mesh, node: NodeId, marks: tuple[object, ...], now: Now) -> Kept:
    if node == mesh.me:
        return Kept(marks, now.mono_us, None, record_of(mesh, node, now))
    return Kept(marks, now.mono_us, peer_of(mesh, node, now), None)


def _marks(mesh: Mesh, node: NodeId) -> tuple[object, ...]:
    link, replica = mesh.links.get(node), mesh.replica
    return (
        *(replica.value(node, key) if replica else b"" for key in TOLD),
        mesh.liveness.health(node).health,
        node in mesh.quarantined,
        mesh.restarting.get(node, 0),
        link.path if link else "",
        mesh.roster.standings.get(node) if mesh.roster else None,
        mesh.roster.is_kin(mesh.me, node) if mesh.roster else False,
    )
