"""Attempts that share a lease: who waits, and whose turn is next.

Lives here: one line of waiting attempts for each lease, and what is told about who never left it.
Never here: processes (`attempts`), when a turn is taken (`keeper`).
Invariant: of the attempts of a lease at most one has begun and is not over, and the others begin in
the order in which they were told. Who waits is a `Run` in memory and a record in the journal.
"""

import time
from collections import OrderedDict, deque
from typing import Final

import msgspec

from distributed_grid.errors import EXIT_GRID
from distributed_grid.wire.keeper import (
    Ended,
    How,
    Preempt,
    Run,
    Stop,
    StopIndex,
    Usage,
    Withdraw,
)

SINGLE: Final = -1  # In the place of an index, where there is none.


class Turns:
    """Everybody who waits, in lines by lease."""

    def __init__(self) -> None:
        # Of every lease with an attempt that has begun. Ordered: taking the first of a plain dict
        # again and again walks over all that were taken before.
        self._lines: dict[str, OrderedDict[str, Run]] = {}
        self._lease_of: dict[str, str] = {}  # Of who waits, the longest first.
        self._free: deque[str] = deque()  # Leases whose attempt is over.

    def join(self, run: Run) -> bool:
        """Whether it may begin at once; else it waits."""
        if not run.lease:
            return True
        line = self._lines.get(run.lease)
        if line is None:
            self._lines[run.lease] = OrderedDict()
            return True
        line[run.attempt] = run
        self._lease_of[run.attempt] = run.lease
        return False

    def over(self, run: Run) -> None:
        """Nothing of an attempt that had begun is left."""
        if run.lease:
            self._free.append(run.lease)

    def take(self) -> Run | None:
        """The next whose turn it is, to begin now."""
        while self._free:
            lease = self._free.popleft()
            if self._lines[lease]:
                return self._leave(next(iter(self._lines[lease])))
            del self._lines[lease]
        return None

    def obey(self, message: Stop | StopIndex | Preempt | Withdraw) -> list[Ended]:
        """Do to one that waits what would be done to one that runs; what is to be told."""
        attempt = message.attempt
        match message:
            case Stop():
                self._leave(attempt)
                return [did_not_start(attempt, code=128 + message.signal)]
            case Withdraw() | Preempt():  # It holds nothing that it could give.
                self._leave(attempt)
                return [did_not_start(attempt, note="given back before it started")]
            case StopIndex():
                return self._skip(attempt, message.index)

    def _skip(self, attempt: str, index: int) -> list[Ended]:
        line = self._lines[self._lease_of[attempt]]
        before = line[attempt].indices or (SINGLE,)
        left = tuple(other for other in before if other != index)
        if len(left) == len(before):
            return []
        if left:
            line[attempt] = msgspec.structs.replace(line[attempt], indices=left)
        else:
            self._leave(attempt)
        return [did_not_start(attempt, code=128 + 15, index=index, is_last=not left)]

    def _leave(self, attempt: str) -> Run:
        return self._lines[self._lease_of.pop(attempt)].pop(attempt)

    def is_taken(self, run: Run) -> bool:
        """Whether another has begun in the lease of one that is over."""
        return run.lease in self._lines

    def is_awaited(self, run: Run) -> bool:
        """Whether somebody waits for the turn after this one."""
        return bool(self._lines.get(run.lease))

    @property
    def waiting(self) -> tuple[str, ...]:
        """Attempts that have not begun."""
        return tuple(self._lease_of)

    @property
    def is_free(self) -> bool:
        """Whether it may be somebody's turn."""
        return bool(self._free)

    def __contains__(self, attempt: str) -> bool:
        return attempt in self._lease_of

    def __len__(self) -> int:
        return len(self._lease_of)


def did_not_start(
    attempt: str,
    *,
    how: How = "stopped",
    code: int = EXIT_GRID,
    note: str = "did not start",
    index: int = SINGLE,
    is_last: bool = True,
) -> Ended:
    """The report about something that never ran."""
    now_ms = time.time_ns() // 1_000_000
    return Ended(
        number=0,
        attempt=attempt,
        how=how,
        code=code,
        started_ms=now_ms,
        ended_ms=now_ms,
        usage=Usage(),
        index=index,
        note=note,
        is_last=is_last,
    )
