"""The asking end of questions: who was asked what, what has come of it, what it may still cost.

Lives here: one conversation from its question to the last part of its answer. Never here: the other
end (`questions`), what the answers mean (`anywhere`).
Invariant: every conversation ends: with its last part, an error, a time limit, or because its
reader has gone; and then the peer is told, if it could still be at work for it.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable
from typing import Final, NamedTuple

import msgspec

from distributed_grid.errors import GridError, MeshUnreachable, Overloaded
from distributed_grid.model.ids import NodeId
from distributed_grid.wire.api import Problem
from distributed_grid.wire.problems import OK, error_of
from distributed_grid.wire.questions import (
    WINDOW,
    Answer,
    AnswerPart,
    More,
    NoMore,
    Question,
    QuestionMessage,
)

ASKED_MAX: Final = 1_024  # Conversations under way, at 128 KiB each.
ANSWER_S: Final = 10.0  # For a whole answer, beyond what was asked to be waited for.
ANSWER_BYTES_MAX: Final = 16 << 20  # Of a whole answer: 10,000 jobs of a page.

LINK_S: Final = 5.0  # For a link with a node that is no neighbour: some round trips, a few tries.
AGAIN_S: Final = 0.05

Send = Callable[[NodeId, QuestionMessage], bool]  # False: there is no link; it is being dialled.


class LinkLost(MeshUnreachable):
    """The link broke in the middle of an answer; there may be another in a moment."""


class Told(NamedTuple):
    """An answer as a whole."""

    status: int
    body: bytes


class _Asked:
    """One conversation."""

    def __init__(self, peer: NodeId, number: int) -> None:
        self.peer, self.number = peer, number
        self.parts: deque[bytes] = deque()
        self.room = WINDOW  # What the peer may still send.
        self.status = 0  # Until its answer begins.
        self.is_over = False
        self.is_done = False  # The peer does nothing for it any more.
        self.error: GridError | None = None
        self.changed = asyncio.Event()

    def end(self, error: GridError | None = None, *, is_done: bool = True) -> None:
        """Nothing more is heard."""
        self.is_over, self.is_done, self.error = True, is_done, error
        self.changed.set()


class AskingEnd:
    """Everything this node has asked."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._asked: dict[tuple[NodeId, int], _Asked] = {}
        self._numbers = self._dialling = 0
        self.asked = 0  # So far.

    async def ask(
        self,
        peer: NodeId,
        question: Question,
        *,
        wait_s: float = 0,
        bytes_max: int | None = None,
    ) -> Told:
        """The whole answer. Raises MeshUnreachable if none comes in time, or the link breaks."""
        most = ANSWER_BYTES_MAX if bytes_max is None else bytes_max
        body, one = bytearray(), await self._open(peer, question)
        try:
            async with asyncio.timeout(ANSWER_S + wait_s):
                while (part := await self._next(one)) is not None:
                    body += part
                    if len(body) > most:
                        raise _gone(peer, f"its answer is longer than {most} bytes")
        except TimeoutError:
            raise _gone(peer, f"it did not answer within {ANSWER_S + wait_s:g} s") from None
        finally:
            self._close(one)
        return Told(one.status, bytes(body))

    async def stream(self, peer: NodeId, question: Question) -> AsyncGenerator[bytes, None]:
        """The answer as it comes. Raises the problem that it turns out to be, MeshUnreachable."""
        one = await self._open(peer, question)
        try:
            while (part := await self._next(one)) is not None:
                if one.status != OK:
                    raise read_problem(peer, part)
                if part:
                    yield part
        finally:
            self._close(one)

    def told(self, peer: NodeId, message: Answer | AnswerPart) -> bool:
        """Some of an answer; False if it is junk: nobody asked, or there is no room for it."""
        one = self._asked.get((peer, message.number))
        if one is None or one.is_over:
            return False
        if isinstance(message, Answer) == bool(one.status):
            one.end(_gone(peer, "it answers out of order"), is_done=False)
            return False
        if isinstance(message, Answer):
            one.status = message.status
        elif message.is_problem:
            one.end(read_problem(peer, message.body))
            return True
        if not one.room:
            one.end(_gone(peer, "it says more than there is room for"), is_done=False)
            return False
        one.room -= 1
        one.parts.append(message.body)
        if message.is_last:
            one.end()
        one.changed.set()
        return True

    def lost(self, peer: NodeId, why: str) -> None:
        """The link with a peer is broken."""
        for one in [one for one in self._asked.values() if one.peer == peer]:
            if not one.is_over:
                one.end(LinkLost(peer[:8], why=why or "the link is broken"))

    def close(self) -> None:
        """Whoever waits for an answer waits no longer."""
        for one in self._asked.values():
            if not one.is_over:
                one.end(_gone(one.peer, "this agent goes down"), is_done=False)

    def __len__(self) -> int:
        return len(self._asked)

    async def _open(self, peer: NodeId, question: Question) -> _Asked:
        if len(self._asked) + self._dialling >= ASKED_MAX:
            raise Overloaded("questions to other nodes", most=ASKED_MAX)
        self._numbers += 1
        asked = msgspec.structs.replace(question, number=self._numbers, parts=WINDOW)
        self._dialling += 1
        try:
            async with asyncio.timeout(LINK_S):
                while not self._send(peer, asked):  # noqa: ASYNC110  (nobody tells of links)
                    await asyncio.sleep(AGAIN_S)
        except TimeoutError:
            raise _gone(peer, f"no link with it within {LINK_S:g} s") from None
        finally:
            self._dialling -= 1
        self.asked += 1
        one = self._asked[peer, asked.number] = _Asked(peer, asked.number)
        return one

    async def _next(self, one: _Asked) -> bytes | None:
        """The next part; None after the last."""
        while not one.parts:
            if one.error is not None:
                raise one.error
            if one.is_over:
                return None
            one.changed.clear()
            await one.changed.wait()
        part = one.parts.popleft()
        if not one.is_over:  # Only what is read makes room.
            one.room += 1
            self._send(one.peer, More(number=one.number))
        return part

    def _close(self, one: _Asked) -> None:
        del self._asked[one.peer, one.number]
        if not one.is_done:
            self._send(one.peer, NoMore(number=one.number))


def read_problem(peer: NodeId, body: bytes) -> GridError:
    """The error that a peer tells."""
    try:
        return error_of(msgspec.json.decode(body, type=Problem))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _gone(peer, "it says what cannot be read")


def _gone(peer: NodeId, why: str) -> MeshUnreachable:
    return MeshUnreachable(peer[:8], why=why)
