"""Workers of maps on other nodes than their map: what they ask goes to its home, and back.

Lives here: passing it on, in parts where it is long, and putting the parts together. Never here:
who gets which call (`maps`, `kernel.calls`), questions themselves (`questions`).
Invariant: a worker cannot tell whether its map is on this node or another; what is being put
together is bounded for each node and for all of them.
"""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable, Mapping
from itertools import count
from typing import Final

import msgspec

from distributed_grid.agent import MapOperations, Operations
from distributed_grid.agent.maps import Maps
from distributed_grid.agent.questions import Asker
from distributed_grid.agent.remote import Remote
from distributed_grid.agent.shipping_in import NotFetched
from distributed_grid.agent.values import Values
from distributed_grid.errors import BadValue, MeshUnreachable, NotFound, Overloaded
from distributed_grid.model.artifact import ManifestId
from distributed_grid.model.ids import JobId, NodeId
from distributed_grid.wire.api import REQUEST_BYTES_MAX
from distributed_grid.wire.maps import (
    FeedMap,
    MapNews,
    OpenMap,
    TakeCalls,
    TakenCalls,
    ValueHere,
    WantValue,
)
from distributed_grid.wire.questions import PART_BYTES_MAX, Question

# The operations, in `wire.questions.ASKED`.
TAKE, PART, VALUE = "take_calls", "take_part", "map_value"
HomeOf = Callable[[JobId], NodeId | None]
AT_ONCE: Final = 8  # Parts on their way; with 32 KiB each that is 5 MB/s over a link of 50 ms.
LONG_S: Final = 60.0  # For the calls of one answer: 48 MB over a link of 1 MB/s.
UPLOADS_MAX: Final = 64  # Of one node: its workers tell one after the other.
ROOM_BYTES: Final = 4 * REQUEST_BYTES_MAX  # Of all that is being put together.
STALE_S: Final = 60.0  # Nobody goes on with it: its worker or its link is gone.


class FarMaps:
    """`MapOperations` of one agent, for its own clients and for workers of any node's map."""

    def __init__(
        self, own: Operations, remote: Remote, home_of: HomeOf, values: Values | None = None
    ) -> None:
        self._own, self._remote, self._home_of, self._values = own, remote, home_of, values
        self._numbers, self._start = count(1), os.urandom(8).hex()

    @property
    def _maps(self) -> MapOperations:
        return self._own.maps

    async def take(self, map_id: str, wanted: TakeCalls) -> TakenCalls:
        """Calls for a worker here, of a map that is here or at the home of its job."""
        try:
            return await self._maps.take(map_id, wanted)
        except NotFound:
            home = self._home_of(wanted.job)
            if home is None:
                raise
        body, words = msgspec.msgpack.encode(wanted), {"map": map_id}
        if len(body) > PART_BYTES_MAX:
            words["upload"] = await self._upload(home, body)
            body = b""
        answer = await self._remote.ask_bytes(
            home,
            TAKE,
            words,
            body,
            wait_s=LONG_S + wanted.wait_ms / 1_000,
            bytes_max=REQUEST_BYTES_MAX,
        )
        try:
            return msgspec.msgpack.decode(answer, type=TakenCalls)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise NotFound("map", map_id) from None  # Whoever says such things has none.

    async def value(self, map_id: str, wanted: WantValue) -> ValueHere:
        """Where a large value is, brought here if its map is elsewhere."""
        try:
            return await self._maps.value(map_id, wanted)
        except NotFound:
            home = self._home_of(wanted.job)
            if home is None or self._values is None:
                raise
        words = {"map": map_id, "job": wanted.job, "value": wanted.value}
        answer = await self._remote.ask_bytes(home, VALUE, words, b"", wait_s=LONG_S)
        manifest = ManifestId(answer.decode(errors="replace"))
        try:
            return ValueHere(path=await self._values.brought(home, manifest))
        except NotFetched as error:
            raise MeshUnreachable(self._remote.around.name_of(home), why=error.message) from error

    async def _upload(self, home: NodeId, body: bytes) -> str:
        """Tell a long question in parts, any order; the word under which they are kept there."""
        # Never one that was used before a restart: parts of two wholes would not fit together.
        word, turns = f"{self._start}.{next(self._numbers)}", asyncio.Semaphore(AT_ONCE)

        async def tell(start: int) -> None:
            words = {"upload": word, "offset": str(start), "size": str(len(body))}
            async with turns:
                part = body[start : start + PART_BYTES_MAX]
                await self._remote.ask_bytes(home, PART, words, part)

        try:
            async with asyncio.TaskGroup() as tasks:
                for start in range(0, len(body), PART_BYTES_MAX):
                    tasks.create_task(tell(start))
        except ExceptionGroup as group:
            raise group.exceptions[0] from None
        return word

    # What only this node's own clients ask

    async def open(self, wanted: OpenMap) -> None:
        """Begin a map, or bring more workers to it."""
        await self._maps.open(wanted)

    async def feed(self, map_id: str, fed: FeedMap) -> MapNews:
        """Take calls; answers when there are outcomes, or the time is over."""
        return await self._maps.feed(map_id, fed)

    def hold(self, map_id: str) -> AsyncIterator[bytes]:
        """Says nothing, for as long as the map lives."""
        return self._maps.hold(map_id)

    async def close(self, map_id: str) -> None:
        """End a map and its workers."""
        await self._maps.close(map_id)


class _Upload:
    """A question that is being put together."""

    def __init__(self, size: int, now_s: float) -> None:
        self.body = bytearray(size)
        self.missing = set(range(0, size, PART_BYTES_MAX))
        self.touched_s = now_s


class FarWorkers:
    """The home's side: answers workers of its maps that run elsewhere."""

    def __init__(self, maps: Maps, *, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._maps, self._clock_s = maps, clock_s
        self._uploads: dict[tuple[NodeId, str], _Upload] = {}

    async def answer(self, asker: Asker, question: Question) -> bytes:
        """What a worker of another node asks, or some of it."""
        if question.operation == PART:
            self._put(asker.node, question.query, question.body)
            return b""
        words = question.query
        if question.operation == VALUE:
            asked = WantValue(job=JobId(words.get("job", "")), value=words.get("value", ""))
            return (await self._maps.value_far(asker.node, words.get("map", ""), asked)).encode()
        body = question.body
        if upload := question.query.get("upload"):
            body = self._whole(asker.node, upload)
        try:
            wanted = msgspec.msgpack.decode(body, type=TakeCalls)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise _bad(str(error), "a TakeCalls") from None
        taken = await self._maps.take_far(asker.node, question.query.get("map", ""), wanted)
        return msgspec.msgpack.encode(taken)

    def _put(self, node: NodeId, query: Mapping[str, str], part: bytes) -> None:
        size, offset = _number(query, "size"), _number(query, "offset")
        if not 0 < size <= REQUEST_BYTES_MAX or offset % PART_BYTES_MAX or offset >= size:
            raise _bad(size, f"a part of at most {REQUEST_BYTES_MAX} bytes")
        key = (node, query.get("upload", ""))
        upload = self._uploads.get(key)
        if upload is None:
            self._make_room(node, size)
            upload = self._uploads[key] = _Upload(size, self._clock_s())
        if len(upload.body) != size or len(part) != min(PART_BYTES_MAX, size - offset):
            raise _bad(len(part), "parts of one whole")
        upload.body[offset : offset + len(part)] = part
        upload.missing.discard(offset)
        upload.touched_s = self._clock_s()

    def _make_room(self, node: NodeId, size: int) -> None:
        now_s = self._clock_s()
        for key, upload in list(self._uploads.items()):
            if now_s - upload.touched_s > STALE_S:
                del self._uploads[key]
        if sum(one == node for one, _ in self._uploads) >= UPLOADS_MAX:
            raise Overloaded("long results of this node", most=UPLOADS_MAX)
        if sum(len(one.body) for one in self._uploads.values()) + size > ROOM_BYTES:
            raise Overloaded("bytes of results of other nodes", most=ROOM_BYTES)

    def _whole(self, node: NodeId, word: str) -> bytes:
        upload = self._uploads.pop((node, word), None)
        if upload is None or upload.missing:
            raise Overloaded("parts that were lost; tell them again", most=ROOM_BYTES)
        return bytes(upload.body)


def _number(query: Mapping[str, str], name: str) -> int:
    told = query.get(name, "")
    if not (told.isascii() and told.isdigit() and len(told) <= 12):
        raise _bad(told, f"a number for {name}")
    return int(told)


def _bad(value: object, expected: str) -> BadValue:
    return BadValue(value, expected=expected, remedy="Its agent is of another version", field="")
