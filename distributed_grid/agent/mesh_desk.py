"""What people ask of the mesh: tickets, joining, leaving, who is there.

Lives here: `MeshDesk`, the operations of `agent.MeshOperations`. Never here: the loop (`mesh`),
decisions (`kernel.mesh`).
Invariant: what was promised in an answer is durable before it is given.
"""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Final

from distributed_grid.agent.mesh import TICK_S, MeshSide
from distributed_grid.edges.transport import LinkClosed, Unreachable
from distributed_grid.errors import (
    BadValue,
    MeshRefused,
    MeshUnreachable,
    NotFound,
    NotInMesh,
    NotPermitted,
)
from distributed_grid.kernel.finding import node_among
from distributed_grid.kernel.mesh.events import MeshReady
from distributed_grid.kernel.mesh.tickets import mac, state_of, ticket_id
from distributed_grid.kernel.mesh.views import view
from distributed_grid.kernel.ready import Happened
from distributed_grid.model.ids import NodeId
from distributed_grid.model.membership import Contact, Ticket, TicketRecord
from distributed_grid.wire.mesh import MeshMessage, Redeem, Refused, Welcome
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
from distributed_grid.wire.ticket import read_ticket, ticket_text

JOINED_S: Final = 5.0  # For the first links of a newcomer.
ROSTER_S: Final = 2.0  # For the others to be known, too; then it is said that there are more.
RENAMED_S: Final = 8.0  # For an admin that has to be dialled first.
FAREWELL_TICKS: Final = 60  # For the goodbye to be taken: three seconds, also for a new link.
OTHERS_IN_TICKET: Final = 2  # Members beside the issuer; each makes the line 60 letters longer.


class MeshDesk:
    """Answers for one agent."""

    def __init__(self, side: MeshSide) -> None:
        self._side = side
        self._one = asyncio.Lock()  # Joining, founding and leaving, one after the other.

    async def nodes(self) -> Nodes:
        """Everyone, this node first."""
        if not self._side.is_member:
            return Nodes(mesh="", nodes=(self._side.ground.alone(),))
        return Nodes(mesh=self._side.mesh.id or "", nodes=self._side.views())

    async def make_ticket(self, wanted: MakeTicket) -> TicketMade:
        """Let somebody in; founds the mesh if there is none."""
        self._not_revoked()
        await self._side.check_disk()
        async with self._one:
            recovery = "" if self._side.is_member else await self._found()
            await self._side.open()  # A member that has just started may be about to.
            now = self._side.ground.now()
            record, ready = self._side.mesh.membership.make_ticket(
                wanted.role,
                ttl_ms=wanted.ttl_ms,
                uses=wanted.uses,
                secret=self._side.ground.secret(),
                now=now,
                whose=wanted.person,
            )
            await self._side.carry_out(ready)
        return TicketMade(
            id=record.id,
            text=ticket_text(self._ticket(record)),
            role=record.role,
            expires_ms=record.expires_ms,
            uses=record.uses_max,
            recovery_file=recovery,
            person=record.person.name if record.person else "",
            is_own=record.person == self._side.mesh.membership.chain[0].owner,
        )

    async def _found(self) -> str:
        mesh, parts = self._side.mesh, self._side.parts
        assert parts is not None, "asked for"
        authority, recovery = parts.new_authority()
        ground = self._side.ground
        ready = mesh.membership.found(authority, ground.name, ground.now(), user=ground.user)
        await self._side.carry_out(ready)
        return recovery

    def _ticket(self, record: TicketRecord) -> Ticket:
        assert self._side.transport is not None, "open"
        assert self._side.mesh.id is not None, "a member"
        others = [self._side.mesh.contact(peer) for peer in sorted(self._side.mesh.links)]
        return Ticket(
            mesh=self._side.mesh.id,
            issuer=self._side.transport.contact(),
            others=tuple(each for each in others if each is not None)[:OTHERS_IN_TICKET],
            secret=record.secret,
            expires_ms=record.expires_ms,
        )

    async def tickets(self) -> Tickets:
        """Those issued here."""
        book = self._side.mesh.membership.tickets if self._side.is_member else None
        records = book.records() if book else ()
        return Tickets(tickets=tuple(self._ticket_view(record) for record in records))

    async def revoke_ticket(self, ticket: str) -> TicketView:
        """Void a ticket."""
        await self._side.check_disk()
        book = self._side.mesh.membership.tickets if self._side.is_member else None
        known = [each.id for each in book.records()] if book else []
        matching = [each for each in known if ticket and each.startswith(ticket)]
        record, ready = (
            self._side.mesh.membership.revoke_ticket(matching[0])
            if len(matching) == 1
            else (None, MeshReady())
        )
        if record is None:
            raise NotFound("ticket", ticket)
        await self._side.carry_out(ready)
        return self._ticket_view(record)

    def _ticket_view(self, record: TicketRecord) -> TicketView:
        now_ms = self._side.mesh.wall_ms(self._side.ground.now())
        return TicketView(
            id=record.id,
            role=record.role,
            made_ms=record.made_ms,
            expires_ms=record.expires_ms,
            uses_max=record.uses_max,
            used_by=tuple(self._side.mesh.name_of(node) for node in record.used_by),
            state=state_of(record, now_ms),
            person=record.person.name if record.person else "",
        )

    async def join(self, wanted: Join) -> Joined:
        """Redeem a ticket; a second time is harmless."""
        ticket = read_ticket(wanted.ticket)
        await self._side.check_disk()
        async with self._one:
            return await self._join(ticket)

    async def _join(self, ticket: Ticket) -> Joined:
        was_member = self._side.mesh.id == ticket.mesh
        if self._side.mesh.is_member and not was_member:
            raise NotPermitted(
                "this node is in another mesh", remedy="Leave that one first: grid leave"
            )
        if ticket.issuer.node == self._side.mesh.me and was_member:
            return self._joined(was_member=True)
        if self._side.mesh.wall_ms(self._side.ground.now()) >= ticket.expires_ms and not was_member:
            raise MeshRefused(ticket.issuer.node[:8], reason="ticket-expired")
        ready, members = await self._admitted(ticket)
        await self._side.carry_out(ready)
        self._side.say()
        is_all = False
        if await self._until(lambda: bool(self._side.mesh.links), JOINED_S):
            is_all = await self._until(lambda: len(self._side.mesh.present()) >= members, ROSTER_S)
        return self._joined(was_member=was_member, is_all=is_all)

    async def _admitted(self, ticket: Ticket) -> tuple[MeshReady, int]:
        """What is to be done, and how many there are by the issuer's count."""
        try:
            await self._side.open()
            welcome = await self._redeem(ticket)
            ready = self._side.mesh.membership.adopt(ticket.mesh, welcome, self._side.ground.now())
        finally:
            if not self._side.is_member:
                await self._side.close()  # Alone, this node listens nowhere.
        if isinstance(ready, Refused):
            raise _refusal(ticket.issuer.node[:8], ready)
        return ready, welcome.members

    def _joined(self, *, was_member: bool, is_all: bool = True) -> Joined:
        assert self._side.mesh.roster is not None, "joined"
        own = self._side.mesh.membership.chain[0]
        self._side.ground.remember(own.name)  # Another than it asked for, if that was taken.
        views = self._side.views()
        return Joined(
            mesh=self._side.mesh.roster.mesh,
            name=own.name,
            roles=own.roles,
            was_member=was_member,
            nodes=sum(each.health != "left" for each in views),
            is_all=is_all,
            person=own.owner.name,
            own=tuple(each.name for each in views[1:] if each.person_id == own.owner.id),
        )

    async def _redeem(self, ticket: Ticket) -> Welcome:
        """At the issuer, or through another member when the issuer does not answer."""
        asked = Redeem(
            mesh=ticket.mesh,
            ticket=ticket_id(ticket.secret),
            issuer=ticket.issuer.node,
            node=self._side.mesh.me,
            name=self._side.ground.name,
            mac=mac(ticket.secret, ticket.mesh, ticket.issuer.node, self._side.mesh.me),
        )
        whys: list[str] = []
        for contact in (ticket.issuer, *ticket.others):
            answer = await self._ask(contact, asked, whys)
            if isinstance(answer, Welcome):
                return answer
            if isinstance(answer, Refused) and answer.reason != "issuer-unreachable":
                raise _refusal(contact.node[:8], answer)
        tried = [address for each in (ticket.issuer, *ticket.others) for address in each.addresses]
        raise MeshUnreachable(ticket.issuer.node[:8], tried=tried, why="; ".join(whys[:2]))

    async def _ask(self, contact: Contact, asked: Redeem, whys: list[str]) -> MeshMessage | None:
        assert self._side.links is not None, "open"
        try:
            answer = await self._side.links.ask(contact, asked)
        except (Unreachable, LinkClosed) as error:
            whys.append(error.why or "the connection was closed")
            return None
        if answer is None:
            whys.append("no answer")
        elif isinstance(answer, Refused):
            whys.append(answer.reason)
        return answer

    async def leave(self, wanted: Leave) -> Parted:
        """Say goodbye and forget the mesh."""
        async with self._one:
            if not self._side.is_member:
                raise NotInMesh
            await self._side.check_disk()
            mesh, parts = self._side.mesh, self._side.parts
            assert parts is not None, "a member"
            if mesh.membership.is_last_delegate() and not wanted.is_forced:
                raise NotPermitted(
                    "nobody else in the mesh could let others in",
                    remedy="Make another admin first (grid ticket --role admin), or use --force",
                )
            now = self._side.ground.now()
            is_heard = await self._goodbye()
            ready = mesh.membership.gone(self._side.ground.now())
            await self._side.carry_out(MeshReady(save=ready.save))
            await self._side.close("leaving")
            parts.set_authority_aside()
            about = {"node": mesh.me, "name": self._side.ground.name}
            happened = Happened(name="mesh.left", at_ms=now.wall_ms, fields=about)
            self._side.ground.publish(happened)
            return Parted(is_heard=is_heard)

    async def _goodbye(self) -> bool:
        """Whether anybody has taken it, who passes it on, or nobody is there to do so."""
        side, membership = self._side, self._side.mesh.membership
        for _ in range(FAREWELL_TICKS):
            side.take(membership.leave(side.ground.now()))
            await asyncio.sleep(TICK_S)
            unaware = membership.unaware()
            if unaware is None or (side.mesh.links and not unaware):
                return True
        return len(unaware or ()) < len(side.mesh.links)

    async def kick(self, word: str) -> NodeView:
        """Revoke a node, for good."""
        self._not_revoked()
        await self._side.check_disk()
        node = self._find(word)
        if node == self._side.mesh.me:
            raise BadValue(word, expected="another node", remedy="To go yourself: grid leave")
        now = self._side.ground.now()
        seen = view(self._side.mesh, node, now)
        ready = self._side.mesh.membership.kick(node, now)
        await self._side.carry_out(ready)
        return seen

    async def rename(self, wanted: Rename) -> NodeView:
        """Take another name; it is certified by an admin."""
        if not self._side.is_member:
            raise NotInMesh
        self._not_revoked()
        await self._side.check_disk()
        ready = MeshReady()
        before = self._side.mesh.membership.chain
        self._side.refused = None
        if wanted.name == before[0].name:
            return view(self._side.mesh, self._side.mesh.me, self._side.ground.now())
        if not self._side.mesh.membership.rename(wanted.name, self._side.ground.now(), ready):
            raise MeshUnreachable("an admin of the mesh", why="none is known")
        self._side.take(ready)
        membership = self._side.mesh.membership
        await self._until(lambda: membership.chain != before or bool(self._side.refused), RENAMED_S)
        if self._side.refused is not None:
            raise _refusal("an admin of the mesh", self._side.refused)
        if membership.chain == before:
            raise MeshUnreachable("an admin of the mesh", why="no answer")
        self._side.ground.remember(membership.chain[0].name)
        return view(self._side.mesh, self._side.mesh.me, self._side.ground.now())

    def _not_revoked(self) -> None:
        """Who was thrown out can do nothing in that mesh any more."""
        if self._side.is_member and self._side.mesh.membership.was_revoked:
            raise MeshRefused("the mesh", reason="revoked")

    def _find(self, word: str) -> NodeId:
        """A node by name, or by the beginning of its id."""
        if not self._side.is_member or self._side.mesh.roster is None:
            raise NotInMesh
        mesh, chains = self._side.mesh, self._side.mesh.roster.chains
        found = node_among(word, {node: mesh.name_of(node) for node in sorted(chains)})
        if found is None:
            raise NotFound("node", word)
        return found

    async def _until(self, holds: Callable[[], bool], most_s: float) -> bool:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(most_s):
                while not holds():
                    await self._side.change()
        return holds()


def _refusal(who: str, refused: Refused) -> MeshRefused:
    return MeshRefused(who, reason=refused.reason, detail=refused.detail)
