"""Whom this node wants to be linked with, worked out again when something about it has changed.

Lives here: when to look again. Never here: who should be linked with whom (`topology`).
Invariant: places that only drift are looked at again every ten seconds at most.
"""

from typing import TYPE_CHECKING, Final

import msgspec

from distributed_grid.kernel.mesh.topology import Member, Place, arranged
from distributed_grid.model.ids import NodeId

if TYPE_CHECKING:
    from distributed_grid.kernel.mesh.machine import Mesh

DRIFT_US: Final = 10_000_000  # Two tellings of a position: links that follow noise help nobody.


class Neighbourhood:
    """Of one node."""

    def __init__(self, mesh: "Mesh") -> None:
        self._mesh = mesh
        self._place = Place()
        self._members: dict[NodeId, Member] = {}  # As they were when last looked at.
        self._is_stale = True
        self._has_drifted = False
        self._drift_us = 0  # Not before.

    def place(self) -> Place:
        """Neighbours, who is watched, and through whom all are reached."""
        mesh = self._mesh
        if self._is_stale and mesh.is_member:
            self._is_stale = self._has_drifted = False
            self._members = {node: mesh.said.member(node) for node in mesh.present()}
            members, rules = list(self._members.values()), mesh.rules
            self._place = arranged(mesh.me, members, rules.topology, rules.connections_max)
        return self._place

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
