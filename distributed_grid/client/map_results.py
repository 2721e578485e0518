"""The results of a map, for a program that waits: an iterator that drives it.

Lives here: the blocking driver of `mapping`. Its asyncio twin is `async_map_results`.
Invariant: closed, collected or interrupted, a map that is not done ends its workers.
"""

import time
import weakref
from collections.abc import Callable, Iterable, Iterator
from types import TracebackType
from typing import Any, Final, Generic, Self, TypeVar

from distributed_grid.client import map_calls
from distributed_grid.client.blocking import RETRY_S, Caller, Line
from distributed_grid.client.door import is_coming_back
from distributed_grid.client.exchange import Broken
from distributed_grid.client.map_workers import WorkerPool
from distributed_grid.client.mapping import Mapping
from distributed_grid.errors import GridError, NoAgent, NotFound

R = TypeVar("R")

AWAY_S: Final = 15.0  # An agent that a keeper brings back is waited for, also on a busy machine.
POOLS_MAX: Final = 8  # Kept for the next map of the same kind, each with one open connection.


class HeldPool:
    """A pool, and the connection that keeps it alive."""

    def __init__(self, pool: WorkerPool) -> None:
        self.pool = pool
        self.line: Line | None = None

    def let_go(self) -> None:
        """The agent ends it in a moment."""
        if self.line is not None:
            self.line.close()
            self.line = None


class Pools:
    """The pools of one cluster that no map uses now."""

    def __init__(self, caller: Caller) -> None:
        self.caller = caller
        self.active: weakref.WeakSet[MapResults[Any]] = weakref.WeakSet()
        self._idle: dict[bytes, HeldPool] = {}

    def take(self, key: bytes, make: Callable[[], WorkerPool]) -> HeldPool:
        """One of this kind: perhaps with warm workers."""
        return self._idle.pop(key, None) or HeldPool(make())

    def put(self, held: HeldPool) -> None:
        """Its map is done; the next may use it."""
        others = self._idle.pop(held.pool.key, None)
        self._idle[held.pool.key] = held
        if others is not None:
            self.end(others)
        if len(self._idle) > POOLS_MAX:
            self.end(self._idle.pop(next(iter(self._idle))))

    def end(self, held: HeldPool) -> None:
        """End a pool and its workers; if nobody answers, they end without being told."""
        try:
            if held.pool.is_open:
                self.caller.run(map_calls.close(held.pool.id))
        except GridError:
            pass
        finally:
            held.let_go()

    def close(self) -> None:
        """End them all, and the maps that are not done."""
        for results in list(self.active):
            results.close()
        while self._idle:
            self.end(self._idle.popitem()[1])


class MapResults(Iterator[R], Generic[R]):
    """The results of a map, as they are asked for.

    An exception of a call is raised where its result would be; `next()` goes on after it. Closing,
    also by `with`, ends the map and its workers.
    """

    def __init__(
        self,
        pools: Pools,
        held: HeldPool,
        mapping: Mapping,
        items: Iterable[Any],
        *,
        return_exceptions: bool,
    ) -> None:
        self._pools, self._held, self._mapping = pools, held, mapping
        self._items = iter(items)
        self._return_exceptions = return_exceptions
        self._is_closed = False
        pools.active.add(self)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> R:
        if self._is_closed:
            raise StopIteration
        try:
            self._advance()
        except BaseException:  # Also Ctrl-C: nothing is left behind.
            self.close()
            raise
        if self._mapping.is_done:
            self._finish()
            raise StopIteration
        index, value, error = self._mapping.read()
        if error is not None and not self._return_exceptions:
            raise error
        got = value if error is None else error
        result: R = got if self._mapping.is_ordered else (index, got)  # type: ignore[assignment]
        return result

    def close(self) -> None:
        """End the map; calls that run are stopped."""
        if not self._is_closed:
            self._is_closed = True
            self._pools.active.discard(self)
            self._pools.end(self._held)

    def _finish(self) -> None:
        self._is_closed = True
        self._pools.active.discard(self)
        self._pools.put(self._held)

    def _advance(self) -> None:
        """Until there is a result to read, or there will be none."""
        mapping = self._mapping
        while not mapping.has_result and not mapping.is_done:
            mapping.begin_gathering(time.monotonic())
            while mapping.wants_item(time.monotonic()):
                try:
                    mapping.add(next(self._items))
                except StopIteration:
                    mapping.end_of_items()
            self._converse()

    def _converse(self) -> None:
        caller, held = self._pools.caller, self._held
        until_s = time.monotonic() + AWAY_S
        while True:
            try:
                if not held.pool.is_open and not self._mapping.is_idle:
                    held.let_go()
                    caller.run(self._mapping.open())
                    held.line = caller.opened(map_calls.Hold(held.pool.id))
                caller.run(self._mapping.converse())
            except Broken:  # While it was about to be held; the agent is coming back.
                held.pool.is_open = False
            except NoAgent:
                if time.monotonic() > until_s or not is_coming_back(caller.path):
                    raise
                time.sleep(RETRY_S)
            except NotFound as error:
                if error.kind != "map":
                    raise
                held.pool.is_open = False  # The agent was restarted: it is opened again.
            else:
                return

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __del__(self) -> None:
        if not getattr(self, "_is_closed", True):
            self._held.let_go()  # No conversation here: the agent notices by itself.
