"""The bulk lane: what comes over links about files, who may send some, and what leaves.

Lives here: between `shipping` and the mesh. Never here: transfers (`shipping`), links
(`mesh_links`).
Invariant: whoever only submits or only lends sends nothing that was not asked for.
"""

from collections.abc import Iterator
from typing import Final

from distributed_grid.agent.mesh import MeshSide
from distributed_grid.agent.shipping import Shipping
from distributed_grid.edges.artifacts import Chunks
from distributed_grid.model.ids import NodeId
from distributed_grid.wire.artifacts import JUNK, ArtifactMessage, Offer, Reason, decode, encode

# Those who may hand us copies to keep, should their own disk be lost.
MAY_OFFER: Final = frozenset({"admin", "member"})


class Bulk:
    """Files between this node and the others."""

    def __init__(self, chunks: Chunks, mesh: MeshSide) -> None:
        self._mesh = mesh
        self.shipping = Shipping(chunks, self._send, admit=self._admit, blame=mesh.blame)
        self.shipping.hang_up = self._hang_up
        mesh.on_bulk = self._heard
        mesh.on_link = self._link

    async def close(self) -> None:
        """End everything."""
        await self.shipping.close()

    async def _send(self, peer: NodeId, message: ArtifactMessage) -> bool:
        return await self._mesh.send_bulk(peer, encode(message))

    def _hang_up(self, peer: NodeId) -> None:
        """What it did not read is lost: on the next link it is said again."""
        if self._mesh.links is not None:
            self._mesh.links.hang_up(peer, "does not read")

    def _heard(self, peer: NodeId, body: bytes) -> bool:
        try:
            message = decode(body)
        except JUNK:
            return False
        return self.shipping.received(peer, message)

    def _link(self, peer: NodeId, is_up: bool) -> None:
        (self.shipping.link_up if is_up else self.shipping.link_down)(peer)

    def _admit(self, peer: NodeId, offer: Offer) -> tuple[Reason, str] | None:
        if self.shipping.is_awaited(offer.manifest):
            return None
        roster = self._mesh.mesh.roster
        standing = roster.standings.get(peer) if roster is not None else None
        if standing is None or not MAY_OFFER.intersection(standing.roles):
            return "not-permitted", "nobody here has asked for it"
        return None

    def metrics(self) -> Iterator[str]:
        """Lines for Prometheus."""
        shipping = self.shipping
        for name, kind, help_text, value in (
            ("sent_bytes_total", "counter", "Bytes of files sent", shipping.bytes_sent),
            ("received_bytes_total", "counter", "Bytes received", shipping.bytes_received),
            ("broken_total", "counter", "Transfers a peer broke", shipping.broken),
            ("under_way", "gauge", "Transfers to other nodes", len(shipping.progress())),
        ):
            yield f"# HELP grid_files_{name} {help_text}"
            yield f"# TYPE grid_files_{name} {kind}"
            yield f"grid_files_{name} {value}"
