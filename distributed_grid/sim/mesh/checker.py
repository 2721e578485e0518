"""What a rule over the whole mesh looks like.

Lives here: the moments at which rules are told something. Never here: the rules (`checkers`).
"""

from typing import TYPE_CHECKING

from distributed_grid.model.ids import NodeId
from distributed_grid.model.membership import TicketRecord
from distributed_grid.wire.mesh import Delta, Hello, Redeem, Refused, Welcome

if TYPE_CHECKING:
    from distributed_grid.sim.mesh.host import Host
    from distributed_grid.sim.mesh.world import World


class Violation(Exception):
    """A rule was broken; a bug of the kernel, or of the rule."""


class Checker:
    """Sees everything, and never asks a kernel whether that kernel is right."""

    def happened(self, world: "World", host: "Host", name: str, node: NodeId) -> None:
        """A kernel tells people something about a node."""

    def greeted(
        self, world: "World", host: "Host", peer: NodeId, hello: Hello, refusal: Refused | None
    ) -> None:
        """Somebody asked for a connection."""

    def ticket_made(self, world: "World", issuer: "Host", record: TicketRecord) -> None:
        """Somebody may let others in."""

    def redeemed(
        self, world: "World", issuer: "Host", redeem: Redeem, answer: Welcome | Refused
    ) -> None:
        """Somebody was let in, or not; this is on its way out."""

    def said(self, world: "World", host: "Host", delta: Delta) -> None:
        """Somebody passes on what it knows; this is on its way out."""

    def crashed(self, world: "World", host: "Host") -> None:
        """An agent has forgotten what was not saved."""

    def looked(self, world: "World") -> None:
        """A second has passed."""

    def calmed(self, world: "World") -> None:
        """From now on nothing fails."""

    def ended(self, world: "World") -> None:
        """The run is over."""
