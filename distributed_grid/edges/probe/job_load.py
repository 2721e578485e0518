"""What Grid's own processes use: everything below one of them, from /proc.

Lives here: adding up a tree of processes. Never here: what the rest of the machine uses (`load`).
Invariant: a process that ended and was waited for still counts: its time is in its parent's.
Source: proc_pid_stat(5), proc_pid_statm(5), proc_tid_children(5).

The keeper adopts every orphan below it, so that nothing leaves the tree while it runs. Containers
of a daemon that is not ours (docker) are not below it, and count as the owner's.
"""

import os
from typing import Final, NamedTuple

from distributed_grid.edges.probe.tree import Tree, integer

PROCESSES_MAX: Final = 20_000  # Of one tree; a fork bomb must not stop the looking.
PAGE_BYTES: Final = (
    4_096  # The unit of statm nearly everywhere; some Arm machines have larger ones.
)
_UTIME, _CSTIME = 11, 15  # Fields of stat behind the name: utime, stime, cutime, cstime.


class JobLoad(NamedTuple):
    """Use of one tree of processes."""

    cpu_ticks: int = 0  # Since the tree began; grows only.
    memory_bytes: int = 0  # Now, without what is shared.


def job_load(tree: Tree, pid: int, *, page_bytes: int = PAGE_BYTES) -> JobLoad:
    """What a process and all below it have used, and hold."""
    ticks = pages = 0
    waiting, seen = [pid], {pid}
    while waiting and len(seen) < PROCESSES_MAX:
        where = f"/proc/{waiting.pop()}"
        # The name may hold anything, also brackets; the last one ends it.
        fields = (tree.text(f"{where}/stat") or "").rpartition(")")[2].split()
        times = [integer(field) or 0 for field in fields[_UTIME:_CSTIME]]
        if len(times) != _CSTIME - _UTIME:
            continue  # It is gone.
        ticks += sum(times)
        sizes = [integer(word) or 0 for word in (tree.text(f"{where}/statm") or "").split()[1:3]]
        if len(sizes) == 2:
            pages += max(sizes[0] - sizes[1], 0)
        for thread in tree.names(f"{where}/task"):
            for word in (tree.text(f"{where}/task/{thread}/children") or "").split():
                child = integer(word, least=1)
                if child is not None and child not in seen:
                    seen.add(child)
                    waiting.append(child)
    return JobLoad(ticks, pages * page_bytes)


def used_by(pid: int) -> tuple[int, int]:
    """Microseconds of processors and bytes of memory: of a process here and all below it."""
    load = job_load(Tree("/"), pid, page_bytes=os.sysconf("SC_PAGE_SIZE"))
    return load.cpu_ticks * 1_000_000 // os.sysconf("SC_CLK_TCK"), load.memory_bytes
