"""The process that runs the calls of a map: `python -m … SOCKET PYTHON MAP`.

Lives here: take calls, run them, tell results. It starts light, reads the function once, and
serves calls until there are none for a moment. What the function prints goes to the job's log, and
to the client if it wants it.
On another machine than its map's it asks the agent there, which passes everything on.
Invariant: it ends with code 0 when nobody needs it, and only then: else another one is started.
"""

import contextlib
import mmap
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from distributed_grid.client import map_calls, pickling
from distributed_grid.client.blocking import Caller
from distributed_grid.client.pickling import outcome_of, raised_of, unpacked
from distributed_grid.client.printing import Prints
from distributed_grid.client.resting import rest
from distributed_grid.errors import GridError, MeshUnreachable, NoAgent, NotFound, Overloaded
from distributed_grid.model.ids import JobId
from distributed_grid.wire.maps import (
    BATCH_BYTES,
    GUEST_SOCKET,
    MapCall,
    MapOutcome,
    TakeCalls,
    TakenCalls,
    WantValue,
)

BATCH_NS: Final = 50_000_000  # Of work taken at once: it hides the cost of asking for it.
LATE_S: Final = 0.2  # A batch that takes longer is told in parts, and the rest of it given back.
BATCH_CALLS_MAX: Final = 2_000
IDLE_MS: Final = 1_000  # Without calls for so long it ends, and others may have its cores.
UNABLE_CHARACTERS_MAX: Final = 1_000  # A reason, not a traceback.
ORPHAN_S: Final = 10.0  # A crashed agent is back in 1 s, and the client begins its map again.
RETRY_S: Final = 0.05
AWAY: Final = (NoAgent, NotFound, Overloaded, MeshUnreachable)  # It may be back in a moment.


class Worker:
    """One worker process."""

    def __init__(self, socket: str, map_id: str, name: str) -> None:
        self._socket, self._map, self._name = socket, map_id, name
        self._job = JobId(os.environ["GRID_JOB_ID"])
        self._caller = Caller(socket)
        self._function_number = 0
        self._function: Callable[[Any], Any] = unpacked
        self._may_hand_back = True
        self._prints = Prints()
        self._mean_ns = 0  # Of one call; 0: none has run yet.
        self._todo: deque[MapCall] = deque()
        self._done: deque[MapOutcome] = deque()
        self._done_bytes = 0
        self._batch = threading.Condition()
        self._began_s = 0.0  # When the batch did; 0: none is being worked on.
        pickling.fetched = self._value

    def serve(self) -> None:
        """Until there is nothing to do."""
        threading.Thread(target=self._watch, name="grid-late", daemon=True).start()
        while (taken := self._taken()) is not None and taken.calls:
            if taken.function is not None:
                self._function_number = taken.function.number
                # What must not run twice is not run elsewhere after it began here.
                self._may_hand_back = is_abroad() and taken.function.retries > 0
                self._prints.are_wanted = taken.function.prints
                self._function, problem = _function(taken.function.data)
                if problem is not None and is_abroad():
                    self._give_up(taken.calls, f"{type(problem).__name__}: {problem}")
                    return
            if not self._work(taken.calls):
                return

    def refuse(self, why: str) -> None:
        """Tell that nobody here can run anything of this map."""
        self._give_up((), why)

    def _give_up(self, calls: tuple[MapCall, ...], why: str) -> None:
        """Nobody on this machine can run them: what they need is on that of the caller."""
        outcomes = _drained(self._done)
        sys.stderr.write(f"grid: workers here cannot run this: {why}\n")
        returned = tuple(call.number for call in calls)
        self._told(
            self._caller, self._report(outcomes, returned, unable=why[:UNABLE_CHARACTERS_MAX])
        )

    def _taken(self) -> TakenCalls | None:
        most = 1 if not self._mean_ns else max(1, BATCH_NS // self._mean_ns)
        return self._told(
            self._caller,
            TakeCalls(
                worker=self._name,
                job=self._job,
                outcomes=_drained(self._done),
                function=self._function_number,
                most=min(most, BATCH_CALLS_MAX),
                wait_ms=IDLE_MS,
            ),
        )

    def _work(self, calls: tuple[MapCall, ...]) -> bool:
        """Run them; False: a module is missing here, and they were handed back."""
        started_ns, ran = time.perf_counter_ns(), 0
        self._done_bytes = 0
        self._todo.extend(calls)
        with self._batch:
            self._began_s = time.monotonic()
            self._batch.notify()
        while (call := _popped(self._todo)) is not None:
            how, data = outcome_of(self._function, call.data)
            printed = self._prints.taken()
            if how == "missing":
                if self._may_hand_back:
                    why = raised_of(data, index=call.number, name=self._map)
                    self._give_up((call, *_drained(self._todo)), f"{type(why).__name__}: {why}")
                    return False
                how = "raised"
            self._done.append(MapOutcome(call.number, how, data, printed))  # type: ignore[arg-type]
            ran += 1
            self._done_bytes += len(data) + len(printed)
            if self._done_bytes > BATCH_BYTES:
                self._done_bytes = 0
                self._told(self._caller, self._report(_drained(self._done)))
        with self._batch:
            self._began_s = 0.0
        took_ns = (time.perf_counter_ns() - started_ns) // max(ran, 1)
        self._mean_ns = took_ns if not self._mean_ns else (self._mean_ns + took_ns) // 2
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):  # A call may have closed or replaced it.
                stream.flush()
        return True

    def _watch(self) -> None:
        """Beside the calls: a batch that takes long must not hold up the rest of it."""
        caller = Caller(self._socket)
        while True:
            with self._batch:
                self._batch.wait_for(lambda: self._began_s > 0)
                began_s = self._began_s
                self._batch.wait(LATE_S)
                if self._began_s != began_s:
                    continue  # That batch is over.
                returned = tuple(call.number for call in _drained(self._todo))
                report = self._report(_drained(self._done), returned)
                # Told before the lock is given back: else the next request might overtake it, and
                # what is told here would look lost.
                if report.outcomes or report.returned:
                    self._told(caller, report)

    def _report(
        self,
        outcomes: tuple[MapOutcome, ...],
        returned: tuple[int, ...] = (),
        *,
        unable: str = "",
    ) -> TakeCalls:
        return TakeCalls(
            worker=self._name,
            job=self._job,
            outcomes=outcomes,
            returned=returned,
            unable=unable,
        )

    def _told(self, caller: Caller, wanted: TakeCalls) -> TakenCalls | None:
        """Ask, over a restart of the agent; None: there is nobody to work for any more."""
        until_s = time.monotonic() + ORPHAN_S
        while True:
            try:
                return caller.run(map_calls.take(self._map, wanted))
            except AWAY:
                if time.monotonic() > until_s:
                    return None
                rest(RETRY_S)

    def _value(self, name: str) -> mmap.mmap:
        """A large value of a call: this machine has it once, and a call's changes are its own."""
        until_s = time.monotonic() + ORPHAN_S
        while True:
            try:
                wanted = WantValue(job=self._job, value=name)
                path = self._caller.run(map_calls.value(self._map, wanted)).path
                with open(path, "rb") as file:  # noqa: PTH123
                    return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
            except (*AWAY, FileNotFoundError):  # It made room for others in between.
                if time.monotonic() > until_s:
                    raise
                rest(RETRY_S)


def _popped(calls: deque[MapCall]) -> MapCall | None:
    # One operation each: the watching thread may empty it at any moment.
    try:
        return calls.popleft()
    except IndexError:
        return None


def _drained(things: deque[Any]) -> tuple[Any, ...]:
    found = []
    try:
        while True:
            found.append(things.popleft())
    except IndexError:
        return tuple(found)


def _function(data: bytes) -> tuple[Callable[[Any], Any], Exception | None]:
    """The function; one that cannot be read raises that in every call."""
    try:
        function: Callable[[Any], Any] = unpacked(data)
    except Exception as error:  # noqa: BLE001  # A missing module, most often.
        problem = error

        def unreadable(_: Any) -> Any:
            raise problem

        return unreadable, problem
    return function, None


def is_abroad() -> bool:
    """Whether this is another machine than that of the caller."""
    return GUEST_SOCKET in os.environ


def main() -> int:
    """Serve one map."""
    socket, python, map_id = sys.argv[1:4]
    name = f"{os.environ['GRID_JOB_ATTEMPT']}.{os.environ['GRID_ARRAY_INDEX']}"
    here = f"{sys.version_info.major}.{sys.version_info.minor}"
    worker = Worker(socket, map_id, name)
    try:
        if is_abroad() and python != here:  # What one pickles, another may not be able to read.
            worker.refuse(f"Python {python} is wanted, and this is {here}")
        else:
            worker.serve()
    except GridError as error:
        sys.stderr.write(f"grid: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
