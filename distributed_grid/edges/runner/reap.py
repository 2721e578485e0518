"""Processes that are gone: what they returned, what they used, and whom they left behind.

Lives here: waiting for children, the meaning of a wait status, finding and ending survivors.
Never here: what is reported (`attempts`), limits (`cgroups`, `watchdog`).
Invariant: nobody is signalled but children of the keeper, their descendants and members of a group.
"""

import os
import signal
from collections.abc import Iterator
from typing import Final, NamedTuple

from distributed_grid.wire.keeper import How, Usage

REAPED_PER_TURN_MAX: Final = 256  # Then others get their turn too: the agent, timers, output.
_MICRO: Final = 1_000_000
DESCENDANTS_MAX: Final = 65_536  # Of one process; twice the usual pid_max.


class Gone(NamedTuple):
    """A child that was waited for."""

    pid: int
    how: How
    code: int
    usage: Usage


def reap() -> Iterator[Gone]:
    """Every child that has ended, oldest first; never waits."""
    for _ in range(REAPED_PER_TURN_MAX):
        try:
            pid, status, used = os.wait4(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        code = os.waitstatus_to_exitcode(status)
        usage = Usage(
            user_us=int(used.ru_utime * _MICRO),
            system_us=int(used.ru_stime * _MICRO),
            memory_bytes_peak=used.ru_maxrss << 10,
        )
        yield (
            Gone(pid, "exited", code, usage)
            if code >= 0
            else Gone(pid, "signalled", 128 - code, usage)
        )


def children_of(pid: int) -> list[int]:
    """Direct children of all threads of a process; empty if it is gone."""
    found: list[int] = []
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return found
    for thread in threads:
        try:
            with open(f"/proc/{pid}/task/{thread}/children", "rb") as file:
                found += map(int, file.read().split())
        except OSError:
            continue
    return found


def tree_of(pid: int) -> list[int]:
    """A process and all its descendants, parents first."""
    found = [pid]
    for parent in found:  # Grows while we walk it.
        if len(found) < DESCENDANTS_MAX:
            found += children_of(parent)
    return found


def is_zombie(pid: int) -> bool:
    """Whether it has ended already and only waits for its parent."""
    fields = stat_of(pid)
    return not fields or fields[0] in "ZX"


def started_ticks(pid: int) -> int:
    """When it started, in clock ticks since boot; 0 if it is gone."""
    fields = stat_of(pid)
    return int(fields[19]) if len(fields) > 19 else 0


def session_of(pid: int) -> int:
    """Whose session it is in; 0 if it is gone."""
    try:
        return os.getsid(pid)
    except OSError:
        return 0


def stat_of(pid: int) -> list[str]:
    """The fields of /proc/PID/stat after the name (which may hold anything); empty if gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].decode().split()
    except OSError:
        return []


def memory_bytes_peak(pid: int) -> int:
    """The most memory that a process had at once; 0 if it is gone."""
    try:
        with open(f"/proc/{pid}/status", "rb") as file:
            for line in file:
                if line.startswith(b"VmHWM:"):
                    return int(line.split()[1]) << 10
    except OSError:
        pass
    return 0


def environment_names(pid: int, entry: bytes) -> bool:
    """Whether a process was started with this `NAME=value`."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return entry in file.read().split(b"\0")
    except OSError:
        return False


def command_words(pid: int) -> list[bytes]:
    """The words that a process was started with; empty if it is gone."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read().split(b"\0")
    except OSError:
        return []


def send_signal(pid: int, number: int) -> bool:
    """Signal one process; whether it was there."""
    try:
        os.kill(pid, number)
    except OSError:
        return False
    return True


def send_signal_to_session(pid: int, number: int) -> bool:
    """Signal the process group that a job started with; whether anybody was there."""
    try:
        os.killpg(pid, number)
    except OSError:
        return False
    return True


def kill_tree(pid: int) -> None:
    """End a process and everything below it."""
    for member in tree_of(pid):
        send_signal(member, signal.SIGKILL)
