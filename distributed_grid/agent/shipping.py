"""Files between nodes: offered, fetched, sent chunk by chunk, and known to be safe.

Lives here: the transfers of this node, and who may begin when. Never here: links (`mesh_links`),
the two ends of one transfer (`shipping_out`, `shipping_in`), one peer's turn (`shipping_lane`).
Invariant: nothing is remembered of a broken transfer but what is in the store: the next offer finds
out what is lacking. Memory is bounded by the few places for those who send to us.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from itertools import islice
from typing import Final

from distributed_grid.agent.blast_door import in_words
from distributed_grid.agent.shipping_in import Arrival, NotFetched
from distributed_grid.agent.shipping_lane import Lane, Send
from distributed_grid.agent.shipping_loading import Loading
from distributed_grid.agent.shipping_out import Progress, Shipment
from distributed_grid.agent.shipping_receiving import Admit
from distributed_grid.edges.artifacts import CacheError, Chunks
from distributed_grid.model.artifact import Manifest, ManifestId
from distributed_grid.model.ids import NodeId
from distributed_grid.wire.artifacts import ArtifactMessage, Offer, Refusal

ACTIVE_MAX: Final = 8  # Arrivals at once: each may hold a manifest of 16 MiB or a window of 8.
STALLED_S: Final = 10.0  # Who says nothing for so long gives its place to those who wait.
FINISHED_MAX: Final = 10_000  # Transfers whose end is remembered: a kilobyte each.

Arrived = Callable[[NodeId, ManifestId], None]


def welcome(_: NodeId, __: Offer) -> None:
    """Take what fits, from every member."""


class Shipping:
    """The transfers of one node; it is told of links, and of what came over them."""

    def __init__(
        self,
        chunks: Chunks,
        send: Send,
        *,
        admit: Admit = welcome,
        arrived: Arrived = lambda *_: None,
        blame: Callable[[NodeId, str, str], None] = lambda *_: None,
    ) -> None:
        self.chunks = chunks
        self.loading = Loading(chunks)
        self.send = send
        self.hang_up: Callable[[NodeId], None] = lambda _peer: None
        self.admit = admit
        self._arrived = arrived
        self._blame = blame
        self._closing: set[asyncio.Task[None]] = set()
        self._lanes: dict[NodeId, Lane] = {}
        self._shipments: dict[tuple[ManifestId, NodeId], Shipment] = {}
        self._awaited: dict[ManifestId, set[asyncio.Future[None]]] = {}
        self._active: set[Arrival] = set()
        self._waiting: deque[Arrival] = deque()
        self._shaking: asyncio.TimerHandle | None = None
        self._up: set[NodeId] = set()
        self.broken = 0  # Transfers that were ended because a peer made no sense.
        self.bytes_sent = 0
        self.bytes_received = 0

    # Links

    def link_up(self, peer: NodeId) -> None:
        """There is a link, maybe another one than before: go on where the store is.

        The peer may have come back without what it had: whoever relies on that offers it again.
        """
        self._up.add(peer)
        for manifest, one in [key for key, ship in self._shipments.items() if ship.over.is_set()]:
            if one == peer:
                self.withdraw(peer, manifest)
        if peer in self._lanes:
            self._lanes[peer].restart()

    def link_down(self, peer: NodeId) -> None:
        """It is gone; whoever sent to us over it gives its place to others."""
        self._up.discard(peer)
        if peer in self._lanes:
            self._lanes[peer].pause()

    def received(self, peer: NodeId, message: ArtifactMessage) -> bool:
        """A message of a member. False: it sends more than it may, its link should be closed."""
        return self._lane(peer).take(message)

    async def close(self) -> None:
        """End everything."""
        if self._shaking is not None:
            self._shaking.cancel()
        await asyncio.gather(*(lane.close() for lane in self._lanes.values()), *self._closing)
        for futures in self._awaited.values():
            for future in futures:
                future.cancel()

    def fault(self, peer: NodeId, lane: Lane, error: BaseException) -> None:
        """A lane tells that it broke off: it is begun anew, on the next link."""
        if self._lanes.get(peer) is not lane:
            return
        self.link_down(peer)
        del self._lanes[peer]
        closing = asyncio.get_running_loop().create_task(lane.close())
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)
        for manifest in lane.wanted:
            self.failed(manifest, NotFetched(peer, reason="gone", detail=in_words(error)))
        for shipment in self.under_way():
            if shipment.peer == peer:
                self._lane(peer).begin(shipment)
        self._blame(peer, "files", in_words(error))

    # Sending

    async def ship(
        self, peer: NodeId, manifest: ManifestId, *, durable: bool = True, again: bool = False
    ) -> Shipment:
        """Bring something to a peer; the transfer that there is, unless it was refused.

        A job can run before its files are durable there: `durable=False` saves every sync.
        `again`: the peer asks for it: it does not have it, whatever we thought.
        """
        if found := self._current(manifest, peer, durable=durable, again=again):
            return found
        read, body, why = await asyncio.to_thread(self._read, manifest, _owner(peer))
        if found := self._current(manifest, peer, durable=durable, again=again):
            return found
        shipment = Shipment(peer, manifest, read or Manifest(), body, is_durable=durable)
        shipment.is_asked = again
        if read is None:
            shipment.refuse("unknown", why)
            return shipment
        self._shipments[manifest, peer] = shipment
        self._forget_finished()
        self._lane(peer).begin(shipment)
        return shipment

    def _current(
        self, manifest: ManifestId, peer: NodeId, *, durable: bool, again: bool
    ) -> Shipment | None:
        """A transfer that will do."""
        shipment = self._shipments.get((manifest, peer))
        if shipment is None:
            return None
        if shipment.over.is_set():
            is_enough = shipment.state == "complete" and not again
            return shipment if is_enough and (shipment.is_durable or not durable) else None
        shipment.is_asked = shipment.is_asked or again
        if durable and not shipment.is_durable:
            shipment.harden()
            self._lane(peer).begin(shipment)
        return shipment

    def _read(self, manifest: ManifestId, owner: str) -> tuple[Manifest | None, bytes, str]:
        """What is to be sent, pinned; or why it cannot be."""
        try:
            is_here = self.chunks.pin(manifest, owner)
            read = self.chunks.manifest(manifest) if is_here else None
            body = self.chunks.manifest_body(manifest) if is_here else None
        except CacheError as error:  # A disk in trouble; it may be there, later.
            self.chunks.unpin(manifest, owner)
            return None, b"", error.message
        return read, body or b"", "it is not here"

    def _forget_finished(self) -> None:
        """The oldest of those that are over make room."""
        excess = len(self._shipments) - FINISHED_MAX
        if excess > 0:
            over = (key for key, one in self._shipments.items() if one.over.is_set())
            for key in list(islice(over, excess)):
                del self._shipments[key]

    def withdraw(self, peer: NodeId, manifest: ManifestId) -> None:
        """The peer need not have it any more."""
        shipment = self._shipments.pop((manifest, peer), None)
        if shipment is not None and not shipment.over.is_set():
            shipment.refuse("withdrawn")
            self._lane(peer).end(shipment)
            self._lane(peer).reply(Refusal(manifest=manifest, reason="withdrawn"))
            self._rest()
        self.chunks.unpin(manifest, _owner(peer))

    def ended(self, shipment: Shipment) -> None:
        """A lane tells that a transfer is over."""
        self._rest()
        self.chunks.unpin(shipment.manifest_id, _owner(shipment.peer))

    def _rest(self) -> None:
        """Hold nothing while nothing is sent."""
        if not any(lane.is_sending for lane in self._lanes.values()):
            self.loading.forget()

    # What is where

    def shipment(self, manifest: ManifestId, peer: NodeId) -> Shipment | None:
        """The transfer of something to a peer."""
        return self._shipments.get((manifest, peer))

    def is_safe(self, manifest: ManifestId, peer: NodeId) -> bool:
        """Whether a peer has said that all of it is durable there."""
        shipment = self._shipments.get((manifest, peer))
        return shipment is not None and shipment.state == "complete" and shipment.is_durable

    def sending(self) -> int:
        """How many transfers bring bytes to peers now."""
        return sum(
            one.state == "sending" and one.peer in self._up for one in self._shipments.values()
        )

    def under_way(self) -> list[Shipment]:
        """Every transfer to a peer that is not over."""
        return [one for one in self._shipments.values() if not one.over.is_set()]

    def progress(self) -> list[Progress]:
        """How far each of them is."""
        return [one.progress() for one in self.under_way()]

    def is_linked(self, peer: NodeId) -> bool:
        """Whether there is a link."""
        return peer in self._up

    # Receiving

    async def fetch(self, peer: NodeId, manifest: ManifestId, *, durable: bool = True) -> None:
        """Get something from a peer; returns when all of it is here. Raises NotFetched, CacheError.

        It waits as long as the link is broken: whoever cannot wait sets a limit.
        """
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._awaited.setdefault(manifest, set()).add(future)
        lane = self._lane(peer)
        lane.want(manifest, is_durable=durable)
        try:
            await future
        finally:
            waiting = self._awaited.get(manifest, set())
            waiting.discard(future)
            if not waiting:
                self._awaited.pop(manifest, None)
            lane.want_no_more(manifest)

    def is_awaited(self, manifest: ManifestId) -> bool:
        """Whether somebody here has asked for it."""
        return manifest in self._awaited

    def coming(self, manifest: ManifestId) -> tuple[int, int] | None:
        """How many bytes of something are here, and of how many; None: it is not on its way."""
        found = (lane.bytes_of(manifest) for lane in self._lanes.values())
        return max((one for one in found if one is not None), default=None)

    def arrived(self, peer: NodeId, manifest: ManifestId) -> None:
        """A lane tells that all of it is here."""
        self._arrived(peer, manifest)
        for future in self._awaited.get(manifest, ()):
            if not future.done():
                future.set_result(None)

    def failed(self, manifest: ManifestId, error: Exception) -> None:
        """A lane tells that nothing comes."""
        for future in self._awaited.get(manifest, ()):
            if not future.done():
                future.set_exception(error)

    # Places

    def enter(self, arrival: Arrival) -> bool:
        """A place among those who send to us, now or later; then its lane is told."""
        if not arrival.is_active and len(self._active) < ACTIVE_MAX:
            arrival.is_active = True
            self._active.add(arrival)
        elif not arrival.is_active and arrival not in self._waiting:
            self._waiting.append(arrival)
            self._shake_later()
        return arrival.is_active

    def leave(self, arrival: Arrival) -> None:
        """Give a place back; the next one enters."""
        if arrival in self._waiting:
            self._waiting.remove(arrival)
        arrival.is_active = False
        self._active.discard(arrival)
        while self._waiting and len(self._active) < ACTIVE_MAX:
            following = self._waiting.popleft()
            self.enter(following)
            self._lane(following.peer).entered(following)

    def _shake_later(self) -> None:
        if self._shaking is None and self._waiting:
            loop = asyncio.get_running_loop()
            self._shaking = loop.call_later(STALLED_S, self._shake)

    def _shake(self) -> None:
        """While others wait, those who say nothing make room, and stand in line again."""
        self._shaking = None
        before_s = asyncio.get_running_loop().time() - STALLED_S
        for arrival in [one for one in self._active if one.heard_s <= before_s]:
            if self._waiting:
                self.leave(arrival)
                self._waiting.append(arrival)
        self._shake_later()

    def _lane(self, peer: NodeId) -> Lane:
        if peer not in self._lanes:
            self._lanes[peer] = Lane(peer, self, is_up=peer in self._up)
        return self._lanes[peer]


def _owner(peer: NodeId) -> str:
    return f"shipping:{peer}"
