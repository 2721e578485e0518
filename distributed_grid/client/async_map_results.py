"""The results of a map for asyncio programs: the twin of `map_results`, awaited.

Lives here: the async driver of `mapping`. Items may come from an async iterable, too.
Invariant: closed, collected or cancelled, a map that is not done ends its workers.
"""

import asyncio
import contextlib
import time
import weakref
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from distributed_grid.client import map_calls
from distributed_grid.client.awaiting import AsyncCaller, AsyncLine
from distributed_grid.client.blocking import RETRY_S
from distributed_grid.client.door import is_coming_back
from distributed_grid.client.exchange import Broken
from distributed_grid.client.map_results import AWAY_S, POOLS_MAX
from distributed_grid.client.map_workers import WorkerPool
from distributed_grid.client.mapping import Mapping
from distributed_grid.errors import GridError, NoAgent, NotFound

R = TypeVar("R")


class AsyncHeldPool:
    """A pool, and the connection that keeps it alive."""

    def __init__(self, pool: WorkerPool) -> None:
        self.pool = pool
        self.line: AsyncLine | None = None

    def let_go(self) -> None:
        """The agent ends it in a moment."""
        if self.line is not None:
            with contextlib.suppress(RuntimeError):  # Its loop is closed, and so is it.
                self.line.close()
            self.line = None


class AsyncPools:
    """The pools of one cluster that no map uses now."""

    def __init__(self, caller: AsyncCaller) -> None:
        self.caller = caller
        self.active: weakref.WeakSet[AsyncMapResults[Any]] = weakref.WeakSet()
        self._idle: dict[bytes, AsyncHeldPool] = {}

    def take(self, key: bytes, make: Callable[[], WorkerPool]) -> AsyncHeldPool:
        """One of this kind: perhaps with warm workers."""
        return self._idle.pop(key, None) or AsyncHeldPool(make())

    async def put(self, held: AsyncHeldPool) -> None:
        """Its map is done; the next may use it."""
        others = self._idle.pop(held.pool.key, None)
        self._idle[held.pool.key] = held
        if others is not None:
            await self.end(others)
        if len(self._idle) > POOLS_MAX:
            await self.end(self._idle.pop(next(iter(self._idle))))

    async def end(self, held: AsyncHeldPool) -> None:
        """End a pool and its workers; if nobody answers, they end without being told."""
        try:
            if held.pool.is_open:
                await self.caller.run(map_calls.close(held.pool.id))
        except GridError:
            pass
        finally:
            held.let_go()

    async def close(self) -> None:
        """End them all, and the maps that are not done."""
        for results in list(self.active):
            await results.close()
        while self._idle:
            await self.end(self._idle.popitem()[1])


class AsyncMapResults(AsyncIterator[R], Generic[R]):
    """The results of a map, as they are asked for.

    An exception of a call is raised where its result would be; `anext()` goes on after it. Closing,
    also by `async with`, ends the map and its workers.
    """

    def __init__(
        self,
        pools: AsyncPools,
        held: AsyncHeldPool,
        mapping: Mapping,
        items: Iterable[Any] | AsyncIterable[Any],
        *,
        return_exceptions: bool,
    ) -> None:
        self._pools, self._held, self._mapping = pools, held, mapping
        self._items = _each(items)
        self._return_exceptions = return_exceptions
        self._is_closed = False
        pools.active.add(self)

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
            await self._finish()
            raise StopAsyncIteration
        index, value, error = self._mapping.read()
        if error is not None and not self._return_exceptions:
            raise error
        got = value if error is None else error
        result: R = got if self._mapping.is_ordered else (index, got)  # type: ignore[assignment]
        return result

    async def close(self) -> None:
        """End the map; calls that run are stopped."""
        if not self._is_closed:
            self._is_closed = True
            self._pools.active.discard(self)
            await self._pools.end(self._held)

    async def _finish(self) -> None:
        self._is_closed = True
        self._pools.active.discard(self)
        await self._pools.put(self._held)

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
            except Broken:  # While it was about to be held; the agent is coming back.
                held.pool.is_open = False
            except NoAgent:
                if time.monotonic() > until_s or not is_coming_back(caller.path):
                    raise
                await asyncio.sleep(RETRY_S)
            except NotFound as error:
                if error.kind != "map":
                    raise
                held.pool.is_open = False  # The agent was restarted: it is opened again.
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

    def __del__(self) -> None:
        if not getattr(self, "_is_closed", True):
            self._held.let_go()  # No conversation here: the agent notices by itself.


async def _each(items: Iterable[Any] | AsyncIterable[Any]) -> AsyncIterator[Any]:
    if isinstance(items, AsyncIterable):
        async for item in items:
            yield item
    else:
        for item in items:
            yield item
