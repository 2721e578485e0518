"""The container of an attempt, from its first start to the certainty that nothing of it is left.

Lives here: what the keeper does about containers beside starting their client. Never here: the
client's words (`container`), when things happen (`attempts`).
Invariant: an attempt whose client did not end by itself is reported only after its container was
removed, or after a note that it could not be.

The client is our child, the container often is not: podman's monitor leaves its session, docker's
daemon never was in it. Killing the client therefore ends nothing, and a removal follows.
"""

import contextlib
import errno
import os
import signal
import time
from typing import Final

from distributed_grid.edges.runner import container, reap
from distributed_grid.edges.runner.program import NotRun, find
from distributed_grid.edges.runner.spawn import SIGNALS_RESET, Recipe
from distributed_grid.errors import EXIT_GRID
from distributed_grid.model import bytesize
from distributed_grid.wire.keeper import How, Run

REMOVAL_MS_MAX: Final = 30_000  # Storage without overlays copies whole trees.
MONITOR_NS: Final = 1_000_000_000  # It still writes down how the container ended.
KILLED_CODE: Final = 128 + signal.SIGKILL
INIT_FAILED: Final = ("ERROR (catatonit:", "failed to exec")


class Container:
    """One `Run` with an image."""

    def __init__(self, run: Run) -> None:
        self.name = container.name_of(run.attempt)
        self.remover = 0  # The process that removes it; 0: none.
        self._run = run
        self._through: container.Runtime | None = None
        self._recipe: Recipe | None = None
        self._monitor_until_ns = 0

    def recipe(self) -> Recipe:
        """How its client is started; raises `NotRun` where there are no containers."""
        if self._through is None or self._recipe is None:
            self._through = container.runtime(os.environ)
            self._recipe = Recipe(container.in_container(self._run, self._through))
        self.forget()
        self._monitor_until_ns = 0
        return self._recipe

    def beside(self, command: tuple[str, ...]) -> Run:
        """The run of a client that runs a command in it. Only after `recipe`."""
        assert self._through is not None
        return container.beside(self._run, command, self._through)

    def members(self, monitors: list[int]) -> list[int]:
        """Its processes, as far as they are below ours: docker's are below its daemon."""
        return [pid for monitor in monitors for pid in reap.tree_of(monitor)[1:]]

    def pause(self, *, is_over: bool) -> int:
        """Docker's processes are not ours to signal: start the client that asks for it, or 0."""
        if self._through is None or not self._through.is_docker:
            return 0
        return _start_client(
            container.pausing(self._run.attempt, self._through, is_over=is_over), self._through
        )

    def needs_removal(self, gone: reap.Gone, *, is_ended_by_us: bool) -> bool:
        """Whether the client may have left something; podman's own end in order leaves nothing."""
        if self._through is None:
            return False
        # podman and docker say 125, as we do, of a container that could not be made.
        is_in_order = gone.how == "exited" and gone.code != EXIT_GRID
        return is_ended_by_us or not is_in_order or self._through.is_docker

    def start_removal(self) -> int:
        """End and remove the container; how many milliseconds that may take, 0 if it cannot be."""
        self.remover = _start_removal(self._run.attempt, self._through)
        return REMOVAL_MS_MAX if self.remover else 0

    def is_removed(self, pid: int) -> bool:
        """Whether this process, now gone, was the one that removed it; nobody is from now on."""
        if pid != self.remover:
            return False
        self.remover = 0
        return True

    def give_up_removal(self) -> list[str]:
        """Wait no longer for a removal that still runs; a note if so."""
        if not self.remover:
            return []
        reap.send_signal_to_session(self.remover, signal.SIGKILL)
        self.remover = 0
        return [f"its container {self.name} could not be removed in time"]

    def is_monitor_ending(self, monitors: list[int]) -> bool:
        """Whether its monitor still gets a moment to end by itself."""
        now_ns = time.monotonic_ns()
        self._monitor_until_ns = self._monitor_until_ns or now_ns + MONITOR_NS
        return bool(monitors) and now_ns < self._monitor_until_ns

    def meaning(self, gone: reap.Gone, last_words: str) -> tuple[How, int, list[str]]:
        """How it ended, and what a person should know, when nobody but itself ended it."""
        limit = self._run.limits.memory_bytes
        if gone.code == EXIT_GRID and not os.path.exists(container.id_file(self._run)):
            why = last_words or "its client said nothing"
            return "failed", gone.code, [f"no container was made: {why}; {container.REMEDY}"]
        if gone.code == KILLED_CODE and limit:
            note = f"killed: perhaps it used more than {bytesize.text(limit)}"
            return gone.how, gone.code, [note]
        if (
            gone.code == 1
            and last_words.startswith(INIT_FAILED[0])
            and INIT_FAILED[1] in last_words
        ):
            # Podman's init says this and 1 where a shell says 126 or 127.
            why = last_words.rpartition(": ")[2]
            note = f"{self._run.argv[0]}: {why}, in the image {self._run.image}"
            is_there = why != os.strerror(errno.ENOENT)
            return ("not-executable", 126, [note]) if is_there else ("not-found", 127, [note])
        return gone.how, gone.code, []

    def forget(self) -> None:
        """The runtime refuses to write an id where there is one."""
        with contextlib.suppress(OSError):
            os.unlink(container.id_file(self._run))


def remove_leftovers(attempts: list[str]) -> list[int]:
    """Containers that a dead keeper left; the processes that remove them."""
    if not attempts:
        return []
    try:
        through = container.runtime(os.environ)
    except NotRun:
        return []
    return [pid for attempt in attempts if (pid := _start_removal(attempt, through))]


def _start_removal(attempt: str, through: container.Runtime | None) -> int:
    if through is None:
        return 0
    return _start_client(container.removal(attempt, through), through)


def _start_client(argv: tuple[str, ...], through: container.Runtime) -> int:
    try:
        program = find(argv, through.env)
        return os.posix_spawn(
            program.path,
            argv,
            dict(through.env),
            file_actions=[
                (os.POSIX_SPAWN_OPEN, descriptor, os.devnull, os.O_RDWR, 0)
                for descriptor in range(3)
            ],
            setsid=True,
            setsigmask=(),
            setsigdef=SIGNALS_RESET,
        )
    except (OSError, NotRun):
        return 0
