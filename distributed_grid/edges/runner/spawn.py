"""Starting one process.

Lives here: the environment, the files, the call. Never here: what the child inherits from the
keeper (`stance`), what happens after (`attempts`).
Invariant: a child sees exactly the environment it was given plus where it works and its index,
three open files, no blocked or ignored signal, and a session of its own.

`posix_spawn` shares the keeper's memory until exec: no page table is copied. Its child counts the
keeper's own peak as its own, though, so a peak that is not larger tells nothing about the job.
"""

import os
import signal
from typing import Final

from distributed_grid.edges.runner.program import NotRun, Program, find, refusal, with_shell
from distributed_grid.errors import EXIT_GRID
from distributed_grid.wire.keeper import Run

# What Python or the keeper ignores or handles. Every other signal is as at the start.
SIGNALS_RESET: Final = tuple(
    getattr(signal, name)
    for name in ("SIGINT", "SIGHUP", "SIGPIPE", "SIGXFSZ", "SIGTERM", "SIGCHLD", "SIGQUIT")
    if hasattr(signal, name)
)
_ENOEXEC: Final = 8


class Recipe:
    """What the processes of an attempt have in common, prepared once."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._program: Program | None = None
        self._env = {**run.env, "GRID_WORKDIR": run.scratch_dir}
        # Of a chunk as bytes: `posix_spawn` would encode all of it again for every index.
        self._encoded: dict[bytes, bytes] = {}

    def start(self, index: int, out: int, err: int) -> int:
        """The process id; raises `NotRun`. The keeper must have taken its stance."""
        program = self._program or find(self._run.argv, self._run.env)
        if index >= 0:
            if not self._encoded:
                encode = os.fsencode
                self._encoded = {encode(name): encode(value) for name, value in self._env.items()}
            self._encoded[b"GRID_ARRAY_INDEX"] = b"%d" % index
        try:
            pid = self._spawn(program, out, err)
        except OSError as problem:
            self._program = None
            if problem.errno != _ENOEXEC:
                raise refusal(program, problem) from None
            program = with_shell(program)
            try:
                pid = self._spawn(program, out, err)
            except OSError as again:
                raise refusal(program, again) from None
        except ValueError as problem:  # A NUL inside of an argument.
            raise NotRun("failed", EXIT_GRID, f"the command: {problem}") from None
        self._program = program
        return pid

    def _spawn(self, program: Program, out: int, err: int) -> int:
        return os.posix_spawn(
            program.path,
            program.argv,
            self._encoded or self._env,
            file_actions=(
                (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
                (os.POSIX_SPAWN_DUP2, out, 1),
                (os.POSIX_SPAWN_DUP2, err, 2),
            ),
            setsid=True,
            setsigmask=(),
            setsigdef=SIGNALS_RESET,
        )
