"""A link over an iroh connection: a stream for each lane and direction, and datagrams.

Lives here: opening, reading and writing them. Never here: dialling and accepting (`iroh_endpoint`).
Invariant: whoever writes a stream opened it; a peer has one stream for each lane, and no other.
"""

import asyncio
import re
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, Final

from iroh import Connection, Endpoint, IrohError, SendStream

from distributed_grid.edges.transport import LANES, Counters, Lane, Limits, PathInfo, iroh_waking
from distributed_grid.edges.transport.end import LinkEnd
from distributed_grid.edges.transport.iroh_reading import LENGTH_BYTES, read_lane
from distributed_grid.model.ids import NodeId

WRITE_BYTES: Final = 64 << 10  # Written at once; the least progress that a slow peer must make.
CLOSE_CODE: Final = 0
REASON_BYTES_MAX: Final = 200
_CLOSED_BY_PEER: Final = re.compile(r"closed by peer: (.*) \(code \d+\)", re.DOTALL)


class IrohLink(LinkEnd):
    """One end; see `Link`."""

    def __init__(
        self,
        connection: Connection,
        *,
        endpoint: Endpoint,
        remote_address: str,
        is_dialled: bool,
        limits: Limits,
        counters: Counters,
    ) -> None:
        super().__init__(
            peer=NodeId(str(connection.remote_id())),
            remote_address=remote_address,
            is_dialled=is_dialled,
            limits=limits,
            counters=counters,
        )
        self._connection = connection
        self._endpoint: Endpoint | None = endpoint  # If it is collected, its connections break.
        self._path = PathInfo()
        self._streams: dict[Lane, SendStream] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self.on_gone: Callable[[IrohLink], None] = lambda _: None
        connection.set_max_concurrent_uni_streams(len(LANES))
        connection.set_max_concurrent_bi_streams(0)
        self._readers = [self._begin(self._read_streams())]
        self._begin(self._read_datagrams())
        self._begin(self._refuse_two_way_streams())
        self._begin(self._watch())

    def send_datagram(self, data: bytes) -> None:
        """See `Link`."""
        try:
            self._connection.send_datagram(data)
        except IrohError:  # Too large for the path, or closed.
            self.counters.datagrams_dropped += 1

    def path(self) -> PathInfo:
        """See `Link`."""
        if self.closed.is_set():
            return PathInfo()
        # After a change of the network iroh may use a path for minutes without calling it selected,
        # or without naming any: then what was seen last is the best that is known.
        paths = self._connection.paths()
        if paths:
            path = min(paths, key=lambda each: (not each.is_selected, each.is_relay))
            self._path = PathInfo(
                kind="relayed" if path.is_relay else "direct",
                address=path.remote_addr,
                rtt_us=path.rtt_ms * 1000,
            )
        elif self._path.kind == "none" and self.remote_address:
            # Under load it may name none from the beginning; who dialled us came from an address.
            self._path = PathInfo(kind="direct", address=self.remote_address)
        return self._path

    def received_bytes(self) -> int:
        """See `LinkEnd`."""
        return self._connection.stats().udp_rx_bytes

    async def gone(self) -> None:
        """Return when nothing of it runs any more."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def _write(self, lane: Lane, batch: list[bytes]) -> None:
        outbox = self.outboxes[lane]
        begin = b""
        try:
            stream = self._streams.get(lane)
            if stream is None:
                stream = self._streams[lane] = await self._connection.open_uni()
                await stream.set_priority(len(LANES) - LANES.index(lane))
                begin = bytes([LANES.index(lane)])
            for piece in _pieces(begin, batch):
                await stream.write_all(piece)
                outbox.moved()
        except IrohError as error:
            self.abort(cause(error))

    async def _farewell(self) -> None:
        try:
            for stream in self._streams.values():
                await stream.finish()
                await stream.stopped()  # Returns when the peer has acknowledged all of it.
        except IrohError:
            pass  # It left first.

    def _hang_up(self, why: str) -> None:
        self._connection.close(CLOSE_CODE, why.encode()[:REASON_BYTES_MAX])

    async def _read_streams(self) -> None:
        count = 0
        try:
            while True:
                stream = await self._connection.accept_uni()
                count += 1
                if count > len(LANES):
                    self.malformed("too many streams")
                    return
                self._readers.append(self._begin(read_lane(stream, self)))
        except IrohError:
            return

    async def _refuse_two_way_streams(self) -> None:
        try:
            await self._connection.accept_bi()
        except IrohError:
            return
        self.malformed("a two-way stream")

    async def _read_datagrams(self) -> None:
        try:
            while True:
                read = self._connection.read_datagram
                self.deliver_datagram(*await iroh_waking.patiently(read))
        except IrohError:
            return

    async def _watch(self) -> None:
        told = await self._connection.closed()
        by_peer = _CLOSED_BY_PEER.fullmatch(told)
        self._ended(by_peer[1] if by_peer else told)
        # What had arrived before the end is still read, for as long as somebody takes it.
        await asyncio.wait(self._readers[:1])
        await asyncio.wait(self._readers, timeout=self.limits.farewell_ms / 1000)
        self.inbox.close()
        self._endpoint = None
        self.on_gone(self)

    def _begin(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


def _pieces(begin: bytes, batch: list[bytes]) -> Iterator[Any]:
    """What is written at once, piece by piece.

    A view goes over as it is: of a long message only the first piece is joined to what stands
    before it, and so copied.
    """
    parts = [begin]
    size = len(begin)
    for body in batch:
        room = max(WRITE_BYTES - size - LENGTH_BYTES, 0)
        parts += [len(body).to_bytes(LENGTH_BYTES, "big"), body[:room]]
        size += LENGTH_BYTES + min(room, len(body))
        if len(body) < room:
            continue
        yield b"".join(parts)
        parts, size = [], 0
        rest = memoryview(body)[room:]
        for start in range(0, len(rest), WRITE_BYTES):
            yield rest[start : start + WRITE_BYTES]
    if size:
        yield b"".join(parts)


def cause(error: IrohError) -> str:
    """The innermost line of what iroh tells; the others name its source files."""
    return error.message().strip().splitlines()[-1].strip()
