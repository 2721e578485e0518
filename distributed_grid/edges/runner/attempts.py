"""An attempt: one process, or the indices of a chunk one after the other, to the last report.

Lives here: the life of its processes, and the reports about them. Never here: the loop and the
socket (`keeper`), how a process is started or found (`spawn`, `reap`).
Invariant: an index is started at most once, and the next one only after the former's tree is gone.

    waiting -> running -> (stopping) -> clearing -> reported -> waiting for the next index, or over
"""

import os
import signal
import time
from collections import deque
from typing import Final

from distributed_grid.edges.runner import orphans, reap
from distributed_grid.edges.runner.cgroups import Group
from distributed_grid.edges.runner.containment import Container
from distributed_grid.edges.runner.output import Output
from distributed_grid.edges.runner.program import NotRun
from distributed_grid.edges.runner.scratch import Scratch
from distributed_grid.edges.runner.spawn import Recipe
from distributed_grid.edges.runner.stance import Stance
from distributed_grid.edges.runner.turns import SINGLE, did_not_start
from distributed_grid.errors import EXIT_GRID
from distributed_grid.model import bytesize
from distributed_grid.wire.keeper import Ended, How, Limits, Run, Started, Usage

Report = Started | Ended

CLEARING_MS_MAX: Final = 5_000  # A process that SIGKILL does not end sleeps in a broken driver.
UNLIMITED: Final = Limits(processes_max=0)
TIMEOUT_CODE: Final = 124


class Attempt:
    """One `Run`, with the process of it that runs now."""

    def __init__(self, run: Run, stance: Stance) -> None:
        self.run = run
        self.pending: deque[int] = deque(run.indices or (SINGLE,))
        self.pid = 0  # Of the process that runs; 0 between processes.
        self.index = SINGLE
        self.started_ms = 0
        self.started_ns = 0  # Monotonic.
        self.due_ns = 0  # When something must happen: a timeout, a kill. 0: never.
        self.gone: reap.Gone | None = None  # The main process has ended, its tree perhaps not.
        self.memory_bytes_peak = 0  # As seen by looking; the kernel's own figure may be better.
        self.is_over = False
        self._stance = stance
        self._recipe = Recipe(run)
        self._scratch = Scratch(run.scratch_dir, before_remover=stance.go_home)
        self._output = Output(
            run.output_dir,
            attempt=run.attempt,
            is_chunk=bool(run.indices),
            bytes_max=run.limits.output_bytes_max,
            spare=None if run.image else stance.spare,
        )
        self.group: Group | None = None
        self.container = Container(run) if run.image else None
        self._cause: How | None = None  # Why it is being ended by us.
        self._signal = 0
        self._notes: list[str] = []
        self._is_told = False
        self._is_haunted = (
            False  # Something of it lives on: what it wrote to is used by nobody else.
        )
        self._survivors = 0
        self._clearing_until_ns = 0
        # How its orphans are known where no group tells (`orphans`).
        self.main_pid = 0
        self.born_ticks = 0
        self.marker = b"GRID_WORKDIR=" + os.fsencode(run.scratch_dir)

    # --- Starting ---------------------------------------------------------------------------------

    def can_start(self) -> bool:
        """Whether nothing of it runs and something is left."""
        return not self.pid and bool(self.pending)

    def start_next(self) -> list[Report]:
        """Start the next index that can be started; reports of those that could not."""
        reports: list[Report] = []
        while self.pending and not self.pid:
            self.index = self.pending.popleft()
            self.started_ms = time.time_ns() // 1_000_000
            self._cause, self._notes, self.gone = None, [], None
            self.memory_bytes_peak = 0
            try:
                self._start()
            except NotRun as problem:
                self._notes.append(problem.note)
                reports.append(self._ended(problem.how, problem.code, Usage()))
                continue
            self.started_ns = time.monotonic_ns()
            self.main_pid = self.pid
            self.due_ns = 0
            if self.run.timeout_ms:
                self.due_ns = self.started_ns + self.run.timeout_ms * 1_000_000
            if not self._is_told:
                self._is_told = True
                reports.append(
                    Started(
                        number=0,
                        attempt=self.run.attempt,
                        pid=self.pid,
                        at_ms=self.started_ms,
                        index=self.index,
                    )
                )
        return reports

    def _start(self) -> None:
        run, limits = self.run, self.run.limits
        if self.container:
            self._stance.go_home()  # The client needs more memory and processes than many jobs.
            self._recipe, limits = self.container.recipe(), UNLIMITED
        elif self.group is None:
            self.group = self._stance.pool.take()
        elif run.limits.memory_bytes:
            self.group.unlock_memory()
        self.born_ticks = orphans.boot_ticks()
        try:
            self._scratch.prepare()
        except (OSError, ValueError) as problem:
            raise NotRun("failed", EXIT_GRID, f"the scratch directory: {_why(problem)}") from None
        self._stance.take(run.cwd, run.slot, limits, self.group)
        fits = True
        try:
            out, err = self._output.open()
            try:
                self.pid = self._recipe.start(self.index, out, err)
            finally:
                os.close(out)
                os.close(err)
        except (OSError, ValueError) as problem:
            raise NotRun("failed", EXIT_GRID, f"the output: {_why(problem)}") from None
        finally:
            if self.group:
                fits = self.group.leave(run.slot)
        if not fits:
            self.end_for_memory()

    # --- Ending -----------------------------------------------------------------------------------

    def stop(self, number: int, grace_ms: int) -> None:
        """End what runs, and start nothing more."""
        self.pending.clear()
        self.interrupt("stopped", number, grace_ms)

    def skip(self, index: int) -> list[Report]:
        """End one index, or never start it."""
        if self.pid and index == self.index:
            self.interrupt("stopped", signal.SIGTERM, self.run.grace_ms)
        elif index in self.pending:
            self.pending.remove(index)
            code = 128 + signal.SIGTERM
            # Not the last: something runs, or it would have been started.
            return [did_not_start(self.run.attempt, code=code, index=index, is_last=False)]
        return []

    def interrupt(self, cause: How, number: int, grace_ms: int) -> None:
        """Ask it to end; `due_ns` is when it will be made to."""
        if self.gone or not self.pid:
            return
        self._cause = self._cause or cause
        self._signal = number
        self.due_ns = time.monotonic_ns() + grace_ms * 1_000_000
        reap.send_signal_to_session(self.pid, number)
        if number == signal.SIGKILL:
            self._kill()

    def end_for_memory(self) -> None:
        """It used more memory than it may."""
        if self.gone:
            return
        self._cause = "signalled"
        self._kill()

    def fall_due(self, left: list[int]) -> list[Report]:
        """The time in `due_ns` has come."""
        self.due_ns = 0
        if self.gone:
            return self.clear(left)
        if self._cause is None:
            self.interrupt("timeout", signal.SIGTERM, self.run.grace_ms)
        else:
            if self._signal != signal.SIGKILL:
                self._notes.append("did not end when asked to, was killed")
                self._signal = signal.SIGKILL
            self._kill()
            self.due_ns = (
                time.monotonic_ns() + 100_000_000
            )  # Again, should it fork faster than we kill.
        return []

    def _kill(self) -> None:
        reap.send_signal_to_session(self.pid, signal.SIGKILL)
        if self.group:
            self.group.end_members()

    # --- After the end ----------------------------------------------------------------------------

    def main_ended(self, gone: reap.Gone, left: list[int]) -> list[Report]:
        """Its main process was reaped; or the one that removed its container."""
        if self.container and self.container.is_removed(gone.pid):
            return self.clear(left)
        if gone.pid != self.pid:
            return []  # A removal that was given up.
        self.gone = gone
        self.due_ns = time.monotonic_ns() + CLEARING_MS_MAX * 1_000_000
        self._clearing_until_ns = self.due_ns
        self._survivors = 0
        if self.container and self.container.needs_removal(gone, is_ended_by_us=bool(self._cause)):
            self._stance.go_home()
            patience_ms = self.container.start_removal()
            if patience_ms:
                self.due_ns = self._clearing_until_ns = (
                    time.monotonic_ns() + patience_ms * 1_000_000
                )
                return []
        return self.clear(left)

    def clear(self, left: list[int]) -> list[Report]:
        """End whoever is left of its tree; report once nobody is."""
        assert self.gone is not None
        now_ns = time.monotonic_ns()
        if self.container:
            self._notes += self.container.give_up_removal()
            if self.container.is_monitor_ending(left):
                self.due_ns = now_ns + 20_000_000
                return []
        count = self.group.end_members() if self.group else _end(left)
        if count:
            self._survivors = max(self._survivors, count)
            if now_ns < self._clearing_until_ns:
                self.due_ns = now_ns + 2_000_000  # Most are gone by then; SIGCHLD tells the others.
                return []
            self._notes.append(f"{count} of its processes could not be ended")
            self._is_haunted = True
            self.group = None  # Never used again.
        if self._survivors:
            self._notes.append(f"{self._survivors} processes it left behind were ended")
        return [self._finish(self.gone)]

    def _finish(self, gone: reap.Gone) -> Ended:
        limit = self.run.limits.memory_bytes
        if self.group and self.group.was_out_of_memory():
            self._cause = "signalled"
        how, code = gone.how, gone.code
        if self._cause == "timeout":
            how, code = "timeout", TIMEOUT_CODE
        elif self._cause == "stopped":
            how, code = "stopped", 128 + self._signal
        elif self._cause == "signalled":
            how, code = "signalled", 128 + signal.SIGKILL
            self._notes.append(f"killed: used more than {bytesize.text(limit)}")
        elif self.container:
            how, code, notes = self.container.meaning(gone, self._output.last_words())
            self._notes += notes
        self._output.finish(index=self.index, is_quiet=not self._is_haunted)
        if self._output.dropped_bytes:
            self._notes.append(f"output cut: {self._output.dropped_bytes} bytes dropped")
        usage = Usage(memory_bytes_peak=1) if self.container else gone.usage  # Not the client's.
        if self.container or _is_own_peak(usage.memory_bytes_peak):
            usage = Usage(
                user_us=usage.user_us,
                system_us=usage.system_us,
                memory_bytes_peak=self.memory_bytes_peak,
            )
        return self._ended(how, code, usage)

    def _ended(self, how: How, code: int, usage: Usage) -> Ended:
        self.pid, self.due_ns, self.gone = 0, 0, None
        self.is_over = not self.pending
        if self.is_over:
            self._leave_group()  # The next of the lease may start before this one is closed.
        return Ended(
            number=0,
            attempt=self.run.attempt,
            how=how,
            code=code,
            started_ms=self.started_ms,
            ended_ms=max(time.time_ns() // 1_000_000, self.started_ms),
            usage=usage,
            index=self.index,
            note="; ".join(self._notes),
            is_last=self.is_over,
        )

    def close(self, *, keep_scratch: bool = False) -> int:
        """After the last report: give everything back; the process that still cleans up, or 0."""
        self._leave_group()
        if self.container:
            self.container.forget()
        self._output.close()
        if keep_scratch:
            return 0
        return self._scratch.remove()

    def _leave_group(self) -> None:
        if self.group:
            self._stance.pool.give_back(self.group)
            self.group = None

    def look(self) -> None:
        """Now and then while it runs: keep its output in bounds."""
        self._output.look(index=self.index)


def _end(pids: list[int]) -> int:
    for pid in pids:
        reap.kill_tree(pid)
    return len(pids)


def _why(problem: Exception) -> str:
    return getattr(problem, "strerror", None) or str(problem)


def _is_own_peak(peak_bytes: int) -> bool:
    """Whether a peak is no larger than the keeper's own, with which every child begins."""
    if peak_bytes > _own_peak[0]:  # Grown, or the job's: look only then.
        _own_peak[0] = reap.memory_bytes_peak(os.getpid())
    return peak_bytes <= _own_peak[0]


_own_peak = [0]  # In bytes, as last seen.
