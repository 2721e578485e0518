"""The futures of one Executor: as those of the standard library, with one lock for all of them.

Lives here: marking many at once as running or done. Never here: what their results are.
Invariant: callbacks run without the lock. A lock, a queue and ten more objects for each call, and
what it takes to collect them, would be most of what a short call costs.
"""

import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from typing import Any, Final, TypeVar

R = TypeVar("R")

# The words of the standard library for them.
PENDING, RUNNING, FINISHED = "PENDING", "RUNNING", "FINISHED"
_UNDONE: Final = frozenset({PENDING, RUNNING})


class CallFuture(Future[R]):
    """One call of an Executor."""

    def __init__(self, shared: threading.Condition) -> None:
        # Not that of the class above, which makes a condition.
        self._condition = shared
        self._state = PENDING
        self._result: R | None = None
        self._exception: BaseException | None = None
        self._waiters: list[Any] = []
        self._done_callbacks: list[Any] = []

    def result(self, timeout: float | None = None) -> R:
        """The result, or its exception raised; waits for it."""
        if self._state == FINISHED and self._exception is None:
            return self._result  # type: ignore[return-value]
        self._await(timeout)
        return super().result(0)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """The exception, if it raised one; waits for that."""
        self._await(timeout)
        return super().exception(0)

    def _await(self, timeout: float | None) -> None:
        # Others wake whoever waits here, too: the class above would take that for its own end.
        with self._condition:
            self._condition.wait_for(lambda: self._state not in _UNDONE, timeout)


def begun(shared: threading.Condition, futures: Iterable[CallFuture[Any]]) -> Iterator[bool]:
    """Mark them as running; False of each that was cancelled."""
    found = []
    with shared:
        for future in futures:
            if future._state == PENDING:  # noqa: SLF001
                future._state = RUNNING  # noqa: SLF001
                found.append(True)
            else:
                found.append(future.set_running_or_notify_cancel())
    return iter(found)


def finish(shared: threading.Condition, done: list[tuple[CallFuture[Any], Any]]) -> None:
    """Tell running ones their results."""
    with shared:
        for future, value in done:
            future._result = value  # noqa: SLF001
            future._state = FINISHED  # noqa: SLF001
            for waiter in future._waiters:  # noqa: SLF001
                waiter.add_result(future)
        shared.notify_all()
    for future, _ in done:
        if future._done_callbacks:  # noqa: SLF001
            future._invoke_callbacks()  # type: ignore[attr-defined] # noqa: SLF001
