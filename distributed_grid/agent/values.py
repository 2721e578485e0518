"""Large values of maps: too large for a call, so calls name them, and workers read them as files.

Lives here: where they are, how another machine gets them, when they go. Never here: what they hold;
clients write them (`client.values`), workers read them.
Invariant: a value travels to a machine once, however many of its workers need it; those of a map
go with it, and of others no more than `KEPT_BYTES` are kept. A file that goes is read on by who has
opened it.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from distributed_grid.agent.fetching import Fetching
from distributed_grid.edges.artifacts import Chunks, Files, Packed
from distributed_grid.errors import NotFound
from distributed_grid.model.artifact import ASKED, ManifestId, is_id
from distributed_grid.model.ids import NodeId

KEPT_BYTES: Final = 4 << 30
BROUGHT: Final = "brought"
RETURN_S: Final = 60.0  # After a start: clients of maps that go on have said so by then.


class Values:
    """Those of one machine."""

    def __init__(self, root: str, files: Files, chunks: Chunks, fetching: Fetching) -> None:
        self._made, self._brought = f"{root}/values", f"{root}/{BROUGHT}"
        self._files, self._chunks, self._fetching = files, chunks, fetching
        # Those that were asked for by other machines, by map and value; the longest ago first.
        self._packed: OrderedDict[tuple[str, str], Packed] = OrderedDict()
        self._here: OrderedDict[ManifestId, int] = OrderedDict()  # The longest unused first.
        # Two: whoever waits here for another machine must not keep that one waiting.
        self._leaving, self._coming = asyncio.Lock(), asyncio.Lock()

    def path(self, map_id: str, value: str) -> str:
        """Where a client of this machine put one."""
        return f"{self._folder(map_id, value)}/data"

    async def packed(self, map_id: str, value: str) -> ManifestId:
        """The same for another machine. Raises NotFound, CacheError."""
        folder = self._folder(map_id, value)
        async with self._leaving:
            key = (map_id, value)
            if key not in self._packed:
                if await asyncio.to_thread(self._files.is_missing, folder):
                    raise NotFound("value", value)
                self._packed[key] = await asyncio.to_thread(
                    self._files.keep, folder, owner=":".join(key), amount=ASKED
                )
            self._packed.move_to_end(key)
            while sum(one.content_bytes for one in self._packed.values()) > KEPT_BYTES:
                if (oldest := next(iter(self._packed))) == key:
                    break
                self._let_go(oldest)
            return self._packed[key].id

    async def brought(self, home: NodeId, manifest: ManifestId) -> str:
        """Where one of another machine is on this one. Raises NotFound, NotFetched, CacheError."""
        if not is_id(manifest):  # Whoever says such things has none.
            raise NotFound("value", manifest[:12])
        target = f"{self._brought}/{manifest}"
        async with self._coming:
            if manifest not in self._here:
                await self._fetching.have_from(home, manifest, owner=BROUGHT)
                try:
                    await asyncio.to_thread(self._files.folders, self._brought)
                    made = await asyncio.to_thread(self._files.unpack, manifest, target)
                finally:
                    self._fetching.let_go(manifest, owner=BROUGHT)
                self._here[manifest] = made.content_bytes
            self._here.move_to_end(manifest)
            while len(self._here) > 1 and sum(self._here.values()) > KEPT_BYTES:
                old, _ = self._here.popitem(last=False)
                await asyncio.to_thread(self._files.remove, f"{self._brought}/{old}")
        return f"{target}/data"

    async def forget(self, map_id: str) -> None:
        """A map is over."""
        for key in [one for one in self._packed if one[0] == map_id]:
            self._let_go(key)
        if is_id(map_id):
            await asyncio.to_thread(self._files.remove, f"{self._made}/{map_id}")

    async def tidy(self, is_known: Callable[[str], bool]) -> None:
        """What an agent before this one left behind goes, unless its map goes on."""
        for name in await asyncio.to_thread(self._files.folders, self._brought):
            if name not in self._here:
                await asyncio.to_thread(self._files.remove, f"{self._brought}/{name}")
        await asyncio.sleep(RETURN_S)
        for map_id in await asyncio.to_thread(self._files.folders, self._made):
            if not is_known(map_id):
                await self.forget(map_id)

    def _let_go(self, key: tuple[str, str]) -> None:
        self._chunks.unpin(self._packed.pop(key).id, ":".join(key))

    def _folder(self, map_id: str, value: str) -> str:
        if not (is_id(map_id) and is_id(value)):  # Whoever asks: nothing else is read.
            raise NotFound("value", value)
        return f"{self._made}/{map_id}/{value}"
