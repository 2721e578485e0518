"""Questions to other nodes, and theirs to this one: both ends of every conversation.

Lives here: numbers, room for parts, time limits, links that break. Never here: what is answered
(whoever is plugged in: `web.asked`), who knows what (`anywhere`), links (`mesh_links`).
Invariant: a peer has no more answers under way than its account has room for, each with `WINDOW`
parts at most; when its link breaks, or it says `NoMore`, all work for it ends; whoever asked it is
told.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Final, NamedTuple, Protocol

import msgspec

from distributed_grid.agent.asking import AskingEnd
from distributed_grid.agent.blast_door import in_words
from distributed_grid.errors import GridError, NotFound, NotPermitted, Overloaded
from distributed_grid.kernel.accounts import LIMITS, TOO_MUCH, ByteAccounts, Rank
from distributed_grid.model.ids import NodeId
from distributed_grid.model.membership import Role
from distributed_grid.wire.problems import OK, problem_of, status_of
from distributed_grid.wire.questions import (
    ASKED,
    PART_BYTES_MAX,
    WINDOW,
    Answer,
    AnswerPart,
    More,
    NoMore,
    Question,
    QuestionMessage,
)

ANSWER_BYTES: Final = WINDOW * PART_BYTES_MAX  # Of each that is under way.
STALL_S: Final = 600.0  # Nobody reads on: a person may look at a page of a log so long.


class Asker(NamedTuple):
    """Who asks: a user of another node, on the word of that node."""

    node: NodeId
    name: str  # The node's, as certified.
    roles: tuple[Role, ...]
    user: str = ""
    is_own: bool = False  # A machine of the same person as this one.

    @property
    def is_guest(self) -> bool:
        """Whether it may ask about its own jobs only."""
        return "guest" in self.roles and not {"admin", "member"} & set(self.roles)

    @property
    def rank(self) -> Rank:
        """How much of this node its questions may take up."""
        if self.is_own:
            return "own"
        return "guest" if self.is_guest else "member"  # Workers of maps ask much.


class Piece(NamedTuple):
    """Some of an answer; the first one's status counts."""

    status: int
    body: bytes


Answering = Callable[[Asker, Question], AsyncGenerator[Piece, None]]


class Way(Protocol):
    """The job lane to every peer, as far as questions need it."""

    def send(self, peer: NodeId, message: QuestionMessage) -> bool:
        """Send, in order. False: there is no link, and it is being dialled; nothing was sent.

        What was taken and cannot be sent is dropped, and `Questions.lost` is called.
        """
        ...

    async def drained(self, peer: NodeId) -> None:
        """Until less is on its way to this peer."""
        ...


class _Open:
    """An answer under way."""

    def __init__(self, peer: NodeId, question: Question) -> None:
        self.peer, self.number, self.operation = peer, question.number, question.operation
        self.room = question.parts  # Parts that may still be sent.
        self.more = asyncio.Event()
        self.is_begun = False
        self.task: asyncio.Task[None] | None = None


class Questions:
    """Both ends, of one node."""

    def __init__(
        self,
        way: Way,
        *,
        answering: Answering,
        asker: Callable[[NodeId], Asker | None],
        blame: Callable[[NodeId, str, str], None],
    ) -> None:
        self.asking = AskingEnd(way.send)
        self.junk = 0  # Words about questions that nobody asked, and the like.
        self.refused = 0
        self.begun = 0  # Answers, so far.
        self._way, self._answering, self._asker, self._blame = way, answering, asker, blame
        self._open: dict[tuple[NodeId, int], _Open] = {}
        self._accounts = ByteAccounts(LIMITS["questions"])

    def told(self, peer: NodeId, message: QuestionMessage) -> None:
        """A message of a peer."""
        match message:
            case Question():
                self._begin(peer, message)
            case Answer() | AnswerPart():
                self.junk += not self.asking.told(peer, message)
            case More():
                self._allow(peer, message)
            case NoMore():
                self._end(peer, message.number)

    def lost(self, peer: NodeId, why: str) -> None:
        """The link with a peer is broken, or the peer is dead."""
        self.asking.lost(peer, why)
        for other, number in list(self._open):
            if other == peer:
                self._end(peer, number)

    async def close(self) -> None:
        """End everything."""
        self.asking.close()
        tasks = [one.task for one in self._open.values() if one.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    @property
    def answers(self) -> int:
        """How many answers are under way."""
        return len(self._open)

    # Answering

    def _begin(self, peer: NodeId, question: Question) -> None:
        if (peer, question.number) in self._open:
            self.junk += 1  # The same number twice: the first one is being answered.
            return
        asker = self._asker(peer)
        error = self._refusal(peer, asker, question)
        if error is not None:
            self.refused += 1
            self._way.send(peer, _refused(question.number, error))
            return
        assert asker is not None, "who is nobody was refused"
        one = self._open[peer, question.number] = _Open(peer, question)
        self._accounts.add(peer, ANSWER_BYTES)
        self.begun += 1
        named = asker._replace(user=question.user)
        one.task = asyncio.get_running_loop().create_task(self._answer(one, named, question))
        one.task.add_done_callback(lambda task: self._over(one, task))

    def _refusal(self, peer: NodeId, asker: Asker | None, question: Question) -> GridError | None:
        if asker is None:
            return _forbidden("only members of the mesh may ask")
        if question.operation not in ASKED:
            return NotFound("path", question.operation)
        if set(asker.roles) <= {"worker"} and not ASKED[question.operation].by_workers:
            return _forbidden("a worker lends, and asks nothing")
        if asker.is_guest and not ASKED[question.operation].by_guests:
            return _forbidden("a guest asks about its own jobs only")
        if ASKED[question.operation].by_owner and not (asker.is_own or "admin" in asker.roles):
            what = f"{asker.name} is not a machine of the owner here, nor an admin's"
            remedy = (
                f"Ask the owner or an admin to do it: grid {question.operation}; see: grid nodes"
            )
            return NotPermitted(what, remedy=remedy)
        if not self._accounts.has_room(peer, asker.rank, ANSWER_BYTES):
            most = self._accounts.most(asker.rank) // ANSWER_BYTES
            return Overloaded(f"open questions of this node: {TOO_MUCH}", most=most)
        return None

    async def _answer(self, one: _Open, asker: Asker, question: Question) -> None:
        try:
            async with aclosing(self._answering(asker, question)) as pieces:
                await self._pass_on(one, pieces, is_stream=ASKED[question.operation].is_stream)
        except TimeoutError:
            self._break_off(one, Overloaded("parts that nobody reads", most=WINDOW))
        except GridError as error:
            self._break_off(one, error)
        except Exception as error:
            self._break_off(one, _our_fault(error))
            raise

    async def _pass_on(
        self, one: _Open, pieces: AsyncGenerator[Piece, None], *, is_stream: bool
    ) -> None:
        """What streams goes out as it comes; else one part is kept, to say that it is the last."""
        status, kept = OK, b""
        async for piece in pieces:
            status, body = piece
            for start in range(0, len(body), PART_BYTES_MAX):
                if kept:
                    await self._give(one, status, kept)
                kept = body[start : start + PART_BYTES_MAX]
            if is_stream and kept:
                await self._give(one, status, kept)
                kept = b""
        await self._give(one, status, kept, is_last=True)

    async def _give(self, one: _Open, status: int, body: bytes, *, is_last: bool = False) -> None:
        """Send a part, once the asker and the link have room for it."""
        async with asyncio.timeout(STALL_S):
            while not one.room:
                one.more.clear()
                await one.more.wait()
            await self._way.drained(one.peer)
        one.room -= 1
        number, was_begun, one.is_begun = one.number, one.is_begun, True
        self._way.send(
            one.peer,
            AnswerPart(number=number, body=body, is_last=is_last)
            if was_begun
            else Answer(number=number, status=status, body=body, is_last=is_last),
        )

    def _break_off(self, one: _Open, error: GridError) -> None:
        """Say why there is no more; also if there is no room, for nothing comes after it."""
        if one.is_begun:
            body = msgspec.json.encode(problem_of(error))[:PART_BYTES_MAX]
            part = AnswerPart(number=one.number, body=body, is_last=True, is_problem=True)
            self._way.send(one.peer, part)
        else:
            self._way.send(one.peer, _refused(one.number, error))

    def _allow(self, peer: NodeId, more: More) -> None:
        one = self._open.get((peer, more.number))
        if one is None:
            return  # It was over before this was heard.
        if one.room + more.parts > WINDOW:
            self.junk += 1
            return
        one.room += more.parts
        one.more.set()

    def _end(self, peer: NodeId, number: int) -> None:
        one = self._open.get((peer, number))
        if one is not None and one.task is not None:
            self._forget(one)  # At once: after a new start a peer counts from one again.
            one.task.cancel()

    def _forget(self, one: _Open) -> None:
        if self._open.get((one.peer, one.number)) is one:
            del self._open[one.peer, one.number]
            self._accounts.add(one.peer, -ANSWER_BYTES)

    def _over(self, one: _Open, task: asyncio.Task[None]) -> None:
        self._forget(one)
        error = None if task.cancelled() else task.exception()
        if error is not None:  # A mistake of ours, which costs whoever found it its link.
            self._blame(one.peer, f"question ({one.operation})", in_words(error))


def _refused(number: int, error: GridError) -> Answer:
    body = msgspec.json.encode(problem_of(error))[:PART_BYTES_MAX]
    return Answer(number=number, status=status_of(error), body=body)


def _our_fault(error: Exception) -> GridError:
    what = f"the other node made a mistake: {type(error).__name__}"
    return GridError(what, remedy="Please report its log")


def _forbidden(what: str) -> NotPermitted:
    return NotPermitted(what, remedy="Ask an admin of the mesh for another role, see: grid nodes")
