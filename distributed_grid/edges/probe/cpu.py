"""The processors, from /proc/cpuinfo and /sys/devices/system/{cpu,node}.

Lives here: parsing what the kernel says of them. Never here: limits of containers (`cgroup`).
Source: the kernel's Documentation/ABI/{stable,testing}/sysfs-devices-system-cpu, proc(5).
"""

import os
import re
from typing import Final

from distributed_grid.edges.probe.tree import CPUS_MAX, Tree, cpu_list, fields, integer
from distributed_grid.model.hardware_parts import Cache, Cpu, NumaNode

_CPU: Final = "/sys/devices/system/cpu"
_NODE: Final = "/sys/devices/system/node"
FREQUENCY_KHZ_MAX: Final = 20_000_000  # 20 GHz; no silicon is near, so it is a broken file.
NUMA_NODES_MAX: Final = 1_024  # CONFIG_NODES_SHIFT is at most 10.

# Arm names its cores by number only: (implementer, part) from the MIDR of each manual.
_ARM_CORES: Final = {
    (0x41, 0xB76): "ARM1176",
    (0x41, 0xC07): "Cortex-A7",
    (0x41, 0xD03): "Cortex-A53",
    (0x41, 0xD05): "Cortex-A55",
    (0x41, 0xD07): "Cortex-A57",
    (0x41, 0xD08): "Cortex-A72",
    (0x41, 0xD0B): "Cortex-A76",
    (0x41, 0xD0C): "Neoverse-N1",
    (0x41, 0xD40): "Neoverse-V1",
    (0x41, 0xD42): "Cortex-A78AE",
    (0x41, 0xD49): "Neoverse-N2",
    (0x41, 0xD4F): "Neoverse-V2",
    (0x4E, 0x003): "Denver 2",
    (0x4E, 0x004): "Carmel",
    (0xC0, 0xAC3): "Ampere-1",
}


def cpu(tree: Tree, absent: dict[str, str]) -> Cpu:
    """Everything about the processors that files tell."""
    text = tree.text("/proc/cpuinfo")
    blocks = _blocks(text)
    first = blocks[0] if blocks else {}
    logical = _logical(tree, blocks)
    sockets, physical = _topology(tree, blocks, logical)
    now_khz, max_khz = _frequency(tree, first)
    found = Cpu(
        model=_model(first, text),
        arch=_arch(tree, first),
        sockets=sockets,
        physical_cores=physical,
        logical_cores=logical,
        frequency_khz=now_khz,
        frequency_max_khz=max_khz,
        features=tuple(sorted(set((first.get("flags") or first.get("Features") or "").split()))),
        caches=_caches(tree),
        numa_nodes=_numa_nodes(tree),
        load_milli=_load(tree),
    )
    facts = (
        ("cpu.model", found.model, "/proc/cpuinfo names no model"),
        ("cpu.arch", found.arch, "neither /proc/sys/kernel/arch nor /proc/cpuinfo tells it"),
        ("cpu.logical_cores", logical, "neither /sys nor /proc/cpuinfo lists a processor"),
        ("cpu.physical_cores", physical, "the kernel does not tell which cores are siblings"),
        ("cpu.frequency", now_khz, "there is no cpufreq driver and /proc/cpuinfo names no MHz"),
        ("cpu.frequency_max", max_khz, "there is no cpufreq driver"),
        ("cpu.features", found.features, "/proc/cpuinfo lists no flags"),
        ("cpu.caches", found.caches, "the kernel describes no caches of the first core"),
        ("cpu.numa_nodes", found.numa_nodes, "the kernel describes no NUMA nodes"),
        ("cpu.load", found.load_milli, "/proc/loadavg cannot be read"),
    )
    absent.update((fact, why) for fact, value, why in facts if value is None or value == ())
    return found


def _blocks(text: str | None) -> list[dict[str, str]]:
    """One dict for each processor; lines after the last one (Arm boards) belong to none."""
    blocks = [fields(part) for part in re.split(r"\n\s*\n", text or "")]
    return [block for block in blocks if "processor" in block][:CPUS_MAX]


def _model(first: dict[str, str], text: str | None) -> str | None:
    if named := first.get("model name") or first.get("cpu") or first.get("uarch"):
        return " ".join(named.split())[:200]
    numbers = [_hexadecimal(first.get(key)) for key in ("CPU implementer", "CPU part")]
    core = _ARM_CORES.get((numbers[0] or 0, numbers[1] or 0))
    chip = fields(text).get("Hardware")  # `BCM2835`, on Arm boards of older kernels.
    return " ".join(part for part in (chip, core) if part)[:200] or None


def _arch(tree: Tree, first: dict[str, str]) -> str | None:
    if told := tree.line("/proc/sys/kernel/arch"):  # Since Linux 6.1: the same as `uname -m`.
        return told
    if tree.is_this_machine:
        return os.uname().machine
    if "flags" in first:
        return "x86_64" if "lm" in first["flags"].split() else "i686"
    if "CPU architecture" in first:
        return "aarch64" if first["CPU architecture"].startswith("8") else "armv7l"
    if first.get("isa", "").startswith("rv"):
        return f"riscv{first['isa'][2:4]}"
    return None


def _logical(tree: Tree, blocks: list[dict[str, str]]) -> int | None:
    online = cpu_list(tree.text(f"{_CPU}/online"))
    return len(online) or len(blocks) or None


def _topology(
    tree: Tree, blocks: list[dict[str, str]], logical: int | None
) -> tuple[int | None, int | None]:
    # x86 tells it in the one file that is read anyway; others only in two files a core.
    pairs = {
        (block["physical id"], block["core id"])
        for block in blocks
        if "physical id" in block and "core id" in block
    }
    if not pairs:
        for number in range(min(logical or 0, CPUS_MAX)):
            where = f"{_CPU}/cpu{number}/topology"
            core = tree.line(f"{where}/core_id")
            if core is not None:
                # Cores of two Arm clusters may share a number; the package is -1 where unknown.
                cluster = tree.line(f"{where}/cluster_id") or ""
                package = tree.line(f"{where}/physical_package_id") or ""
                pairs.add((package, f"{cluster}/{core}"))
    if not pairs:
        return None, None
    return len({package for package, _ in pairs}), min(len(pairs), logical or len(pairs))


def _frequency(tree: Tree, first: dict[str, str]) -> tuple[int | None, int | None]:
    where = f"{_CPU}/cpu0/cpufreq"
    now = tree.integer(f"{where}/scaling_cur_freq", least=1, most=FREQUENCY_KHZ_MAX)
    most = tree.integer(f"{where}/cpuinfo_max_freq", least=1, most=FREQUENCY_KHZ_MAX)
    if now is None and (
        told := re.fullmatch(r"(\d{1,6})(?:\.(\d{1,3}))?\d*", first.get("cpu MHz", ""))
    ):
        khz = int(told[1]) * 1_000 + int((told[2] or "").ljust(3, "0"))
        now = khz if 0 < khz <= FREQUENCY_KHZ_MAX else None
    return now, most


def _caches(tree: Tree) -> tuple[Cache, ...]:
    where, found = f"{_CPU}/cpu0/cache", []
    for name in tree.names(where):
        size = re.fullmatch(r"([0-9]{1,9})([KM]?)", tree.text(f"{where}/{name}/size") or "")
        level = tree.integer(f"{where}/{name}/level", least=1, most=9)
        kind = tree.line(f"{where}/{name}/type")
        if size and level and kind:
            unit = {"": 1, "K": 1 << 10, "M": 1 << 20}[size[2]]
            shared = len(cpu_list(tree.text(f"{where}/{name}/shared_cpu_list"))) or 1
            found.append(
                Cache(
                    level=level,
                    kind=kind.lower(),
                    size_bytes=int(size[1]) * unit,
                    shared_by_cpus=shared,
                )
            )
    return tuple(found)


def _numa_nodes(tree: Tree) -> tuple[NumaNode, ...]:
    found = []
    for name in tree.names(_NODE):
        number = integer(name.removeprefix("node"), most=NUMA_NODES_MAX)
        cpus = tree.line(f"{_NODE}/{name}/cpulist", characters_max=4_096)
        if name.startswith("node") and number is not None:
            total = re.search(
                r"MemTotal:\s*([0-9]{1,15}) kB", tree.text(f"{_NODE}/{name}/meminfo") or ""
            )
            found.append(
                NumaNode(
                    node=number,
                    cpus=cpus or "",
                    logical_cores=len(cpu_list(cpus)),
                    memory_bytes=int(total[1]) * 1024 if total else None,
                )
            )
    return tuple(found)


def _load(tree: Tree) -> int | None:
    told = re.match(r"(\d{1,6})\.(\d{2}) ", (tree.text("/proc/loadavg") or "") + " ")
    return int(told[1]) * 1_000 + int(told[2]) * 10 if told else None


def _hexadecimal(text: str | None) -> int | None:
    return int(text, 16) if text and re.fullmatch(r"0x[0-9a-fA-F]{1,8}", text) else None
