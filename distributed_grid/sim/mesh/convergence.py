"""How many rounds of gossip it takes until everybody knows: the real replicas, round by round.

Lives here: a network without faults or delays, for counting rounds and bytes up to a thousand
nodes.
Never here: heartbeats, dialling, faults (`world`); ten thousand nodes (`benchmarks.mesh_model`).
Invariant: what is said in a round arrives in that round, and is answered in it; what was learned
from others is passed on in the next. On one network a round is a hundred times a round trip.
"""

import hashlib
import itertools
from collections import deque
from typing import Final

import msgspec

from distributed_grid.kernel.mesh.replica import Replica
from distributed_grid.kernel.mesh.topology import Member, arranged, gossip_peers
from distributed_grid.model.ids import NodeId
from distributed_grid.model.membership import MeshId
from distributed_grid.sim.keys import Keys
from distributed_grid.wire.mesh import Key, MeshMessage, encode

ROUND_US: Final = 200_000
ROUNDS_MAX: Final = 100  # Then something is wrong.
_SAID: Final[tuple[Key, ...]] = ("chain", "contact", "profile", "load", "coordinate")
_SIZES: Final[dict[Key, int]] = {"chain": 330, "contact": 150, "profile": 300, "load": 60}


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """What it took."""

    nodes: int
    rounds: int
    bytes_per_node: int  # Sent, on average.
    messages: int
    links_most: int  # Of one node.


class Cohort:
    """Nodes with links between them, and nothing to fear."""

    def __init__(
        self,
        nodes: int,
        *,
        seed: int = 0,
        entries: int = 5,  # Of each that speaks.
        speakers: int | None = None,  # None: all. With few, a thousand nodes cost seconds.
        connections_max: int = 50,
    ) -> None:
        keys = Keys(f"cohort {seed}")
        signers = [keys.make(f"node {number}") for number in range(nodes)]
        self.ids = sorted(NodeId(signer.public) for signer in signers)
        self.mesh = MeshId(keys.make("authority").public)
        self.now_us = ROUND_US
        self.entries = entries
        self.bytes_sent = self.messages = 0
        self.replicas: dict[NodeId, Replica] = {}
        for signer in signers:
            node = NodeId(signer.public)
            self.replicas[node] = Replica(
                me=node, mesh=self.mesh, signer=signer, generation=1, now_us=self.now_us
            )
        for node in self.ids[:speakers]:
            for key in _SAID[:entries]:
                filler = hashlib.blake2b(f"{node}{key}".encode()).digest()
                self.replicas[node].publish(key, filler[: _SIZES.get(key, 40)], self.now_us)
        self._speakers = frozenset(self.ids[:speakers])
        members = [Member(node) for node in self.ids]
        places = {node: arranged(node, members, "hybrid", connections_max) for node in self.ids}
        self.neighbours = {node: place.neighbours for node, place in places.items()}
        self.partners = {
            node: gossip_peers(node, place.neighbours, essential=place.essential)
            for node, place in places.items()
        }

    def connect(self) -> None:
        """All links come up at once, and everybody compares."""
        queue: deque[tuple[NodeId, NodeId, MeshMessage]] = deque()
        pairs = {(min(one, two), max(one, two)) for one in self.ids for two in self.neighbours[one]}
        for one, two in sorted(pairs):
            for near, far in ((one, two), (two, one)):
                said = self.replicas[near].link_up(far, self.now_us)
                queue.extend((near, far, message) for message in said)
        self._deliver(queue)

    def round(self) -> None:
        """Everybody tells its partners what they lack."""
        self.now_us += ROUND_US
        queue: deque[tuple[NodeId, NodeId, MeshMessage]] = deque()
        for node in self.ids:
            said = self.replicas[node].round(self.partners[node], self.now_us)
            queue.extend((node, peer, message) for peer, message in said)
        self._deliver(queue)

    def _deliver(self, queue: deque[tuple[NodeId, NodeId, MeshMessage]]) -> None:
        while queue:
            source, target, message = queue.popleft()
            self.messages += 1
            self.bytes_sent += len(encode(message))
            answers, _ = self.replicas[target].receive(source, message, self.now_us)  # type: ignore[arg-type]
            queue.extend((target, source, answer) for answer in answers)

    def knows_all(self) -> bool:
        """Whether everybody has everything. Nothing changes meanwhile, so each is taken once."""
        total = len(self._speakers) * self.entries
        return all(
            replica.entries_taken == total - self.entries * (node in self._speakers)
            for node, replica in self.replicas.items()
        )

    def know(self, node: NodeId, key: Key) -> int:
        """How many have what this node last said."""
        entry = self.replicas[node].entry(node, key)
        return sum(replica.entry(node, key) == entry for replica in self.replicas.values())

    def figures(self, rounds: int) -> Figures:
        """So far."""
        return Figures(
            nodes=len(self.ids),
            rounds=rounds,
            bytes_per_node=self.bytes_sent // len(self.ids),
            messages=self.messages,
            links_most=max(map(len, self.neighbours.values())),
        )

    def form(self) -> Figures:
        """From nobody knows anybody to everybody knows everything."""
        self.connect()
        for rounds in itertools.count(1):
            self.round()
            if self.knows_all():
                return self.figures(rounds)
            assert rounds < ROUNDS_MAX, "they never agree"
        raise AssertionError

    def settle(self) -> None:
        """Until nobody has anything to say."""
        self.messages = -1
        while self.messages:
            self.messages = 0
            self.round()

    def spread(self) -> Figures:
        """On a quiet mesh one node says something new; until all have it."""
        self.settle()
        self.bytes_sent = self.messages = 0
        node = self.ids[0]
        self.replicas[node].publish("load", b"news", self.now_us)
        for rounds in itertools.count(1):
            self.round()
            if self.know(node, "load") == len(self.ids):
                return self.figures(rounds)
            assert rounds < ROUNDS_MAX, "the news never arrives"
        raise AssertionError
