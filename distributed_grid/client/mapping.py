"""One map as its client sees it, without a socket: calls out, outcomes in, results in order.

Lives here: windows, what is sent again after the agent was lost, when more workers are wanted.
Never here: connecting, waiting (`map_results`, `async_map_results`).
Invariant: every item gives one result or one exception, whatever happens to agents and workers;
what is held is bounded, however many items there are.
"""

from collections import deque
from collections.abc import Callable, Sized
from typing import Any, Final, NamedTuple

from distributed_grid.client import map_calls, mesh_calls
from distributed_grid.client.calls import Call, status
from distributed_grid.client.map_workers import WORKERS_MAX, WorkerPool
from distributed_grid.client.pickling import packed, raised_of, unpacked
from distributed_grid.client.printing import show
from distributed_grid.client.progress import MapProgress
from distributed_grid.client.why_waiting import BEGIN_S, LOOK_S, News
from distributed_grid.errors import BadValue, CallFailed, MapEnded, NotPicklable, WorkerDied
from distributed_grid.wire.maps import FeedMap, MapCall, MapFunction, MapNews, MapOutcome

WINDOW_CALLS: Final = 10_000  # Sent and not yet read: hides any pause of the one who reads.
WINDOW_BYTES: Final = 16 << 20  # The same in bytes of calls, unless one call alone is larger.
SEND_BYTES: Final = 4 << 20  # Gathered before it is sent.
GATHER_S: Final = 0.02  # How long items are gathered before the first of them is sent.
WAIT_MS: Final = 10_000  # Of one question.
LONG_S: Final = 1.0  # A map that takes longer is worth workers on other machines.
LENDING: Final = frozenset({"admin", "member", "worker"})
CHUNK_MAX: Final = 10_000
RETRIES_MAX: Final = 100  # Each kills a worker.


class Result(NamedTuple):
    """What one call came to."""

    number: int  # Of its item, from 0.
    value: Any = None
    error: Exception | None = None


class Plan(NamedTuple):
    """How a map is to be run."""

    is_ordered: bool
    retries: int  # Of a call whose worker died.
    chunk: int  # Calls a worker takes at once; 0: as it sees fit.
    workers: int | None  # None: as many as the machine has room for.
    items: int | None  # None: nobody knows.
    prints: bool = True  # What calls print is shown here.
    progress: bool = False  # How far it is is shown here.


def plan_of(
    items: object,
    *,
    ordered: bool,
    workers: int | None,
    retries: int,
    chunk: int | None,
    prints: bool = True,
    progress: bool = False,
) -> Plan:
    """A plan, within bounds."""
    if workers is not None and not 1 <= workers <= WORKERS_MAX:
        raise BadValue(workers, expected=f"1 to {WORKERS_MAX} workers", remedy="Leave it out")
    if chunk is not None and not 1 <= chunk <= CHUNK_MAX:
        raise BadValue(chunk, expected=f"a chunk of 1 to {CHUNK_MAX}", remedy="Leave it out")
    if not 0 <= retries <= RETRIES_MAX:
        raise BadValue(retries, expected=f"0 to {RETRIES_MAX} retries", remedy="Leave it out: 1")
    known = len(items) if isinstance(items, Sized) else None
    return Plan(ordered, retries, chunk or 0, workers, known, prints, progress)


class Mapping:
    """The state of one map."""

    def __init__(
        self,
        pool: WorkerPool,
        function: Callable[[Any], Any],
        *,
        plan: Plan,
        name: str,
    ) -> None:
        data = packed(function, what="function", index=-1, put=pool.values.put)
        pool.values.hold_function(data)
        self.pool = pool
        self.name = name
        self.is_ordered = plan.is_ordered
        self._plan = plan
        self._function = MapFunction(
            number=pool.next_function(),
            data=data,
            retries=plan.retries,
            chunk=plan.chunk,
            prints=plan.prints,
        )
        self._first = pool.next_number  # The number of item 0.
        self._unfinished: dict[int, MapCall] = {}
        self._unsent: deque[MapCall] = deque()
        self._is_function_sent = False
        self._results: dict[int, MapOutcome | Exception] = {}  # By index; not yet read.
        self._arrived: deque[int] = deque()  # The same, as they came.
        self._progress = MapProgress(name) if plan.progress else None
        self._call_bytes = 0
        self._result_bytes = 0
        self._items = 0
        self._read = 0
        self._has_all = False
        self._gathered_bytes = 0
        self._gather_until_s = 0.0
        self._began_s = 0.0
        self._is_long = False
        self._news: News | None = News()  # None: something was heard of a call.
        self._explain_s = 0.0
        self._is_to_explain = False

    @property
    def is_done(self) -> bool:
        """Whether every result was read."""
        return self._has_all and self._read == self._items

    @property
    def is_idle(self) -> bool:
        """Whether nothing is with the agent, or on its way there."""
        return not self._unfinished

    @property
    def _has_room(self) -> bool:
        """Whether more items may be on their way."""
        if self._has_all or self._items - self._read >= WINDOW_CALLS:
            return False
        if not self.pool.values.has_room:
            return False
        return self._call_bytes + self._result_bytes < WINDOW_BYTES

    def begin_gathering(self, now_s: float) -> None:
        """Before items are taken for the next conversation."""
        self._began_s = self._began_s or now_s
        self._is_long = now_s - self._began_s >= LONG_S
        self._is_to_explain = now_s >= max(self._began_s + BEGIN_S, self._explain_s)
        if self._is_to_explain:
            self._explain_s = now_s + LOOK_S
        self._gathered_bytes = 0
        self._gather_until_s = now_s + GATHER_S

    def wants_item(self, now_s: float) -> bool:
        """Whether another item may be taken before the next conversation."""
        is_enough = now_s >= self._gather_until_s or self._gathered_bytes >= SEND_BYTES
        return self._has_room and not (is_enough and self._unsent) and not self.has_result

    def add(self, item: Any) -> None:
        """Another item; one that cannot travel fails alone."""
        index, number = self._items, self.pool.new_number()
        self._items += 1
        try:
            data = packed(item, what="item", index=index, put=self.pool.values.put)
        except NotPicklable as error:
            self._arrive(index, error)
            return
        call = self._unfinished[number] = MapCall(number, data)
        self.pool.values.hold(data)
        self._unsent.append(call)
        self._call_bytes += len(call.data)
        self._gathered_bytes += len(call.data)

    def end_of_items(self) -> None:
        """There are no more."""
        self._has_all = True

    @property
    def _workers(self) -> int:
        return self.pool.count(self._plan.workers, items=self._plan.items)

    def open(self) -> Call[None]:
        """Begin at the agent, or begin again there: all that has no outcome is sent again."""
        self._unsent = deque(self._unfinished.values())
        self._is_function_sent = False
        if not self.pool.cpu_milli_total:
            self.pool.cpu_milli_total = (yield from status()).cpu_milli_total
        yield from self.pool.open(self._workers)

    def converse(self) -> Call[None]:
        """Send what is to be sent, and hear what became of calls, waiting if that makes sense."""
        if not self._unfinished:
            return
        yield from self.look_around()
        calls = self.to_send()
        can_wait = not (self._unsent or self.has_result or self._has_room)
        fed = self.fed(calls, can_wait=can_wait)
        news = yield from map_calls.feed(self.pool.id, fed)
        self.hear(news, after=fed.after)
        yield from self.hire(news)

    def look_around(self) -> Call[None]:
        """What takes long is worth workers on other machines: how many those have room for."""
        if self._is_long and self.pool.cpu_milli_around is None and self._plan.workers is None:
            self.pool.cpu_milli_around = yield from cores_around()

    def fed(self, calls: tuple[MapCall, ...], *, can_wait: bool) -> FeedMap:
        """What the agent is told next."""
        is_patient = self._is_long and self._news is None
        wait_ms = WAIT_MS if is_patient else min(WAIT_MS, int(LONG_S * 1_000))
        return FeedMap(
            after=self.pool.cursor,
            calls=calls,
            function=None if self._is_function_sent else self._function,
            held_bytes=self._result_bytes,
            workers=self._workers,
            wait_ms=wait_ms if can_wait else 0,
        )

    def hire(self, news: MapNews) -> Call[None]:
        """More workers, if calls wait and some are missing."""
        if news.waiting and news.workers < self._workers:
            yield from self.pool.hire(self._workers - news.workers)
        self.pool.tell_unable(news.unable, self.name)
        if self._news is not None and self._is_to_explain:
            yield from self._news.log(self.pool.job)

    @property
    def has_result(self) -> bool:
        """Whether there is something to read now."""
        return self._read in self._results if self.is_ordered else bool(self._arrived)

    def read(self) -> Result:
        """The next result: of the next item, or of the next call that ended."""
        index = self._read if self.is_ordered else self._arrived.popleft()
        outcome = self._results.pop(index)
        self._read += 1
        if isinstance(outcome, Exception):
            return Result(index, error=outcome)
        self._result_bytes -= len(outcome.data)
        return self._result(index, outcome)

    def _result(self, index: int, outcome: MapOutcome) -> Result:
        if outcome.how == "raised":
            return Result(index, error=raised_of(outcome.data, index=index, name=self.name))
        if outcome.how == "died":
            how, tries = outcome.data.decode(errors="replace"), self._function.retries + 1
            return Result(index, error=WorkerDied(index, how=how, tries=tries))
        try:
            return Result(index, unpacked(outcome.data))
        except Exception as error:  # noqa: BLE001  # Other people's __setstate__.
            failed = CallFailed(
                index,
                why=f"its result cannot be read here: {type(error).__name__}: {error}",
                remedy="Return plain data, or what can be imported here too",
            )
            failed.__cause__ = error
            return Result(index, error=failed)

    def _arrive(self, index: int, outcome: MapOutcome | Exception) -> None:
        self._results[index] = outcome
        if not self.is_ordered:
            self._arrived.append(index)

    def to_send(self) -> tuple[MapCall, ...]:
        """The next calls for the agent."""
        calls: list[MapCall] = []
        size = 0
        while self._unsent and (not calls or size + len(self._unsent[0].data) <= SEND_BYTES):
            size += len(self._unsent[0].data)
            calls.append(self._unsent.popleft())
        return tuple(calls)

    def hear(self, news: MapNews, *, after: int) -> None:
        """What became of calls, told to who knew so many outcomes."""
        self._is_function_sent = True
        # Of two questions at once the later answer may tell what is known.
        self.pool.cursor = max(self.pool.cursor, after + len(news.outcomes))
        if news.outcomes:
            self._news = None
        for outcome in news.outcomes:
            call = self._unfinished.pop(outcome.number, None)
            if call is None:
                continue
            if outcome.printed:
                if self._progress is not None:
                    self._progress.clear()
                show(outcome.printed)
            index = outcome.number - self._first
            self.pool.values.release(call.data)
            self._call_bytes -= len(call.data)
            self._result_bytes += len(outcome.data)
            self._arrive(index, outcome)
        self.show_progress()
        if news.failure and self._unfinished and not news.outcomes:
            raise MapEnded(self.name, why=news.failure)

    def show_progress(self, *, is_over: bool = False) -> None:
        """Show how far it is, if that is wanted."""
        if self._progress is not None:
            total = self._items if self._has_all else self._plan.items
            done = self._items - len(self._unfinished)
            self._progress.show(done, total, is_over=is_over)


def cores_around() -> Call[int]:
    """Of all machines of the mesh that lend and are there, in thousandths, but not of this one."""
    mesh = yield from mesh_calls.nodes()
    return sum(
        node.cpu_milli_total
        for node in mesh.nodes
        if not node.is_self and node.health == "alive" and set(node.roles) & LENDING
    )
