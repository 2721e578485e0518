"""Operations of other nodes, as typed calls.

Lives here: from a call to a question, and from its answer to a value or an error; and what people
of one node are called on another. Never here: whom to ask (`anywhere`, `finding`).
Invariant: a call ends in a value of its type or a GridError; that a node cannot be reached is
always MeshUnreachable, with its name.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import aclosing
from types import MappingProxyType
from typing import Any, Final, NamedTuple, Protocol, TypeVar

import msgspec

from distributed_grid.agent.asking import LinkLost, Told, read_problem
from distributed_grid.agent.questions import Questions
from distributed_grid.errors import GridError, MeshUnreachable, NotFound, Overloaded
from distributed_grid.kernel.finding import node_among
from distributed_grid.model.ids import NodeId
from distributed_grid.wire.api import Jobs, JobView
from distributed_grid.wire.problems import OK
from distributed_grid.wire.questions import WORD_CHARACTERS_MAX, Question
from distributed_grid.wire.sharing import SharingStatus

AT_ONCE: Final = 64  # Nodes that are asked the same at the same time.
# For all of them together: a person waits, but rather than hear less. Of the dead nobody waits for
# longer than for their verdict; after a start a node looks at itself for two seconds first.
LOOK_S: Final = 5.0
NOTHING: Final[Mapping[str, str]] = MappingProxyType({})

T = TypeVar("T")


class Around(Protocol):
    """The mesh, as far as it matters to who is asked."""

    @property
    def me(self) -> NodeId:
        """This node."""
        ...

    @property
    def live(self) -> Mapping[NodeId, str]:
        """The other members that are alive, with their names; none: this node is alone."""
        ...

    @property
    def is_member(self) -> bool:
        """Whether this node is in a mesh, though perhaps linked with nobody now."""
        ...

    def name_of(self, node: NodeId) -> str:
        """Of any node that was ever heard of."""
        ...

    def is_own(self, word: str) -> bool:
        """Whether this is the full id of a job that this node looks after. Costs nothing."""
        ...


class Heard(NamedTuple):
    """What several nodes said, and who said nothing."""

    answers: list[tuple[NodeId, Any]]
    missing: tuple[str, ...]


class Remote:
    """The other nodes, for one agent and its user."""

    def __init__(self, questions: Questions, around: Around, *, user: str) -> None:
        self.around = around
        self._questions, self._user = questions, user

    async def ask(
        self,
        node: NodeId,
        operation: str,
        kind: type[T],
        words: Mapping[str, str] = NOTHING,
        *,
        wait_ms: int = 0,
        body: Any = None,
    ) -> T:
        """What another node answers. Raises its error, or MeshUnreachable."""
        if node not in self.around.live:
            raise MeshUnreachable(self.around.name_of(node), why="it is not there")
        question, asking = self._question(operation, words, body), self._questions.asking
        try:
            try:
                told = await asking.ask(node, question, wait_s=wait_ms / 1_000)
            except LinkLost:  # Twice changes nothing, of all that may be asked.
                told = await asking.ask(node, question, wait_s=wait_ms / 1_000)
            return self._read(node, told, kind)
        except MeshUnreachable as error:
            raise self._named(node, error) from None

    async def ask_bytes(  # A question of a program, not of a person.
        self,
        node: NodeId,
        operation: str,
        words: Mapping[str, str],
        body: bytes,
        *,
        wait_s: float = 0,
        bytes_max: int | None = None,
    ) -> bytes:
        """What another node answers, as it is; asked once. Raises its error, or MeshUnreachable."""
        if node not in self.around.live:
            raise MeshUnreachable(self.around.name_of(node), why="it is not there")
        question = self._question(operation, words, None)
        question = msgspec.structs.replace(question, body=body)
        try:
            told = await self._questions.asking.ask(
                node, question, wait_s=wait_s, bytes_max=bytes_max
            )
        except MeshUnreachable as error:
            raise self._named(node, error) from None
        if told.status != OK:
            raise read_problem(node, told.body)
        return told.body

    async def stream(
        self, node: NodeId, operation: str, words: Mapping[str, str]
    ) -> AsyncIterator[bytes]:
        """What another node says, as it says it."""
        if node not in self.around.live:
            raise MeshUnreachable(self.around.name_of(node), why="it is not there")
        question = self._question(operation, words, None)
        try:
            async with aclosing(self._questions.asking.stream(node, question)) as parts:
                async for part in parts:
                    yield part
        except MeshUnreachable as error:
            raise self._named(node, error) from None

    async def ask_all(
        self,
        nodes: Iterable[NodeId],
        operation: str,
        kind: type[T],
        words: Callable[[str], Mapping[str, str]],
    ) -> Heard:
        """What many nodes answer, in a bounded time; the words may depend on the node's name."""
        wanted, turns = list(nodes), asyncio.Semaphore(AT_ONCE)
        answers: dict[NodeId, T] = {}
        missing = set(wanted)

        async def one(node: NodeId) -> None:
            told = words(self.around.name_of(node))
            try:
                async with turns:
                    answers[node] = await self.ask(node, operation, kind, told)
                missing.discard(node)
            except (MeshUnreachable, Overloaded):
                pass
            except GridError:
                missing.discard(node)  # It has answered: it knows nothing of this.

        tasks = [asyncio.create_task(one(node)) for node in wanted]
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=LOOK_S)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
        said = [(node, answers[node]) for node in wanted if node in answers]
        return Heard(said, tuple(sorted(self.around.name_of(node) for node in missing)))

    # What users are called

    def user_there(self, user: str, name: str) -> str:
        """What a node of this name calls a user whom people here call so."""
        if not user:
            return ""
        plain, at, home = user.rpartition("@")
        if not at:
            return f"{user}@{self.around.name_of(self.around.me)}"
        return plain if home == name else user

    def _user_here(self, user: str, node: NodeId) -> str:
        if not user:
            return ""
        plain, at, home = user.rpartition("@")
        if not at:
            return f"{user}@{self.around.name_of(node)}"
        return plain if home == self.around.name_of(self.around.me) else user

    def _ours(self, value: Any, node: NodeId) -> Any:
        """What another node said, with names as they are here."""
        if isinstance(value, Jobs):
            views = tuple(self._ours(view, node) for view in value.jobs)
            return msgspec.structs.replace(value, jobs=views)
        if isinstance(value, SharingStatus):
            lines = tuple(
                msgspec.structs.replace(one, user=self._user_here(one.user, node))
                for one in value.allocations
            )
            return msgspec.structs.replace(value, allocations=lines)
        if isinstance(value, JobView):
            user = self._user_here(value.user, node)
            return msgspec.structs.replace(value, user=user, home=value.home or node)
        return value

    def _question(self, operation: str, words: Mapping[str, str], body: Any) -> Question:
        query = {key: word for key, word in words.items() if word}
        for word in query.values():
            if len(word) > WORD_CHARACTERS_MAX:  # Whoever reads it would close the link.
                raise NotFound("job", word)
        told = b"" if body is None else msgspec.json.encode(body)
        return Question(number=1, operation=operation, query=query, body=told, user=self._user)

    def _read(self, node: NodeId, told: Told, kind: type[T]) -> T:
        if told.status != OK:
            raise read_problem(node, told.body)
        try:
            said: T = self._ours(msgspec.json.decode(told.body, type=kind), node)
            return said  # noqa: TRY300
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise MeshUnreachable(node[:8], why="it answers what cannot be read") from None

    def _named(self, node: NodeId, error: MeshUnreachable) -> MeshUnreachable:
        return MeshUnreachable(self.around.name_of(node), why=error.why)


def find_node(word: str, around: Around) -> NodeId:
    """The node that a word means: its id, its name, or the beginning of its id."""
    found = node_among(word, {around.me: around.name_of(around.me), **around.live})
    if found is None:
        raise NotFound("node", word)
    return found
