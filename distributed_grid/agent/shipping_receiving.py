"""What one peer sends to us: offers, manifests, chunks, until all of it is durable.

Lives here: the arrivals from one peer, and their way to the disk. Never here: the rules of one
arrival (`shipping_in`), whose turn it is to speak (`shipping_lane`).
Invariant: what is told to be kept is durable, if that was wanted; what goes wrong ends one
transfer, and is told.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final, Protocol

from distributed_grid.agent.shipping_in import Arrival, Broken, NotFetched, objection
from distributed_grid.edges.artifacts import CacheError, Chunks
from distributed_grid.model import artifact
from distributed_grid.model.artifact import BadManifest, ManifestId
from distributed_grid.model.ids import NodeId
from distributed_grid.wire.artifacts import (
    DETAIL_CHARACTERS_MAX,
    KEPT_MAX,
    ArtifactMessage,
    Chunk,
    Complete,
    Kept,
    Lacking,
    ManifestPart,
    Offer,
    Reason,
    Refusal,
    WantManifest,
    bits_of,
)

ARRIVALS_MAX: Final = 64  # Transfers of one peer to us that were begun, and nobody asked for.
HOLD_S: Final = 300.0  # What came stays so long, until a job pins it or the link is back.
NOT_ASKED: Final[tuple[Reason, str]] = ("not-permitted", "nobody here asks for it any more")

Admit = Callable[[NodeId, Offer], tuple[Reason, str] | None]  # None: welcome.
Incoming = Offer | ManifestPart | Chunk | Arrival  # The last: a place is free for it.


class Harbour(Protocol):
    """Everyone who sends to this node, as one of them sees it."""

    chunks: Chunks
    admit: Admit
    broken: int
    bytes_received: int

    def arrived(self, peer: NodeId, manifest: ManifestId) -> None:
        """All of it is here, durable if that was wanted."""
        ...

    def failed(self, manifest: ManifestId, error: Exception) -> None:
        """Nothing comes."""
        ...

    def is_awaited(self, manifest: ManifestId) -> bool:
        """Whether somebody here has asked for it."""
        ...

    def enter(self, arrival: Arrival) -> bool:
        """A place among those who send to us, now or later."""
        ...

    def leave(self, arrival: Arrival) -> None:
        """Give it back."""
        ...


class Receiving:
    """What comes from one peer."""

    def __init__(
        self, peer: NodeId, harbour: Harbour, reply: Callable[[ArtifactMessage], None]
    ) -> None:
        self.peer = peer
        self._harbour = harbour
        self._reply = reply
        self._arrivals: dict[ManifestId, Arrival] = {}
        self._to_sync = asyncio.Event()

    def pause(self) -> None:
        """The link is gone; so are the places of those who sent over it."""
        for arrival in self._arrivals.values():
            arrival.rest()
            self._harbour.leave(arrival)
            self._hold(arrival)

    def accepts(self, message: ManifestPart | Chunk) -> bool:
        """Whether something large may be kept until its turn comes."""
        arrival = self._arrivals.get(message.manifest)
        if arrival is None:
            return False
        arrival.heard_s = asyncio.get_running_loop().time()
        try:
            if isinstance(message, ManifestPart):
                return arrival.accept_part(message)
            return arrival.accept(message)
        except Broken as broken:
            self._break(arrival, broken)
            return False

    async def hear(self, message: Incoming) -> None:
        """Carry out what a message means."""
        if isinstance(message, Offer):
            await self._offered(message)
        elif isinstance(message, Arrival):
            await self._try(message, self._survey(message))
        elif arrival := self._arrivals.get(message.manifest):
            if isinstance(message, Chunk):
                await self._try(arrival, self._came(arrival, message))
            else:
                await self._try(arrival, self._described(arrival, message))

    def is_coming(self, manifest: ManifestId) -> bool:
        """Whether it was offered, and is not all here."""
        return manifest in self._arrivals

    def bytes_of(self, manifest: ManifestId) -> tuple[int, int] | None:
        """How many bytes of something are here, and of how many; None: nothing of it comes."""
        arrival = self._arrivals.get(manifest)
        return arrival.bytes_of() if arrival is not None else None

    def withdrawn(self, manifest: ManifestId) -> None:
        """The peer does not send it any more."""
        if arrival := self._arrivals.get(manifest):
            self._drop(arrival)

    def give_up(self, manifest: ManifestId, *, was_durable: bool) -> None:
        """Nobody here waits for it any more; what its sender wants to be kept comes all the same.

        `was_durable`: that it is to be durable was our wish, not its sender's.
        """
        arrival = self._arrivals.get(manifest)
        if arrival is not None and (was_durable or not arrival.is_durable):
            self._refuse(manifest, *NOT_ASKED)
            self._drop(arrival)

    async def sync(self) -> None:
        """Make durable what came meanwhile, all at once, and say that it is here; for ever."""
        while True:
            await self._to_sync.wait()
            self._to_sync.clear()
            for arrival in list(self._arrivals.values()):
                if arrival.unsynced:
                    await self._try(arrival, self._sync_one(arrival))

    async def _try(self, arrival: Arrival, work: Coroutine[Any, Any, None]) -> None:
        """Do something for an arrival; what goes wrong ends it, and is told."""
        try:
            await work
        except (Broken, BadManifest) as broken:
            self._break(arrival, broken)
        except CacheError as error:
            self._refuse(arrival.manifest_id, "full", error.message)
            self._drop(arrival)
            self._harbour.failed(arrival.manifest_id, error)

    def _break(self, arrival: Arrival, why: Exception) -> None:
        self._harbour.broken += 1
        self._refuse(arrival.manifest_id, "malformed", str(why))
        self._drop(arrival)
        error = NotFetched(self.peer, reason="malformed", detail=str(why))
        self._harbour.failed(arrival.manifest_id, error)

    def _refuse(self, manifest: ManifestId, reason: Reason, detail: str) -> None:
        short = detail[:DETAIL_CHARACTERS_MAX]
        self._reply(Refusal(manifest=manifest, reason=reason, detail=short))

    async def _offered(self, offer: Offer) -> None:
        no = objection(offer) or self._harbour.admit(self.peer, offer)
        arrival = self._arrivals.get(offer.manifest)
        is_awaited = self._harbour.is_awaited(offer.manifest)
        is_full = len(self._arrivals) >= ARRIVALS_MAX and not is_awaited
        if no is None and not (offer.is_durable or is_awaited):
            no = NOT_ASKED  # Copies to keep are durable: this answers a question of before.
        if no is None and arrival is None and is_full:
            no = ("busy", f"{ARRIVALS_MAX} transfers were begun and not ended")
        if no is not None:
            self._refuse(offer.manifest, *no)
            if arrival is not None:
                self._drop(arrival)
            # Whoever waits here for it would wait for ever.
            error = NotFetched(self.peer, reason=no[0], detail=no[1])
            self._harbour.failed(offer.manifest, error)
            return
        if arrival is None or not arrival.is_of(offer):
            if arrival is not None:
                self._drop(arrival)
            arrival = self._arrivals[offer.manifest] = Arrival(self.peer, offer)
        arrival.offers += 1
        arrival.heard_s = asyncio.get_running_loop().time()
        arrival.is_durable = offer.is_durable
        if self._harbour.enter(arrival):
            await self._try(arrival, self._survey(arrival))

    async def _survey(self, arrival: Arrival) -> None:
        """What of it is here already; the rest is asked for."""
        arrival.heard_s = asyncio.get_running_loop().time()
        chunks = self._harbour.chunks
        manifest = await asyncio.to_thread(chunks.manifest, arrival.manifest_id)
        is_pinned = await asyncio.to_thread(chunks.pin, arrival.manifest_id, _owner(arrival))
        if manifest is None or not is_pinned:
            self._reply(WantManifest(manifest=arrival.manifest_id, offset=arrival.ask()))
            return
        arrival.describe(manifest)
        digests = manifest.chunks
        lacking = await asyncio.to_thread(chunks.lacking, digests)
        gone = {digests[at] for at in lacking}
        await self._make_durable(arrival, [name for name in digests if name not in gone])
        first = {digests[at]: at for at in reversed(lacking)}  # Equal chunks are sent once.
        arrival.lacking = set(first.values())
        arrival.unsynced = []
        if arrival.lacking:
            bits = bits_of(sorted(arrival.lacking), len(digests))
            said = Lacking(manifest=arrival.manifest_id, bits=bits, is_durable=arrival.is_durable)
            self._reply(said)
        else:
            await self._complete(arrival)

    async def _described(self, arrival: Arrival, part: ManifestPart) -> None:
        body = await asyncio.to_thread(arrival.take_part, part)
        if body is not None:
            await asyncio.to_thread(artifact.read, body)  # Before it is kept.
            await asyncio.to_thread(self._harbour.chunks.put_manifest, body)
            await self._survey(arrival)

    async def _came(self, arrival: Arrival, chunk: Chunk) -> None:
        try:
            await asyncio.to_thread(self._store, arrival, chunk)
        finally:
            arrival.pending_bytes = max(0, arrival.pending_bytes - len(chunk.data))
        self._harbour.bytes_received += len(chunk.data)
        arrival.written(chunk.index)
        self._to_sync.set()

    def _store(self, arrival: Arrival, chunk: Chunk) -> None:
        self._harbour.chunks.put(*arrival.unsqueezed(chunk))

    async def _sync_one(self, arrival: Arrival) -> None:
        indices, arrival.unsynced = arrival.unsynced, []
        names = arrival.digests_of(indices)
        is_durable = arrival.is_durable
        await self._make_durable(arrival, names)
        for at in range(0, len(indices), KEPT_MAX):
            some = tuple(indices[at : at + KEPT_MAX])
            said = Kept(manifest=arrival.manifest_id, indices=some, is_durable=is_durable)
            self._reply(said)
        if not arrival.lacking and not arrival.unsynced:
            await self._complete(arrival)

    async def _complete(self, arrival: Arrival) -> None:
        assert arrival.manifest is not None, "it is described"
        is_durable = arrival.is_durable
        # Those that came before it had to be durable, too.
        names = [bytes.fromhex(arrival.manifest_id), *arrival.manifest.chunks]
        await self._make_durable(arrival, names)
        is_current = self._arrivals.get(arrival.manifest_id) is arrival
        if not is_current or is_durable != arrival.is_durable:
            return  # Given up; or offered once more, which will be answered.
        del self._arrivals[arrival.manifest_id]
        self._reply(Complete(manifest=arrival.manifest_id, is_durable=is_durable))
        self._harbour.leave(arrival)
        self._harbour.arrived(self.peer, arrival.manifest_id)
        asyncio.get_running_loop().call_later(
            HOLD_S, lambda: self._harbour.chunks.unpin(arrival.manifest_id, _owner(arrival))
        )

    async def _make_durable(self, arrival: Arrival, names: list[bytes]) -> None:
        if arrival.is_durable:
            await asyncio.to_thread(self._harbour.chunks.sync, names)

    def _hold(self, arrival: Arrival) -> None:
        """If the link does not come back, what came may go."""
        offers = arrival.offers

        def give_up() -> None:
            if arrival.offers == offers and self._arrivals.get(arrival.manifest_id) is arrival:
                self._drop(arrival)

        asyncio.get_running_loop().call_later(HOLD_S, give_up)

    def _drop(self, arrival: Arrival) -> None:
        if self._arrivals.get(arrival.manifest_id) is arrival:
            del self._arrivals[arrival.manifest_id]
        self._harbour.leave(arrival)
        self._harbour.chunks.unpin(arrival.manifest_id, _owner(arrival))


def _owner(arrival: Arrival) -> str:
    return f"arriving:{arrival.peer}:{id(arrival)}"
