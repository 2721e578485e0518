"""A few nodes with registers of at-most-once jobs, and the post between them.

Lives here: nodes, disks, delivery in order, one clock. Never here: faults by chance (`tests.sim`).
"""

import random
from collections.abc import Iterable

import msgspec

from distributed_grid.kernel.across.register import Register
from distributed_grid.kernel.across.register_effects import Effects, Happening
from distributed_grid.kernel.across.register_voter import STORE, Store
from distributed_grid.model.across import Epoch, Fence
from distributed_grid.model.ids import JobId, NodeId
from distributed_grid.wire.register import Member, RegisterMessage, Standing, Written

JOB = JobId("job")
A, B, C, D, E = (NodeId(name) for name in "abcde")


def member(name: str) -> Member:
    """Of the lab: its store is called after it."""
    return Member(NodeId(name), f"store-{name}")


def members(names: str) -> tuple[Member, ...]:
    return tuple(member(name) for name in names)


def fence(counter: int, node: str = "a", seq: int = 1) -> Fence:
    return Fence(Epoch(counter, NodeId(node)), seq)


def a_written(version: Fence, names: str = "abc", value: bytes = b"", **fields: object) -> Written:
    return Written(standing=Standing(version=version, voters=members(names), **fields), value=value)


class RegisterLab:
    """Nodes by name; everything saved is on their disks, everything sent in the post."""

    def __init__(self, names: str = "abc", *, is_new: bool = False) -> None:
        self.now_us = 10**9
        self.disks: dict[NodeId, dict[str, bytes]] = {}
        self.nodes: dict[NodeId, Register] = {}
        self.post: list[tuple[NodeId, NodeId, RegisterMessage]] = []
        self.happened: dict[NodeId, list[Happening]] = {}
        self.away: set[NodeId] = set()  # Nothing comes from them or to them.
        self.apart: set[NodeId] = set()  # These hear each other, and nobody else.
        self.lives = 0
        for name in names:
            node = NodeId(name)
            store = msgspec.msgpack.encode(Store(f"store-{name}"))
            self.disks[node] = {} if is_new else {STORE: store}
            RegisterLab.start(self, node)
        for node in self.nodes:
            self.meet_all(node)

    def clock(self, name: NodeId) -> int:
        """What a node takes for now."""
        return self.now_us

    def start(self, name: NodeId, running: dict[str, int] | None = None) -> Register:
        """Again, with its disk."""
        self.lives += 1
        dice = random.Random(f"{name} {self.lives}").randrange
        self.nodes[name] = Register(name, dice)
        self.happened[name] = []
        self.do(name, self.nodes[name].start(self.disks[name], running or {}, self.clock(name)))
        return self.nodes[name]

    def meet_all(self, name: NodeId) -> None:
        """As an agent does when it is linked with others."""
        for other in self.nodes:
            if other != name:
                self.do(name, self.nodes[name].voter.meet(other, self.clock(name)))
        self.deliver()

    def do(self, name: NodeId, effects: Effects) -> None:
        for key, body in effects.save.items():
            if body is None:
                self.disks[name].pop(key, None)
            else:
                self.disks[name][key] = body
        self.post += [(name, to, message) for to, message in effects.send]
        self.happened[name] += effects.happened

    def deliver(self, only: type | tuple[type, ...] = object) -> None:
        """All that is in the post and what follows; the rest of another type stays there."""
        kept = []
        while self.post:
            sender, to, message = self.post.pop(0)
            if not isinstance(message, only):
                kept.append((sender, to, message))
            elif not {sender, to} & self.away and (sender in self.apart) == (to in self.apart):
                self.do(to, self.nodes[to].hear(sender, message, self.clock(to)))
        self.post = kept

    def pass_time(self, us: int, step_us: int = 100_000) -> None:
        for _ in range(us // step_us):
            self.now_us += step_us
            for name in self.nodes:
                if name not in self.away:
                    self.do(name, self.nodes[name].tick(self.clock(name)))
            self.deliver()

    def take(self, name: NodeId, kind: type) -> list[Happening]:
        """What has happened of a kind; not told again."""
        found = [one for one in self.happened[name] if isinstance(one, kind)]
        self.happened[name] = [one for one in self.happened[name] if not isinstance(one, kind)]
        return found

    def open(self, name: NodeId = A, names: str = "abc", value: bytes = b"new") -> None:
        """A new job, with its first write accepted."""
        writer = self.nodes[name].writer
        new = Written(standing=Standing(voters=members(names)), value=value)
        self.do(name, writer.take_over(JOB, new, self.now_us))
        self.deliver()

    def chair(self, name: NodeId):
        chair = self.nodes[name].writer.chair(JOB)
        assert chair is not None
        return chair

    def name(self, lease: str, node: NodeId, by: NodeId = A) -> None:
        """An attempt."""
        effects = Effects()
        self.chair(by).name(node, lease, lease.encode(), self.now_us, effects)
        self.do(by, effects)
        self.deliver()

    def take_over(self, name: NodeId, held_by: NodeId | None = None) -> None:
        register = self.nodes[name]
        written = self.nodes[held_by or name].voter.written(JOB)
        assert written is not None
        seen = register.voter.promised(JOB)
        self.do(name, register.writer.take_over(JOB, written, self.now_us, seen=seen))
        self.deliver()

    def values(self, names: Iterable[NodeId]) -> list[bytes | None]:
        found = [self.nodes[name].voter.written(JOB) for name in names]
        return [written.value if written else None for written in found]
