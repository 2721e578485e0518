"""Chunks from the store to the links: read once for all peers that get them at about one time.

Lives here: who waits for the same chunk, and the last ones that were read. Never here: whose turn
it is (`shipping_lane`), looking a chunk through (`edges.artifacts`).
Invariant: what is handed out was looked through by the store; what is held is bounded, and nothing
is held once nothing is sent.
"""

import asyncio
from collections import OrderedDict
from typing import Final

from distributed_grid.edges.artifacts import Chunks

# Peers that began together are apart by a window or two: two thirds of what three of them get was
# just read for another.
LOADED_BYTES_MAX: Final = 16 << 20


class Loading:
    """What is read for those who are sent something."""

    def __init__(self, chunks: Chunks) -> None:
        self._chunks = chunks
        self._loaded: OrderedDict[bytes, bytes] = OrderedDict()  # The longest unused first.
        self._loaded_bytes = 0
        self._reading: dict[bytes, asyncio.Task[bytes | None]] = {}

    async def load(self, digest: bytes) -> bytes | None:
        """A chunk, looked through; None: it is not here (any more)."""
        if digest in self._loaded:
            self._loaded.move_to_end(digest)
            return self._loaded[digest]
        reading = self._reading.get(digest)
        if reading is None:
            reading = asyncio.get_running_loop().create_task(self._read(digest))
            self._reading[digest] = reading
        return await asyncio.shield(reading)  # Others may wait for it, too.

    def forget(self) -> None:
        """Nothing is sent any more; what is being read for nobody is not kept either."""
        self._loaded.clear()
        self._loaded_bytes = 0
        self._reading.clear()

    async def _read(self, digest: bytes) -> bytes | None:
        data = None
        try:
            data = await asyncio.to_thread(self._chunks.get, digest)
        finally:
            if self._reading.get(digest) is asyncio.current_task():
                del self._reading[digest]
                self._keep(digest, data or b"")
        return data

    def _keep(self, digest: bytes, data: bytes) -> None:
        if data:
            self._loaded[digest] = data
            self._loaded_bytes += len(data)
        while self._loaded_bytes > LOADED_BYTES_MAX:
            self._loaded_bytes -= len(self._loaded.popitem(last=False)[1])
