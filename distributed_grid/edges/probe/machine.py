"""A whole machine: every part read once, composed into a profile.

Lives here: the order of reading, and the promise that no part can spoil the rest. Never here:
how a part is read (one file per noun), what class it makes (`kernel.classification`).
Invariant: below a root other than "/", nothing of the machine that runs this is read.
"""

import os
import sys
from collections.abc import Callable
from typing import TypeVar

from distributed_grid.edges.probe import (
    cgroup,
    compute,
    cpu,
    gpu_nvidia,
    gpu_sysfs,
    memory,
    network,
    operating_system,
    power,
    runtimes,
    security,
    storage,
    thermal,
)
from distributed_grid.edges.probe.pretend import with_pretended
from distributed_grid.edges.probe.tree import Tree
from distributed_grid.model import milli
from distributed_grid.model.hardware import HardwareProfile
from distributed_grid.model.hardware_gpu import GpuDevice
from distributed_grid.model.hardware_parts import (
    Board,
    ComputeScore,
    Cpu,
    Limits,
    Memory,
    Os,
    Power,
    Security,
    Storage,
    Virtualisation,
)
from distributed_grid.model.pretend import Pretend

Part = TypeVar("Part")
OUR_BUG = "a bug in Grid stopped the reading"  # Tests look for this in every profile they make.


def profile(
    root: str = "/",
    *,
    full: bool = False,
    pretend: Pretend | None = None,
    nvml_library: str | None = None,
    nvml_deadline_ms: int = gpu_nvidia.NVML_DEADLINE_MS,
    work_path: str | None = None,
) -> HardwareProfile:
    """The hardware of this machine, or of the one whose files are below `root`.

    `work_path` is where jobs would write (its file system's space counts); the working directory
    unless told. `full` measures longer. `nvml_library` is the path of an NVML to ask.
    """
    tree = Tree(root)
    if tree.is_this_machine and sys.platform == "darwin":
        from distributed_grid.edges.probe import apple

        found = apple.profile(full=full)
    else:
        found = _linux(
            tree,
            full=full,
            nvml_library=nvml_library,
            nvml_deadline_ms=nvml_deadline_ms,
            work_path=work_path,
        )
    return found if pretend is None else with_pretended(found, pretend)


def gpu_devices() -> tuple[GpuDevice, ...]:
    """The GPUs of this machine alone, as their drivers name them now."""
    if sys.platform == "darwin":
        return profile().gpus
    absent: dict[str, str] = {}
    return _part(
        "gpus", lambda: _gpus(Tree("/"), absent, None, gpu_nvidia.NVML_DEADLINE_MS), (), absent
    )


def _linux(
    tree: Tree,
    *,
    full: bool,
    nvml_library: str | None,
    nvml_deadline_ms: int,
    work_path: str | None,
) -> HardwareProfile:
    absent: dict[str, str] = {}
    board = _part("board", lambda: security.board(tree, absent), Board(), absent)
    cpus = _part("cpu", lambda: cpu.cpu(tree, absent), Cpu(), absent)
    ram = _part("memory", lambda: memory.memory(tree, absent), Memory(), absent)
    limits = _part("limits", lambda: cgroup.limits(tree, cpus, ram, absent), Limits(), absent)
    where = work_path or (_working_directory() if tree.is_this_machine else None)
    return HardwareProfile(
        board=board,
        cpu=cpus,
        memory=ram,
        limits=limits,
        storage=_part(
            "storage", lambda: storage.storage(tree, absent, work_path=where), Storage(), absent
        ),
        gpus=_part("gpus", lambda: _gpus(tree, absent, nvml_library, nvml_deadline_ms), (), absent),
        nics=_part("network", lambda: network.nics(tree, absent), (), absent),
        power=_part("power", lambda: power.power(tree, absent), Power(), absent),
        thermals=_part("thermals", lambda: thermal.thermals(tree, absent), (), absent),
        security=_part(
            "security", lambda: security.security(tree, cpus, absent), Security(), absent
        ),
        virtualisation=_part(
            "virtualisation",
            lambda: security.virtualisation(tree, cpus, board, absent),
            Virtualisation(),
            absent,
        ),
        runtimes=_part("runtimes", lambda: runtimes.runtimes(tree, absent), (), absent),
        os=_part("os", lambda: operating_system.operating_system(tree, absent), Os(), absent),
        compute=_score(tree, _usable_cores(cpus, limits), full=full, absent=absent),
        absent=absent,
    )


def _part(name: str, read: Callable[[], Part], nothing: Part, absent: dict[str, str]) -> Part:
    """One part; a bug in its reader costs that part, because a node must start on any machine."""
    try:
        return read()
    except Exception as error:  # noqa: BLE001
        absent[name] = f"{OUR_BUG}: {type(error).__name__}: {error}"
        return nothing


def _gpus(
    tree: Tree, absent: dict[str, str], library: str | None, deadline_ms: int
) -> tuple[GpuDevice, ...]:
    nvidia = gpu_nvidia.nvidia_gpus(tree, absent, library=library, deadline_ms=deadline_ms)
    # A Jetson whose NVML answers has told of its GPU already.
    others = gpu_sysfs.sysfs_gpus(tree, absent, first_index=len(nvidia), with_tegra=not nvidia)
    found = (*nvidia, *others)
    if not found:
        absent["gpus"] = "no NVIDIA driver, and no AMD, Intel or Tegra GPU in /sys"
    return found


def _usable_cores(cpus: Cpu, limits: Limits) -> int:
    usable_milli = limits.cpu_milli or (cpus.logical_cores or 1) * milli.WHOLE
    return max(usable_milli // milli.WHOLE, 1)


def _score(tree: Tree, cores: int, *, full: bool, absent: dict[str, str]) -> ComputeScore | None:
    if not tree.is_this_machine:
        absent["compute"] = "a measurement is of the machine that runs it, not of a copy of files"
        return None
    measured = None
    if full:
        from distributed_grid.edges.probe import compute_full

        measured = compute_full.full_score(cores=cores, absent=absent)
    return measured or compute.short_score()


def _working_directory() -> str:
    try:
        return os.getcwd()  # noqa: PTH109
    except OSError:
        return "/"  # Somebody removed the directory below our feet.
