"""This end of a link: what memory and iroh have in common.

Lives here: lanes in and out, trust, limits, the order of closing. Never here: how bytes travel.
Invariant: `closed` is set before the last message is taken from a closed link, and nothing is sent
after it; nothing is taken to be sent once closing has begun.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial

from distributed_grid.edges.transport import (
    LANES,
    Counters,
    Datagram,
    Lane,
    Limits,
    LinkClosed,
    PathInfo,
    TooLarge,
)
from distributed_grid.edges.transport.inbox import Inbox
from distributed_grid.edges.transport.outbox import Outbox
from distributed_grid.model.ids import NodeId


class LinkEnd(ABC):
    """One end; see `Link`."""

    def __init__(
        self,
        *,
        peer: NodeId,
        remote_address: str,
        is_dialled: bool,
        limits: Limits,
        counters: Counters,
    ) -> None:
        self.peer, self.remote_address, self.is_dialled = peer, remote_address, is_dialled
        self.closed = asyncio.Event()
        self.why_closed = ""
        self.limits, self.counters = limits, counters
        self.inbox = Inbox(limits.queue_bytes)
        self.outboxes: dict[Lane, Outbox] = {
            lane: Outbox(
                queue_bytes=limits.queue_bytes,
                write=partial(self._write, lane),
                stalled_ms=limits.stalled_ms,
                on_stalled=self._stalled,
            )
            for lane in LANES
        }
        self.is_trusted = False
        self._take_datagram: Callable[[Datagram], None] | None = None  # Who takes them at once.
        self._may_talk = asyncio.Event()  # On lanes other than control; set at the end, too.
        self._closing: asyncio.Task[None] | None = None
        self.opened_s = self.heard_s = asyncio.get_running_loop().time()

    async def send(self, message: bytes, *, lane: Lane = "control") -> None:
        """See `Link`."""
        limit = self.limits.message_limit(lane, is_member=True)
        if len(message) > limit:
            raise TooLarge(len(message), limit)
        is_taken = not self.closed.is_set() and await self.outboxes[lane].put(message)
        if not is_taken:
            raise LinkClosed(self.peer, self.why_closed)

    async def receive(self) -> tuple[Lane, bytes] | None:
        """See `Link`."""
        return await self.inbox.take()

    async def receive_datagrams(self) -> list[Datagram]:
        """See `Link`."""
        return await self.inbox.take_datagrams()

    def hand_datagrams(self, take: Callable[[Datagram], None]) -> None:
        """See `Link`."""
        self._take_datagram = take
        for datagram in self.inbox.waiting_datagrams():
            take(datagram)

    def trust(self) -> None:
        """See `Link`."""
        self.is_trusted = True
        self._may_talk.set()

    async def close(self, reason: str = "") -> None:
        """See `Link`."""
        if self._closing is None:
            self._finish(reason)
            self._closing = asyncio.create_task(self._close(reason))
        await asyncio.shield(self._closing)

    @abstractmethod
    def send_datagram(self, data: bytes) -> None:
        """See `Link`."""

    @abstractmethod
    def path(self) -> PathInfo:
        """See `Link`."""

    @abstractmethod
    def received_bytes(self) -> int:
        """Everything that came over it, read or not."""

    def abort(self, why: str) -> None:
        """Close at once, without last words."""
        self._ended(why)
        self._hang_up(why)

    def malformed(self, why: str) -> None:
        """What came is no message of ours, or too long."""
        if not self.closed.is_set():
            self.counters.malformed += 1
            self.abort(f"malformed: {why}")

    async def limit_of_next(self, lane: Lane) -> int:
        """How long the next message may be; of a stranger only once somebody asks for it."""
        if not self.is_trusted:
            await (self.inbox.asked() if lane == "control" else self._may_talk.wait())
        return self.limits.message_limit(lane, is_member=self.is_trusted)

    async def deliver(self, lane: Lane, message: bytes) -> None:
        """A whole message came."""
        self.heard_s = asyncio.get_running_loop().time()
        await self.inbox.put(lane, message)

    def deliver_datagram(self, data: bytes, waited_us: int = 0) -> None:
        """A datagram came; a stranger's are nobody's business."""
        if self.is_trusted and self._take_datagram is not None:
            self._take_datagram(Datagram(data, waited_us))
        elif not self.is_trusted or not self.inbox.put_datagram(Datagram(data, waited_us)):
            self.counters.datagrams_dropped += 1

    @abstractmethod
    async def _write(self, lane: Lane, batch: list[bytes]) -> None:
        """Send these; an error closes the link and is not raised."""

    @abstractmethod
    async def _farewell(self) -> None:
        """See to it that what was written arrives, as far as it can be seen."""

    @abstractmethod
    def _hang_up(self, why: str) -> None:
        """Close the connection itself; the inbox is closed when its last message is in."""

    def _finish(self, why: str) -> None:
        # What was taken after the farewell could not be sent, and would end the link in the middle
        # of it: what was taken before would be lost.
        if not self.closed.is_set():
            self.why_closed = why  # For whoever is refused.
            for outbox in self.outboxes.values():
                outbox.finish()

    def _ended(self, why: str) -> None:
        if not self.closed.is_set():
            self.why_closed = why
            self.closed.set()
            self._may_talk.set()
            for outbox in self.outboxes.values():
                outbox.close()

    def _stalled(self) -> None:
        self.counters.stalled += 1
        self.abort("the peer does not read")

    async def _close(self, reason: str) -> None:
        if self.closed.is_set():
            return
        try:
            async with asyncio.timeout(self.limits.farewell_ms / 1000):
                for outbox in self.outboxes.values():
                    await outbox.drained()
                await self._farewell()
        except TimeoutError:
            pass  # A peer that does not listen cannot be told.
        self._ended(reason)
        self._hang_up(reason)
