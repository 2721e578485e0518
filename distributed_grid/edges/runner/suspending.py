"""Stopping all processes of an attempt where they are, and letting them go on.

Lives here: the signals, and what is left of the attempt's time meanwhile. Never here: when to do
so (`keeper` is told), who belongs to an attempt (`attempts`).
Invariant: while it is stopped an attempt's time stands still, and nothing of it runs for longer
than one look of the keeper.

Signals, not the freezer of a control group: they need no right to make groups, work alike in both
versions, and show in every list of processes as T. A stopped process cannot fork, so stopping all
that are seen, again and again until nobody new appears, comes to an end.
"""

import signal
import time
from collections.abc import Callable
from typing import Final

from distributed_grid.edges.runner import reap

ROUNDS_MAX: Final = 100  # Who forks faster than that is stopped by the next look.

Members = Callable[[], list[int]]


class Suspension:
    """Of one attempt: whether it was asked for, and whether its processes are stopped."""

    def __init__(self, members: Members) -> None:
        self.is_on = False  # As asked for: the next index does not start.
        self.is_stopped = False  # Its processes. Not of one that is just being ended.
        self._members = members
        self._left_ns = 0  # Of its time; 0: it has no end.

    def stop(self, due_ns: int) -> None:
        """Stop everybody; `due_ns` is when its time would have been over."""
        self.is_stopped = True
        self._left_ns = max(due_ns - time.monotonic_ns(), 1) if due_ns else 0
        _signal_all(self._members, signal.SIGSTOP)

    def hold(self) -> None:
        """Now and then: stop whoever was woken by somebody else, or was overlooked."""
        if self.is_stopped:
            _signal_all(lambda: [pid for pid in self._members() if _runs(pid)], signal.SIGSTOP)

    def go_on(self) -> int:
        """Wake everybody; when its time is over now, or 0."""
        if not self.is_stopped:
            return 0
        _signal_all(self._members, signal.SIGCONT)
        return self.forget()

    def forget(self) -> int:
        """Its main process is gone, or everybody was woken; as `go_on`."""
        left_ns, self._left_ns = self._left_ns, 0
        self.is_stopped = False
        return time.monotonic_ns() + left_ns if left_ns else 0


def _signal_all(members: Members, number: int) -> None:
    told: set[int] = set()
    for _ in range(ROUNDS_MAX):
        fresh = set(members()) - told
        if not fresh:
            return
        for pid in fresh:
            reap.send_signal(pid, number)
        told |= fresh


def _runs(pid: int) -> bool:
    fields = reap.stat_of(pid)
    return bool(fields) and fields[0] not in "TtZX"
