"""What control groups let a process here use: cgroup v1, v2, or both at once.

Lives here: finding our group, and the tightest limit between it and the mount. Never here:
setting limits (`edges.runner`).
Source: the kernel's Documentation/admin-guide/cgroup-v2.rst, cgroup-v1/{memory,cpusets}.rst,
scheduler/sched-bwc.rst, and proc_pid_mountinfo(5).
"""

import os
from collections.abc import Iterator
from typing import Final, NamedTuple

from distributed_grid.edges.probe.tree import Tree, cpu_list, integer
from distributed_grid.model import milli
from distributed_grid.model.hardware_parts import Cpu, Limits, Memory

DEPTH_MAX: Final = 32  # Kubernetes nests six deep; a longer path is not worth its time.


class _Group(NamedTuple):
    version: int
    mount: str
    path: str  # Below the mount, without a slash at either end.


def limits(tree: Tree, cpu: Cpu, memory: Memory, absent: dict[str, str]) -> Limits:
    """The tightest limit on cores and on memory, and which file (or mask) set it."""
    groups = _groups(tree)
    if not groups:
        absent["limits.cgroup"] = "no cgroup of ours is both named in /proc/self/cgroup and mounted"
    logical_milli = (cpu.logical_cores or 0) * milli.WHOLE
    # A limit that is not below the machine is none: the v1 "unlimited" is a huge number.
    cpu_limits = [
        limit
        for limit in _cpu_limits(tree, groups)
        if not logical_milli or limit[0] < logical_milli
    ]
    if tree.is_this_machine and hasattr(os, "sched_getaffinity"):
        allowed = len(os.sched_getaffinity(0)) * milli.WHOLE
        if logical_milli and allowed < logical_milli:
            cpu_limits.append((allowed, "affinity"))
    total = memory.total_bytes or V1_UNLIMITED
    memory_limits = [limit for limit in _memory_limits(tree, groups) if limit[0] < total]
    cpu_milli, cpu_limit = min(cpu_limits, default=(None, None))
    memory_bytes, memory_limit, used = min(memory_limits, default=(None, None, None))
    return Limits(
        cgroup_version=max((group.version for group in groups.values()), default=None),
        cpu_milli=cpu_milli,
        cpu_limit=cpu_limit,
        memory_bytes=memory_bytes,
        memory_limit=memory_limit,
        memory_used_bytes=used,
    )


V1_UNLIMITED: Final = 1 << 60  # v1 writes 2^63 rounded down to a page; anything this large is none.


def _groups(tree: Tree) -> dict[str, _Group]:
    """Our group for each controller: `cpu`, `cpuset`, `memory`, and `` for v2."""
    mounts = _mounts(tree)
    found: dict[str, _Group] = {}
    for line in (tree.text("/proc/self/cgroup") or "").splitlines():
        _, _, rest = line.partition(":")
        controllers, colon, path = rest.partition(":")
        if not colon:
            continue
        for controller in controllers.split(","):
            if controller not in {"", "cpu", "cpuset", "memory"}:
                continue
            mount, mount_root = mounts.get(controller) or (_usual_mount(tree, controller), "/")
            if mount is not None:
                below = _below(path, mount_root)
                # Inside a container the path is often the host's and does not exist here: the
                # mount itself is then our group.
                if below and not tree.exists(f"{mount}/{below}"):
                    below = ""
                found[controller] = _Group(1 if controller else 2, mount, below)
    return found


def _mounts(tree: Tree) -> dict[str, tuple[str, str]]:
    """Controller to (mount point, path of the hierarchy that is mounted there)."""
    found: dict[str, tuple[str, str]] = {}
    for line in (tree.text("/proc/self/mountinfo") or "").splitlines():
        left, separator, right = line.partition(" - ")
        places, kinds = left.split(), right.split()
        if not separator or len(places) < 5 or len(kinds) < 3:
            continue
        if kinds[0] == "cgroup2":
            found.setdefault("", (places[4], places[3]))
        elif kinds[0] == "cgroup":
            for option in kinds[2].split(","):
                if option in {"cpu", "cpuset", "memory"}:
                    found.setdefault(option, (places[4], places[3]))
    return found


def _usual_mount(tree: Tree, controller: str) -> str | None:
    places = [f"/sys/fs/cgroup/{controller}"] if controller else ["/sys/fs/cgroup"]
    if controller == "cpu":
        places.append("/sys/fs/cgroup/cpu,cpuacct")
    return next((place for place in places if tree.exists(place)), None)


def _below(path: str, mount_root: str) -> str:
    if mount_root != "/" and (path == mount_root or path.startswith(mount_root.rstrip("/") + "/")):
        path = path[len(mount_root) :]
    parts = [part for part in path.split("/") if part]
    return "" if ".." in parts or len(parts) > DEPTH_MAX else "/".join(parts)


def _upwards(group: _Group) -> Iterator[str]:
    """Our group, its parent, and so on up to the mount: each may limit us."""
    parts = group.path.split("/") if group.path else []
    for length in range(len(parts), -1, -1):
        yield "/".join([group.mount, *parts[:length]])


def _cpu_limits(tree: Tree, groups: dict[str, _Group]) -> Iterator[tuple[int, str]]:
    for controller, group in sorted(groups.items()):
        for where in _upwards(group):
            if controller == "":
                quota, _, period = (tree.line(f"{where}/cpu.max") or "").partition(" ")
                yield from _quota(quota, period, f"{where}/cpu.max")
            elif controller == "cpu":
                quota = tree.line(f"{where}/cpu.cfs_quota_us") or ""
                period = tree.line(f"{where}/cpu.cfs_period_us") or ""
                yield from _quota(quota, period, f"{where}/cpu.cfs_quota_us")
            if controller in {"", "cpuset"}:
                names = ("cpuset.cpus.effective", "cpuset.effective_cpus", "cpuset.cpus")
                for name in names:
                    if cpus := cpu_list(tree.text(f"{where}/{name}")):
                        yield len(cpus) * milli.WHOLE, f"{where}/{name}"
                        break


def _quota(quota: str, period: str, file: str) -> Iterator[tuple[int, str]]:
    used_us, period_us = integer(quota, least=1), integer(period, least=1)
    if used_us is not None and period_us is not None:  # `max` and -1 mean no limit.
        yield max(used_us * milli.WHOLE // period_us, 1), file


def _memory_limits(tree: Tree, groups: dict[str, _Group]) -> Iterator[tuple[int, str, int | None]]:
    for controller, limit, used in (
        ("", "memory.max", "memory.current"),
        ("memory", "memory.limit_in_bytes", "memory.usage_in_bytes"),
    ):
        group = groups.get(controller)
        for where in _upwards(group) if group else ():
            size = tree.integer(f"{where}/{limit}", most=V1_UNLIMITED - 1)
            if size is not None:
                yield size, f"{where}/{limit}", tree.integer(f"{where}/{used}")
