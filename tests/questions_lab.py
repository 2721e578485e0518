"""Nodes that ask each other in memory: real questions and answers over lanes that can be cut.

Lives here: lanes, and nodes with a canned agent behind the real handlers. Never here: assertions.
Every message becomes bytes and is read again, as on a link; a lane that is cut loses what is on it.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable
from typing import Any

import msgspec

from distributed_grid.agent.anywhere import Anywhere
from distributed_grid.agent.questions import Answering, Asker, Piece, Questions
from distributed_grid.agent.remote import Remote
from distributed_grid.model.ids import NodeId
from distributed_grid.web.asked import Asked
from distributed_grid.wire.questions import Question, QuestionMessage
from tests.agent_stand_in import CannedAgent
from tests.mesh_stand_in import hashed

_decoder = msgspec.msgpack.Decoder(QuestionMessage)


class Lanes:
    """The job lanes between all nodes."""

    def __init__(self) -> None:
        self.nodes: dict[NodeId, Questions] = {}
        self.cut: set[frozenset[NodeId]] = set()
        self.said: list[tuple[NodeId, NodeId, QuestionMessage]] = []
        self.is_full = asyncio.Event()  # Cleared: nothing more can be put on any lane.
        self.is_full.set()
        self._generation: dict[frozenset[NodeId], int] = {}

    def way(self, me: NodeId) -> "_Way":
        return _Way(self, me)

    def send(self, me: NodeId, peer: NodeId, message: QuestionMessage) -> bool:
        pair = frozenset((me, peer))
        if pair in self.cut or peer not in self.nodes:
            return False
        self.said.append((me, peer, message))
        body = msgspec.msgpack.encode(message)
        generation = self._generation.get(pair, 0)
        asyncio.get_running_loop().call_soon(self._arrive, me, peer, body, generation)
        return True

    def _arrive(self, me: NodeId, peer: NodeId, body: bytes, generation: int) -> None:
        if self._generation.get(frozenset((me, peer)), 0) == generation and peer in self.nodes:
            self.nodes[peer].told(me, _decoder.decode(body))

    def lose(self, one: NodeId, other: NodeId, why: str = "the link is broken") -> None:
        """Cut a lane, with all that is on it; `mend` makes another."""
        pair = frozenset((one, other))
        self.cut.add(pair)
        self._generation[pair] = self._generation.get(pair, 0) + 1
        self.nodes[one].lost(other, why)
        self.nodes[other].lost(one, why)

    def mend(self, one: NodeId, other: NodeId) -> None:
        self.cut.discard(frozenset((one, other)))


class _Way:
    def __init__(self, lanes: Lanes, me: NodeId) -> None:
        self._lanes, self._me = lanes, me

    def send(self, peer: NodeId, message: QuestionMessage) -> bool:
        return self._lanes.send(self._me, peer, message)

    async def drained(self, peer: NodeId) -> None:
        await self._lanes.is_full.wait()


async def echo(asker: Asker, question: Question) -> AsyncGenerator[Piece, None]:
    """Answers with what it was asked."""
    yield Piece(200, f"{asker.user}@{asker.name}: {question.query.get('job', '')}".encode())


class Pair:
    """Two nodes, of which the second answers with whatever a test plugs in."""

    def __init__(
        self,
        answering: Answering = echo,
        *,
        roles: tuple[Any, ...] = ("member",),
        is_own: bool = False,
    ) -> None:
        self.lanes = Lanes()
        self.broke: list[tuple[str, str]] = []
        self.here, self.there = NodeId(hashed("desk")), NodeId(hashed("attic"))
        self.roles: tuple[Any, ...] | None = roles
        self.is_own = is_own
        self.asks = self._questions(self.here, answering)
        self.answers = self._questions(self.there, answering)

    def _questions(self, me: NodeId, answering: Answering) -> Questions:
        made = Questions(
            self.lanes.way(me), answering=answering, asker=self._asker, blame=told_of(self.broke)
        )
        self.lanes.nodes[me] = made
        return made

    def _asker(self, peer: NodeId) -> Asker | None:
        if self.roles is None:
            return None
        return Asker(peer, "desk", self.roles, is_own=self.is_own)

    async def ask(self, operation: str = "job", **query: str) -> Any:
        question = Question(number=1, operation=operation, query=query, user="ada")
        return await self.asks.asking.ask(self.there, question)

    def stream(self, operation: str = "logs", **query: str) -> AsyncGenerator[bytes, None]:
        question = Question(number=1, operation=operation, query=query, user="ada")
        return self.asks.asking.stream(self.there, question)

    def kinds(self) -> list[str]:
        return [type(message).__name__ for _, _, message in self.lanes.said]


def told_of(broke: list[tuple[str, str]]) -> Callable[[NodeId, str, str], None]:
    """What went wrong for whom, without where."""
    return lambda _peer, kind, why: broke.append((kind, why.partition(" (")[0]))


class Member:
    """A node with a canned agent, asked through the real handlers; and the mesh as it sees it."""

    def __init__(self, town: "Town", name: str, roles: tuple[Any, ...]) -> None:
        self.town, self.name, self.roles = town, name, roles
        self.me = NodeId(hashed(name))
        self.agent = CannedAgent()
        self.agent.across.name = name
        self.own: set[str] = set()
        self.dead: set[NodeId] = set()
        self.questions = Questions(
            town.lanes.way(self.me),
            answering=Asked(self.agent),
            asker=town.asker,
            blame=told_of(town.broke),
        )
        town.lanes.nodes[self.me] = self.questions
        self.remote = Remote(self.questions, self, user="ada")
        self.grid = Anywhere(self.agent, self.remote, clock_s=town.clock_s)

    @property
    def live(self) -> dict[NodeId, str]:
        return {
            other.me: other.name
            for other in self.town.members.values()
            if other is not self and other.me not in self.dead
        }

    def name_of(self, node: NodeId) -> str:
        return self.town.names.get(node, node[:8])

    @property
    def is_member(self) -> bool:
        return len(self.town.members) > 1

    def is_own(self, word: str) -> bool:
        return word.removeprefix("id:") in self.own

    def has(self, view: Any) -> Any:
        """This node looks after a job."""
        self.agent.views[view.id] = view
        self.own.add(view.id)
        return view

    def holds(self, view: Any, home: "Member", *others: "Member") -> None:
        """This node keeps a copy of another's record."""
        holders = (self.me, *(other.me for other in others))
        held = msgspec.structs.replace(view, home=home.me, holders=holders)
        self.agent.views[view.id] = held


class Town:
    """Some members of one mesh."""

    def __init__(self, *names: str, **roles: tuple[Any, ...]) -> None:
        self.lanes = Lanes()
        self.broke: list[tuple[str, str]] = []
        self.late_s = 0.0
        self.names: dict[NodeId, str] = {}
        self.members: dict[str, Member] = {}
        for name in names:
            self.members[name] = Member(self, name, roles.get(name, ("member",)))
            self.names[self.members[name].me] = name

    def __getattr__(self, name: str) -> Member:
        return self.members[name]

    def clock_s(self) -> float:
        return asyncio.get_running_loop().time() + self.late_s

    def asker(self, peer: NodeId) -> Asker | None:
        name = self.names.get(peer, "")
        return Asker(peer, name, self.members[name].roles, is_own=True) if name else None

    def kill(self, name: str) -> None:
        """A machine goes, and everybody notices."""
        gone = self.members[name]
        for other in self.members.values():
            if other is not gone:
                self.lanes.lose(gone.me, other.me)
                other.dead.add(gone.me)

    def part(self, one: str, other: str) -> None:
        """A link breaks, and comes back at once."""
        self.lanes.lose(self.members[one].me, self.members[other].me)
        self.lanes.mend(self.members[one].me, self.members[other].me)


class Parts:
    """An answer in pieces: how many were made, and whether somebody closed it."""

    def __init__(self, pieces: list[bytes], *, then: Callable[[], Any] | None = None) -> None:
        self.pieces = deque(pieces)
        self.made = 0
        self.is_closed = asyncio.Event()
        self._then = then

    async def __call__(self, asker: Asker, question: Question) -> AsyncGenerator[Piece, None]:
        try:
            while self.pieces:
                self.made += 1
                yield Piece(200, self.pieces.popleft())
            if self._then is not None:
                result = self._then()
                if asyncio.iscoroutine(result):
                    await result
        finally:
            self.is_closed.set()


async def settled(rounds: int = 50) -> None:
    """Until everything that can happen without anybody's help has happened."""
    for _ in range(rounds):
        await asyncio.sleep(0)
