"""A runner without processes, for tests of what stands above it.

Lives here: `Runner` over a small table of commands. Never here: anything a real process would show.
Invariant: it passes the contract suite of the seam; what it cannot pretend is not found.

It knows `true`, `false`, `sh -c 'exit N'`, and `sleep`, which runs until it is stopped.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator

import msgspec

from distributed_grid.edges.runner import Report
from distributed_grid.edges.runner.agent_link import RunnerGone
from distributed_grid.edges.runner.turns import SINGLE, Turns
from distributed_grid.wire.keeper import (
    Acknowledge,
    Deadline,
    Ended,
    Hello,
    How,
    Preempt,
    Quit,
    Resume,
    Run,
    Started,
    Stop,
    StopIndex,
    Suspend,
    ToKeeper,
    Usage,
    Withdraw,
)


class MemoryRunner:
    """Pretends to be a keeper; `connect` gives the next agent its end, as after a restart."""

    def __init__(self) -> None:
        self._running: dict[str, tuple[Run, deque[int]]] = {}
        self._turns = Turns()
        self._suspended: dict[str, None] = {}  # In order.
        self._deadlines: dict[str, int] = {}  # Told to the next agent; there is no clock for them.
        self._unacknowledged: list[Report] = []
        self._fresh: list[Report] = []
        self._arrived = asyncio.Event()
        self._number = 0
        self._is_closed = False
        self.now_ms = 1  # Set by whoever cares.
        self.connect()

    def connect(self) -> "MemoryRunner":
        """Hello, and every report that was not acknowledged."""
        self._is_closed = False
        self._fresh = list(self._unacknowledged)
        self.hello = Hello(
            keeper_id="memory",
            boot_id="memory",
            pid=0,
            limits={"cpu": "not limited", "memory": "not limited", "processes": "not limited"},
            running=(*self._running, *self._turns.waiting),
            unacknowledged=len(self._unacknowledged),
            queued=self._turns.waiting,
            suspended=tuple(self._suspended),
            deadlines=dict(self._deadlines),
        )
        self._wake()
        return self

    async def send(self, message: ToKeeper) -> None:
        """Obey at once."""
        if self._is_closed:
            raise RunnerGone("it was closed")
        self._obey(message)
        while (following := self._turns.take()) is not None:
            self._begin(following)
        if isinstance(message, Quit):
            await self.close()

    def _obey(self, message: ToKeeper) -> None:
        match message:
            case Run():
                self._run(message)
            case Stop() | StopIndex() | Preempt() | Withdraw() if message.attempt in self._turns:
                for ended in self._turns.obey(message):
                    times = {"started_ms": self.now_ms, "ended_ms": self.now_ms}
                    self._report(msgspec.structs.replace(ended, **times))
            case Stop() | StopIndex() | Preempt() | Suspend() | Resume():
                if message.attempt in self._running:
                    self._change(message)
            case Deadline():
                self._move_deadline(message.attempt, message.until_boot_us)
            case Acknowledge():
                self._unacknowledged = [r for r in self._unacknowledged if r.number > message.upto]
            case Quit() if message.stop_jobs:
                for attempt in (*self._turns.waiting, *self._running):
                    self._obey(Stop(attempt=attempt))
            case _:
                pass

    def _move_deadline(self, attempt: str, until_us: int) -> None:
        is_there = attempt in self._running or attempt in self._turns
        if is_there and until_us > self._deadlines.get(attempt, 0):
            self._deadlines[attempt] = until_us

    def _change(self, wish: Stop | StopIndex | Preempt | Suspend | Resume) -> None:
        match wish:
            case Stop() | Preempt():
                run, pending = self._running[wish.attempt]
                index = pending[0]
                pending.clear()
                how: How = "stopped" if isinstance(wish, Stop) else "preempted"
                self._end(run, index, how, 128 + wish.signal, is_last=True)
            case StopIndex():
                self._skip(wish)
            case Suspend():
                self._suspended[wish.attempt] = None
            case Resume():
                self._suspended.pop(wish.attempt, None)

    async def receive(self) -> tuple[Report, ...]:
        """What has arrived, at least one report; nothing once closed."""
        while not self._fresh and not self._is_closed:
            self._arrived.clear()
            await self._arrived.wait()
        reports, self._fresh = tuple(self._fresh), []
        return reports

    async def __aiter__(self) -> AsyncIterator[Report]:
        while reports := await self.receive():
            for report in reports:
                yield report

    async def close(self) -> None:
        """Hang up."""
        self._is_closed = True
        self._wake()

    def _run(self, run: Run) -> None:
        if run.attempt in self._running or run.attempt in self._turns:
            return
        if self._turns.join(run):
            self._begin(run)

    def _begin(self, run: Run) -> None:
        pending = deque(run.indices or (SINGLE,))
        self._running[run.attempt] = (run, pending)
        self._move_deadline(run.attempt, run.until_boot_us)
        outcome = _outcome(run.argv)
        if outcome != ("not-found", 127):
            started = Started(
                number=0, attempt=run.attempt, pid=1, at_ms=self.now_ms, index=pending[0]
            )
            self._report(started)
        while pending and outcome is not None:
            index = pending.popleft()
            self._end(run, index, outcome[0], outcome[1], is_last=not pending)

    def _skip(self, message: StopIndex) -> None:
        run, pending = self._running[message.attempt]
        if message.index in pending:
            pending.remove(message.index)
            self._end(run, message.index, "stopped", 128 + 15, is_last=not pending)

    def _end(self, run: Run, index: int, how: How, code: int, *, is_last: bool) -> None:
        if is_last:
            del self._running[run.attempt]
            self._suspended.pop(run.attempt, None)
            self._deadlines.pop(run.attempt, None)
            self._turns.over(run)
        self._report(
            Ended(
                number=0,
                attempt=run.attempt,
                how=how,
                code=code,
                started_ms=self.now_ms,
                ended_ms=self.now_ms,
                usage=Usage(),
                index=index,
                is_last=is_last,
            )
        )

    def _report(self, report: Report) -> None:
        self._number += 1
        numbered = msgspec.structs.replace(report, number=self._number)
        self._unacknowledged.append(numbered)
        self._fresh.append(numbered)
        self._wake()

    def _wake(self) -> None:
        self._arrived.set()


def _outcome(argv: tuple[str, ...]) -> tuple[How, int] | None:
    """How a command ends; None if it runs until it is stopped."""
    match argv:
        case ("true", *_):
            return "exited", 0
        case ("false", *_):
            return "exited", 1
        case ("sleep", *_):
            return None
        case ("sh", "-c", script) if script.startswith("exit ") and script[5:].isdigit():
            return "exited", int(script[5:])
        case _:
            return "not-found", 127
