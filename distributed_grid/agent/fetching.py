"""Files that an attempt needs and this node lacks: from its home, or from whoever has them.

Lives here: whom to ask, and when to ask another. Never here: the transfer itself (`shipping`).
Invariant: nobody is waited for that is dead; what was fetched stays until it is let go.
"""

import asyncio
from collections.abc import Callable, Iterator
from typing import Final

from distributed_grid.agent.shipping import Shipping
from distributed_grid.agent.shipping_in import NotFetched
from distributed_grid.kernel.across.machine import Across
from distributed_grid.model.artifact import ManifestId, is_id
from distributed_grid.model.ids import NodeId
from distributed_grid.model.job import JobSpec

LOOK_S: Final = 0.5  # Between two looks at whoever sends.
GONE_LOOKS: Final = 6  # Who is dead for three seconds is not waited for; a restart takes one.
ASKED_MAX: Final = 8  # Nodes that are asked beside the home: its guardians are three.


class Fetching:
    """Sees to it that files are here."""

    def __init__(
        self,
        shipping: Shipping,
        *,
        across: Callable[[], Across | None],
        reach: Callable[[NodeId], None],
    ) -> None:
        self._shipping, self._across, self._reach = shipping, across, reach

    async def have(self, manifest: ManifestId, spec: JobSpec, *, owner: str) -> None:
        """Get files, and keep them for somebody. Raises NotFetched, CacheError."""
        if not is_id(manifest):
            raise NotFetched(NodeId(""), reason="malformed", detail="that is no name of files")
        if await asyncio.to_thread(self._is_here, manifest, owner):
            return
        home = spec.origin.home if spec.origin else NodeId("")
        failed = NotFetched(home, reason="unknown", detail="nobody who is there has them")
        for peer in self._holders(home):
            try:
                await self.fetch(peer, manifest)
            except NotFetched as error:
                failed = failed if failed.peer == error.peer else error
                continue
            if await asyncio.to_thread(self._shipping.chunks.pin, manifest, owner):
                return
        raise failed

    async def have_from(self, peer: NodeId, manifest: ManifestId, *, owner: str) -> None:
        """The same, of what only one node has. Raises NotFetched, CacheError."""
        if not await asyncio.to_thread(self._is_here, manifest, owner):
            await self.fetch(peer, manifest)
            await asyncio.to_thread(self._shipping.chunks.pin, manifest, owner)

    def let_go(self, manifest: ManifestId, *, owner: str) -> None:
        """Somebody needs them no longer."""
        self._shipping.chunks.unpin(manifest, owner)

    async def fetch(self, peer: NodeId, manifest: ManifestId) -> None:
        """From this node, for as long as it lives. Raises NotFetched, CacheError."""
        across = self._across()
        if across is None or peer == across.me:
            raise NotFetched(peer, reason="unknown", detail="they are not here any more")
        coming = asyncio.ensure_future(self._shipping.fetch(peer, manifest, durable=False))
        gone_looks = 0
        try:
            while True:
                self._reach(peer)
                await asyncio.wait([coming], timeout=LOOK_S)
                if coming.done():
                    return coming.result()
                gone_looks = 0 if self.is_alive(peer) else gone_looks + 1
                if gone_looks >= GONE_LOOKS:
                    raise NotFetched(peer, reason="unknown", detail="it does not answer")
        finally:
            coming.cancel()

    def is_alive(self, peer: NodeId) -> bool:
        """Whether it is there, as far as this node knows; it is itself."""
        across = self._across()
        known = across.peers.get(peer) if across is not None else None
        is_me = across is not None and peer == across.me
        return is_me or (known is not None and known.is_alive)

    def _is_here(self, manifest: ManifestId, owner: str) -> bool:
        chunks = self._shipping.chunks
        if not chunks.pin(manifest, owner):
            return False
        read = chunks.manifest(manifest)
        return read is not None and not chunks.lacking(read.chunks)

    def _holders(self, home: NodeId) -> Iterator[NodeId]:
        """The home first, then others that are alive; as they are when it is their turn."""
        across = self._across()
        if across is None:
            return
        if home and home != across.me:
            yield home
        others = [one for one in sorted(across.peers) if across.peers[one].is_alive]
        yield from [one for one in others if one != home][:ASKED_MAX]
