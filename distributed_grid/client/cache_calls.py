"""What can be asked about the cache of files, as `calls` has it for jobs.

Lives here: one generator for each route. Never here: how it is shown (`cli.cache`).
"""

from typing import Final

from distributed_grid.client.calls import Call, decoded
from distributed_grid.client.exchange import Request
from distributed_grid.wire.cache import CACHE_ROUTES, CacheStatus, Cleared

_ROUTES: Final = {route.name: route for route in CACHE_ROUTES}


def cache() -> Call[CacheStatus]:
    """What it holds, and how often that helped."""
    return decoded((yield _request("cache")), CacheStatus)


def clear_cache() -> Call[Cleared]:
    """Remove what no job needs."""
    return decoded((yield _request("clear_cache")), Cleared)


def _request(operation: str) -> Request:
    route = _ROUTES[operation]
    return Request(
        method=route.method,
        target=route.path,
        body=b"",
        # Who clears twice hears the second time that nothing was removed.
        is_repeatable=operation != "clear_cache",
    )
