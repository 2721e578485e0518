"""Whom this node wants to be linked with, worked out again when something about it has changed.

Lives here: when to look again. Never here: who should be linked with whom (`topology`).
Invariant: places that only drift are looked at again every ten seconds at most.
"""

from typing import TYPE_CHECKING, Final

import msgspec

from distributed_grid.kernel.mesh.topology import Member, Place, arranged
from distributed_grid.model.ids import NodeId
from distributed_grid.wire.mesh import Entry, Key

if TYPE_CHECKING:
    from distributed_grid.kernel.mesh.machine import Mesh

Words = tuple[Entry | None, ...]
MATTERING: Final[tuple[Key, ...]] = ("contact", "profile", "coordinate")
DRIFT_US: Final = 10_000_000  # Two tellings of a position: links that follow noise help nobody.


class Neighbourhood:
    """Of one node."""

    def __init__(self, mesh: "Mesh") -> None:
        self._mesh = mesh
        self._place = Place()
        self._members: dict[NodeId, Member] = {}  # As they were when last looked at.
        self._read: dict[NodeId, tuple[Words, Member]] = {}  # With what they had said.
        self._is_stale = True
        self._has_drifted = False
        self._drift_us = 0  # Not before.

    def place(self) -> Place:
        """Neighbours, who is watched, and through whom all are reached."""
        mesh = self._mesh
        if self._is_stale and mesh.is_member:
            self._is_stale = self._has_drifted = False
            self._read = {node: self._look_at(node) for node in mesh.present()}
            self._members = {node: member for node, (_, member) in self._read.items()}
            members, rules = list(self._members.values()), mesh.rules
            self._place = arranged(mesh.me, members, rules.topology, rules.connections_max)
        return self._place

    def hidden(self) -> list[NodeId]:
        """Those that are linked with this node and nobody can dial, in a mesh that is not full.

        Such a one may stand elsewhere by now, or gossip with others first; but it gets there only
        when it hears of that, and nobody there can dial it. Whoever is linked tells it.
        """
        if len(self.place().neighbours) >= len(self._members) - 1:
            return []  # Its links to all are wanted, and those it gossips with have theirs.
        return [peer for peer in self._mesh.links if not self._is_dialable(peer)]

    def _is_dialable(self, peer: NodeId) -> bool:
        member = self._members.get(peer)  # None: it has just been linked, and said nothing yet.
        return member is not None and member.is_dialable

    def _look_at(self, node: NodeId) -> tuple[Words, Member]:
        """What matters of a node: read again only if it said something else."""
        replica, was = self._mesh.replica, self._read.get(node)
        assert replica is not None, "only members have a place"
        words = tuple(replica.entry(node, key) for key in MATTERING)
        if was is not None and was[0] == words:
            return was
        return words, self._mesh.said.member(node)

    def look_again(self) -> None:
        """Who belongs has changed, or who is alive."""
        self._is_stale = True

    def moved(self, node: NodeId) -> None:
        """It said something about itself that may give it another place."""
        was = self._members.get(node)
        if was is None:
            return  # Nobody counted on it so far; when it belongs, all is looked at anyway.
        member = self._mesh.said.member(node)
        if msgspec.structs.replace(was, coordinate=member.coordinate) != member:
            self._is_stale = True
        elif was != member:
            self._has_drifted = True

    def pass_time(self, now_us: int) -> None:
        """Follow those that drifted, now and then."""
        if self._has_drifted and now_us >= self._drift_us:
            self._drift_us = now_us + DRIFT_US
            self._is_stale = True
