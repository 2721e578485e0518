"""Replicas with links between them, and a clock that is turned by hand."""

from collections import deque
from collections.abc import Iterable

from distributed_grid.kernel.mesh.replica import Replica
from distributed_grid.model.ids import NodeId
from distributed_grid.model.membership import MeshId
from distributed_grid.sim.keys import Key as Signing
from distributed_grid.wire.mesh import GENERATION_FINAL, Entry, Key, MeshMessage, decode, encode

MESH = MeshId("e" * 64)
SECOND_US = 1_000_000


def node(number: int) -> NodeId:
    """An id; they sort as their numbers."""
    return NodeId(f"{number:064x}")


def spread(number: int) -> NodeId:
    """An id that differs from others early, as keys do."""
    return NodeId(f"{number * 0x9E3779B97F4A7C15 % 2**64:016x}{number:048x}")


def key_of(owner: NodeId) -> Signing:
    return Signing(owner.encode())


def replica(me: NodeId, *, generation: int = 1, now_us: int = 0) -> Replica:
    return Replica(me=me, mesh=MESH, signer=key_of(me), generation=generation, now_us=now_us)


def entry(owner: NodeId, key: Key = "load", version: int = 1, **facts) -> Entry:
    """Signed by its owner, whatever it says."""
    generation, value = facts.get("generation", 1), facts.get("value", b"v")
    unsigned = Entry(owner, generation, key, version, value)
    signature = key_of(owner).sign(unsigned.signed_bytes(MESH))
    return Entry(owner, generation, key, version, value, signature)


def revoked(owner: NodeId, value: bytes = b"out") -> Entry:
    return Entry(owner, GENERATION_FINAL, "revoked", 1, value)


def contents(of: Replica) -> dict[tuple[str, str], Entry]:
    """All that it holds."""
    return {(each.entry.node, each.entry.key): each.entry for each in of._maps.items.values()}


class Wires:
    """Links, each with what is on it; everything passes through the wire format."""

    def __init__(self, *replicas: Replica) -> None:
        self.now_us = 0
        self.replicas = {each.me: each for each in replicas}
        self.queues: dict[tuple[NodeId, NodeId], deque[bytes]] = {}
        self.sent: list[tuple[NodeId, NodeId, MeshMessage]] = []
        self.sent_bytes = 0

    def up(self, left: NodeId, right: NodeId) -> None:
        for me, peer in ((left, right), (right, left)):
            self.queues[me, peer] = deque()
        for me, peer in ((left, right), (right, left)):
            self.send(me, peer, self.replicas[me].link_up(peer, self.now_us))

    def down(self, left: NodeId, right: NodeId) -> None:
        for me, peer in ((left, right), (right, left)):
            if self.queues.pop((me, peer), None) is not None:
                self.replicas[me].link_down(peer)

    def send(self, me: NodeId, peer: NodeId, messages: Iterable[MeshMessage]) -> None:
        for message in messages:
            body = encode(message)
            self.sent.append((me, peer, message))
            self.sent_bytes += len(body)
            self.queues[me, peer].append(body)

    def deliver(self, me: NodeId, peer: NodeId) -> None:
        """The next message from `me` to `peer`."""
        body = self.queues[me, peer].popleft()
        answers, _ = self.replicas[peer].receive(me, decode(body), self.now_us)
        self.send(peer, me, answers)

    def settle(self) -> None:
        """Until nothing is on its way."""
        while busy := [ends for ends, queue in self.queues.items() if queue]:
            for ends in busy:
                self.deliver(*ends)

    def round(self, after_us: int = 200_000) -> None:
        """Everybody speaks to all its neighbours, and all is delivered."""
        self.now_us += after_us
        for me, each in self.replicas.items():
            peers = [peer for left, peer in self.queues if left == me]
            for peer, message in each.round(peers, self.now_us):
                self.send(me, peer, [message])
        self.settle()

    def said(self, kind: type) -> list[MeshMessage]:
        return [message for _, _, message in self.sent if isinstance(message, kind)]

    def forget_sent(self) -> None:
        self.sent.clear()
        self.sent_bytes = 0
