"""The cache of files, as people see it.

Lives here: looking and clearing, beside the loop. Never here: what is in it (`edges.artifacts`).
"""

import asyncio
from collections.abc import Iterator

from distributed_grid.edges.artifacts import Chunks, Files
from distributed_grid.wire.cache import CacheStatus, Cleared


class Cache:
    """`CacheOperations` over a store of chunks."""

    def __init__(self, chunks: Chunks, files: Files) -> None:
        self._chunks, self._files = chunks, files

    async def status(self) -> CacheStatus:
        """What it holds."""
        return self._chunks.status()

    async def clear(self) -> Cleared:
        """Remove what no job needs; thousands of files, so not in the loop."""
        await asyncio.to_thread(self._files.clear)
        return await asyncio.to_thread(self._chunks.clear)

    def metrics(self) -> Iterator[str]:
        """Lines for Prometheus."""
        status = self._chunks.status()
        for name, kind, help_text, value in (
            ("bytes", "gauge", "Bytes of files that are kept", status.bytes_used),
            ("bytes_max", "gauge", "Bytes of files that may be kept", status.bytes_max),
            ("bytes_pinned", "gauge", "Bytes that jobs need", status.bytes_pinned),
            ("hits_total", "counter", "Chunks that were here when offered", status.hits),
            ("misses_total", "counter", "Chunks that were not", status.misses),
            ("saved_bytes_total", "counter", "Bytes that were not sent", status.bytes_saved),
            ("evicted_total", "counter", "Chunks that made room", status.evicted),
            ("damaged_total", "counter", "Chunks the disk has changed", status.damaged),
        ):
            yield f"# HELP grid_cache_{name} {help_text}"
            yield f"# TYPE grid_cache_{name} {kind}"
            yield f"grid_cache_{name} {value}"
