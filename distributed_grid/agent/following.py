"""Output of a job, wherever it is written: from the node that runs it, through links that break.

Lives here: which node is read from, resuming by offset, going over to the next attempt. Never here:
files (`logs`), who knows a job (`finding`).
Invariant: of one attempt every byte is given once and in order, over any number of broken links;
the output of the next one begins at its beginning, as on one node, after that of those before it.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from typing import Final, NamedTuple

import msgspec

from distributed_grid.agent import Operations
from distributed_grid.agent.finding import Known
from distributed_grid.agent.remote import Remote
from distributed_grid.errors import GridError, MeshUnreachable, NotFound
from distributed_grid.model.ids import NodeId
from distributed_grid.wire.across_api import OutputPlace

PATIENCE_S: Final = 30.0  # Without a byte and without a link: longer than a machine restarts Grid.
AGAIN_S: Final = 0.5
BEGIN_S, BEGIN_S_MAX = 0.005, 0.25  # A job that waits long is looked at less often.
LOOK_S: Final = 2.0  # A quiet stream: does its job still write there?


class _Wanted(msgspec.Struct, frozen=True):
    stream: str
    index: int
    follow: bool


class _Source(NamedTuple):
    node: NodeId
    word: str  # What the job is called there.
    attempt: int = 0  # Of a copy: whose.


class Following:
    """Reads for one agent's clients."""

    def __init__(
        self,
        own: Operations,
        remote: Remote,
        locate: Callable[[str], Awaitable[Known]],
        *,
        clock_s: Callable[[], float],
    ) -> None:
        self._own, self._remote, self._locate, self._clock_s = own, remote, locate, clock_s
        self._around = remote.around

    async def read(
        self, word: str, *, stream: str, index: int, follow: bool, offset: int
    ) -> AsyncIterator[bytes]:
        """Output from an offset on; with `follow`, until the job has ended."""
        wanted, given = _Wanted(stream, index, follow), dict[str, int]()  # By word: so many bytes.
        place = await self._begun(await self.place(word, index=index), wanted)
        async for part in self._before(place, wanted, given, offset):
            yield part
        heard_s, again_s = self._clock_s(), BEGIN_S
        while True:
            try:
                async for part in self._watched(place, wanted, given[place.word]):
                    given[place.word] += len(part)
                    heard_s = self._clock_s()
                    yield part
                if not follow:
                    return
                now = await self.place(f"id:{place.job}", index=index)
                is_read = True
            except (MeshUnreachable, NotFound) as error:
                self._check_hope(place, wanted, error, heard_s)
                now, is_read = await self._replaced(place, index, error), False
            if now.word != place.word:
                async for part in self._over(place, now, wanted, given):
                    yield part
                again_s = BEGIN_S
            elif is_read and now.is_over:
                return
            elif is_read:  # Its home has not heard yet that it ended: its files come first.
                await asyncio.sleep(again_s)
                again_s = min(2 * again_s, AGAIN_S)
            place = now

    async def place(self, word: str, *, index: int) -> OutputPlace:
        """Where the output is; the node is always named."""
        known = await self._locate(word)
        job = f"id:{known.view.id}"
        if known.node == self._around.me:
            place = await self._own.across.output(job, index=index)
        else:
            words = {"job": job, "index": _told(index)}
            place = await self._remote.ask(known.node, "output", OutputPlace, words)
        whole = {"job": known.view.id, "node": known.node, "word": job}
        earlier = tuple(_filled(one, whole) for one in place.earlier)
        return msgspec.structs.replace(_filled(place, whole), earlier=earlier)

    async def _begun(self, place: OutputPlace, wanted: _Wanted) -> OutputPlace:
        """Once it runs somewhere, or never will: before that nobody knows where it will write."""
        look_s = BEGIN_S
        while wanted.follow and not place.attempt and not place.is_over:
            await asyncio.sleep(look_s)
            look_s = min(2 * look_s, BEGIN_S_MAX)
            with contextlib.suppress(MeshUnreachable):
                place = await self.place(f"id:{place.job}", index=wanted.index)
        return place

    async def _replaced(self, place: OutputPlace, index: int, error: GridError) -> OutputPlace:
        """Where it is now, as far as can be found out."""
        if isinstance(error, NotFound):
            return msgspec.structs.replace(place, node=self._copy_of(place))
        await asyncio.sleep(AGAIN_S)
        with contextlib.suppress(GridError):
            return await self.place(f"id:{place.job}", index=index)
        return place

    def _is_there(self, node: str) -> bool:
        return node == self._around.me or node in self._around.live

    def _copy_of(self, place: OutputPlace) -> str:
        """A node that is there and keeps the end of it; empty: none."""
        return next((node for node in place.copies if self._is_there(node)), "")

    def _source(self, place: OutputPlace) -> _Source:
        """Whom to read from: who ran it, or who keeps a copy, as its own job."""
        node = place.node if self._is_there(place.node) else self._copy_of(place) or place.node
        if node in place.copies:
            return _Source(NodeId(node), f"id:{place.job}", place.attempt)
        return _Source(NodeId(node), place.word)

    def _check_hope(
        self, place: OutputPlace, wanted: _Wanted, error: GridError, heard_s: float
    ) -> None:
        """Raise what is told to whoever reads, if nothing more is to be expected."""
        is_late = self._clock_s() - heard_s >= PATIENCE_S
        if is_late or self._is_hopeless(place, wanted, error):
            raise self._last_word(place, error) from None

    def _last_word(self, place: OutputPlace, error: GridError) -> GridError:
        """Where the output is, of a job that has ended."""
        if not place.is_over or self._is_there(place.node) or isinstance(error, NotFound):
            return error
        name = self._around.name_of(NodeId(place.node))
        return MeshUnreachable(name, why="what the job wrote is only there")

    def _is_hopeless(self, place: OutputPlace, wanted: _Wanted, error: GridError) -> bool:
        """Whether nobody who is there has it, and nobody waits for more."""
        if isinstance(error, NotFound):  # Who ran it has forgotten it; its home may have some.
            return self._copy_of(place) in ("", place.node)
        if wanted.follow and not place.is_over:
            return False
        return not any(self._is_there(node) for node in (place.node, *place.copies))

    def _parts(self, place: OutputPlace, wanted: _Wanted, position: int) -> AsyncIterator[bytes]:
        node, word, attempt = self._source(place)
        if node == self._around.me:
            return self._own.logs(
                word,
                stream=wanted.stream,
                index=wanted.index,
                follow=wanted.follow,
                offset=position,
                attempt=attempt,
            )
        words = {
            "job": word,
            "stream": wanted.stream,
            "index": _told(wanted.index),
            "follow": "1" if wanted.follow else "",
            "offset": str(position),
            "attempt": str(attempt),
        }
        return self._remote.stream(node, "logs", words)

    async def _over(
        self, place: OutputPlace, now: OutputPlace, wanted: _Wanted, given: dict[str, int]
    ) -> AsyncIterator[bytes]:
        """What is left of one attempt, and what came between it and another."""
        async for part in self._rest(place, wanted, given):
            yield part
        async for part in self._before(now, wanted, given):
            yield part

    async def _before(
        self, place: OutputPlace, wanted: _Wanted, given: dict[str, int], offset: int = 0
    ) -> AsyncIterator[bytes]:
        """The tries before this one, each once, from an offset on; those of one file together."""
        for one in place.earlier:
            if one.word != place.word and one.word not in given:
                async for part in self._rest(one, wanted, given):
                    kept = part[offset:]
                    offset -= len(part) - len(kept)
                    if kept:
                        yield kept
        given.setdefault(place.word, offset)

    async def _rest(
        self, place: OutputPlace, wanted: _Wanted, given: dict[str, int]
    ) -> AsyncIterator[bytes]:
        """What an attempt wrote before the next one began, as far as it can still be had."""
        position = given.setdefault(place.word, 0)
        with contextlib.suppress(GridError):
            async for part in self._parts(
                place, msgspec.structs.replace(wanted, follow=False), position
            ):
                given[place.word] += len(part)
                yield part

    async def _watched(
        self, place: OutputPlace, wanted: _Wanted, position: int
    ) -> AsyncIterator[bytes]:
        """The parts, until their stream ends or the job writes elsewhere."""
        parts = self._parts(place, wanted, position)
        if not wanted.follow:
            async for whole in parts:
                yield whole
            return
        upcoming: asyncio.Task[bytes | None] | None = None
        async with aclosing(_closable(parts)) as closable:
            try:
                while True:
                    upcoming = upcoming or asyncio.create_task(_next(closable))
                    done, _ = await asyncio.wait({upcoming}, timeout=LOOK_S)
                    if done:
                        part, upcoming = upcoming.result(), None
                        if part is None:
                            return
                        yield part
                    elif await self._has_moved(place, wanted.index):
                        return
            finally:
                if upcoming is not None:
                    upcoming.cancel()
                    await asyncio.gather(upcoming, return_exceptions=True)

    async def _has_moved(self, place: OutputPlace, index: int) -> bool:
        with contextlib.suppress(GridError):
            now = await self.place(f"id:{place.job}", index=index)
            return now.word != place.word
        return False


def _filled(place: OutputPlace, whole: dict[str, str]) -> OutputPlace:
    """A place, with what its node left out."""
    told = {name: getattr(place, name) or value for name, value in whole.items()}
    return msgspec.structs.replace(place, **told)


async def _closable(parts: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
    async for part in parts:
        yield part


async def _next(parts: AsyncGenerator[bytes, None]) -> bytes | None:
    return await anext(parts, None)


def _told(index: int) -> str:
    return str(index) if index >= 0 else ""
