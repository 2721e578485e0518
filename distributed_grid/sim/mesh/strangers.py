"""Who should get nothing: strangers with the code, and a member that lies about the others.

Lives here: their tricks, and that each must fail at once. Never here: why it fails (`kernel.mesh`).
Invariant: nobody here holds a key that is not its own.
"""

import itertools
from typing import TYPE_CHECKING, Final

import msgspec

from distributed_grid.kernel.mesh.events import Heard, MeshEvent, MeshReady, Told
from distributed_grid.kernel.mesh.tickets import mac, ticket_id
from distributed_grid.kernel.mesh.trust import found
from distributed_grid.model.ids import NodeId
from distributed_grid.model.membership import DAY_MS, Certificate, Chain, MeshId, Revocation
from distributed_grid.sim.keys import Key
from distributed_grid.sim.mesh.checker import Violation
from distributed_grid.wire.mesh import (
    GENERATION_FINAL,
    CloneSeen,
    Delta,
    Entry,
    Goodbye,
    Hello,
    MeshMessage,
    RangeHash,
    Ranges,
    Redeem,
    Refused,
    Remember,
    Renewed,
)

if TYPE_CHECKING:
    from distributed_grid.sim.mesh.host import Host
    from distributed_grid.sim.mesh.world import World

_NOTHING: Final = MeshReady()
_encode = msgspec.msgpack.Encoder().encode


class Strangers:
    """Everyone who is up to no good."""

    def __init__(self, world: "World") -> None:
        self.world = world
        self.attempts = 0
        self._numbers = itertools.count()

    # From outside

    def knock(self) -> None:
        """One stranger tries everything on one machine."""
        victim = self.world.rng.choice([one for one in self.world.hosts if one.is_awake] or [None])
        if victim is None or victim.kernel.roster is None:
            return
        stranger = self.world.keys.make(f"stranger {next(self._numbers)}")
        node = NodeId(stranger.public)
        for hello in self._hellos(victim, stranger):
            self.attempts += 1
            if victim.kernel.greet(node, hello, victim.now()) is None:
                raise Violation(f"{victim} lets a stranger in: {hello}")
        for redeem in self._redeems(victim, node):
            self.attempts += 1
            answer, ready = victim.kernel.membership.redeem(node, redeem, victim.now())
            if not isinstance(answer, Refused):
                raise Violation(f"{victim} takes a ticket that nobody holds: {answer}")
            victim.carry_out(ready)
        self._talk(victim, node, self._entry(stranger, node))

    def _talk(self, victim: "Host", node: NodeId, entry: Entry) -> None:
        """Whatever it says without a greeting, nothing comes of it."""
        now, everything = victim.now(), RangeHash(low="", high="", count=1, hash=b"\1" * 16)
        chain = victim.kernel.membership.chain
        messages: tuple[MeshMessage, ...] = (
            Delta(number=1, entries=(entry,)),
            Remember(generation=10**6),
            Ranges(ranges=(everything,)),
            CloneSeen(machine="another", nonce="another"),
            Renewed(chain=chain),
            Goodbye(reason="leaving"),
        )
        events: list[MeshEvent] = [Heard(now=now, peer=node, datagram=b"\2" * 40)]
        events += [Told(now=now, peer=node, message=message) for message in messages]
        for event in events:
            ready = victim.kernel.step(event)
            if ready != _NOTHING:
                raise Violation(f"{victim} answers a stranger: {ready}")

    def _hellos(self, victim: "Host", stranger: Key) -> list[Hello]:
        world, now_ms = self.world, victim.now().wall_ms
        node, mesh = NodeId(stranger.public), world.mesh_id
        other = world.keys.make("another authority")
        foreign = found(other, node, "eve", now_ms)
        member = world.rng.choice(world.hosts)
        own = Certificate(
            mesh=mesh,
            node=node,
            name="eve",
            roles=("admin",),
            expires_ms=now_ms + DAY_MS,
            issuer=mesh,
        )
        forged = world.keys.forge(mesh, own.signed_bytes())
        by_member = msgspec.structs.replace(own, issuer=member.id)
        by_itself = self._signed(msgspec.structs.replace(own, issuer=node), stranger)
        chain: Chain = member.kernel.membership.chain if member.is_up else ()
        return [
            Hello(mesh=mesh, chain=()),
            Hello(mesh=MeshId(""), chain=()),
            Hello(mesh=MeshId(other.public), chain=foreign),
            Hello(mesh=mesh, chain=foreign),
            Hello(mesh=mesh, chain=chain),  # Somebody else's.
            Hello(mesh=mesh, chain=(msgspec.structs.replace(own, signature=forged),)),
            Hello(mesh=mesh, chain=(own, *chain)),
            Hello(mesh=mesh, chain=(by_itself,)),
            Hello(mesh=mesh, chain=(by_itself, *chain)),
            Hello(mesh=mesh, chain=(self._signed(by_member, stranger), *chain)),
            *self._helped(by_member, member, chain),
        ]

    def _helped(self, certificate: Certificate, member: "Host", chain: Chain) -> list[Hello]:
        """A member that may not let anybody in signs all the same."""
        if not chain or "admin" in chain[0].roles:
            return []
        signed = self._signed(certificate, member.key)
        return [Hello(mesh=self.world.mesh_id, chain=(signed, *chain))]

    def _redeems(self, victim: "Host", node: NodeId) -> list[Redeem]:
        mesh = self.world.mesh_id
        tickets = list(self.world.people.tickets.values())
        guessed = self.world.rng.randbytes(16)
        tries = [(ticket_id(guessed), mac(guessed, mesh, victim.id, node), victim.id, node)]
        if tickets:
            # It has overheard a newcomer, but not the secret.
            ticket = self.world.rng.choice(tickets)
            known = self.world.rng.choice(self.world.hosts).id
            proof = mac(ticket.secret, mesh, ticket.issuer.node, known)
            public = ticket_id(ticket.secret)
            tries.append((public, proof, ticket.issuer.node, known))
            tries.append((public, mac(guessed, mesh, victim.id, node), victim.id, node))
            if ticket.issuer.node == victim.id:
                tries.append((public, proof, victim.id, node))
        return [
            Redeem(mesh=mesh, ticket=name, issuer=issuer, node=about, name="eve", mac=proof)
            for name, proof, issuer, about in tries
        ]

    def _signed(self, certificate: Certificate, key: Key) -> Certificate:
        return msgspec.structs.replace(certificate, signature=key.sign(certificate.signed_bytes()))

    def _entry(self, key: Key, node: NodeId) -> Entry:
        entry = Entry(node=node, generation=1, key="load", version=1, value=b"\x80")
        signature = key.sign(entry.signed_bytes(self.world.mesh_id))
        return msgspec.structs.replace(entry, signature=signature)

    # From inside

    def lie(self) -> None:
        """A member sends what others never said."""
        linked = [one for one in self.world.hosts if one.is_awake and one.links]
        if not linked:
            return
        liar = self.world.rng.choice(linked)
        peer = liar.links[self.world.rng.choice(sorted(liar.links))].other(liar)
        if not peer.is_awake or liar.id not in peer.links or peer.kernel.roster is None:
            return
        about = self.world.rng.choice(self.world.hosts)
        self.attempts += 1
        peer.told(liar.id, Delta(number=0, entries=tuple(self._lies(liar, peer, about))))

    def _lies(self, liar: "Host", peer: "Host", about: "Host") -> list[Entry]:
        world, replica = self.world, peer.kernel.replica
        generation = replica.generation_of(about.id) if replica else 1
        lies = [
            Entry(node=about.id, generation=generation, key="load", version=10**6, value=b"\x80"),
            Entry(node=about.id, generation=generation + 5, key="left", version=1, value=b"1"),
            Entry(node=about.id, generation=GENERATION_FINAL, key="load", version=1, value=b"\x80"),
        ]
        signed = [
            msgspec.structs.replace(
                lie, signature=world.keys.forge(about.id, lie.signed_bytes(world.mesh_id))
            )
            for lie in lies
        ]
        stranger = world.keys.make(f"stranger {next(self._numbers)}")
        signed.append(self._entry(stranger, NodeId(stranger.public)))
        first, chain = world.hosts[0], liar.kernel.membership.chain
        if liar is not first and first.is_up:  # In the name of somebody who may.
            admins = first.kernel.membership.chain
            signed.append(self._false_revocation(liar, about, first.id, admins))
        if chain and "admin" not in chain[0].roles:  # In its own name, but it may not.
            signed.append(self._false_revocation(liar, about, liar.id, chain))
        return signed

    def _false_revocation(self, liar: "Host", about: "Host", issuer: NodeId, chain: Chain) -> Entry:
        mesh = self.world.mesh_id
        word = Revocation(mesh=mesh, node=about.id, at_ms=1, issuer=issuer, chain=chain)
        signature = liar.key.sign(word.signed_bytes())
        word = msgspec.structs.replace(word, signature=signature)
        return Entry(
            node=about.id,
            generation=GENERATION_FINAL,
            key="revoked",
            version=1,
            value=_encode(word),
        )
