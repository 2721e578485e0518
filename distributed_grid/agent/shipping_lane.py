"""What one node has to say to one peer about files, and what it hears from it.

Lives here: whose turn it is to speak. Never here: from the disk (`shipping_loading`) and to it
(`shipping_receiving`), the rules of one transfer (`shipping_out`), all peers (`shipping`).
Invariant: hearing never waits for saying, else two nodes that send to each other would wait for
ever; what is heard is bounded before it is kept. Nothing is lost on a link that stays.
"""

import asyncio
import zlib
from collections import Counter, deque
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple, Protocol

from distributed_grid.agent.shipping_in import Arrival, NotFetched
from distributed_grid.agent.shipping_loading import Loading
from distributed_grid.agent.shipping_out import Shipment
from distributed_grid.agent.shipping_receiving import Harbour, Receiving
from distributed_grid.edges.artifacts import CacheError
from distributed_grid.model.artifact import ManifestId
from distributed_grid.model.ids import NodeId
from distributed_grid.wire.artifacts import (
    DETAIL_CHARACTERS_MAX,
    ArtifactMessage,
    Chunk,
    Complete,
    Fetch,
    Kept,
    Lacking,
    ManifestPart,
    Offer,
    Reason,
    Refusal,
    WantManifest,
)

INBOX_MAX: Final = 3_000  # Messages of one peer that were not looked at yet: eight windows.
REPLIES_MAX: Final = 1_000  # Answers that one peer did not take yet; then it does not read.
# What one peer was asked for and has not sent yet: enough that no place for arrivals is ever empty;
# more would only cost its sender a manifest each. The next ones are asked for as these come.
ASKED_MAX: Final = 64
SAMPLE_BYTES: Final = 16 << 10  # Of a chunk, to see whether squeezing pays.
# zlib squeezes source code at 100 MB/s to a third, and looks at what does not shrink at 40: well
# below that the link is what everybody waits for.
SLOW_BYTES_S: Final = 20_000_000
FROM_SENDERS: Final[frozenset[Reason]] = frozenset({"unknown", "gone", "withdrawn"})

Send = Callable[[NodeId, ArtifactMessage], Awaitable[bool]]  # False: there is no link.


class Unwanted(NamedTuple):
    """Nobody here waits for it any more."""

    manifest: ManifestId
    was_durable: bool  # As it was asked for.


class Office(Harbour, Protocol):
    """All transfers of a node, as one lane sees them."""

    send: Send
    hang_up: Callable[[NodeId], None]  # Let a peer go that does not read.
    loading: Loading
    bytes_sent: int

    async def ship(
        self, peer: NodeId, manifest: ManifestId, *, durable: bool = True, again: bool = False
    ) -> Shipment:
        """Begin a transfer."""
        ...

    def sending(self) -> int:
        """How many transfers bring bytes to peers now."""
        ...

    def ended(self, shipment: Shipment) -> None:
        """A transfer to a peer is over."""
        ...

    def fault(self, peer: NodeId, lane: "Lane", error: BaseException) -> None:
        """What a peer says or wants cannot be handled."""
        ...


class Lane:
    """One peer."""

    def __init__(self, peer: NodeId, office: Office, *, is_up: bool) -> None:
        self.peer = peer
        self._office = office
        self._is_up = is_up
        self._links = 0  # How many there were.
        self._replies: deque[ArtifactMessage] = deque()
        self._shipments: dict[ManifestId, Shipment] = {}
        self._receiving = Receiving(peer, office, self.reply)
        self._wanted: dict[ManifestId, bool] = {}  # Whether it is to be durable.
        self._wanting: Counter[ManifestId] = Counter()  # How many wait for it.
        self._to_ask: dict[ManifestId, None] = {}  # What of it was not asked for yet, in order,
        self._asked: set[ManifestId] = set()  # and what was, on this link.
        self._inbox: deque[ArtifactMessage | Arrival | Unwanted] = deque()
        self._to_write = asyncio.Event()
        self._to_read = asyncio.Event()
        self._tasks = [
            asyncio.get_running_loop().create_task(work)
            for work in (self._write(), self._read(), self._receiving.sync())
        ]
        for task in self._tasks:
            task.add_done_callback(self._over)

    # Told by the office

    def restart(self) -> None:
        """There is a new link: nothing of the old one counts."""
        self.pause()
        self._is_up = True
        self._links += 1
        for shipment in self._shipments.values():
            shipment.restart()
        self._asked.clear()
        self._to_ask = dict.fromkeys(self._wanted)
        self._to_write.set()

    def pause(self) -> None:
        """The link is gone."""
        self._is_up = False
        self._replies.clear()
        self._inbox.clear()
        self._receiving.pause()

    def begin(self, shipment: Shipment) -> None:
        """Send something."""
        self._shipments[shipment.manifest_id] = shipment
        self._to_write.set()

    def end(self, shipment: Shipment) -> None:
        """Send it no more."""
        if self._shipments.get(shipment.manifest_id) is shipment:
            del self._shipments[shipment.manifest_id]

    def want(self, manifest: ManifestId, *, is_durable: bool) -> None:
        """Ask for something, now and after each break."""
        self._wanting[manifest] += 1
        if manifest not in self._wanted or (is_durable and not self._wanted[manifest]):
            self._wanted[manifest] = is_durable
            self._to_ask[manifest] = None
            self._to_write.set()

    def want_no_more(self, manifest: ManifestId) -> None:
        """One who waited for it has it, or does not care; the last takes the question back."""
        self._wanting[manifest] -= 1
        if not self._wanting[manifest]:
            del self._wanting[manifest]
            was_durable = self._wanted.pop(manifest)
            self._to_ask.pop(manifest, None)
            self._asked.discard(manifest)
            self._to_write.set()  # There is room for the next question.
            if self._receiving.is_coming(manifest):  # Dropped when nothing else is done with it.
                self._inbox.append(Unwanted(manifest, was_durable))
                self._to_read.set()

    def entered(self, arrival: Arrival) -> None:
        """A place is free for it."""
        self._inbox.append(arrival)
        self._to_read.set()

    def reply(self, message: ArtifactMessage) -> None:
        """Say something before any chunk; to who does not read nothing more is said."""
        if self._is_up and len(self._replies) >= REPLIES_MAX:
            self.pause()  # On the next link everything is said again.
            self._office.hang_up(self.peer)
        elif self._is_up:
            self._replies.append(message)
            self._to_write.set()

    @property
    def wanted(self) -> tuple[ManifestId, ...]:
        """What was asked for and has not come."""
        return tuple(self._wanted)

    @property
    def is_sending(self) -> bool:
        """Whether something is on its way to it."""
        return bool(self._shipments)

    def take(self, message: ArtifactMessage) -> bool:
        """Something was heard; it is kept if it may be. False: there is too much of it."""
        if len(self._inbox) >= INBOX_MAX:
            return False
        if isinstance(message, Chunk | ManifestPart) and not self._receiving.accepts(message):
            return True
        self._inbox.append(message)
        self._to_read.set()
        return True

    def bytes_of(self, manifest: ManifestId) -> tuple[int, int] | None:
        """How many bytes of something came from it, and of how many; None: it does not come."""
        return self._receiving.bytes_of(manifest)

    async def close(self) -> None:
        """End everything."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # Saying

    async def _write(self) -> None:
        while True:
            self._to_write.clear()
            link = self._links
            message = await self._next() if self._is_up else None
            if message is None:
                await self._to_write.wait()
            elif not await self._office.send(self.peer, message):
                if link == self._links:  # Else there is a new one already, where it begins anew.
                    self.pause()
            elif isinstance(message, Chunk):
                self._office.bytes_sent += len(message.data)

    async def _next(self) -> ArtifactMessage | None:
        if self._replies:
            return self._replies.popleft()
        if self._to_ask and len(self._asked) < ASKED_MAX:
            manifest = next(iter(self._to_ask))
            del self._to_ask[manifest]
            self._asked.add(manifest)
            return Fetch(manifest=manifest, is_durable=self._wanted[manifest])
        for shipment in list(self._shipments.values()):
            if message := shipment.next_message():
                return message
            if wanted := shipment.next_chunk():
                # The next time another one has its turn.
                self._shipments[shipment.manifest_id] = self._shipments.pop(shipment.manifest_id)
                return await self._chunk(shipment, *wanted)
        return None

    async def _chunk(self, shipment: Shipment, index: int, digest: bytes) -> ArtifactMessage:
        now_s = asyncio.get_running_loop().time()
        shipment.began_s = shipment.began_s or now_s
        rate = shipment.rate(now_s)
        # Those who are sent something at the same time share the way out of here.
        is_slow = rate is not None and rate < SLOW_BYTES_S // max(self._office.sending(), 1)
        data, why = None, "a chunk of it was lost here"
        try:
            data = await self._office.loading.load(digest)
        except CacheError as error:  # A disk in trouble; another node may have it.
            why = error.message
        if data is None:
            shipment.refuse("gone", why)
            self._finish_shipment(shipment)
            return Refusal(manifest=shipment.manifest_id, reason="gone")
        squeezed = await asyncio.to_thread(squeeze, data) if is_slow else None
        data, is_squeezed = (data, False) if squeezed is None else (squeezed, True)
        shipment.bytes_sent += len(data)
        return Chunk(manifest=shipment.manifest_id, index=index, data=data, is_squeezed=is_squeezed)

    def _finish_shipment(self, shipment: Shipment) -> None:
        self.end(shipment)
        self._office.ended(shipment)

    # Hearing

    async def _read(self) -> None:
        while True:
            self._to_read.clear()
            if not self._inbox:
                await self._to_read.wait()
                continue
            await self._hear(self._inbox.popleft())

    async def _hear(self, message: ArtifactMessage | Arrival | Unwanted) -> None:
        match message:
            case Unwanted(manifest=manifest, was_durable=was_durable):
                if manifest not in self._wanted:
                    self._receiving.give_up(manifest, was_durable=was_durable)
            case Arrival() | Offer() | ManifestPart() | Chunk():
                await self._receiving.hear(message)
            case Fetch(manifest=manifest, is_durable=is_durable):
                shipment = await self._office.ship(
                    self.peer, manifest, durable=is_durable, again=True
                )
                if shipment.state == "refused":
                    self.reply(Refusal(manifest=manifest, reason="unknown"))
            case Refusal(manifest=manifest, reason=reason, detail=detail) if reason in FROM_SENDERS:
                self._receiving.withdrawn(manifest)
                self._not_sent(manifest, reason, detail)
            case WantManifest() | Lacking() | Kept() | Complete() | Refusal():
                if found := self._shipments.get(message.manifest):
                    found.heard(message)
                    if found.over.is_set():
                        self._finish_shipment(found)
                    self._to_write.set()

    def _not_sent(self, manifest: ManifestId, reason: Reason, detail: str) -> None:
        if manifest in self._wanted:  # Else those who wait for it asked another peer.
            short = detail[:DETAIL_CHARACTERS_MAX]
            self._office.failed(manifest, NotFetched(self.peer, reason=reason, detail=short))

    def _over(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._office.fault(self.peer, self, error)


def squeeze(data: bytes) -> bytes | None:
    """A chunk in fewer bytes; None: it would not be worth it."""
    middle = len(data) // 2
    sample = data[middle : middle + SAMPLE_BYTES]
    if len(zlib.compress(sample, 1)) * 4 > len(sample) * 3:
        return None
    squeezed = zlib.compress(data, 1)
    return squeezed if len(squeezed) < len(data) else None
