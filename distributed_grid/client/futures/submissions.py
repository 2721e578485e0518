"""The calls of an Executor between its queue and the agent, without a socket.

Lives here: which calls are sent, and which future hears what. Never here: threads, waiting.
Invariant: what was sent counts as running, and no more is sent ahead than the workers do in a
moment: the rest can be cancelled.
"""

import pickle
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import BrokenExecutor
from itertools import compress
from typing import Any, Final

from distributed_grid.client.futures.applying import InitializerFailed
from distributed_grid.client.futures.future import CallFuture, begun, finish
from distributed_grid.client.map_workers import WorkerPool
from distributed_grid.client.mapping import (
    SEND_BYTES,
    WINDOW_BYTES,
    WINDOW_CALLS,
    Mapping,
    Plan,
)
from distributed_grid.client.pickling import (
    ASIDE,
    PLAIN,
    WHOLE_BYTES_MAX,
    Put,
    beside,
    packed,
    values_of,
)
from distributed_grid.client.printing import show
from distributed_grid.errors import MapEnded, NotPicklable
from distributed_grid.wire.maps import MapCall, MapNews

AHEAD_S: Final = 0.2  # So much work is sent ahead, by how quick the last calls were.
AHEAD_CALLS_MIN: Final = 2  # Beside one for each worker.
GROWTH: Final = 8  # How much more may be sent than a moment ago.
TURN_CALLS: Final = 1_000  # Sent at once: workers begin with them while others are gathered.
CALL_BYTES: Final = 64 << 10  # Of a call, as long as none was seen.

Submitted = tuple[CallFuture[Any], Callable[..., Any], tuple[Any, ...], dict[str, Any]]


class Submissions(Mapping):
    """The calls of one Executor."""

    def __init__(
        self, pool: WorkerPool, function: Callable[[Any], Any], *, plan: Plan, name: str
    ) -> None:
        super().__init__(pool, function, plan=plan, name=name)
        self.shared = threading.Condition()  # Of all its futures.
        self.queue: deque[Submitted] = deque()
        self.broken: BrokenExecutor | None = None
        self._futures: dict[int, CallFuture[Any]] = {}
        self._ahead = 0
        self._mean_bytes = CALL_BYTES
        self._heard_s = 0.0  # When outcomes were last heard of, or there was nothing to do.

    @property
    def _workers(self) -> int:
        items = len(self._futures) + len(self.queue)
        return self.pool.count(self._plan.workers, items=items)

    @property
    def has_room(self) -> bool:
        """Whether another call may be sent."""
        is_much = self._call_bytes >= WINDOW_BYTES or not self.pool.values.has_room
        return len(self._futures) < self._limit and not is_much

    @property
    def _limit(self) -> int:
        return max(self._ahead, self._workers + AHEAD_CALLS_MIN)

    def rested(self, now_s: float) -> None:
        """There was nothing to do until now."""
        self._began_s = self._heard_s = now_s

    def gather(self, now_s: float) -> None:
        """Take from the queue what may be sent now; what cannot travel fails alone."""
        self.begin_gathering(now_s)
        queue, size, put = self.queue, 0, self.pool.values.put
        # Read anew each time: it may change.
        known: dict[int, tuple[Callable[..., Any], bytes]] = {}
        while queue and size < SEND_BYTES and len(self._unsent) < TURN_CALLS and self.has_room:
            fitting = min(1 + (SEND_BYTES - size) // self._mean_bytes, TURN_CALLS)
            room = min(self._limit - len(self._futures), len(queue), fitting)
            taken, before = [queue.popleft() for _ in range(room)], size
            running = begun(self.shared, [one[0] for one in taken])
            for future, function, args, kwargs in compress(taken, running):
                number = self.pool.next_number
                self.pool.next_number = number + 1
                try:
                    if id(function) not in known:
                        data = packed(function, what="function", index=number, put=put)
                        known[id(function)] = (function, data)
                    data = _arguments((known[id(function)][1], args, kwargs), number, put)
                except NotPicklable as error:
                    future.set_exception(error)
                    continue
                call = MapCall(number, data)
                self.pool.values.hold(data)
                self._futures[number] = future
                self._unfinished[number] = call
                self._unsent.append(call)
                size += len(data)
            self._mean_bytes = 1 + (size - before) // room
        self._call_bytes += size

    @property
    def has_unsent(self) -> bool:
        """Whether there is something to send."""
        return bool(self._unsent)

    def hear(self, news: MapNews, *, after: int, now_s: float = 0.0) -> None:
        """Tell the futures."""
        self._is_function_sent = True
        self.pool.cursor = max(self.pool.cursor, after + len(news.outcomes))
        futures, unfinished, loads = self._futures, self._unfinished, pickle.loads
        told, done = 0, []
        for outcome in news.outcomes:
            number, how, data = outcome.number, outcome.how, outcome.data
            future = futures.pop(number, None)
            if future is None:
                continue
            told += 1
            if outcome.printed:
                show(outcome.printed)
            call = unfinished.pop(number)
            self._call_bytes -= len(call.data)
            self.pool.values.release(call.data)
            if how == "returned":
                try:
                    value = loads(data)
                except Exception:  # noqa: BLE001, S110  # Told below.
                    pass
                else:
                    done.append((future, value))
                    continue
            result = self._result(number, outcome)
            if isinstance(result.error, InitializerFailed):
                self.broken = BrokenExecutor(f"its initializer raised {result.error}")
                self.broken.__cause__ = result.error.__cause__
                result = result._replace(error=self.broken)
            future.set_exception(result.error)
        finish(self.shared, done)
        if told:
            self._learn(told, now_s)
        if news.failure and futures and not news.outcomes:
            raise MapEnded(self.name, why=news.failure)

    def _learn(self, told: int, now_s: float) -> None:
        """How many calls may be sent ahead, by how quick these were."""
        rate = told / max(now_s - self._heard_s, 1e-6)
        ahead = int(min(rate * AHEAD_S, GROWTH * self._limit, WINDOW_CALLS))
        if not self.queue:  # The last ones take their time, whatever the calls take.
            ahead = max(ahead, min(self._ahead, TURN_CALLS))
        self._ahead, self._heard_s = ahead, now_s

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


def _arguments(call: tuple[bytes, tuple[Any, ...], dict[str, Any]], number: int, put: Put) -> bytes:
    for value in call[1]:
        if type(value) not in PLAIN:
            break
    else:
        if not call[2] and not call[0].startswith(ASIDE):
            data = pickle.dumps(call, 5)
            if len(data) <= WHOLE_BYTES_MAX:
                return data
    data = packed(call, what="argument", index=number, put=put)
    names = values_of(call[0])
    return beside(data, names) if names else data
