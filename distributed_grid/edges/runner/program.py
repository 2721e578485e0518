"""The program that a command means, found as a shell would find it.

Lives here: the search along the job's own PATH, and the words for what was not found. Never here:
starting it (`spawn`).
Invariant: what is found here depends on the job's environment and directory, never on the keeper's.
"""

import errno
import os
import stat
from collections.abc import Mapping
from typing import Final, NamedTuple

from distributed_grid.errors import EXIT_GRID
from distributed_grid.wire.keeper import How

DEFAULT_PATH: Final = "/usr/local/bin:/usr/bin:/bin"  # Of a job that was given none.
SHELL: Final = "/bin/sh"


class NotRun(Exception):
    """Why a process could not be started, as it will be reported."""

    def __init__(self, how: How, code: int, note: str) -> None:
        self.how, self.code, self.note = how, code, note
        super().__init__(note)


class Program(NamedTuple):
    """A file to execute, and the arguments it is given."""

    path: str
    argv: tuple[str, ...]


def find(argv: tuple[str, ...], env: Mapping[str, str]) -> Program:
    """The file that `argv[0]` means in the current directory; raises `NotRun` if there is none."""
    if not argv or not argv[0]:
        raise NotRun("not-found", 127, "the command is empty")
    name = argv[0]
    found_but_unfit = ""
    for candidate in [name] if "/" in name else _candidates(name, env):
        try:
            mode = os.stat(candidate).st_mode
        except (OSError, ValueError):
            continue
        if stat.S_ISREG(mode) and os.access(candidate, os.X_OK):
            return Program(candidate, argv)
        found_but_unfit = found_but_unfit or candidate
    if found_but_unfit:
        what = "a directory" if os.path.isdir(found_but_unfit) else "not executable"
        if "/" in name or what != "a directory":
            raise NotRun("not-executable", 126, f"{found_but_unfit} is {what}")
    raise NotRun("not-found", 127, f"{name}: command not found")


def _candidates(name: str, env: Mapping[str, str]) -> list[str]:
    # An empty part of PATH means the current directory.
    return [f"{part or '.'}/{name}" for part in env.get("PATH", DEFAULT_PATH).split(":")]


def with_shell(program: Program) -> Program:
    """A script without a first line that names its interpreter runs with the shell."""
    return Program(SHELL, (SHELL, program.path, *program.argv[1:]))


def refusal(program: Program, problem: OSError) -> NotRun:
    """What the kernel said when it was to execute a program."""
    if problem.errno == errno.ENOENT:
        return NotRun("not-found", 127, f"{program.path}: its interpreter was not found")
    if problem.errno in {errno.EACCES, errno.EISDIR, errno.ENOEXEC}:
        return NotRun("not-executable", 126, f"{program.path}: {problem.strerror}")
    if problem.errno == errno.E2BIG:
        return NotRun(
            "failed", EXIT_GRID, "the arguments and the environment are too long for the kernel"
        )
    return NotRun("failed", EXIT_GRID, f"{program.path}: {problem.strerror}")
