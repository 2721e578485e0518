"""A job in the foreground: its bytes on our stdout and stderr, its end as ours.

Lives here: copying both streams at once, Ctrl-C, a reader that has gone or cannot take more. Never
here: options (`run`).
Invariant: nothing but the job's bytes reaches stdout.
"""

import os
import select
import sys
import time
from collections.abc import Sequence
from typing import Final

from distributed_grid.cli import outcome
from distributed_grid.cli.interrupts import Interrupts
from distributed_grid.cli.tell import lose, poured, tell, wipe
from distributed_grid.client import calls
from distributed_grid.client.blocking import Caller, Line, Meanwhile, Woken
from distributed_grid.client.streams import Output
from distributed_grid.errors import EXIT_GRID, GridError
from distributed_grid.model.ids import JobId
from distributed_grid.wire.api import JobView

STDOUT, STDERR = 1, 2
MOVING_S: Final = 0.5  # On a terminal, before the first look at how far files are,
BEGIN_S: Final = 3.0  # and before it is said why a job has not begun.
SIGPIPE_CODE: Final = 141  # As a shell says of a program that wrote to nobody.
# What notes and stories say of files that are not where somebody will look for them.
LOST: Final = (
    "output cut", "outputs stay behind", "no outputs", "left as here", "kept beside",
    "not brought back", "in an empty directory", "stay at home",
)  # fmt: skip


class Left(Exception):
    """We stop watching, with this exit code."""

    def __init__(self, code: int) -> None:
        self.code = code
        super().__init__(code)


class Unwritable(Exception):
    """Our stdout does not take what the job wrote."""

    def __init__(self, error: OSError) -> None:
        self.error = error
        super().__init__(str(error))


def watch(agent: Caller, job: JobId, name: str, interrupts: Interrupts) -> JobView:
    """Copy a job's output until it has ended; raises Left if a person or a reader leaves."""
    outputs = {
        STDOUT: Output(f"id:{job}", stream="stdout"),
        STDERR: Output(f"id:{job}", stream="stderr"),
    }
    while True:
        try:
            _copy(agent, outputs, interrupts)
            view = agent.run(calls.wait(f"id:{job}"))
            wipe()
            return view  # noqa: TRY300  (the loop is about signals)
        except Woken:
            leave_or_go_on(agent, job, name, interrupts)
        except Unwritable as unwritable:
            raise left_unwritten(agent, job, name, unwritable) from None


def wait(agent: Caller, job: JobId, name: str, interrupts: Interrupts) -> JobView:
    """Wait without output until a job has ended."""
    while True:
        try:
            view = agent.run(calls.wait(f"id:{job}"))
            wipe()
            return view  # noqa: TRY300  (the loop is about signals)
        except Woken:
            leave_or_go_on(agent, job, name, interrupts)


def leave_or_go_on(agent: Caller, job: JobId, name: str, interrupts: Interrupts) -> None:
    """Ask what a signal means; raises Left unless watching goes on."""
    code = interrupts.code
    match interrupts.ask(name):
        case "go on":
            return
        case "detach":
            tell(f"grid: job {name} goes on: grid wait {job}")
        case "cancel":
            cancel(agent, job, name)
    raise Left(code)


def left_unwritten(agent: Caller, job: JobId, name: str, unwritable: Unwritable) -> Left:
    """Nobody gets what the job writes: it is cancelled, as the pipe of a shell would end it."""
    if isinstance(unwritable.error, BrokenPipeError):
        cancel(agent, job, name, is_told=False)
        return Left(SIGPIPE_CODE)
    tell(f"grid: cannot write: {unwritable.error.strerror}. Make room, or write elsewhere.")
    cancel(agent, job, name)
    return Left(EXIT_GRID)


def cancel(agent: Caller, job: JobId, name: str, *, is_told: bool = True) -> None:
    """Cancel a job, and say so; that it has just ended is no failure."""
    try:
        view = agent.run(calls.cancel(f"id:{job}"))
        if is_told and view.state not in ("succeeded", "failed"):  # Else it was faster than we.
            tell(f"grid: {outcome.too_late(view) or f'job {name} ({job[:12]}) cancelled'}")
    except GridError as error:
        tell(f"grid: {error}")
    except Woken:  # One more signal: who is in such a hurry does not wait for the agent.
        tell(f"grid: job {name} may go on: grid cancel {job}")


class _Later:
    """A `Travelling` that is loaded when there is something to look at: most jobs begin at once."""

    def __init__(self, agent: Caller, words: Sequence[str], name: str, *, has_line: bool) -> None:
        self._told = agent, words, name
        self._has_line = has_line and sys.stderr.isatty()  # One to be written again and again.
        self._from_s = time.monotonic()
        self._made: Meanwhile | None = None

    def due_s(self) -> float:
        if self._made is not None:
            return self._made.due_s()
        first_s = MOVING_S if self._has_line else BEGIN_S
        return max(self._from_s + first_s - time.monotonic(), 0)

    def look(self) -> None:
        if self._made is None:
            from distributed_grid.cli.travelling import Travelling

            self._made = Travelling(*self._told, from_s=self._from_s, has_line=self._has_line)
        self._made.look()


def explain_wait(
    agent: Caller, words: Sequence[str], name: str = "", *, has_line: bool = True
) -> None:
    """While somebody waits for jobs, tell how far their files are, and why they wait."""
    agent.meanwhile = _Later(agent, words, name, has_line=has_line)


class _Tap:
    """One stream of the job, and where it goes."""

    def __init__(self, agent: Caller, output: Output, target: int) -> None:
        self._agent = agent
        self._output = output
        self._target = target
        self._line: Line | None = None

    def open(self) -> None:
        self._line = self._agent.opened(self._output)

    def fileno(self) -> int:
        assert self._line is not None
        return self._line.fileno()

    def pour(self, interrupts: Interrupts) -> bool:
        """Copy what is there; False when the stream is over."""
        self._line, found = self._agent.next_of(self._output, self._line)
        for data in found:
            pour(self._target, data, interrupts)
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
            due_s = agent.meanwhile.due_s() if agent.meanwhile is not None else None
            ready, _, _ = select.select(watched, [], [], due_s)
            if interrupts in ready:
                raise Woken
            if not ready and agent.meanwhile is not None:
                agent.meanwhile.look()
            for tap in [tap for tap in taps if tap in ready]:
                if not tap.pour(interrupts):
                    tap.close()
                    taps.remove(tap)
    finally:
        for tap in taps:
            tap.close()


def pour(target: int, data: bytes, interrupts: Interrupts) -> None:
    """Write a job's bytes to our stdout or stderr; a stderr that takes none costs only these."""
    wipe()
    try:
        with interrupts.writing():
            write_all(target, data)
            poured(data)
    except OSError as error:
        if target == STDERR and not os.path.sameopenfile(STDOUT, STDERR):
            lose(STDERR)
        else:
            raise Unwritable(error) from error


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
    """Say what was cut of its output, or did not come back: else nobody would know of it."""
    told = [*(line.detail for line in job.story), *(attempt.note for attempt in job.attempts)]
    for word in dict.fromkeys(told):
        if any(lost in word for lost in LOST):
            tell(f"grid: {word}")
