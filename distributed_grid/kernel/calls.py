"""The calls of one map: waiting, with a worker, done.

Lives here: who gets which call, and what happens to the calls of a worker that died.
Never here: what a call means, waiting for anything, starting workers.
Invariant: every call that was added gets exactly one outcome, whatever workers do.

A worker takes several calls at once, so its death does not tell which of them killed it. All of
them become suspects, and a suspect is handed out alone: so nobody is blamed for another.
"""

from collections import deque
from typing import Final

import msgspec

from distributed_grid.errors import Conflict, Overloaded
from distributed_grid.wire.maps import BATCH_BYTES, MapCall, MapFunction, MapOutcome

CALLS_MAX: Final = 100_000  # Unfinished, of one map; our client sends a tenth of it.
CALL_BYTES_MAX: Final = 128 << 20  # Of them; our client sends 16 MiB, or one large call.
RESULT_BYTES: Final = 16 << 20  # With more unread results than this, calls go out one by one.
NEWS_BYTES: Final = 16 << 20  # Of one answer to the client, unless one result alone is larger.
BARREN_MAX: Final = 5  # Workers in a row that died before they asked for work: none will.
DEAD_KEPT: Final = 1_000  # A request of a dead worker may still be under way.


class Entry(msgspec.Struct):
    """A call that has no outcome yet."""

    call: MapCall
    worker: str = ""  # Who has it; empty: it waits.
    deaths: int = 0  # Of workers that had it.


class Calls:
    """The queue of one map."""

    def __init__(self) -> None:
        self.function: MapFunction | None = None
        self.failure = ""
        self.waiting = 0
        self.client_bytes = 0  # Results that the client says it holds unread.
        self._entries: dict[int, Entry] = {}
        self._line: deque[int] = deque()  # Of those that wait; may name some that no longer do.
        self._held: dict[str, dict[int, None]] = {}  # Every worker that asked, and what it has.
        self._dead: dict[str, None] = {}
        self._barren = 0
        self._call_bytes = 0
        self._outcomes: deque[MapOutcome] = deque()
        self._unread: set[int] = set()  # Their numbers.
        self._result_bytes = 0
        self._first = 0  # Outcomes that the client had before the first of these.

    @property
    def out(self) -> int:
        """Calls that workers have."""
        return len(self._entries) - self.waiting

    # The client's side

    def begin(self, function: MapFunction) -> None:
        """The calls that follow are of this function."""
        if self.function is not None and self.function.number != function.number and self._entries:
            raise Conflict("function", str(function.number))
        self.function = function

    def add(self, calls: tuple[MapCall, ...]) -> None:
        """Take calls; those that are known already change nothing."""
        new = [c for c in calls if c.number not in self._entries and c.number not in self._unread]
        size = sum(len(call.data) for call in new)
        if len(self._entries) + len(new) > CALLS_MAX:
            raise Overloaded("unfinished calls in this map", most=CALLS_MAX)
        if self._call_bytes + size > CALL_BYTES_MAX:
            raise Overloaded("bytes of unfinished calls in this map", most=CALL_BYTES_MAX)
        for call in new:
            self._entries[call.number] = Entry(call)
            self._line.append(call.number)
        self._call_bytes += size
        self.waiting += len(new)

    def outcomes(self, *, after: int) -> tuple[MapOutcome, ...]:
        """What came after those that the client has; it has read the others, they are forgotten."""
        while self._outcomes and self._first < after:
            read = self._outcomes.popleft()
            self._unread.remove(read.number)
            self._result_bytes -= len(read.data) + len(read.printed)
            self._first += 1
        found: list[MapOutcome] = []
        size = 0
        for outcome in self._outcomes:
            size += len(outcome.data) + len(outcome.printed)
            if found and size > NEWS_BYTES:
                break
            found.append(outcome)
        return tuple(found)

    # The workers' side

    def take(self, worker: str, most: int) -> tuple[MapCall, ...]:
        """The next calls for a worker that has nothing to do."""
        if self.failure or worker in self._dead:
            return ()
        self._barren = 0
        # What it was given before and does not know of was lost with the answer.
        self.give_back(worker, tuple(self._held.setdefault(worker, {})))
        room = self._room(most)
        given: list[MapCall] = []
        size = 0
        while len(given) < room and (entry := self._next_waiting()) is not None:
            size += len(entry.call.data)
            if given and (entry.deaths or size > BATCH_BYTES):
                break
            self._line.popleft()
            self.waiting -= 1
            entry.worker = worker
            self._held[worker][entry.call.number] = None
            given.append(entry.call)
            if entry.deaths:
                break
        return tuple(given)

    def finish(self, outcomes: tuple[MapOutcome, ...]) -> None:
        """A worker tells what it did; for each call the first to tell counts."""
        for outcome in outcomes:
            self._end(outcome)

    def give_back(self, worker: str, numbers: tuple[int, ...]) -> None:
        """A worker has not begun these, and others may."""
        held = self._held.get(worker, {})
        for number in reversed(numbers):
            if number in held:
                del held[number]
                self._put_first(number)

    def died(self, worker: str, note: str) -> None:
        """A worker process is gone; what it had is run again, or ends here."""
        self._bury(worker)
        if worker not in self._held:
            self._barren += 1
            if self._barren >= BARREN_MAX:
                self.failure = f"its workers do not start ({note})"
            return
        assert self.function is not None or not self._held[worker], "calls without a function"
        for number in reversed(self._held.pop(worker)):
            entry = self._entries[number]
            entry.deaths += 1
            self._put_first(number)
            if self.function is not None and entry.deaths > self.function.retries:
                self._end(MapOutcome(number, "died", note.encode()))

    def lost(self, worker: str, note: str) -> None:
        """A worker is gone with its machine: nobody is to blame, and what it had is run again.

        Unless it must not run twice: then this is what became of it.
        """
        if self.function is not None and self.function.retries == 0 and worker in self._held:
            self.died(worker, note)
            return
        self._bury(worker)
        self.left(worker)

    def left(self, worker: str) -> None:
        """A worker ended in peace; it had nothing, or its last answer was lost."""
        self.give_back(worker, tuple(self._held.get(worker, {})))
        self._held.pop(worker, None)

    def _bury(self, worker: str) -> None:
        """Nothing is given to it any more, should it ask."""
        self._dead[worker] = None
        if len(self._dead) > DEAD_KEPT:
            del self._dead[next(iter(self._dead))]

    def _room(self, most: int) -> int:
        """How many calls may go out now."""
        if self._result_bytes + self.client_bytes >= RESULT_BYTES:
            return 0 if self.out else 1  # One at a time, the oldest first: it always goes on.
        if self.function is None or self.function.retries == 0:
            return 1  # Who must not run twice is never beside one that may kill the worker.
        if self.function.chunk:
            return self.function.chunk
        # Half of an even share, so that the last batches end at about the same time.
        share = -(-self.waiting // (2 * max(1, len(self._held))))
        return max(1, min(most, share))

    def _next_waiting(self) -> Entry | None:
        while self._line:
            entry = self._entries.get(self._line[0])
            if entry is not None and not entry.worker:
                return entry
            self._line.popleft()
        return None

    def _put_first(self, number: int) -> None:
        self._entries[number].worker = ""
        self.waiting += 1
        self._line.appendleft(number)

    def _end(self, outcome: MapOutcome) -> None:
        entry = self._entries.pop(outcome.number, None)
        if entry is None:
            return  # Another worker was first.
        if entry.worker:
            del self._held[entry.worker][outcome.number]
        else:
            self.waiting -= 1
        self._call_bytes -= len(entry.call.data)
        self._outcomes.append(outcome)
        self._unread.add(outcome.number)
        self._result_bytes += len(outcome.data) + len(outcome.printed)

    def check(self) -> None:
        """Re-derive what must be true."""
        held = {number: worker for worker, has in self._held.items() for number in has}
        by_entry = {number: e.worker for number, e in self._entries.items() if e.worker}
        assert held == by_entry, "a call and its worker do not agree"
        idle = {number for number, entry in self._entries.items() if not entry.worker}
        assert len(idle) == self.waiting, "waiting calls are miscounted"
        assert idle <= set(self._line), "a waiting call is not in line"
        for has in self._held.values():
            suspects = [number for number in has if self._entries[number].deaths]
            assert not suspects or len(has) == 1, "a suspect is not alone"
        assert self._call_bytes == sum(len(e.call.data) for e in self._entries.values())
        assert self._result_bytes == sum(len(o.data) + len(o.printed) for o in self._outcomes)
        assert self._unread == {outcome.number for outcome in self._outcomes}
        assert not self._unread & set(self._entries), "a call is done and not done"
