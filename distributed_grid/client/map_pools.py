"""What the blocking and the async results of a map share: pools kept warm, and when to go on.

Lives here: which pools are kept, what a result is, what a lost agent means. Never here: waiting
(`map_results`, `async_map_results`).
Invariant: at most `POOLS_MAX` pools are kept that no map uses.
"""

import contextlib
import os
import weakref
from collections.abc import Callable, Iterator
from typing import Any, Final, Generic, Protocol, TypeVar

from distributed_grid.client.door import is_coming_back
from distributed_grid.client.exchange import Broken
from distributed_grid.client.map_workers import (
    WorkerPool,
    WorkerWishes,
    worker_key,
    worker_spec,
)
from distributed_grid.client.mapping import Mapping, Plan
from distributed_grid.errors import NoAgent, NotFound

AWAY_S: Final = 15.0  # An agent that a keeper brings back is waited for, also on a busy machine.
SURVIVED: Final = (Broken, NoAgent, NotFound)  # Perhaps: `needs_pause` looks closer.
POOLS_MAX: Final = 8  # Kept for the next map of the same kind, each with one open connection.


class Closing(Protocol):
    """A connection, as far as it matters here."""

    def close(self) -> None:
        """Hang up."""
        ...


L = TypeVar("L", bound=Closing)
R = TypeVar("R")


class HeldPool(Generic[L]):
    """A pool, and the connection that keeps it alive."""

    def __init__(self, pool: WorkerPool) -> None:
        self.pool = pool
        self.line: L | None = None

    def let_go(self) -> None:
        """The agent ends it in a moment."""
        if self.line is not None:
            with contextlib.suppress(RuntimeError):  # Its loop is closed, and so is it.
                self.line.close()
            self.line = None


class IdlePools(Generic[L]):
    """The pools of one cluster that no map uses now."""

    def __init__(self, path: str) -> None:
        self.path = path  # Of the agent's socket.
        self.active: weakref.WeakSet[Any] = weakref.WeakSet()  # Maps that are not done.
        self._idle: dict[bytes, HeldPool[L]] = {}
        self._pid = os.getpid()

    def begin(
        self, function: Callable[[Any], Any], wishes: WorkerWishes, plan: Plan
    ) -> tuple[HeldPool[L], Mapping]:
        """A new map, and a pool of its kind: perhaps with warm workers."""
        self.forget_others()
        spec = worker_spec(function, wishes, socket=self.path)
        held = self._idle.pop(worker_key(spec), None) or HeldPool(WorkerPool(spec))
        return held, Mapping(held.pool, function, plan=plan, name=spec.name)

    def forget_others(self) -> None:
        """After a fork, what was begun before it is the parent's: to use, and to end."""
        if self._pid != os.getpid():
            self._pid = os.getpid()
            self._idle.clear()
            self.active.clear()

    def kept(self, held: HeldPool[L]) -> Iterator[HeldPool[L]]:
        """Keep a pool whose map is done; gives those for which there is no room, to be ended."""
        other = self._idle.pop(held.pool.key, None)
        self._idle[held.pool.key] = held
        if other is not None:
            yield other
        if len(self._idle) > POOLS_MAX:
            yield self._idle.pop(next(iter(self._idle)))

    def emptied(self) -> Iterator[HeldPool[L]]:
        """Every pool that was kept, to be ended."""
        while self._idle:
            yield self._idle.popitem()[1]


class Results(Generic[R, L]):
    """Where a map stands, for whoever iterates over it."""

    def __init__(
        self,
        pools: IdlePools[L],
        begun: tuple[HeldPool[L], Mapping],
        *,
        return_exceptions: bool,
    ) -> None:
        self._held, self._mapping = begun
        self._path = pools.path
        self._return_exceptions = return_exceptions
        self._is_closed = False
        self._active = pools.active
        self._active.add(self)

    def _close_once(self) -> bool:
        """Mark it closed; False if it was before."""
        was_open, self._is_closed = not self._is_closed, True
        self._active.discard(self)
        if was_open:
            self._mapping.show_progress(is_over=True)
        return was_open

    def _result(self) -> R:
        """The next result, or its exception raised; there is one."""
        index, value, error = self._mapping.read()
        if error is not None and not self._return_exceptions:
            raise error
        got = value if error is None else error
        result: R = got if self._mapping.is_ordered else (index, got)  # type: ignore[assignment]
        return result

    def _needs_pause(self, error: Exception, *, is_late: bool) -> bool:
        return needs_pause(self._held, self._path, error, is_late=is_late)

    def __del__(self) -> None:
        if not getattr(self, "_is_closed", True):
            self._held.let_go()  # No conversation here: the agent notices by itself.


def needs_pause(held: HeldPool[L], path: str, error: Exception, *, is_late: bool) -> bool:
    """Whether to wait before the next try after this; raises it if there shall be none."""
    match error:
        case Broken():  # While it was about to be held; the agent is coming back.
            held.pool.is_open = False
            return False
        case NoAgent() if not is_late and is_coming_back(path):
            return True
        case NotFound(kind="map"):  # The agent was restarted: it is opened again.
            held.pool.is_open = False
            return False
        case _:
            raise error
