"""What the machine does for its owner now: one `Sample` for each look.

Lives here: cores and memory without Grid's own jobs, disk space, and the composition of the rest.
Never here: terminals (`activity`), GPUs (`gpu_load`), Grid's jobs (`job_load`), what follows from a
sample (`kernel.lending`).
Invariant: no sample where cores or memory cannot be measured: who sees nothing lends nothing.
Source: proc_stat(5), proc_meminfo(5), proc_loadavg(5).
"""

import os
import time
from collections.abc import Callable, Collection
from typing import Final, NamedTuple

from distributed_grid.edges.probe import memory, power, thermal
from distributed_grid.edges.probe.activity import Activity
from distributed_grid.edges.probe.gpu_load import GpuLoad
from distributed_grid.edges.probe.job_load import PAGE_BYTES, JobLoad, job_load
from distributed_grid.edges.probe.tree import Tree, integer
from distributed_grid.model import milli
from distributed_grid.model.hardware import HardwareProfile
from distributed_grid.model.hardware_parts import Power
from distributed_grid.model.lending import Sample
from distributed_grid.model.pretend import Pretend, PretendLoad

SLOW_MS: Final = 10_000  # Heat and batteries change slowly, and sensors are slow to read.
TICKS_MIN: Final = 5  # Of each core, between two looks; in less, one tick more or less is noise.
# Fields of the first line of /proc/stat: user nice system idle iowait irq softirq steal. Guests are
# in `user` already; stolen time is another machine's.
_IDLE, _IOWAIT, _STEAL, _FIELDS = 3, 4, 7, 8


class _Cpu(NamedTuple):
    cores: int
    total_ticks: int
    busy_ticks: int


class Sampler:
    """Measures one machine, again and again. `own_pid` is the root of all of Grid's processes."""

    def __init__(
        self,
        profile: HardwareProfile,
        *,
        own_pid: int | None = None,
        work_path: str | None = None,
        pretend: Pretend | None = None,
        root: str = "/",
        nvml_library: str | None = None,
        local: Callable[[float], time.struct_time] = time.localtime,
    ) -> None:
        self._profile, self._total = profile, profile.total()
        self._tree, self._own_pid, self._work_path = Tree(root), own_pid, work_path
        self._pretended = frozenset(profile.pretended)
        self._load = (pretend.load if pretend else None) or PretendLoad()
        self._local = local
        self._gpus = GpuLoad(self._tree, profile.gpus, pretended=self._load, library=nvml_library)
        self._activity = Activity(self._tree)
        self._page_bytes = os.sysconf("SC_PAGE_SIZE") if self._tree.is_this_machine else PAGE_BYTES
        self._before = _cpu(self._tree)
        self._own_before = self._own()
        self._cpu_used_milli: int | None = None
        self._slow_ms: int | None = None
        self._heat_centi: int | None = None
        self._power = profile.power

    def sample(self, at_ms: int, *, held: Collection[str] = ()) -> Sample | None:
        """The machine at this moment since the epoch. `held` are the GPUs of Grid's jobs."""
        own = self._own()
        cpu_used_milli = self._cpu(own)
        memory_used_bytes = self._memory(own)
        if cpu_used_milli is None or memory_used_bytes is None:
            return None
        self._look_slowly(at_ms)
        battery = self._power.battery
        now = self._local(at_ms / 1_000)
        idle_ms = self._load.idle_ms
        return Sample(
            at_ms=at_ms,
            local_minute=(now.tm_wday * 24 + now.tm_hour) * 60 + now.tm_min,
            cpu_total_milli=self._total.cpu_milli,
            cpu_used_milli=cpu_used_milli,
            memory_total_bytes=self._total.memory_bytes,
            memory_used_bytes=memory_used_bytes,
            storage_free_bytes=self._storage(),
            gpus=self._gpus.measure(held),
            is_on_battery=self._power.on_battery is True,
            battery_percent=battery.percent if battery else None,
            temperature_centi=self._heat_centi,
            idle_ms=self._activity.idle_ms(at_ms) if idle_ms is None else idle_ms,
        )

    def close(self) -> None:
        """Let the drivers go."""
        self._gpus.close()

    def _own(self) -> JobLoad:
        if self._own_pid is None:
            return JobLoad()
        return job_load(self._tree, self._own_pid, page_bytes=self._page_bytes)

    def _cpu(self, own: JobLoad) -> int | None:
        """What others than Grid use of the cores that Grid may use."""
        total = self._total.cpu_milli
        if self._load.cpu_used_milli is not None:
            return total * self._load.cpu_used_milli // milli.WHOLE
        if "cpu" in self._pretended:
            return 0
        now = _cpu(self._tree)
        if now is None:
            return None
        before = self._before
        passed = now.total_ticks - before.total_ticks if before else 0
        if before is None or passed >= now.cores * TICKS_MIN or passed < 0:
            self._before, own_before, self._own_before = now, self._own_before, own
            if before is not None and passed > 0:
                others = now.busy_ticks - before.busy_ticks
                others -= max(own.cpu_ticks - own_before.cpu_ticks, 0)
                used = min(max(others, 0), passed) * now.cores * milli.WHOLE // passed
                self._cpu_used_milli = _of_ours(used, now.cores, total)
        if self._cpu_used_milli is None:
            # The first look: the kernel's own average of the last minute.
            used = min(_load_milli(self._tree), now.cores * milli.WHOLE)
            return _of_ours(used, now.cores, total)
        return self._cpu_used_milli

    def _memory(self, own: JobLoad) -> int | None:
        """What others than Grid hold of the memory that Grid may use."""
        total = self._total.memory_bytes
        if self._load.memory_used_milli is not None:
            return total * self._load.memory_used_milli // milli.WHOLE
        if "memory" in self._pretended:
            return 0
        available = memory.memory(self._tree, {}).available_bytes
        return None if available is None else max(total - available - own.memory_bytes, 0)

    def _storage(self) -> int:
        if self._work_path is not None and "storage" not in self._pretended:
            try:
                told = os.statvfs(self._work_path)
            except OSError:
                return 0
            return told.f_bavail * told.f_frsize
        return self._profile.storage.free_bytes or 0

    def _look_slowly(self, at_ms: int) -> None:
        if self._slow_ms is not None and 0 <= at_ms - self._slow_ms < SLOW_MS:
            return
        self._slow_ms = at_ms
        known = [sensor.temperature_centi for sensor in thermal.thermals(self._tree, {})]
        self._heat_centi = max((heat for heat in known if heat is not None), default=None)
        self._power = self._profile.power if "power" in self._pretended else _power(self._tree)


def _power(tree: Tree) -> Power:
    return power.power(tree, {})


def _cpu(tree: Tree) -> _Cpu | None:
    lines = (tree.text("/proc/stat") or "").splitlines()
    ticks = [integer(word) for word in (lines[0] if lines else "").split()[1 : _FIELDS + 1]]
    if len(ticks) != _FIELDS or None in ticks:
        return None
    known = [tick or 0 for tick in ticks]
    cores = sum(line[:3] == "cpu" and line[3:4].isdigit() for line in lines)
    total = sum(known)
    busy = total - known[_IDLE] - known[_IOWAIT] - known[_STEAL]
    return _Cpu(max(cores, 1), total, busy)


def _load_milli(tree: Tree) -> int:
    """Processes that ran or wanted to, on average over the last minute; Grid's among them."""
    word = (tree.text("/proc/loadavg") or "0").split()[0]
    whole, _, decimals = word.partition(".")
    return (integer(whole) or 0) * milli.WHOLE + (integer(decimals[:2]) or 0) * 10


def _of_ours(used_milli: int, cores: int, total_milli: int) -> int:
    """In a container with fewer cores, others take ours only when theirs are used up."""
    return max(total_milli - (cores * milli.WHOLE - used_milli), 0)
