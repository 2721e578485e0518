"""Whose orphan is it? Processes whose parents have ended come to the keeper, where no group tells.

Lives here: matching an orphan to the attempt that started it. Never here: ending it (`attempts`).
Invariant: a process that may belong to an attempt that still runs is left alone.
"""

import os
import time
from collections.abc import Collection
from typing import Protocol

from distributed_grid.edges.runner import reap

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


class Family(Protocol):
    """What is asked of an attempt."""

    pid: int
    main_pid: int
    born_ticks: int
    marker: bytes


def boot_ticks() -> int:
    """Now, as the kernel writes the start of a process."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) * TICKS_PER_SECOND // 1_000_000_000


def strangers(known: Collection[int]) -> list[int]:
    """Children of the keeper that it did not start and that have not ended."""
    return [
        pid for pid in reap.children_of(os.getpid()) if pid not in known and not reap.is_zombie(pid)
    ]


def monitors(container: str, pids: list[int]) -> list[int]:
    """Those among `pids` that watch over a container; its processes are below them."""
    name = container.encode()
    return [pid for pid in pids if name in reap.command_words(pid)]


def of_family(family: Family, pids: list[int], others: Collection[Family]) -> list[int]:
    """Those among `pids` that an attempt left behind."""
    found = []
    for pid in pids:
        session = reap.session_of(pid)
        if session == family.main_pid or reap.environment_names(pid, family.marker):
            found.append(pid)
        elif not any(
            session == other.main_pid or reap.environment_names(pid, other.marker)
            for other in others
        ):
            # It left its session and cleared its environment: ours, unless an older one still runs.
            born = reap.started_ticks(pid)
            if all(other.born_ticks > born for other in others) and born >= family.born_ticks:
                found.append(pid)
    return found
