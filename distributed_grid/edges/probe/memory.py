"""Main memory, from /proc/meminfo.

Lives here: its size and what is available. Never here: limits of containers (`cgroup`).
Source: the kernel's Documentation/filesystems/proc.rst, section "meminfo".
"""

import re

from distributed_grid.edges.probe.tree import Tree, fields
from distributed_grid.model.bytesize import BYTES_MAX
from distributed_grid.model.hardware_parts import Memory


def memory(tree: Tree, absent: dict[str, str]) -> Memory:
    """Total, available and swap."""
    told = fields(tree.text("/proc/meminfo"))
    total = _bytes(told.get("MemTotal"))
    available = _bytes(told.get("MemAvailable"))
    if not total:
        absent["memory.total"] = "/proc/meminfo tells no MemTotal"
    if available is None:
        absent["memory.available"] = (
            "/proc/meminfo tells no MemAvailable (Linux 3.14 or newer does)"
        )
    elif total and available > total:
        available = None
        absent["memory.available"] = "/proc/meminfo says that more is available than there is"
    return Memory(
        total_bytes=total or None,
        available_bytes=available,
        swap_bytes=_bytes(told.get("SwapTotal")),
    )


def _bytes(text: str | None) -> int | None:
    match = re.fullmatch(r"([0-9]{1,16}) kB", text or "")
    size = int(match[1]) * 1024 if match else None
    return size if size is not None and size <= BYTES_MAX else None
