"""Runs one command, and lets nothing of it live on: `python -m scripts.guard TOLD GRACE COMMAND…`.

Lives here: the process to which orphans of a stage come, whatever session they made for themselves.
Never here: which stages there are (`stages`).
Invariant: when a guard has ended, so has all that its command started; it ends when it is told to
(SIGTERM), and when whoever started it is gone. Where the system has no such guards (not Linux) only
what stays below the command is found.
"""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Final

import psutil

PR_SET_PDEATHSIG: Final = 1
PR_SET_CHILD_SUBREAPER: Final = 36
LOOK_S: Final = 0.05
WORDS_MAX: Final = 200  # Of a command line: what it runs, not all that it is given.
KILL_S: Final = 10.0  # A killed process is gone when its last system call returns.


class _Told(Exception):
    """Somebody wants us to end."""


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code of the command; what outlived it is written to the file TOLD, one in a line."""
    told, grace_s, *command = arguments or sys.argv[1:]
    signal.signal(signal.SIGTERM, _raise_told)
    _take_orphans()
    left: list[str] = []
    try:
        code = _outcome(subprocess.Popen(command))
        left = _left(float(grace_s))
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    except _Told:
        code = 128 + signal.SIGTERM
    _end_all()
    Path(told).write_text("\n".join(left), encoding="utf-8")
    return code


def _raise_told(_signal: int, _frame: FrameType | None) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # A second word must not end the tidying up.
    raise _Told


def _take_orphans() -> None:
    if sys.platform == "linux":
        prctl = ctypes.CDLL(None).prctl
        prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)


def _outcome(process: "subprocess.Popen[bytes]") -> int:
    """Of the command; orphans that end meanwhile are reaped, as init would."""
    while True:
        pid, status = os.wait()
        if pid == process.pid:
            code = process.returncode = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code


def _left(grace_s: float) -> list[str]:
    """Those that live on, in words. Who has a session of its own has time to end by itself."""
    deadline = time.monotonic() + grace_s
    session = os.getsid(0)
    while living := _living():
        if any(_session_of(each) == session for each in living) or time.monotonic() > deadline:
            break
        _reap()
        time.sleep(LOOK_S)
    return [told for each in living if (told := _told(each))]


def _end_all() -> None:
    deadline = time.monotonic() + KILL_S
    while (living := _living()) and time.monotonic() < deadline:
        for each in living:
            with contextlib.suppress(psutil.Error):
                each.kill()
        _reap()
        time.sleep(LOOK_S / 10)


def _living() -> list[psutil.Process]:
    """Everything below this process that runs (a zombie does not)."""
    found = []
    for each in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            if each.status() != psutil.STATUS_ZOMBIE:
                found.append(each)
    return found


def _session_of(process: psutil.Process) -> int:
    with contextlib.suppress(OSError):
        return os.getsid(process.pid)
    return 0  # It has just ended.


def _told(process: psutil.Process) -> str:
    """Enough to see which test it is from: a name alone tells nobody what to mend."""
    with contextlib.suppress(psutil.Error):
        words = " ".join(" ".join(process.cmdline()).split())
        where = process.environ().get("GRID_HOME") or process.cwd()
        return f"{process.name()} ({process.pid} of {process.ppid()}, {where}): {words[:WORDS_MAX]}"
    return ""


def _reap() -> None:
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


if __name__ == "__main__":
    sys.exit(main())
