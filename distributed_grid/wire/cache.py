"""What clients and the agent say to each other about the cache of files.

Lives here: requests, answers and their routes, as in `api`. Never here: what nodes say to each
other about files (`artifacts`).
"""

import msgspec

from distributed_grid.model.bounds import Bytes, Count
from distributed_grid.wire.api import Nothing, Route


class CacheStatus(msgspec.Struct, frozen=True, kw_only=True):
    """What the cache of files holds, and what it was good for since the agent's start."""

    bytes_used: Bytes
    bytes_max: Bytes
    bytes_pinned: Bytes  # Of jobs that run or wait: stays whatever happens.
    chunks: Count
    manifests: Count
    hits: Count  # Chunks that were here when somebody offered them.
    misses: Count
    bytes_saved: Bytes  # By the hits.
    evicted: Count  # Chunks that made room for others.
    damaged: Count  # Chunks whose bytes the disk has changed; they are fetched again.


class Cleared(msgspec.Struct, frozen=True, kw_only=True):
    """What was removed from the cache."""

    chunks: Count  # And manifests.
    bytes_removed: Bytes
    bytes_left: Bytes  # Pinned.


CACHE_ROUTES: tuple[Route, ...] = (
    Route("cache", "GET", "/v1/cache", Nothing, CacheStatus,
          "The cache of files: what it holds, and how often that helped"),
    Route("clear_cache", "POST", "/v1/cache/clear", Nothing, Cleared,
          "Remove what no job needs from the cache of files"),
)  # fmt: skip
