"""A small mesh in memory, below the client: tickets that count, expire and are revoked; nodes.

Lives here: what an agent answers about the mesh, without keys and without a network. Never here:
assertions. Stand-ins that share a `Lobby` can join each other; `wall_ms` is the test's to move.
"""

import hashlib
from typing import Any

import msgspec

from distributed_grid.errors import (
    Ambiguous,
    MeshRefused,
    MeshUnreachable,
    NotFound,
    NotInMesh,
    NotPermitted,
)
from distributed_grid.wire.mesh_api import (
    Join,
    Joined,
    Leave,
    MakeTicket,
    Nodes,
    NodeView,
    Parted,
    Rename,
    TicketMade,
    Tickets,
    TicketView,
)

STARTED_MS = 1_700_000_000_000
GIB = 1 << 30


def hashed(text: str) -> str:
    """64 hex digits that depend on the text alone."""
    return hashlib.sha256(text.encode()).hexdigest()


def a_node(name: str = "desk", **fields: Any) -> NodeView:
    """A healthy workstation, unless told otherwise."""
    usual = dict(id=hashed(name), name=name, roles=("member",), node_class="workstation",
                 version="0.2.0", since_ms=STARTED_MS, path="direct", address="10.0.0.7:4711",
                 latency_us=1_250, cpu_milli_total=8_000, cpu_milli_free=6_500,
                 memory_bytes_total=16 * GIB, memory_bytes_free=4 * GIB, load_milli=1_500,
                 jobs_running=1, verification="verified")  # fmt: skip
    return NodeView(**{**usual, **fields})


class Lobby:
    """What all stand-ins of a test share: where tickets lead."""

    def __init__(self) -> None:
        self.wall_ms = STARTED_MS
        self.issuers: dict[str, CannedMesh] = {}  # By the text of a ticket.


class CannedMesh:
    """The mesh as one agent tells it."""

    def __init__(self, name: str = "desk", lobby: Lobby | None = None) -> None:
        self.lobby = lobby or Lobby()
        self.is_reachable = True
        self.mesh = ""
        self.members = [a_node(name, is_self=True, path="self", latency_us=None, address="")]
        self.made: dict[str, TicketView] = {}
        self.asked: list[object] = []

    @property
    def me(self) -> NodeView:
        return self.members[0]

    async def nodes(self) -> Nodes:
        return Nodes(mesh=self.mesh, nodes=tuple(self.members))

    async def make_ticket(self, wanted: MakeTicket) -> TicketMade:
        self.asked.append(wanted)
        is_new = not self.mesh
        if is_new:
            self.mesh = hashed(f"mesh of {self.me.name}")
            self._replace_me(roles=("admin",))
        if "admin" not in self.me.roles:
            raise NotPermitted("only an admin issues tickets", remedy="Ask one, see: grid nodes")
        text = f"grid1{hashed(f'{self.me.id} {len(self.made)}')}"
        ticket_id = hashed(text)[:16]
        expires_ms = self.lobby.wall_ms + wanted.ttl_ms
        self.made[ticket_id] = TicketView(
            id=ticket_id, role=wanted.role, made_ms=self.lobby.wall_ms, expires_ms=expires_ms,
            uses_max=wanted.uses)  # fmt: skip
        self.lobby.issuers[text] = self
        return TicketMade(
            id=ticket_id, text=text, role=wanted.role, expires_ms=expires_ms, uses=wanted.uses,
            recovery_file="/data/recovery.key" if is_new else "")  # fmt: skip

    async def tickets(self) -> Tickets:
        return Tickets(tickets=tuple(self._now(ticket) for ticket in self.made.values()))

    async def revoke_ticket(self, ticket_id: str) -> TicketView:
        found = [known for known in self.made if known.startswith(ticket_id)]
        if not found:
            raise NotFound("ticket", ticket_id)
        self.made[found[0]] = msgspec.structs.replace(self.made[found[0]], state="revoked")
        return self.made[found[0]]

    async def join(self, wanted: Join) -> Joined:
        issuer = self.lobby.issuers.get(wanted.ticket)
        if issuer is None:
            raise MeshRefused("desk", reason="ticket-unknown")
        if not issuer.is_reachable:
            raise MeshUnreachable(issuer.me.name, tried=["10.0.0.7:4711"], why="no answer")
        was_member = self.mesh == issuer.mesh
        if self.mesh and not was_member:
            raise MeshRefused(issuer.me.name, reason="other-mesh")
        role = issuer._redeem(hashed(wanted.ticket)[:16], self.me.name)
        if not was_member:
            self.mesh = issuer.mesh
            self._replace_me(roles=(role,))
            self.members.append(msgspec.structs.replace(issuer.me, is_self=False, path="direct"))
            issuer.members.append(msgspec.structs.replace(self.me, is_self=False, path="direct"))
        return Joined(
            mesh=self.mesh, name=self.me.name, roles=self.me.roles, was_member=was_member,
            nodes=len(self.members))  # fmt: skip

    async def leave(self, wanted: Leave) -> Parted:
        self.asked.append(wanted)
        if not self.mesh:
            raise NotInMesh
        if "admin" in self.me.roles and not wanted.is_forced:
            raise NotPermitted("this is the last admin", remedy="Leave anyway with: --force")
        self.mesh = ""
        del self.members[1:]
        return Parted(is_heard=True)

    async def kick(self, word: str) -> NodeView:
        if not self.mesh:
            raise NotInMesh
        found = [node for node in self.members if node.name == word or node.id.startswith(word)]
        if not found:
            raise NotFound("node", word)
        if len(found) > 1:
            raise Ambiguous("node", word, matches=[node.id for node in found])
        self.members.remove(found[0])
        return msgspec.structs.replace(found[0], health="left", why="revoked")

    async def rename(self, wanted: Rename) -> NodeView:
        self._replace_me(name=wanted.name)
        return self.me

    def _replace_me(self, **fields: Any) -> None:
        self.members[0] = msgspec.structs.replace(self.me, **fields)

    def _redeem(self, ticket_id: str, name: str) -> Any:
        ticket = self._now(self.made[ticket_id])
        if name not in ticket.used_by:
            if ticket.state != "open":
                raise MeshRefused(self.me.name, reason=f"ticket-{ticket.state}")
            used_by = (*ticket.used_by, name)
            self.made[ticket_id] = msgspec.structs.replace(self.made[ticket_id], used_by=used_by)
        return ticket.role

    def _now(self, ticket: TicketView) -> TicketView:
        state = ticket.state
        if state == "open" and self.lobby.wall_ms >= ticket.expires_ms:
            state = "expired"
        elif state == "open" and len(ticket.used_by) >= ticket.uses_max:
            state = "used-up"
        return msgspec.structs.replace(ticket, state=state)
