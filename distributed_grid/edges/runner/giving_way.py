"""An attempt that was told to give way: the command beside it, and how it went.

Lives here: starting and ending that command, the words for what happened. Never here: the signal
to the attempt's own processes and their end (`attempts`), why it has to go (the agent's).
Invariant: the command runs within the limits of its job, and never longer than the grace.
"""

import os
import signal
from typing import Final

from distributed_grid.edges.runner import reap, yielding
from distributed_grid.edges.runner.cgroups import Group
from distributed_grid.edges.runner.output import Output
from distributed_grid.edges.runner.program import NotRun
from distributed_grid.edges.runner.spawn import Recipe
from distributed_grid.edges.runner.stance import Stance
from distributed_grid.wire.keeper import Run

GAVE_WAY: Final = "gave way"
WAS_KILLED: Final = "did not end within its grace, was killed"


class Beside:
    """The command of one attempt that gives way."""

    def __init__(self) -> None:
        self.pid = 0  # While it runs.
        self._note = ""
        self._is_killed = False

    def start(
        self, run: Run, index: int, stance: Stance, group: Group | None, output: Output
    ) -> bool:
        """Start it, as `run` says; False if the job holds more memory than it may by now."""
        if group and group.was_out_of_memory():
            return False  # To step in would forget that.
        if group:
            group.unlock()  # The keeper is inside for a moment.
        try:
            stance.take(run.cwd, run.slot, run.limits, group)
            out, err = output.open_again()
            try:
                self.pid = Recipe(run).start(index, out, err)
            finally:
                os.close(out)
                os.close(err)
        except NotRun as problem:
            self._note = f"its command: {problem.note}"
        except OSError as problem:
            self._note = f"its command: {problem.strerror}"
        if self.pid and run.niceness:
            yielding.put_back(self.pid, run.niceness)
        return not group or group.leave(run.slot)

    def ended(self, gone: reap.Gone) -> bool:
        """Whether this was the command."""
        if not self.pid or gone.pid != self.pid:
            return False
        self.pid = 0
        if self._is_killed:
            self._note = f"its command {WAS_KILLED}"
        elif gone.how == "signalled":
            self._note = f"its command was ended by signal {gone.code - 128}"
        elif gone.code:
            self._note = f"its command exited {gone.code}"
        return True

    def end(self, number: int) -> None:
        """Signal it, or kill it and everything below it."""
        if not self.pid:
            return
        if number == signal.SIGKILL:
            self._is_killed = True
            reap.kill_tree(self.pid)
        else:
            reap.send_signal_to_session(self.pid, number)

    def notes(self) -> list[str]:
        """What a person should know about it."""
        return [self._note] if self._note else []
