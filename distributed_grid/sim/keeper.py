"""A keeper without processes: what it is told to run takes the time that the world knows.

Lives here: rows of attempts, suspension, giving way, the journal of reports. Never here: when an
agent hears of them (`world`).
Invariant: what is not acknowledged is repeated; a suspended process makes no progress.
"""

import random
from collections.abc import Callable, Iterator

from distributed_grid.model.ids import JobId
from distributed_grid.sim.arrivals import Life
from distributed_grid.wire.keeper import (
    Acknowledge,
    Ended,
    Hello,
    How,
    Preempt,
    Resume,
    Run,
    Started,
    Stop,
    Suspend,
    ToKeeper,
    Usage,
    Withdraw,
)


class Process:
    """An attempt under way: one process, or the indices of a chunk in turn."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.indices = list(run.indices) or [-1]  # Still to run; the first of them does.
        self.started_ms = 0
        self.due_ms: int | None = None  # When it ends by itself; None: suspended, or not started.
        self.left_ms = 0  # While it is suspended.
        self.how_it_ends: How = "exited"
        self.leaves_ms: int | None = None  # Told to stop, or to give way: gone by then.
        self.is_suspended = False
        self.is_timed_out = False  # Its time is shorter than its work.


class Keeper:
    """Runs attempts in virtual time, and remembers what really happened."""

    def __init__(self, rng: random.Random, lives: Callable[[JobId], Life]) -> None:
        self._rng = rng
        self._lives = lives
        self._number = 0
        self._deaths = 0
        self.attempts: dict[str, Process] = {}
        self.rows: dict[str, list[str]] = {}  # By lease; the first of each runs.
        self.journal: list[Started | Ended] = []
        self.told = 0  # Up to this number the agent that lives now was told.
        self.ends: dict[tuple[JobId, int], list[tuple[How, int]]] = {}  # By job and index.
        self._saved_ms: dict[tuple[JobId, int], int] = {}  # What was left when it gave way.

    @property
    def firsts(self) -> Iterator[Process]:
        """Those that run, or are suspended."""
        return (self.attempts[row[0]] for row in self.rows.values())

    def hello(self) -> Hello:
        """What a new agent hears first."""
        queued = tuple(attempt for row in self.rows.values() for attempt in row[1:])
        return Hello(
            keeper_id=f"keeper-{self._deaths}",
            boot_id="boot",
            pid=1,
            limits={},
            running=tuple(self.attempts),
            queued=queued,
        )

    def hear(self, message: ToKeeper, now_ms: int) -> None:
        """Do as told; what is said of an attempt that is gone comes too late."""
        if isinstance(message, Acknowledge):
            self.journal = [one for one in self.journal if one.number > message.upto]
        elif isinstance(message, Run):
            assert message.attempt not in self.attempts, "an attempt was started twice"
            self.attempts[message.attempt] = Process(message)
            row = self.rows.setdefault(message.lease, [])
            row.append(message.attempt)
            if len(row) == 1:
                self._start(message.attempt, now_ms)
        elif isinstance(message, Stop | Preempt | Suspend | Resume | Withdraw):
            process = self.attempts.get(message.attempt)
            if process is not None:
                self._change(process, message, now_ms)

    def _change(
        self, process: Process, message: Stop | Preempt | Suspend | Resume | Withdraw, now_ms: int
    ) -> None:
        attempt = message.attempt
        is_queued = self.rows[process.run.lease][0] != attempt
        match message:
            case Withdraw() | Stop() | Preempt() if is_queued:
                self._end(attempt, "stopped", 125, now_ms, is_last=True)
            case Stop() | Preempt():
                how: How = "stopped" if isinstance(message, Stop) else "preempted"
                if process.leaves_ms is None or how == "stopped":
                    process.how_it_ends = how
                if isinstance(message, Preempt) and message.command:
                    left_ms = process.left_ms if process.due_ms is None else process.due_ms - now_ms
                    self._saved_ms[process.run.job, process.indices[0]] = max(left_ms, 1)
                leaves_ms = now_ms + self._rng.randint(0, message.grace_ms)
                process.leaves_ms = min(leaves_ms, process.leaves_ms or leaves_ms)
            case Suspend() if not is_queued and process.due_ms is not None:
                process.left_ms, process.due_ms = process.due_ms - now_ms, None
                process.is_suspended = True
            case Resume() if process.is_suspended:
                process.due_ms, process.is_suspended = now_ms + process.left_ms, False
            case _:
                pass  # To withdraw one that has started changes nothing.

    def next_ms(self) -> int | None:
        """When the next process ends."""
        dues = (due for one in self.firsts for due in (one.due_ms, one.leaves_ms))
        return min((due for due in dues if due is not None), default=None)

    def pass_to(self, now_ms: int) -> None:
        """Let everything end that is due."""
        for process in list(self.firsts):
            attempt = process.run.attempt
            if process.leaves_ms is not None and process.leaves_ms <= now_ms:
                self._end(attempt, process.how_it_ends, 143, now_ms, is_last=True)
            elif process.due_ms is not None and process.due_ms <= now_ms:
                how: How = "timeout" if process.is_timed_out else "exited"
                code = 124 if process.is_timed_out else self._code(process)
                self._end(attempt, how, code, now_ms, is_last=len(process.indices) == 1)

    def die(self, now_ms: int) -> None:
        """The next keeper finds in the journal what this one had, and tells it as lost."""
        self._deaths += 1
        for row in list(self.rows.values()):
            for attempt in list(reversed(row)):  # Those behind first, so that none starts.
                how: How = "lost" if attempt == row[0] else "stopped"
                self._end(attempt, how, 125, now_ms, is_last=True)

    def _code(self, process: Process) -> int:
        """Of one that ends by itself: the first ones may fail."""
        before = self.ends.get((process.run.job, process.indices[0]), [])
        failed = sum(how == "exited" for how, _ in before)
        return 1 if failed < self._lives(process.run.job).fails_first else 0

    def _start(self, attempt: str, now_ms: int) -> None:
        process = self.attempts[attempt]
        takes_ms = self._lives(process.run.job).takes_ms
        timeout_ms = process.run.timeout_ms
        process.started_ms = now_ms
        takes_ms = self._saved_ms.pop((process.run.job, process.indices[0]), takes_ms)
        process.is_timed_out = 0 < timeout_ms < takes_ms
        process.due_ms = now_ms + (timeout_ms if process.is_timed_out else takes_ms)
        if process.indices == (list(process.run.indices) or [-1]):
            self._number += 1
            self.journal.append(Started(number=self._number, attempt=attempt, pid=7, at_ms=now_ms))

    def _end(self, attempt: str, how: How, code: int, now_ms: int, *, is_last: bool) -> None:
        process = self.attempts[attempt]
        index = process.indices[0]
        row = self.rows[process.run.lease]
        is_first = row[0] == attempt
        self.ends.setdefault((process.run.job, index), []).append((how, code))
        self._number += 1
        self.journal.append(
            Ended(
                number=self._number,
                attempt=attempt,
                index=-1 if how == "lost" or not is_first else index,
                how=how,
                code=code,
                started_ms=process.started_ms or now_ms,
                ended_ms=now_ms,
                usage=Usage(user_us=1),
                is_last=is_last,
            )
        )
        if not is_last:
            del process.indices[0]
            self._start(attempt, now_ms)
            return
        row.remove(attempt)
        del self.attempts[attempt]
        if not row:
            del self.rows[process.run.lease]
        elif is_first:
            self._start(row[0], now_ms)
