"""What nodes say about themselves, as structs.

Lives here: reading the values of entries. Never here: which of them count (`replica`, `roster`).
Invariant: junk that a node signed about itself reads as nothing; it harms nobody else.
"""

from collections.abc import Callable
from typing import TypeVar

import msgspec

from distributed_grid.kernel.mesh.coordinates import Coordinate, unpacked
from distributed_grid.kernel.mesh.replica import Replica
from distributed_grid.kernel.mesh.topology import Member
from distributed_grid.model.ids import NodeId
from distributed_grid.wire.mesh import JUNK, Key
from distributed_grid.wire.mesh_records import (
    NodeLoad,
    NodeProfile,
    Offered,
    Position,
    Reach,
    Verdicts,
)

T = TypeVar("T")


class Said:
    """The entries of a replica, decoded."""

    def __init__(self, replica: Callable[[], Replica | None]) -> None:
        self._replica = replica

    def reach(self, node: NodeId) -> Reach | None:
        """How to reach it, and which start of it this is."""
        return self._read(node, "contact", Reach)

    def profile(self, node: NodeId) -> NodeProfile | None:
        """What it is."""
        return self._read(node, "profile", NodeProfile)

    def load(self, node: NodeId) -> NodeLoad | None:
        """What is free there."""
        return self._read(node, "load", NodeLoad)

    def offers(self, node: NodeId) -> Offered | None:
        """What it lends."""
        return self._read(node, "offers", Offered)

    def verdicts(self, node: NodeId) -> Verdicts | None:
        """Whose capabilities it has checked."""
        return self._read(node, "verdicts", Verdicts)

    def position(self, node: NodeId) -> Position | None:
        """Where it stands in the network, with what it measured."""
        return self._read(node, "coordinate", Position)

    def coordinate(self, node: NodeId) -> Coordinate | None:
        """Where it stands."""
        position = self.position(node)
        return unpacked(position.coordinate) if position else None

    def member(self, node: NodeId) -> Member:
        """What the topology asks of it."""
        profile, reach = self.profile(node), self.reach(node)
        return Member(
            id=node,
            coordinate=self.coordinate(node),
            node_class=profile.node_class if profile else "",
            is_dialable=bool(reach and reach.contact.addresses),
        )

    def _read(self, node: NodeId, key: Key, kind: type[T]) -> T | None:
        replica = self._replica()
        value = replica.value(node, key) if replica else b""
        if not value:
            return None
        try:
            return msgspec.msgpack.decode(value, type=kind)
        except JUNK:
            return None
