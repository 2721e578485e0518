"""The results of a map, for a program that waits: an iterator that drives it.

Lives here: the blocking driver of `mapping`. Its asyncio twin is `async_map_results`; what they
share is in `map_pools`.
Invariant: closed, collected or interrupted, a map that is not done ends its workers.
"""

import contextlib
import time
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Any, Self, TypeVar

from distributed_grid.client import map_calls
from distributed_grid.client.blocking import Caller, Line
from distributed_grid.client.map_pools import AWAY_S, SURVIVED, HeldPool, IdlePools, Results
from distributed_grid.client.mapping import Mapping
from distributed_grid.client.patience import RETRY_S
from distributed_grid.client.resting import rest
from distributed_grid.errors import GridError

R = TypeVar("R")


class Pools(IdlePools[Line]):
    """The pools of one cluster, and the way to end them."""

    def __init__(self, caller: Caller) -> None:
        super().__init__(caller.path)
        self.caller = caller

    def put(self, held: HeldPool[Line]) -> None:
        """Its map is done; the next may use it."""
        for other in self.kept(held):
            self.end(other)

    def end(self, held: HeldPool[Line]) -> None:
        """End a pool and its workers; if nobody answers, they end without being told."""
        try:
            if held.pool.is_open:
                with contextlib.suppress(GridError):
                    self.caller.run(map_calls.close(held.pool.id))
        finally:
            held.let_go()

    def close(self) -> None:
        """End them all, and the maps that are not done."""
        self.forget_others()
        for results in list(self.active):
            results.close()
        for held in self.emptied():
            self.end(held)


class MapResults(Results[R, Line], Iterator[R]):
    """The results of a map, as they are asked for.

    An exception of a call is raised where its result would be; `next()` goes on after it. Closing,
    also by `with`, ends the map and its workers.
    """

    def __init__(
        self,
        pools: Pools,
        begun: tuple[HeldPool[Line], Mapping],
        items: Iterable[Any],
        *,
        return_exceptions: bool,
    ) -> None:
        self._items = iter(items)
        self._pools = pools
        super().__init__(pools, begun, return_exceptions=return_exceptions)

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
            self._close_once()
            self._pools.put(self._held)
            raise StopIteration
        return self._result()

    def close(self) -> None:
        """End the map; calls that run are stopped."""
        if self._close_once():
            self._pools.end(self._held)

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
            except SURVIVED as error:
                if self._needs_pause(error, is_late=time.monotonic() > until_s):
                    rest(RETRY_S)
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
