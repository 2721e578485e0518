"""Many nodes that have a certificate and know a few others: real kernels, virtual time.

Lives here: letting them in, a network that delays, links as they dial and hang up. Never here: what
is measured (`mesh_kernel`), faults (`distributed_grid.sim.mesh`).
Invariant: every node runs `kernel.mesh.machine.Mesh` whole, and takes only entries whose signature
holds; a keyed hash stands in for ed25519.
"""

import heapq
import random
from collections.abc import Callable
from itertools import count
from typing import Any

import msgspec

from distributed_grid.kernel.mesh.events import (
    DialFailed,
    Heard,
    LinkDown,
    LinkUp,
    MeshEvent,
    MeshReady,
    Now,
    Publish,
    Tick,
    Told,
)
from distributed_grid.kernel.mesh.machine import Mesh
from distributed_grid.kernel.mesh.rules import MeshRules, Start
from distributed_grid.kernel.mesh.trust import issue
from distributed_grid.model.ids import NodeId
from distributed_grid.model.membership import Chain, Contact, MeshId
from distributed_grid.sim.keys import Key, Keys
from distributed_grid.wire.mesh import Delta, MeshMessage, Refused, Welcome, encode
from distributed_grid.wire.mesh import Key as EntryKey
from distributed_grid.wire.mesh_records import NodeLoad, NodeProfile, Reach

SECOND_US = 1_000_000
DELAY_US = (100, 400)  # One way, on a local network; more jitter moves coordinates, which is told.
DIAL_US = 2_000  # A handshake and two greetings.
WALL_MS = 1_800_000_000_000
KNOWN = 3  # Others that each has heard of when it starts: those before it, as in a welcome.
_pack = msgspec.msgpack.Encoder().encode


class Crowd:
    """So many nodes, all members; each knows itself and how to reach three others."""

    def __init__(self, nodes: int, *, tick_us: int, seed: int = 0) -> None:
        self.dice = random.Random(seed)
        self._tick_us = tick_us
        self.now_us = 1_000 * SECOND_US
        self.datagram_bytes = self.message_bytes = self.dials = 0
        self.meshes: dict[NodeId, Mesh] = {}
        self._keys = Keys(0)
        self._heap: list[tuple[int, int, Callable[..., None], tuple[Any, ...]]] = []
        self._numbers = count()
        self._connections: dict[frozenset[NodeId], int] = {}
        self._gather(nodes)

    # Who is there

    def _gather(self, nodes: int) -> None:
        authority = self._keys.make("authority")
        signers = [self._keys.make(f"node {number}") for number in range(nodes)]
        contacts = [_contact(number, signer) for number, signer in enumerate(signers)]
        for number, signer in enumerate(signers):
            mesh = self._mesh(number, signer, contacts[number])
            self.meshes[mesh.me] = mesh
        founder = next(iter(self.meshes.values()))
        ready = founder.membership.found(authority, "n0", self.now())
        self._carry_out(founder.me, ready)
        for number, mesh in enumerate(self.meshes.values()):
            if number:
                known = self.dice.sample(contacts[:number], min(KNOWN, number))
                chain = self._chain(founder, mesh.me, f"n{number}")
                self._join(
                    mesh, MeshId(authority.public), Welcome(chain=chain, contacts=tuple(known))
                )
            # Machines that started at any time.
            self._at(self.dice.randrange(MeshRules().gossip_us), self._tick, mesh.me)

    def _mesh(self, number: int, signer: Key, contact: Contact) -> Mesh:
        mesh = Mesh(
            me=contact.node,
            signer=signer,
            verify=self._keys.verify,
            chance=random.Random(f"{self.dice.random()}").randrange,
            rules=MeshRules(),
            start=Start(nonce=f"{number}", machine=f"machine {number}", now=self.now()),
        )
        profile = NodeProfile(node_class="workstation", version="0.3.0", cores=4)
        reach = Reach(contact=contact)
        values: dict[EntryKey, bytes] = {"contact": _pack(reach), "profile": _pack(profile)}
        mesh.step(Publish(now=self.now(), values={**values, "load": _pack(load(0))}))
        return mesh

    def _chain(self, founder: Mesh, node: NodeId, name: str) -> Chain:
        assert founder.id is not None, "founded"
        chain = issue(
            founder.signer,
            founder.membership.chain,
            mesh=founder.id,
            node=node,
            name=name,
            roles=("member",),
            now_ms=self.now().wall_ms,
            verify=self._keys.verify,
            revoked=(),
        )
        assert not isinstance(chain, Refused), "a delegate lets in"
        return chain

    def _join(self, mesh: Mesh, mesh_id: MeshId, welcome: Welcome) -> None:
        ready = mesh.membership.adopt(mesh_id, welcome, self.now())
        assert not isinstance(ready, Refused), "a good chain"
        self._carry_out(mesh.me, ready)

    # Time

    def now(self) -> Now:
        """By everyone's clocks."""
        return Now(WALL_MS + self.now_us // 1_000, self.now_us)

    def run(self, duration_us: int) -> None:
        """Let it happen."""
        end_us, heap = self.now_us + duration_us, self._heap
        while heap[0][0] <= end_us:
            self.now_us, _, action, words = heapq.heappop(heap)
            action(*words)
        self.now_us = end_us

    def _at(self, wait_us: int, action: Callable[..., None], *words: Any) -> None:
        heapq.heappush(self._heap, (self.now_us + wait_us, next(self._numbers), action, words))

    def _tick(self, node: NodeId) -> None:
        self._step(node, Tick(now=self.now()))
        self._at(self._tick_us, self._tick, node)

    # The network

    def say(self, node: NodeId, told: NodeLoad) -> None:
        """A node has something new to say."""
        self._step(node, Publish(now=self.now(), values={"load": _pack(told)}))

    def _step(self, node: NodeId, event: MeshEvent) -> None:
        self._carry_out(node, self.meshes[node].step(event))

    def _carry_out(self, node: NodeId, ready: MeshReady) -> None:
        for peer, datagram in ready.datagrams:
            self.datagram_bytes += len(datagram)
            self._at(self.dice.randrange(*DELAY_US), self._heard, peer, node, datagram)
        for peer, message in ready.messages:
            self.message_bytes += len(encode(message))
            connection = self._connections.get(frozenset((node, peer)))
            # One after the other, as on a stream: the same delay for all.
            self._at(DELAY_US[1], self._told, peer, node, connection, message)
        for contact in ready.dial:
            self._at(DIAL_US, self._connect, node, contact.node)
        for peer, why in ready.hang_up:
            self._part(node, peer, why)

    def _heard(self, node: NodeId, peer: NodeId, datagram: bytes) -> None:
        self._step(node, Heard(now=self.now(), peer=peer, datagram=datagram))

    def _told(self, node: NodeId, peer: NodeId, connection: int, message: MeshMessage) -> None:
        if self._connections.get(frozenset((node, peer))) != connection:
            return  # It was closed meanwhile.
        if isinstance(message, Delta):
            message = self._verified(self.meshes[node], message)
        self._step(node, Told(now=self.now(), peer=peer, message=message))

    def _verified(self, mesh: Mesh, delta: Delta) -> Delta:
        """As the agent does before the kernel hears of it."""
        roster, replica = mesh.roster, mesh.replica
        assert roster is not None, "a member"
        assert replica is not None, "a member"
        good = (
            entry
            for entry in delta.entries
            if replica.has(entry) or (replica.is_news(entry) and roster.verify(entry))
        )
        return Delta(number=delta.number, entries=tuple(good))

    def _connect(self, node: NodeId, peer: NodeId) -> None:
        """Both greet, and judge the other's greeting."""
        pair, now = frozenset((node, peer)), self.now()
        self.dials += 1
        if pair in self._connections:  # The other was quicker.
            self._step(node, DialFailed(now=now, peer=peer, why="twice"))
            return
        ours, theirs = self.meshes[node].hello(now), self.meshes[peer].hello(now)
        refused = self.meshes[node].greet(peer, theirs, now)
        refused = refused or self.meshes[peer].greet(node, ours, now)
        assert refused is None, refused
        self.message_bytes += len(encode(ours)) + len(encode(theirs))
        self._connections[pair] = next(self._numbers)
        self._step(node, LinkUp(now=now, peer=peer, hello=theirs))
        self._step(peer, LinkUp(now=now, peer=node, hello=ours))

    def _part(self, node: NodeId, peer: NodeId, why: str) -> None:
        if self._connections.pop(frozenset((node, peer)), None) is not None:
            for one, other in ((node, peer), (peer, node)):
                self._step(one, LinkDown(now=self.now(), peer=other, why=why))

    # Figures

    def entries_sent(self) -> int:
        """By all, so far."""
        return sum(mesh.replica.entries_sent for mesh in self.meshes.values() if mesh.replica)


def load(number: int) -> NodeLoad:
    """Something that a node may say."""
    return NodeLoad(cpu_milli_free=number, memory_bytes_free=0)


def _contact(number: int, signer: Key) -> Contact:
    address = f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}:4000"
    return Contact(node=NodeId(signer.public), addresses=(address,))
