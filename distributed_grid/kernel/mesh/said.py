"""What nodes say about themselves, as structs.

Lives here: reading the values of entries. Never here: which of them count (`replica`, `roster`).
Invariant: junk that a node signed about itself reads as nothing; it harms nobody else. What is read
is what was last said, also where it was read before: places and verdicts are asked for dozens of
times a second, and said once in many.
"""

from collections.abc import Callable
from typing import Final, TypeVar

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
KEPT_MAX: Final = 256  # Words of each kind: where all watch all there are a hundred nodes.


class Said:
    """The entries of a replica, decoded."""

    def __init__(self, replica: Callable[[], Replica | None]) -> None:
        self._replica = replica
        self._verdicts: dict[NodeId, tuple[bytes, Verdicts | None]] = {}  # As read of these bytes.
        self._places: dict[NodeId, tuple[bytes, Coordinate | None]] = {}

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
        value, kept = self._value(node, "verdicts"), self._verdicts.get(node)
        if kept is None or kept[0] != value:
            kept = _keep(self._verdicts, node, (value, _decoded(value, Verdicts)))
        return kept[1]

    def position(self, node: NodeId) -> Position | None:
        """Where it stands in the network, with what it measured."""
        return self._read(node, "coordinate", Position)

    def coordinate(self, node: NodeId) -> Coordinate | None:
        """Where it stands."""
        value, kept = self._value(node, "coordinate"), self._places.get(node)
        if kept is None or kept[0] != value:
            position = _decoded(value, Position)
            place = unpacked(position.coordinate) if position else None
            kept = _keep(self._places, node, (value, place))
        return kept[1]

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
        return _decoded(self._value(node, key), kind)

    def _value(self, node: NodeId, key: Key) -> bytes:
        replica = self._replica()
        return replica.value(node, key) if replica else b""


def _keep(kept: dict[NodeId, T], node: NodeId, read: T) -> T:
    if len(kept) >= KEPT_MAX:
        kept.clear()
    kept[node] = read
    return read


def _decoded(value: bytes, kind: type[T]) -> T | None:
    if not value:
        return None
    try:
        return msgspec.msgpack.decode(value, type=kind)
    except JUNK:
        return None
