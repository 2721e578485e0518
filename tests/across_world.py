"""Several node kernels in one room, each with a keeper that does what the test says.

Lives here: nodes, the messages between them, who lives in whose eyes, time. Never here:
expectations. Invariant: every message goes through its bytes, and every step is checked.
"""

from collections import deque
from collections.abc import Mapping
from types import MappingProxyType

from distributed_grid.kernel.across.peers import Peer
from distributed_grid.kernel.across.record import state_of
from distributed_grid.kernel.inventory import Inventory
from distributed_grid.kernel.node import Beat, Sampled, Told, View
from distributed_grid.kernel.placement import Rules
from distributed_grid.kernel.placement.registry import policy_named
from distributed_grid.kernel.ready import Happened, Ready
from distributed_grid.model.ids import NodeId
from distributed_grid.model.lending import Sample
from distributed_grid.model.node import NodeRecord
from distributed_grid.wire.job_lane import JobMessage, decode, encode
from tests.node_world import FOUR_CORES, SENSES, World

BEAT_MS = 500


def rules_of(policy: str) -> Rules:
    """As an agent has them."""
    return Rules(policy=policy_named(policy) if policy else None)


class Neighbour(World):
    """One node of the room."""

    def __init__(self, room: "Room", number: int, inventory: Inventory) -> None:
        self.room = room
        self.name = f"node-{number}"
        self.me = NodeId(f"{number:064x}")
        self.is_up = True
        self.peer: dict[str, object] = {}  # What the others see of it beside its record.
        self.facts: dict[str, object] = {}  # What its record says beside what the ledger knows.
        self.lease_prefix = f"{self.name}-"
        self.sent: list[tuple[NodeId, JobMessage]] = []
        self.happened: list[Happened] = []
        super().__init__(inventory)

    def start_agent(self) -> None:
        self.node_name = self.name
        super().start_agent()

    def made(self, node) -> None:
        across = node.join(self.me, senses=SENSES, rules_of=rules_of)
        across.guarding.shelf.read = self.saved_held.get

    def step(self, event) -> Ready:
        ready = super().step(event)
        if self.node.across is not None:
            self.node.across.guarding.shelf.saved(ready.save_held)
        self.node.check()
        self.happened += ready.happened
        for peer, message in [*ready.ask, *ready.send]:
            self.sent.append((peer, message))
            self.room.post.append((self.me, peer, encode(message)))
        return ready

    def look(self) -> None:
        """See the others as they are in this one's eyes."""
        peers = {other.me: self.room.seen(self, other) for other in self.room.nodes}
        peers |= self.room.others
        del peers[self.me]
        total = self.node.ledger.total
        sample = Sample(
            at_ms=self.now_ms,
            local_minute=12 * 60,
            cpu_total_milli=total.cpu_milli,
            cpu_used_milli=0,
            memory_total_bytes=total.memory_bytes,
            memory_used_bytes=0,
            storage_free_bytes=total.storage_bytes,
        )
        self.step(Sampled(now_ms=self.now_ms, sample=sample))
        self.step(View(now_ms=self.now_ms, peers=peers, own=self.record))

    @property
    def record(self) -> NodeRecord:
        ledger = self.node.ledger
        coordinator = self.node.coordinator
        names = {coordinator.jobs[job].spec.name for job, _ in coordinator.attempts.here.values()}
        told: dict[str, object] = {"running": tuple(sorted(names)), **self.facts}
        return NodeRecord(
            id=self.me, name=self.name, total=ledger.total, free=ledger.free(), **told
        )

    def knows(self, spec) -> str:
        """The state of a job in this node's eyes; empty: it knows nothing of it."""
        if spec.id in self.node.coordinator.jobs:
            return self.state(spec)
        record = self.node.across.guarding.find(spec.id)
        return state_of(record) if record is not None else ""

    def said(self, kind: type) -> list:
        """What it has said to others, of one kind."""
        return [message for _, message in self.sent if isinstance(message, kind)]


class Room:
    """Nodes that hear each other, unless told otherwise."""

    others: Mapping[NodeId, Peer] = MappingProxyType({})  # Members without a kernel.

    def __init__(self, count: int = 2, first: Inventory = FOUR_CORES) -> None:
        self.post: deque[tuple[NodeId, NodeId, bytes]] = deque()
        self.cut: set[tuple[NodeId, NodeId]] = set()  # (from, to)
        self.dead: set[tuple[NodeId, NodeId]] = set()  # (in whose eyes, who)
        self.nodes: list[Neighbour] = []
        for number in range(1, count + 1):
            self.nodes.append(Neighbour(self, number, first if number == 1 else FOUR_CORES))
        self.look()

    def __getitem__(self, number: int) -> Neighbour:
        return self.nodes[number]

    def by_id(self, node: NodeId) -> Neighbour:
        return next(one for one in self.nodes if one.me == node)

    def seen(self, who: Neighbour, other: Neighbour) -> Peer:
        return Peer(
            id=other.me,
            name=other.name,
            is_alive=(who.me, other.me) not in self.dead,
            record=other.record,
            **other.peer,
        )

    def look(self) -> None:
        """Everyone sees everyone, and what follows from it is said and done."""
        for node in self.nodes:
            if node.is_up:
                node.look()
        self.settle()

    def settle(self) -> None:
        """Deliver until nothing more is said; keepers report what has begun."""
        for _ in range(10_000):
            for node in self.nodes:
                if node.is_up:
                    node.pump()
            if not self.post:
                return
            source, target, body = self.post.popleft()
            node = self.by_id(target)
            if node.is_up and (source, target) not in self.cut:
                message = decode(body)
                node.step(Told(now_ms=node.now_ms, peer=source, message=message))
        raise AssertionError("they never stop talking")

    def pass_time(self, by_ms: int) -> None:
        """In beats, as an agent does."""
        for _ in range(max(1, by_ms // BEAT_MS)):
            for node in self.nodes:
                node.now_ms += min(by_ms, BEAT_MS)
                if node.is_up:
                    node.step(Beat(now_ms=node.now_ms))
            self.settle()

    def home_of(self, spec) -> "Neighbour":
        """Who looks after a job now, among those that are up."""
        homes = [one for one in self.nodes if one.is_up and spec.id in one.node.coordinator.jobs]
        assert len(homes) == 1, [one.name for one in homes]
        return homes[0]

    def until(self, holds, within_ms: int = 60_000) -> int:
        """Let time pass until something holds; how long it took."""
        for passed_ms in range(0, within_ms, BEAT_MS):
            if holds():
                return passed_ms
            self.pass_time(BEAT_MS)
            self.look()
        raise AssertionError("not in time")

    def kill(self, who: Neighbour) -> None:
        """Agent and keeper are gone; the others notice."""
        who.is_up = False
        who.keeper.die()
        for other in self.nodes:
            if other is not who:
                self.dead.add((other.me, who.me))
        self.look()

    def revive(self, who: Neighbour) -> None:
        """It starts again from its disk, and the others notice."""
        who.is_up = True
        self.dead = {pair for pair in self.dead if who.me not in pair}
        who.start_agent()
        self.look()
