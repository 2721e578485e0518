"""`ClusterMesh` of seed 002: the mesh as this machine's agent knows it.

    mesh = await ClusterMesh.new(config)
    await mesh.start_discovery()
    nodes = await mesh.list_nodes()
    print(f"Found {len(nodes)} nodes")

Lives here: the seed's calls over the client. Never here: deciding anything; the agent is the
member, and stays one when this is closed.
"""

import os
from types import TracebackType
from typing import Self

import msgspec

from distributed_grid.client.async_cluster import AsyncCluster, connect_async
from distributed_grid.cluster_mesh.mesh_config import MeshConfig
from distributed_grid.errors import BadTicket, BadValue, MeshRefused, MeshUnreachable, NotFound
from distributed_grid.model.gpus import ANY
from distributed_grid.model.ids import NodeId
from distributed_grid.model.membership import ADDRESSES_MAX
from distributed_grid.model.milli import WHOLE
from distributed_grid.model.node import NodeRecord, unnamed_gpus
from distributed_grid.model.node_class import AnyNodeClass, DataCenter, Edge, Laptop, Workstation
from distributed_grid.model.resources import Resources
from distributed_grid.wire.across_api import MeshSnapshot
from distributed_grid.wire.api import NodeStatus
from distributed_grid.wire.mesh_api import NodeView
from distributed_grid.wire.ticket import read_ticket, ticket_text


class ClusterMesh:
    """The way to the mesh through the agent of this machine; any number of tasks may share it."""

    def __init__(self, cluster: AsyncCluster, config: MeshConfig) -> None:
        self.cluster = cluster  # Everything else that can be asked: tickets, jobs, events.
        self.config = config

    @classmethod
    async def new(
        cls, config: MeshConfig | None = None, *, socket: str | os.PathLike[str] | None = None
    ) -> Self:
        """The mesh behind the agent of this machine, or behind the socket given.

        Raises NoAgent if there is none: `grid up` starts one.
        """
        cluster = connect_async(socket)
        try:
            await cluster.status()
        except BaseException:
            await cluster.close()
            raise
        return cls(cluster, config or MeshConfig())

    @property
    def notes(self) -> tuple[str, ...]:
        """What of the configuration does not count yet, or not here; one sentence each."""
        return self.config.notes

    async def start_discovery(self) -> None:
        """Join with the tickets of the configuration; from then on members tell of each other.

        Of several tickets the first that lets us in counts; if none does, the error of the first is
        raised. Joining again is harmless. Without a ticket there is nobody to look for yet: the
        ways that need none come later, as `notes` says.
        """
        failures: list[BadTicket | MeshRefused | MeshUnreachable] = []
        if self.config.addresses and not self.config.tickets:
            raise BadValue(
                self.config.addresses[0],
                expected="a ticket beside the address",
                remedy="Make one over there with: grid ticket, and add it with with_ticket",
                field="tickets",
            )
        for ticket in self.config.tickets:
            try:
                await self.cluster.join(aimed(ticket, self.config.addresses))
            except (BadTicket, MeshRefused, MeshUnreachable) as error:
                failures.append(error)
            else:
                return
        if failures:
            raise failures[0]

    async def list_nodes(self) -> list[NodeView]:
        """Everyone who is in the mesh, this node first, the dead with their `health`."""
        return [node for node in await self.cluster.nodes() if node.health != "left"]

    async def snapshot(self) -> MeshSnapshot:
        """The nodes as placement sees them; alone: this machine, under a snapshot without hash."""
        try:
            return await self.cluster.snapshot()
        except NotFound:
            return alone(await self.cluster.status())

    async def close(self) -> None:
        """Hang up; the agent stays in the mesh."""
        await self.cluster.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()


def aimed(text: str, addresses: tuple[str, ...]) -> str:
    """The ticket with these addresses in front of those of its issuer."""
    if not addresses:
        return text
    ticket = read_ticket(text)
    ways = tuple(dict.fromkeys((*addresses, *ticket.issuer.addresses)))[:ADDRESSES_MAX]
    issuer = msgspec.structs.replace(ticket.issuer, addresses=ways)
    return ticket_text(msgspec.structs.replace(ticket, issuer=issuer))


_CLASSES: dict[str, type[AnyNodeClass]] = {
    kind.name: kind for kind in (DataCenter, Workstation, Laptop, Edge)
}


def alone(status: NodeStatus) -> MeshSnapshot:
    """A machine in no mesh, as placement would see it."""
    free = Resources(
        cpu_milli=status.cpu_milli_free,
        memory_bytes=status.memory_bytes_free,
        gpus=unnamed_gpus(ANY, status.gpus_free_milli // WHOLE),
    )
    total = Resources(
        cpu_milli=status.cpu_milli_total,
        memory_bytes=status.memory_bytes_total,
        gpus=unnamed_gpus(ANY, status.gpus_total),
    )
    node = NodeRecord(
        id=NodeId(status.id),
        name=status.name,
        total=total,
        free=free,
        node_class=_CLASSES.get(status.node_class, Workstation)(),
    )
    return MeshSnapshot(hash="", at_ms=status.since_ms, nodes=(node,))
