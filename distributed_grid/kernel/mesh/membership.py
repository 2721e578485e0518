"""This node's own place in a mesh: founding, letting in, joining, throwing out, leaving.

Lives here: what changes who belongs, and what of it must be durable. Never here: the rules of
certificates and tickets (`trust`, `tickets`), later expiries (`renewing`), traffic (`machine`).
Invariant: a ticket's use is saved before the certificate is sent; nothing is published under a
generation that was not saved.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import msgspec

from distributed_grid.errors import NotPermitted
from distributed_grid.kernel.mesh.events import MeshReady, Now
from distributed_grid.kernel.mesh.people import meant
from distributed_grid.kernel.mesh.renewing import Renewing
from distributed_grid.kernel.mesh.replica import Replica
from distributed_grid.kernel.mesh.roster import Roster
from distributed_grid.kernel.mesh.signing import Signer
from distributed_grid.kernel.mesh.tickets import Tickets
from distributed_grid.kernel.mesh.trust import Standing, found, issue, joined, revoke
from distributed_grid.model.bounds import Body, Moment, Most
from distributed_grid.model.ids import NodeId
from distributed_grid.model.membership import (
    NAME_BYTES_MAX,
    Chain,
    Contact,
    MeshId,
    Person,
    Revocation,
    Role,
    TicketRecord,
    is_node_name,
)
from distributed_grid.wire.mesh import (
    GENERATION_FINAL,
    Delta,
    Entry,
    Redeem,
    Refused,
    Renew,
    Renewed,
    Welcome,
)

if TYPE_CHECKING:
    from distributed_grid.kernel.mesh.machine import Mesh

FIRST: Final = frozenset({"chain", "revoked"})  # They say whose other entries may enter.
CONTACTS_TOLD: Final = 16  # To a newcomer: enough to find the rest by gossip.


class Forward(msgspec.Struct, frozen=True):
    """The ticket was issued elsewhere: ask there."""

    issuer: NodeId
    redeem: Redeem


class Own(msgspec.Struct, frozen=True):
    """What a member remembers about itself."""

    mesh: MeshId
    chain: Chain
    contacts: Most[Contact] = ()  # Whom to dial after a crash, before gossip named anybody.


class Known(msgspec.Struct, frozen=True):
    """The copy of everyone's entries, and when it was made."""

    at_ms: Moment
    dump: Body
    delegate_seen_ms: Moment = 0


class Membership:
    """The membership of one node."""

    def __init__(self, mesh: "Mesh", memory: Mapping[str, bytes]) -> None:
        self.chain: Chain = ()
        self.tickets: Tickets | None = None
        self.known: set[NodeId] = set()  # Who has been told of as joined.
        self.hints: dict[NodeId, Contact] = {}  # From the welcome, until gossip knows better.
        self.was_revoked = False
        self._mesh = mesh
        self._memory = memory
        self._generation = int.from_bytes(memory.get("mesh.generation", b""), "big")
        self.authority: Signer | None = None
        self.renewing = Renewing(mesh, self)
        self._is_unsaved = False
        self.away_ms = 0  # How long this node was out of the mesh before it started.

    def restore(self, now: Now) -> None:
        """Begin where the store left off: under a new generation, for versions were not saved."""
        raw = self._memory.get("mesh.own")
        if not raw:
            return
        own = msgspec.msgpack.decode(raw, type=Own)
        if own.chain[0].node != self._mesh.me:
            return  # This node began anew in the directory of another: none of it is its own.
        known = self._memory.get("mesh.known")
        stored = msgspec.msgpack.decode(known, type=Known) if known else None
        self._enter(own.mesh, own.chain, now)
        self.hints = {contact.node: contact for contact in own.contacts}
        if book := self._memory.get("mesh.tickets"):
            self.tickets = Tickets.from_bytes(book, mesh=own.mesh, issuer=self._mesh.me)
        if stored is not None:
            self._recall(stored, now)
        self._is_unsaved = True

    def _recall(self, stored: Known, now: Now) -> None:
        mesh = self._mesh
        assert mesh.replica is not None and mesh.roster is not None, "entered"  # noqa: PT018
        wall_ms = mesh.wall_ms(now)
        self.away_ms = max(0, now.wall_ms - stored.at_ms)
        found = mesh.replica.recall(stored.dump, away_us=self.away_ms * 1_000)
        if found is None:
            return
        quiet = MeshReady()
        mesh.roster.delegate_seen_ms = stored.delegate_seen_ms
        for entry, age_us in sorted(found, key=lambda each: each[0].key not in FIRST):
            if mesh.roster.admits(entry, wall_ms):
                came_us = now.mono_us - age_us
                mesh.taken(mesh.replica.take([entry], source=None, now_us=came_us), now, quiet)

    def _enter(self, mesh_id: MeshId, chain: Chain, now: Now) -> None:
        mesh = self._mesh
        self._generation += 1
        self.chain = chain
        self.tickets = Tickets(mesh=mesh_id, issuer=mesh.me)
        mesh.roster = Roster(mesh=mesh_id, verify=mesh.verify)
        mesh.replica = Replica(
            me=mesh.me,
            mesh=mesh_id,
            signer=mesh.signer,
            generation=self._generation,
            now_us=now.mono_us,
        )
        mesh.roster.take(mesh.me, chain, mesh.wall_ms(now))
        self._publish_all(now)
        mesh.refresh(now)

    def _publish_all(self, now: Now) -> None:
        """The chain first: whoever hears the rest must know that we belong."""
        mesh = self._mesh
        assert mesh.replica is not None, "entered"
        mesh.replica.publish("chain", msgspec.msgpack.encode(self.chain), now.mono_us)
        mesh.publish(mesh.values, now)

    # Founding and tickets

    def found(self, authority: Signer, name: str, now: Now, *, user: str = "") -> MeshReady:
        """Begin a mesh: this node is its first delegate, and its user the first person."""
        self.authority = authority
        mesh_id = MeshId(authority.public)
        person = Person(self._mesh.me, user) if is_node_name(user) else None
        chain = found(authority, self._mesh.me, name, self._mesh.wall_ms(now), person)
        ready = MeshReady()
        self._enter(mesh_id, chain, now)
        self._save_first_own(ready)
        self._mesh.tell(ready, "mesh.founded", self._mesh.me, now, mesh=mesh_id)
        return ready

    def hold_authority(self, authority: Signer) -> None:
        """This node keeps the authority's key: it can renew even the last delegate."""
        self.authority = authority

    @property
    def lacks_authority(self) -> bool:
        """Whether the authority itself has certified this node, and its key is not here."""
        return bool(self.chain) and self.chain[0].issuer == self._mesh.id and not self.authority

    def make_ticket(
        self, role: Role, *, ttl_ms: int, uses: int, secret: bytes, now: Now, whose: str = ""
    ) -> tuple[TicketRecord, MeshReady]:
        """Let so many in: machines of this node's own person, or of somebody else."""
        self._need_delegate()
        assert self.tickets is not None and self._mesh.roster is not None, "a delegate"  # noqa: PT018
        known = self.tickets.people() | self._mesh.roster.people()
        person = meant(whose, known, secret) if whose else self.chain[0].owner
        now_ms = self._mesh.wall_ms(now)
        record = self.tickets.make(
            role=role, ttl_ms=ttl_ms, uses=uses, secret=secret, now_ms=now_ms, person=person
        )
        return record, self._save_tickets(MeshReady())

    def revoke_ticket(self, ticket: str) -> tuple[TicketRecord | None, MeshReady]:
        """Void a ticket; None: there is no such ticket."""
        record = self.tickets.revoke(ticket) if self.tickets else None
        return record, self._save_tickets(MeshReady()) if record else MeshReady()

    def redeem(
        self, peer: NodeId, redeem: Redeem, now: Now
    ) -> tuple[Welcome | Refused | Forward, MeshReady]:
        """Somebody shows that it knows a ticket; or a member passes that on."""
        mesh = self._mesh
        ready = MeshReady()
        refused = self._refusal(peer, redeem)
        if refused is not None:
            return refused, ready
        assert mesh.roster is not None, "the refusal says otherwise"
        if redeem.issuer != mesh.me:
            if redeem.node != peer:  # A member passes it on already.
                return Refused(reason="issuer-unreachable", about=redeem.node), ready
            return Forward(redeem.issuer, redeem), ready
        if redeem.node in mesh.roster.revoked:  # Before it is counted: its owner will need the use.
            return Refused(reason="revoked", about=redeem.node), ready
        assert self.tickets is not None, "a member has a book"
        answer = self.tickets.redeem(redeem, mesh.wall_ms(now))
        if isinstance(answer, Refused):
            return msgspec.structs.replace(answer, about=redeem.node), ready
        self._save_tickets(ready)  # Also when refused below: it was counted.
        chain = self._certify(redeem.node, redeem.name, answer.record, now)
        if isinstance(chain, Refused):
            return msgspec.structs.replace(chain, about=redeem.node), ready
        members = len({*mesh.present(), redeem.node})
        return Welcome(chain=chain, contacts=self._contacts(), members=members), ready

    def _refusal(self, peer: NodeId, redeem: Redeem) -> Refused | None:
        roster = self._mesh.roster
        if roster is None:
            return Refused(reason="stranger", detail="this node is in no mesh", about=redeem.node)
        if redeem.mesh != roster.mesh:
            return Refused(reason="other-mesh", about=redeem.node)
        if redeem.node != peer and not roster.is_member(peer):
            return Refused(reason="forged", about=redeem.node)  # A stranger speaks for another.
        return None

    def _certify(self, node: NodeId, name: str, ticket: TicketRecord, now: Now) -> Chain | Refused:
        mesh = self._mesh
        assert mesh.roster is not None, "a delegate"
        held = mesh.roster.chains[node] if node in mesh.present() else ()
        roles = joined(held[0].roles if held else (), (ticket.role,))
        is_same = held and ticket.person in (None, held[0].owner)
        if is_same and roles == held[0].roles:
            return held  # It asks again, or has more: nobody is less for having joined twice.
        person = held[0].person if is_same else ticket.person
        return self._issue(node, self.free_name(name, node), roles, person, now)

    def _issue(
        self, node: NodeId, name: str, roles: tuple[Role, ...], person: Person | None, now: Now
    ) -> Chain | Refused:
        mesh = self._mesh
        assert mesh.roster is not None, "a delegate"
        return issue(
            mesh.signer,
            self.chain,
            mesh=mesh.roster.mesh,
            node=node,
            name=name,
            roles=roles,
            now_ms=mesh.wall_ms(now),
            verify=mesh.verify,
            revoked=mesh.roster.revoked,
            person=person,
        )

    def free_name(self, name: str, node: NodeId) -> str:
        """Two machines called `pi` become `pi` and `pi-3f2a`."""
        roster = self._mesh.roster
        assert roster is not None, "a delegate"
        taken = {each.name for other, each in roster.standings.items() if other != node}
        if name not in taken:
            return name
        room = NAME_BYTES_MAX - len(node[:4]) - 1
        return f"{name.encode()[:room].decode(errors='ignore').rstrip()}-{node[:4]}"

    def _contacts(self) -> tuple[Contact, ...]:
        mesh = self._mesh
        assert mesh.roster is not None, "a delegate"
        near = [mesh.me, *mesh.links, *mesh.roster.standings]
        found = (mesh.contact(node) for node in dict.fromkeys(near))
        return tuple(each for each in found if each is not None)[:CONTACTS_TOLD]

    # Joining and leaving

    def adopt(self, mesh_id: MeshId, welcome: Welcome, now: Now) -> MeshReady | Refused:
        """We are one of them, if what they gave us holds."""
        mesh = self._mesh
        trial = Roster(mesh=mesh_id, verify=mesh.verify)
        standing = trial.judge(mesh.me, welcome.chain, mesh.wall_ms(now))
        if isinstance(standing, Refused):
            return standing
        ready = MeshReady()
        told = [contact for contact in welcome.contacts if contact.node != mesh.me]
        self.hints |= {contact.node: contact for contact in told}
        if mesh.id == mesh_id:
            if self._is_better(standing):
                self.change_chain(welcome.chain, now, ready)
        else:
            self._enter(mesh_id, welcome.chain, now)
            self._save_first_own(ready)
            mesh.tell(ready, "mesh.joined", mesh.me, now, mesh=mesh_id)
        self.was_revoked = False
        at_once = mesh.dialling.at_once([contact.node for contact in told], mesh.links)
        ready.dial += [contact for contact in told if contact.node in at_once]
        return ready

    def _is_better(self, offered: Standing) -> bool:
        """Whether to replace the chain of this member: not by one that is worth less."""
        roster = self._mesh.roster
        held = roster.standings.get(self._mesh.me) if roster else None
        if held is None or joined(held.roles, offered.roles) != held.roles:
            return True
        is_other = offered.expires_ms > held.expires_ms or offered.person != held.person
        return offered.roles == held.roles and is_other

    def leave(self, now: Now) -> MeshReady:
        """Say goodbye; again: to those who have not taken it. `gone` when all have, or enough."""
        mesh = self._mesh
        ready = MeshReady()
        if mesh.replica is not None:
            mesh.replica.publish("left", b"1", now.mono_us)
            ready.messages += mesh.replica.round(sorted(mesh.links), now.mono_us)
        return ready

    def unaware(self) -> list[NodeId] | None:
        """Who is linked and has not taken the goodbye yet; None: there is nobody to tell."""
        mesh = self._mesh
        others = [node for node in mesh.present() if node != mesh.me]
        if mesh.replica is None or all(
            mesh.liveness.health(node).health == "dead" for node in others
        ):
            return None
        return mesh.replica.unaware("left")

    def gone(self, now: Now) -> MeshReady:
        """Forget the mesh, but not the generation: whoever comes back must not look older."""
        mesh = self._mesh
        ready = MeshReady()
        ready.hang_up += [(peer, "leaving") for peer in mesh.links]
        ready.save = dict.fromkeys(("mesh.own", "mesh.known", "mesh.tickets"))
        mesh.reset(now)
        self.chain, self.tickets = (), None
        self.authority = None  # Of that mesh.
        self.was_revoked = False
        self.known.clear()
        self.hints.clear()
        return ready

    # Certificates

    def rename(self, name: str, now: Now, ready: MeshReady) -> bool:
        """Take another name: at once with the authority's key, else by asking an admin.

        One that is linked, or else some that may be reached. False: none is known.
        """
        mesh = self._mesh
        assert mesh.roster is not None, "a member"
        if self.authority is not None:
            free = self.free_name(name, mesh.me)
            person = self.chain[0].person
            chain = found(self.authority, mesh.me, free, mesh.wall_ms(now), person)
            self.change_chain(chain, now, ready)
            return True
        return self.renewing.ask(Renew(chain=self.chain, name=name), ready)

    def change_chain(self, chain: Chain, now: Now, ready: MeshReady) -> None:
        """Under a new generation: whoever hears of it gets the chain before the rest."""
        mesh = self._mesh
        assert mesh.roster is not None and mesh.replica is not None, "a member"  # noqa: PT018
        if chain == self.chain:
            return
        self.chain = chain
        mesh.roster.take(mesh.me, chain, mesh.wall_ms(now))
        for peer in mesh.refused_by:
            mesh.dialling.soon(peer)  # It may think otherwise now.
        self._generation = mesh.replica.begin_generation(now.mono_us)
        self._publish_all(now)
        self._save_own(ready)

    # Throwing out

    def kick(self, node: NodeId, now: Now) -> MeshReady:
        """This node is out, for good: by an admin, or as a machine of this node's own person."""
        mesh = self._mesh
        if mesh.roster is None or not mesh.roster.may_kick(mesh.me, node):
            self._need_delegate()
        assert mesh.roster is not None and mesh.replica is not None, "a member"  # noqa: PT018
        about = () if mesh.roster.is_delegate(mesh.me) else mesh.roster.chains[node]
        ready = MeshReady()
        self._stand_without(node, now, ready)
        revocation = revoke(
            mesh.signer, self.chain, mesh=mesh.roster.mesh, node=node, now_ms=mesh.wall_ms(now),
            about=about,
        )  # fmt: skip
        entry = Entry(
            node=node,
            generation=GENERATION_FINAL,
            key="revoked",
            version=1,
            value=msgspec.msgpack.encode(revocation),
        )
        mesh.taken(mesh.replica.take([entry], source=None, now_us=now.mono_us), now, ready)
        self.save_known(now, ready)
        ready.messages += mesh.replica.round(sorted(mesh.links), now.mono_us)
        return ready

    def _stand_without(self, node: NodeId, now: Now, ready: MeshReady) -> None:
        """Whoever throws out the one that let it in would throw out itself."""
        if all(certificate.issuer != node for certificate in self.chain):
            return
        if self.authority is None:
            raise NotPermitted(
                "this node is an admin on the word of the one to be thrown out",
                remedy="Do it on the machine that founded the mesh, or on another admin's",
            )
        own = self.chain[0]
        chain = found(self.authority, self._mesh.me, own.name, self._mesh.wall_ms(now), own.person)
        self.change_chain(chain, now, ready)

    def out(self, revocation: Revocation, now: Now, ready: MeshReady) -> None:
        """Somebody was revoked: it, and whoever stood on its word alone."""
        mesh = self._mesh
        assert mesh.roster is not None and mesh.replica is not None, "a member"  # noqa: PT018
        mesh.upkeep.save_soon(now)
        if revocation.node == mesh.me:
            self.was_revoked = True
            mesh.tell(ready, "mesh.refused", mesh.me, now, reason="revoked")
            return
        # Linked with, though its own word of it has not come yet: it was seen, and is gone.
        if revocation.node in self.known or mesh.roster.is_member(revocation.node):
            mesh.tell(ready, "node.left", revocation.node, now, why="revoked")
        voided = mesh.roster.revoke(revocation)
        self.known.discard(revocation.node)
        if revocation.node in mesh.links:
            proof = mesh.replica.entry(revocation.node, "revoked")
            assert proof is not None, "just taken"
            ready.messages.append((revocation.node, Delta(number=0, entries=(proof,))))
            ready.hang_up.append((revocation.node, "revoked"))
        self._sign_again(voided, now, ready)
        mesh.refresh(now)

    def _sign_again(self, voided: list[NodeId], now: Now, ready: MeshReady) -> None:
        """Those that this delegate knew before need not come back with a ticket."""
        mesh = self._mesh
        assert mesh.roster is not None, "a member"
        for node in voided:
            old = mesh.roster.chains[node]
            chain = self._issue(node, old[0].name, old[0].roles, old[0].person, now)
            if not isinstance(chain, Refused):
                mesh.roster.take(node, chain, mesh.wall_ms(now))
                ready.messages.append((node, Renewed(chain=chain)))

    def is_last_delegate(self) -> bool:
        """Whether nobody else could let others in, while there are others."""
        roster = self._mesh.roster
        if roster is None or not roster.is_delegate(self._mesh.me):
            return False
        others = [node for node in self._mesh.present() if node != self._mesh.me]
        return bool(others) and not any(roster.is_delegate(node) for node in others)

    def _need_delegate(self) -> None:
        mesh = self._mesh
        if mesh.roster is None or not mesh.roster.is_delegate(mesh.me):
            raise NotPermitted(
                "this node is no admin of its mesh",
                remedy="Do it on an admin's machine, or join again with a ticket of --role admin",
            )

    # What must last

    def save_first(self, ready: MeshReady) -> None:
        """After a start: the generation it began, with whatever is done first."""
        if self._is_unsaved:
            self._is_unsaved = False
            self._save_own(ready)

    def save_generation(self, ready: MeshReady) -> None:
        """Before anything is sent under it."""
        mesh = self._mesh
        assert mesh.replica is not None, "a member"
        self._generation = mesh.replica.generation_of(mesh.me)
        ready.save["mesh.generation"] = self._generation.to_bytes(8, "big")

    def save_known(self, now: Now, ready: MeshReady) -> None:
        """A copy of everyone's entries: whom to dial after a start, and who is out."""
        mesh = self._mesh
        assert mesh.roster is not None and mesh.replica is not None, "a member"  # noqa: PT018
        known = Known(now.wall_ms, mesh.replica.dump(), mesh.roster.delegate_seen_ms)
        ready.save["mesh.known"] = msgspec.msgpack.encode(known)

    def _save_first_own(self, ready: MeshReady) -> None:
        """What the directory remembers of a former mesh does not belong to this one."""
        ready.save |= dict.fromkeys(("mesh.known", "mesh.tickets"))
        self._save_own(ready)

    def _save_own(self, ready: MeshReady) -> None:
        assert self._mesh.roster is not None, "a member"
        contacts = tuple(self.hints.values())[-CONTACTS_TOLD:]
        own = Own(self._mesh.roster.mesh, self.chain, contacts)
        ready.save["mesh.own"] = msgspec.msgpack.encode(own)
        self.save_generation(ready)

    def _save_tickets(self, ready: MeshReady) -> MeshReady:
        assert self.tickets is not None, "a delegate has a book"
        ready.save["mesh.tickets"] = self.tickets.to_bytes()
        return ready
