"""Letting the owner's programs go first: how borrowed processes are put back.

Lives here: priorities of the scheduler, for one process and all that it will start. Never here:
the weight of a control group (`cgroups`), whose work is borrowed (the agent's).
Invariant: only a child is put back, never the keeper: without privileges it could not come back.

Three things count, each where the others do not: the niceness, the policy for idle time, and the
niceness of the session (autogroup), outside of which the kernel does not look at the other two.
Source: sched(7), "The autogroup feature".
"""

import contextlib
import os
from typing import Final

from distributed_grid.edges.runner import reap

HAS_IDLE: Final = hasattr(os, "SCHED_IDLE")
ROUNDS_MAX: Final = 10  # Of looking for children: those of who was put back are born so.


def put_back(pid: int, niceness: int) -> bool:
    """A child that has just been started and leads its session; as `put_session_back`."""
    # It runs already (`posix_spawn` knows no idle policy), and may have children by now.
    done: set[int] = set()
    for _ in range(ROUNDS_MAX):
        fresh = [member for member in reap.tree_of(pid) if member not in done]
        if not fresh:
            break
        for member in fresh:
            _put_one_back(member, niceness)
        done.update(fresh)
    return put_session_back(pid, niceness)


def _put_one_back(pid: int, niceness: int) -> None:
    with contextlib.suppress(OSError):  # Gone already.
        os.setpriority(os.PRIO_PROCESS, pid, niceness)
        if HAS_IDLE:
            os.sched_setscheduler(pid, os.SCHED_IDLE, os.sched_param(0))


def put_session_back(pid: int, niceness: int) -> bool:
    """Whether that worked: without privileges the kernel allows it every 100 ms to one caller."""
    path = f"/proc/{pid}/autogroup"
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    except OSError:
        return True  # No such feature, or nobody there any more.
    try:
        os.write(handle, b"%d" % niceness)
    except OSError:
        return False
    finally:
        os.close(handle)
    return True
