"""The results of a map for asyncio programs: the twin of `map_results`, awaited.

Lives here: the async driver of `mapping`. Items may come from an async iterable, too.
Invariant: closed, collected or cancelled, a map that is not done ends its workers.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterable, AsyncIterator, Iterable
from types import TracebackType
from typing import Any, Self, TypeVar

from distributed_grid.client import map_calls
from distributed_grid.client.awaiting import AsyncCaller, AsyncLine
from distributed_grid.client.map_pools import AWAY_S, SURVIVED, HeldPool, IdlePools, Results
from distributed_grid.client.mapping import Mapping
from distributed_grid.client.patience import RETRY_S
from distributed_grid.errors import GridError

R = TypeVar("R")


class AsyncPools(IdlePools[AsyncLine]):
    """The pools of one cluster, and the way to end them."""

    def __init__(self, caller: AsyncCaller) -> None:
        super().__init__(caller.path)
        self.caller = caller

    async def put(self, held: HeldPool[AsyncLine]) -> None:
        """Its map is done; the next may use it."""
        for other in self.kept(held):
            await self.end(other)

    async def end(self, held: HeldPool[AsyncLine]) -> None:
        """End a pool and its workers; if nobody answers, they end without being told."""
        try:
            if held.pool.is_open:
                with contextlib.suppress(GridError):
                    await self.caller.run(map_calls.close(held.pool.id))
        finally:
            held.let_go()

    async def close(self) -> None:
        """End them all, and the maps that are not done."""
        self.forget_others()
        for results in list(self.active):
            await results.close()
        for held in self.emptied():
            await self.end(held)


class AsyncMapResults(Results[R, AsyncLine], AsyncIterator[R]):
    """The results of a map, as they are asked for.

    An exception of a call is raised where its result would be; `anext()` goes on after it. Closing,
    also by `async with`, ends the map and its workers.
    """

    def __init__(
        self,
        pools: AsyncPools,
        begun: tuple[HeldPool[AsyncLine], Mapping],
        items: Iterable[Any] | AsyncIterable[Any],
        *,
        return_exceptions: bool,
    ) -> None:
        self._items = _each(items)
        self._pools = pools
        super().__init__(pools, begun, return_exceptions=return_exceptions)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> R:
        if self._is_closed:
            raise StopAsyncIteration
        try:
            await self._advance()
        except BaseException:  # Also when cancelled: nothing is left behind.
            await self.close()
            raise
        if self._mapping.is_done:
            self._close_once()
            await self._pools.put(self._held)
            raise StopAsyncIteration
        return self._result()

    async def close(self) -> None:
        """End the map; calls that run are stopped."""
        if self._close_once():
            await self._pools.end(self._held)

    async def _advance(self) -> None:
        """Until there is a result to read, or there will be none."""
        mapping = self._mapping
        while not mapping.has_result and not mapping.is_done:
            mapping.begin_gathering(time.monotonic())
            while mapping.wants_item(time.monotonic()):
                try:
                    mapping.add(await anext(self._items))
                except StopAsyncIteration:
                    mapping.end_of_items()
            await self._converse()

    async def _converse(self) -> None:
        caller, held = self._pools.caller, self._held
        until_s = time.monotonic() + AWAY_S
        while True:
            try:
                if not held.pool.is_open and not self._mapping.is_idle:
                    held.let_go()
                    await caller.run(self._mapping.open())
                    held.line = await caller.opened(map_calls.Hold(held.pool.id))
                await caller.run(self._mapping.converse())
            except SURVIVED as error:
                if self._needs_pause(error, is_late=time.monotonic() > until_s):
                    await asyncio.sleep(RETRY_S)
            else:
                return

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()


async def _each(items: Iterable[Any] | AsyncIterable[Any]) -> AsyncIterator[Any]:
    if isinstance(items, AsyncIterable):
        async for item in items:
            yield item
    else:
        for item in items:
            yield item
