"""The calls of an Executor between its queue and the agent, without a socket.

Lives here: which calls are sent, and which future hears what. Never here: threads, waiting.
Invariant: what was sent counts as running, and no more is sent ahead than the workers do in a
moment: the rest can be cancelled.
"""

import pickle
from collections import deque
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Future
from typing import Any, Final

from distributed_grid.client.futures.applying import InitializerFailed
from distributed_grid.client.map_workers import WorkerPool
from distributed_grid.client.mapping import (
    SEND_BYTES,
    WINDOW_BYTES,
    WINDOW_CALLS,
    Mapping,
    Plan,
)
from distributed_grid.client.pickling import PLAIN, packed
from distributed_grid.client.printing import show
from distributed_grid.errors import MapEnded, NotPicklable
from distributed_grid.wire.maps import MapCall, MapNews

AHEAD_S: Final = 0.2  # So much work is sent ahead, by how quick the last calls were.
AHEAD_CALLS_MIN: Final = 2  # Beside one for each worker.
GROWTH: Final = 8  # How much more may be sent than a moment ago.

Submitted = tuple["Future[Any]", Callable[..., Any], tuple[Any, ...], dict[str, Any]]


class Submissions(Mapping):
    """The calls of one Executor."""

    def __init__(
        self, pool: WorkerPool, function: Callable[[Any], Any], *, plan: Plan, name: str
    ) -> None:
        super().__init__(pool, function, plan=plan, name=name)
        self.queue: deque[Submitted] = deque()
        self.broken: BrokenExecutor | None = None
        self._futures: dict[int, Future[Any]] = {}
        self._ahead = 0
        self._heard_s = 0.0  # When outcomes were last heard of, or there was nothing to do.

    @property
    def _workers(self) -> int:
        items = len(self._futures) + len(self.queue)
        return self.pool.count(self._plan.workers, items=items)

    @property
    def has_room(self) -> bool:
        """Whether another call may be sent."""
        limit = max(self._ahead, self._workers + AHEAD_CALLS_MIN)
        return len(self._futures) < limit and self._call_bytes < WINDOW_BYTES

    def rested(self, now_s: float) -> None:
        """There was nothing to do until now."""
        self._began_s = self._heard_s = now_s

    def gather(self, now_s: float) -> None:
        """Take from the queue what may be sent now; what cannot travel fails alone."""
        self.begin_gathering(now_s)
        queue, futures, size = self.queue, self._futures, 0
        known: dict[
            int, tuple[Callable[..., Any], bytes]
        ] = {}  # Read anew each time: it may change.
        while queue and size < SEND_BYTES and self.has_room:
            limit = max(self._ahead, self._workers + AHEAD_CALLS_MIN) - len(futures)
            for _ in range(min(limit, len(queue))):
                future, function, args, kwargs = queue.popleft()
                if not future.set_running_or_notify_cancel():
                    continue
                number = self.pool.next_number
                self.pool.next_number = number + 1
                try:
                    if id(function) not in known:
                        data = packed(function, what="function", index=number)
                        known[id(function)] = (function, data)
                    data = _arguments(known[id(function)][1], args, kwargs, number)
                except NotPicklable as error:
                    future.set_exception(error)
                    continue
                call = MapCall(number, data)
                futures[number] = future
                self._unfinished[number] = call
                self._unsent.append(call)
                size += len(data)
                if size >= SEND_BYTES:
                    break
        self._call_bytes += size

    def to_send(self) -> tuple[MapCall, ...]:
        """The next calls for the agent."""
        return self._to_send()

    @property
    def has_unsent(self) -> bool:
        """Whether there is something to send."""
        return bool(self._unsent)

    def hear(self, news: MapNews, *, after: int, now_s: float = 0.0) -> None:
        """Tell the futures."""
        self._is_function_sent = True
        self.pool.cursor = max(self.pool.cursor, after + len(news.outcomes))
        told, futures, unfinished, loads = 0, self._futures, self._unfinished, pickle.loads
        for outcome in news.outcomes:
            number, how, data = outcome.number, outcome.how, outcome.data
            future = futures.pop(number, None)
            if future is None:
                continue
            told += 1
            if outcome.printed:
                show(outcome.printed)
            self._call_bytes -= len(unfinished.pop(number).data)
            if how == "returned":
                try:
                    value = loads(data)
                except Exception:  # noqa: BLE001, S110  # Told below.
                    pass
                else:
                    future.set_result(value)
                    continue
            result = self._result(number, outcome)
            if isinstance(result.error, InitializerFailed):
                self.broken = BrokenExecutor(f"its initializer raised {result.error}")
                self.broken.__cause__ = result.error.__cause__
                result = result._replace(error=self.broken)
            future.set_exception(result.error)
        if told:
            rate = told / max(now_s - self._heard_s, 1e-6)
            most = GROWTH * max(self._ahead, self._workers + AHEAD_CALLS_MIN)
            self._ahead = int(min(rate * AHEAD_S, most, WINDOW_CALLS))
            self._heard_s = now_s
        if news.failure and futures and not news.outcomes:
            raise MapEnded(self.name, why=news.failure)

    def fail(self, error: BaseException) -> None:
        """None of them will have a result."""
        while self._futures:
            self._futures.popitem()[1].set_exception(error)
        while self.queue:
            future = self.queue.popleft()[0]
            if future.set_running_or_notify_cancel():
                future.set_exception(error)
        self._unfinished.clear()
        self._unsent.clear()
        self._call_bytes = 0


def _arguments(
    function: bytes, args: tuple[Any, ...], kwargs: dict[str, Any], number: int
) -> bytes:
    for value in args:
        if type(value) not in PLAIN:
            break
    else:
        if not kwargs:
            return pickle.dumps((function, args, kwargs), 5)
    return packed((function, args, kwargs), what="argument", index=number)
