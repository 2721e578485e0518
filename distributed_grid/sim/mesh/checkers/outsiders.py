"""Who is not one of us: strangers, forgers, those who were thrown out, those without a ticket.

Lives here: the rules over belonging. Never here: what strangers try (`strangers`).
"""

import msgspec

from distributed_grid.model.bounds import Most
from distributed_grid.model.ids import NodeId
from distributed_grid.model.membership import TicketRecord
from distributed_grid.sim.mesh.checker import Checker, Violation
from distributed_grid.sim.mesh.host import Host
from distributed_grid.sim.mesh.world import KEYS, World
from distributed_grid.wire.mesh import Hello, Redeem, Refused, Welcome

_book = msgspec.msgpack.Decoder(Most[TicketRecord])


class NothingForged(Checker):
    """Every entry that anybody holds was signed by the node that it is about."""

    def ended(self, world: World) -> None:
        """Verify all, as nobody else does twice."""
        good: set[bytes] = set()
        for host in world.hosts:
            replica = host.kernel.replica if host.is_up else None
            for node in replica.nodes() if replica else ():
                for key in KEYS:
                    entry = replica.entry(node, key) if replica else None
                    if entry is None or key == "revoked" or entry.signature in good:
                        continue
                    signed = entry.signed_bytes(world.mesh_id)
                    if not world.keys.verify(node, signed, entry.signature):
                        raise Violation(f"{host} holds a forged {key} of {world.names.get(node)}")
                    good.add(entry.signature)


class RevokedStayOut(Checker):
    """Nobody was thrown out whom no admin has; who knows of it talks to that node no more."""

    def __init__(self) -> None:
        self._knows: set[tuple[str, NodeId]] = set()  # (who, about whom), since its last start.

    def crashed(self, world: World, host: Host) -> None:
        """What was not saved is forgotten; it will be told again."""
        self._knows = {pair for pair in self._knows if pair[0] != host.name}

    def looked(self, world: World) -> None:
        """Who knows what?"""
        for host in world.hosts:
            roster = host.kernel.roster if host.is_up else None
            for node in roster.revoked if roster else ():
                if node not in world.kicked and not world.people.is_being_kicked(node):
                    raise Violation(f"{host} thinks that {world.names.get(node)} was thrown out")
                self._knows.add((host.name, node))
            for knower, node in self._knows:
                if knower == host.name and roster is not None and roster.is_member(node):
                    raise Violation(f"{host} has let {world.names.get(node)} in again")

    def greeted(
        self, world: World, host: Host, peer: NodeId, hello: Hello, refusal: Refused | None
    ) -> None:
        """It knocks again."""
        if refusal is None and (host.name, peer) in self._knows:
            raise Violation(f"{host} greets {world.names.get(peer)}, which was thrown out")

    def ended(self, world: World) -> None:
        """By now everybody knows, and nobody is connected with any of them."""
        for host in world.insiders():
            for node in sorted(world.kicked):
                if node in host.links:
                    raise Violation(f"{host} still talks to {world.names.get(node)}")


class TicketsAreExact(Checker):
    """A ticket lets in as many as it says, however often who asks, and whoever forwards it.

    Whoever was let in and asks again, because the answer got lost, is no second use. And who is in
    is in the issuer's book on disk, or a crash would make room for one more.
    """

    def __init__(self) -> None:
        self._made: dict[str, TicketRecord] = {}
        self._used: dict[str, set[NodeId]] = {}
        self._roles: dict[NodeId, set[str]] = {}  # Of the tickets that a node has used.

    def ticket_made(self, world: World, issuer: Host, record: TicketRecord) -> None:
        """Remember what was promised."""
        self._made[record.id] = record

    def redeemed(
        self, world: World, issuer: Host, redeem: Redeem, answer: Welcome | Refused
    ) -> None:
        """Count. The book of an issuer whose disk is an old one cannot be exact."""
        if isinstance(answer, Welcome):  # Nobody is less for having joined twice.
            self._roles.setdefault(redeem.node, set()).add(self._made[redeem.ticket].role)
        if issuer.name in world.faults.old:
            return
        used = self._used.setdefault(redeem.ticket, set())
        if isinstance(answer, Refused):
            if answer.reason == "ticket-used-up" and redeem.node in used:
                raise Violation(f"{world.names.get(redeem.node)} asks again, and counts twice")
            return
        book = _book.decode(issuer.disk.kept.get("mesh.tickets", b"\x90"))
        if not any(each.id == redeem.ticket and redeem.node in each.used_by for each in book):
            raise Violation(f"{issuer} has not saved that {world.names.get(redeem.node)} is in")
        used.add(redeem.node)
        most = self._made[redeem.ticket].uses_max
        if len(used) > most:
            raise Violation(f"a ticket for {most} has let in {len(used)}")
        if answer.chain[0].node != redeem.node:
            raise Violation("a certificate for somebody else")
        if set(answer.chain[0].roles) - self._roles[redeem.node]:
            held = world.names.get(redeem.node)
            raise Violation(f"{held} got {answer.chain[0].roles} for other tickets")
