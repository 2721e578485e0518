"""A job in the foreground: its bytes on our stdout and stderr, its end as ours.

Lives here: copying both streams at once, Ctrl-C, a reader that has gone. Never here: options
(`run`).
Invariant: nothing but the job's bytes reaches stdout.
"""

import os
import select
from typing import Final

from distributed_grid.cli import outcome
from distributed_grid.cli.interrupts import Interrupted, Interrupts
from distributed_grid.cli.tell import tell
from distributed_grid.client import calls
from distributed_grid.client.blocking import Caller, Line
from distributed_grid.client.exchange import Broken
from distributed_grid.client.streams import Output
from distributed_grid.errors import GridError, NoAgent
from distributed_grid.model.ids import JobId
from distributed_grid.wire.api import JobView

STDOUT, STDERR = 1, 2
SIGPIPE_CODE: Final = 141  # As a shell says of a program that wrote to nobody.


class Left(Exception):
    """We stop watching, with this exit code."""

    def __init__(self, code: int) -> None:
        self.code = code
        super().__init__(code)


def watch(agent: Caller, job: JobId, name: str) -> JobView:
    """Copy a job's output until it has ended; raises Left if a person or a reader leaves."""
    outputs = {
        STDOUT: Output(f"id:{job}", stream="stdout"),
        STDERR: Output(f"id:{job}", stream="stderr"),
    }
    with Interrupts(raises=False) as interrupts:
        while True:
            try:
                _copy(agent, outputs, interrupts)
                return agent.run(calls.wait(f"id:{job}"))
            except Interrupted:
                pass
            except BrokenPipeError:
                agent.run(calls.cancel(f"id:{job}"))
                raise Left(SIGPIPE_CODE) from None
            leave_or_go_on(agent, job, name, interrupts)


def wait(agent: Caller, job: JobId, name: str) -> JobView:
    """Wait without output until a job has ended."""
    with Interrupts(raises=True) as interrupts:
        while True:
            try:
                return agent.run(calls.wait(f"id:{job}"))
            except Interrupted:
                leave_or_go_on(agent, job, name, interrupts)


def leave_or_go_on(agent: Caller, job: JobId, name: str, interrupts: Interrupts) -> None:
    """Ask what a signal means; raises Left unless watching goes on."""
    code = 128 + (interrupts.last or 2)
    match interrupts.ask(name):
        case "go on":
            return
        case "detach":
            tell(f"grid: job {name} goes on: grid wait {job}")
        case "cancel":
            cancel(agent, job, name)
    raise Left(code)


def cancel(agent: Caller, job: JobId, name: str) -> None:
    """Cancel a job, and say so; that it has just ended is no failure."""
    try:
        agent.run(calls.cancel(f"id:{job}"))
        tell(f"grid: job {name} ({job[:12]}) cancelled")
    except GridError as error:
        tell(f"grid: {error}")


class _Tap:
    """One stream of the job, and where it goes."""

    def __init__(self, agent: Caller, output: Output, target: int) -> None:
        self._agent = agent
        self._output = output
        self._target = target
        self._line: Line | None = None

    def open(self) -> None:
        try:
            self._line = self._agent.opened(self._output)
        except Broken as error:
            raise NoAgent(self._agent.path, why=str(error)) from error

    def fileno(self) -> int:
        assert self._line is not None
        return self._line.fileno()

    def pour(self) -> bool:
        """Copy what is there; False when the stream is over."""
        self._line, found = self._agent.next_of(self._output, self._line)
        for data in found:
            write_all(self._target, data)
        return not self._output.is_over

    def close(self) -> None:
        if self._line is not None:
            self._line.close()
            self._line = None


def _copy(agent: Caller, outputs: dict[int, Output], interrupts: Interrupts) -> None:
    """Both streams until both are over; called again, each goes on where it was."""
    taps = [_Tap(agent, output, target) for target, output in outputs.items() if not output.is_over]
    try:
        for tap in taps:
            tap.open()
        while taps:
            watched: list[_Tap | Interrupts] = [*taps, interrupts]
            ready, _, _ = select.select(watched, [], [])
            for tap in [tap for tap in taps if tap in ready]:
                if not tap.pour():
                    tap.close()
                    taps.remove(tap)
            if interrupts.last is not None:
                raise Interrupted
    finally:
        for tap in taps:
            tap.close()


def write_all(target: int, data: bytes) -> None:
    """Every byte, also to a terminal that somebody made non-blocking."""
    rest = memoryview(data)
    while rest:
        try:
            rest = rest[os.write(target, rest) :]
        except BlockingIOError:
            select.select([], [target], [])


def finish(job: JobView) -> int:
    """Tell the reason, if there is one to tell, and give the exit code."""
    if (why := outcome.reason(job)) is not None:
        tell(f"grid: {why}")
    tell_cuts(job)
    return outcome.exit_code(job)


def tell_cuts(job: JobView) -> None:
    """Say what was cut of its output: else nobody would know that bytes are missing."""
    for attempt in job.attempts:
        if "output cut" in attempt.note:
            tell(f"grid: {attempt.note}")
