"""The routes of the cache of files.

Lives here: their handlers. Never here: the table (`wire.cache`), what the operations do (`agent`).
"""

from typing import Any, Final

from starlette.requests import Request

from distributed_grid.agent import Operations
from distributed_grid.web.application import Handler


async def _cache(operations: Operations, _: Request) -> Any:
    return await operations.cache.status()


async def _clear_cache(operations: Operations, _: Request) -> Any:
    return await operations.cache.clear()


CACHE_HANDLERS: Final[dict[str, Handler]] = {"cache": _cache, "clear_cache": _clear_cache}
