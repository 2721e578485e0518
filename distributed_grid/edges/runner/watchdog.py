"""A look at what running processes hold in memory, every few moments.

Lives here: summing up a tree, and ending it where no control group limits it. Never here: limits
that the kernel enforces (`cgroups`).
Invariant: pages that processes of a tree share are not held against it twice.
"""

import os
from typing import Final

from distributed_grid.edges.runner import reap
from distributed_grid.edges.runner.attempts import Attempt

PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")


def look(attempt: Attempt, orphans: list[int], *, is_limited_by_group: bool) -> None:
    """Note the peak; end the attempt if it holds more than it may."""
    limit_bytes = attempt.run.limits.memory_bytes
    if is_limited_by_group and attempt.group:
        if attempt.group.was_out_of_memory():
            attempt.end_for_memory()
        limit_bytes = 0
    # A container's processes are below its monitor; what its client holds is not the job's.
    roots = orphans if attempt.container else [*attempt.roots, *orphans]
    tree = [pid for root in roots for pid in reap.tree_of(root)]
    held = sum(_resident_bytes(pid) for pid in tree)
    if limit_bytes and held > limit_bytes:
        # Shared pages were counted once for each process: look closer, which is slower.
        held = sum(_proportional_bytes(pid) for pid in tree)
        if held > limit_bytes:
            attempt.end_for_memory()
    attempt.memory_bytes_peak = max(attempt.memory_bytes_peak, held)


def _resident_bytes(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/statm", "rb") as file:
            return int(file.read().split()[1]) * PAGE_BYTES
    except (OSError, IndexError):
        return 0


def _proportional_bytes(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/smaps_rollup", "rb") as file:
            for line in file:
                if line.startswith(b"Pss:"):
                    return int(line.split()[1]) << 10
    except OSError:
        return 0
    return _resident_bytes(pid)
