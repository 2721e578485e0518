"""What the keeper takes on so that the next child inherits it: directory, cores, limits, group.

Lives here: taking it on, only where it differs from what is on already, and taking it off. Never
here: starting the child (`spawn`).
Invariant: after `go_home` the keeper is as it was started, and holds no directory busy.
"""

import contextlib
import os

from distributed_grid.edges.runner.cgroups import CgroupPool, Group
from distributed_grid.edges.runner.program import NotRun
from distributed_grid.edges.runner.rlimits import ProcessLimit
from distributed_grid.edges.runner.spare import Spare
from distributed_grid.errors import EXIT_GRID
from distributed_grid.wire.keeper import Limits, Slot

CAN_PIN = hasattr(os, "sched_setaffinity")


class Stance:
    """The keeper's own directory, cores, limits and group."""

    def __init__(self, pool: CgroupPool, spare: Spare) -> None:
        self.pool, self.spare = pool, spare
        self._directory: tuple[str, int, int] = ("", 0, 0)
        self._cores_home = frozenset(os.sched_getaffinity(0)) if CAN_PIN else frozenset()
        self._cores = self._cores_home
        self._process_limit = None
        if "pids" not in pool.enforces and ProcessLimit.is_enforced():
            self._process_limit = ProcessLimit()

    def mechanisms(self) -> dict[str, str]:
        """Which limit is enforced by what, for people."""
        groups = self.pool.enforces
        pinned = "cores pinned" if CAN_PIN else "not limited"
        return {
            "cpu": f"cores pinned, {groups['cpu']}" if "cpu" in groups else pinned,
            "memory": groups.get("memory", "watchdog"),
            "processes": groups.get("pids", "rlimit" if self._process_limit else "not limited"),
        }

    def take(self, cwd: str, slot: Slot, limits: Limits, group: Group | None) -> None:
        """Be as the next child shall be; raises `NotRun` with the reason if that cannot be."""
        try:
            self._stand_in(cwd)
        except (OSError, ValueError) as problem:
            why = getattr(problem, "strerror", None) or str(problem)
            raise NotRun("failed", EXIT_GRID, f"the directory {cwd}: {why}") from None
        try:
            self._stand_on(frozenset(slot.cores) or self._cores_home)
        except (OSError, ValueError):
            cores = ", ".join(map(str, slot.cores))
            raise NotRun("failed", EXIT_GRID, f"cannot be pinned to the cores {cores}") from None
        try:
            if self._process_limit:
                self._process_limit.put_on(limits.processes_max)
            if group:
                group.enter(limits, slot)
        except (OSError, ValueError) as problem:
            with contextlib.suppress(OSError):
                self.pool.go_home()  # Half inside is nowhere.
            raise NotRun("failed", EXIT_GRID, f"its limits could not be set: {problem}") from None

    def rest(self, cores: tuple[int, ...] = ()) -> None:
        """Nothing is to be started now: wait on these cores, or on whichever is free.

        Not on those of the last child: it may keep them busy for hours.
        """
        try:
            self._stand_on(frozenset(cores) or self._cores_home)
        except OSError:  # Taken from us meanwhile.
            self._stand_on(self._cores_home)

    @property
    def cores_count(self) -> int:
        """How many cores there are for us and our children; 0 where nobody is pinned."""
        return len(self._cores_home)

    def go_home(self) -> None:
        """Be as at the start: nothing runs, or the agent is to be started."""
        if self._directory[0]:
            os.chdir("/")
            self._directory = ("", 0, 0)
        self.rest()
        if self._process_limit:
            self._process_limit.put_on(0)
        self.pool.go_home()

    def _stand_in(self, path: str) -> None:
        # By identity, not by name alone: a directory may have been removed and made again.
        now = os.stat(path)
        wanted = (path, now.st_dev, now.st_ino)
        if wanted != self._directory:
            os.chdir(path)
            self._directory = wanted

    def _stand_on(self, cores: frozenset[int]) -> None:
        if cores != self._cores:
            os.sched_setaffinity(0, cores)
            self._cores = cores
