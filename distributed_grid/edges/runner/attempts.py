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
from collections.abc import Callable
from typing import Final

import msgspec

from distributed_grid.edges.runner import container, giving_way, orphans, reap, yielding
from distributed_grid.edges.runner.cgroups import Group
from distributed_grid.edges.runner.containment import Container
from distributed_grid.edges.runner.output import Output
from distributed_grid.edges.runner.program import NotRun
from distributed_grid.edges.runner.scratch import Scratch, removing
from distributed_grid.edges.runner.spawn import Recipe
from distributed_grid.edges.runner.stance import Stance
from distributed_grid.edges.runner.suspending import Suspension
from distributed_grid.edges.runner.turns import SINGLE, did_not_start
from distributed_grid.errors import EXIT_GRID
from distributed_grid.model import bytesize
from distributed_grid.wire.keeper import Ended, How, Preempt, Run, Started, Usage

Report = Started | Ended

CLEARING_MS_MAX: Final = 5_000  # A process that SIGKILL does not end sleeps in a broken driver.
TIMEOUT_CODE: Final = 124
LAPSED: Final = "its lease was not renewed in time"


class Attempt:
    """One `Run`, with the process of it that runs now."""

    def __init__(
        self,
        run: Run,
        stance: Stance,
        left_by: Callable[["Attempt"], list[int]] = lambda _: [],
        lent: tuple[str, ...] = (),
    ) -> None:
        self.run = run
        self.pending: deque[int] = deque(run.indices or (SINGLE,))
        self.pid = 0  # Of the process that runs; 0 between processes.
        self.index = SINGLE
        self.started_ms = 0
        self.since_ms = 0  # When the first process of it started.
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
            spare=stance.spare,
            lent=lent,
        )
        self.group: Group | None = None
        self.container = Container(run) if run.image else None
        self.suspension = Suspension(lambda: self._members(left_by(self)))
        self.beside = giving_way.Beside()
        self._cause: How | None = None  # Why it is being ended by us.
        self._signal = 0
        self._is_killed = False
        self._went = giving_way.GAVE_WAY
        self._is_put_back = True  # Or is to be tried again.
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
        """Whether nothing of it runs and something is left, and may run now."""
        return not self.pid and bool(self.pending) and not self.suspension.is_on

    def start_next(self) -> list[Report]:
        """Start the next index that can be started; reports of those that could not."""
        reports: list[Report] = []
        while self.pending and not self.pid:
            self.index = self.pending.popleft()
            self.started_ms = time.time_ns() // 1_000_000
            self._cause, self._notes, self.gone = None, [], None
            self._is_killed = False
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
                self._is_told, self.since_ms = True, self.started_ms
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
            self._recipe, limits = self.container.recipe(), container.UNLIMITED
        elif self.group is None:
            self.group = self._stance.pool.take(is_borrowed=bool(run.niceness))
        elif run.limits.memory_bytes:
            self.group.unlock_memory()
        self.born_ticks = orphans.boot_ticks()
        try:
            self._scratch.prepare()
        except (OSError, ValueError) as problem:
            raise NotRun("failed", EXIT_GRID, f"the scratch directory: {_why(problem)}") from None
        self._make_checkpoint_dir()
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
        if run.niceness and not self.container:
            yielding.put_back(self.pid, run.niceness)
            self._is_put_back = False  # A child that was being born was not to be seen yet.
        if not fits:
            self.end_for_memory()

    def _make_checkpoint_dir(self) -> None:
        if self.run.checkpoint_dir:
            try:
                os.makedirs(self.run.checkpoint_dir, 0o700, exist_ok=True)
            except (OSError, ValueError) as problem:
                note = f"the checkpoint directory: {_why(problem)}"
                raise NotRun("failed", EXIT_GRID, note) from None

    # --- Pausing ----------------------------------------------------------------------------------

    def suspend(self) -> None:
        """Stop all its processes where they are, and start nothing more until `resume`."""
        if self.suspension.is_on:
            return
        self.suspension.is_on = True
        if self.pid and not self.gone and not self._cause:  # Else it is about to end: let it.
            self.suspension.stop(self.due_ns)
            self.due_ns = 0
            self._pause_container(is_over=False)

    def resume(self) -> None:
        """Let them go on."""
        self.suspension.is_on = False
        self._wake()

    def _wake(self) -> None:
        if self.suspension.is_stopped:
            self._pause_container(is_over=True)
            self.due_ns = self.suspension.go_on()

    def _pause_container(self, *, is_over: bool) -> None:
        if self.container:
            self._stance.go_home()
            removing.add(self.container.pause(is_over=is_over))

    def _members(self, left: list[int]) -> list[int]:
        """All its processes, as far as they can be known."""
        if self.container:
            return self.container.members(left)
        if self.group:
            return self.group.members()
        return [pid for root in (*self.roots, *left) for pid in reap.tree_of(root)]

    @property
    def roots(self) -> list[int]:
        """The processes of it that the keeper started and that have not ended."""
        return [pid for pid in (0 if self.gone else self.pid, self.beside.pid) if pid]

    # --- Ending -----------------------------------------------------------------------------------

    def stop(self, number: int, grace_ms: int) -> list[Report]:
        """End what runs, and start nothing more."""
        self.suspension.is_on = False
        if not self.pid and self.pending:
            return self._give_back(128 + number, "did not start")
        self.pending.clear()
        if self._cause == "preempted":
            self._cause = "stopped"  # Whoever cancels it wins, within the grace that it had.
            grace_ms = min(grace_ms, max(self.due_ns - time.monotonic_ns(), 0) // 1_000_000)
        self.interrupt("stopped", number, grace_ms)
        return []

    def preempt(self, wish: Preempt) -> list[Report]:
        """Ask it to give way, with its command beside it, and start nothing more."""
        self.suspension.is_on = False
        if not self.pid and self.pending:
            return self._give_back(EXIT_GRID, "given back before it started")
        self.pending.clear()
        self._wake()
        if self.gone or self._cause or not self.pid:
            return []  # It is ending already, for its own reason.
        self._cause, self._signal = "preempted", wish.signal
        self.due_ns = time.monotonic_ns() + wish.grace_ms * 1_000_000
        reap.send_signal_to_session(self.pid, wish.signal)
        if wish.command:
            self._start_beside(wish.command)
        return []

    def _start_beside(self, command: tuple[str, ...]) -> None:
        run = msgspec.structs.replace(self.run, argv=command)
        if self.container:
            self._stance.go_home()
            run = self.container.beside(command)
        if not self.beside.start(run, self.index, self._stance, self.group, self._output):
            self.end_for_memory()

    def _give_back(self, code: int, note: str) -> list[Report]:
        """It was held between two indices, and the others never start."""
        index = self.pending.popleft()
        self.pending.clear()
        self._retire()
        return [did_not_start(self.run.attempt, code=code, note=note, index=index)]

    def skip(self, index: int) -> list[Report]:
        """End one index, or never start it."""
        if self.pid and index == self.index:
            self.interrupt("stopped", signal.SIGTERM, self.run.grace_ms)
        elif index in self.pending:
            self.pending.remove(index)
            code = 128 + signal.SIGTERM
            if not self.pid:
                self._retire()  # Held between two indices, and this may have been all.
            is_last = self.is_over
            return [did_not_start(self.run.attempt, code=code, index=index, is_last=is_last)]
        return []

    def interrupt(self, cause: How, number: int, grace_ms: int) -> None:
        """Ask it to end; `due_ns` is when it will be made to."""
        if not self.roots:
            return
        self._wake()
        self._cause = self._cause or cause
        self._signal = number
        self.due_ns = time.monotonic_ns() + grace_ms * 1_000_000
        for root in self.roots:
            reap.send_signal_to_session(root, number)
        if number == signal.SIGKILL:
            self._kill()

    def lapse(self) -> list[Report]:
        """Its deadline has come: nothing of it runs a moment longer, whatever else it was told."""
        self.suspension.is_on = False
        if not self.pid and self.pending:
            return self._give_back(EXIT_GRID, LAPSED)
        self.pending.clear()
        if self.roots:
            self._cause = "lost"
            self._notes.append(LAPSED)
            self.interrupt("lost", signal.SIGKILL, 0)
        return []

    def end_for_memory(self) -> None:
        """It used more memory than it may."""
        if self.gone and not self.beside.pid:
            return
        self._note_memory()
        self._kill()

    def _note_memory(self) -> None:
        if self._cause == "preempted":
            limit = bytesize.text(self.run.limits.memory_bytes)
            self._went = f"killed: out of memory, used more than {limit}"
        else:
            self._cause = "signalled"

    def fall_due(self, left: list[int]) -> list[Report]:
        """The time in `due_ns` has come."""
        self.due_ns = 0
        if self.gone and not self.beside.pid:
            return self.clear(left)
        if self._cause is None:
            self.interrupt("timeout", signal.SIGTERM, self.run.grace_ms)
        else:
            if not (self.gone or self._is_killed):
                self._went, self._signal = giving_way.WAS_KILLED, signal.SIGKILL
                if self._cause != "preempted":
                    self._notes.append("did not end when asked to, was killed")
            self._kill()
            self.due_ns = (
                time.monotonic_ns() + 100_000_000
            )  # Again, should it fork faster than we kill.
        return []

    def _kill(self) -> None:
        self._is_killed = True
        if not self.gone:
            reap.send_signal_to_session(self.pid, signal.SIGKILL)
        self.beside.end(signal.SIGKILL)
        if self.group:
            self.group.end_members()

    # --- After the end ----------------------------------------------------------------------------

    def main_ended(self, gone: reap.Gone, left: list[int]) -> list[Report]:
        """Its main process was reaped; or the one that removed its container."""
        if self.container and self.container.is_removed(gone.pid):
            return self.clear(left)
        if self.beside.ended(gone):
            return self._begin_clearing(self.gone, left) if self.gone else []
        if gone.pid != self.pid:
            return []  # A removal that was given up.
        self.gone = gone
        self.suspension.forget()
        if self.beside.pid:
            return []  # Its command goes on until the grace is over.
        return self._begin_clearing(gone, left)

    def _begin_clearing(self, gone: reap.Gone, left: list[int]) -> list[Report]:
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
            self._note_memory()
        how, code = gone.how, gone.code
        if self._cause == "timeout":
            how, code = "timeout", TIMEOUT_CODE
        elif self._cause == "lost":
            how, code = "lost", EXIT_GRID
        elif self._cause == "stopped":
            how, code = "stopped", 128 + self._signal
        elif self._cause == "signalled":
            how, code = "signalled", 128 + signal.SIGKILL
            self._notes.append(f"killed: out of memory, used more than {bytesize.text(limit)}")
        elif self._cause == "preempted":
            how = "preempted"
            self._notes.insert(0, self._went)
        elif self.container:
            how, code, notes = self.container.meaning(gone, self._output.last_words())
            self._notes += notes
        self._notes += self.beside.notes()
        self._output.finish(index=self.index, is_quiet=not self._is_haunted)
        self._notes += self._output.notes()
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
        self._retire()
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

    def _retire(self) -> None:
        self.is_over = not self.pending
        if self.is_over:
            self._leave_group()  # The next of the lease may start before this one is closed.

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
        """Now and then while it runs: keep its output in bounds, and what is stopped stopped."""
        self._output.look(index=self.index)
        self.suspension.hold()
        if not self._is_put_back and not self.gone:
            self._is_put_back = yielding.put_back(self.pid, self.run.niceness)


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
