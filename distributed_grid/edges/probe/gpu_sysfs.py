"""GPUs that the kernel itself describes: AMD, Intel, and the GPU inside a Jetson.

Lives here: /sys/class/drm and /sys/class/devfreq. Never here: NVIDIA cards (`gpu_nvidia`).
Source: the kernel's Documentation/gpu/amdgpu/{driver-misc,thermal}.rst, gpu/{i915,xe}, ABI/testing/
{sysfs-class-devfreq,sysfs-bus-pci}; NVIDIA's Jetson Linux developer guide for the load file.
"""

import re
from typing import Final

from distributed_grid.edges.probe.tree import Tree
from distributed_grid.model.bytesize import BYTES_MAX
from distributed_grid.model.hardware_gpu import GpuDevice

_VENDORS: Final = {"0x1002": "amd", "0x8086": "intel"}
INTEL_INTEGRATED_SLOT: Final = "0000:00:02.0"  # Every Intel CPU with graphics shows them there.

# Graphics inside AMD processors (amdgpu_drv.c): they look like cards, with memory cut from RAM.
_AMD_INTEGRATED: Final = frozenset(
    [
        "0x13c0",
        "0x150e",
        "0x1506",
        "0x1586",
        "0x15bf",
        "0x15c8",
        "0x15d8",
        "0x15dd",
        "0x1636",
        "0x1638",
        "0x163f",
        "0x164c",
        "0x164d",
        "0x164e",
        "0x1681",
        "0x1900",
        "0x1901",
    ]
)
# Names of cards that tell none; from the public list of PCI ids, the ones that people compute on.
_NAMES: Final = {
    "0x1002:0x731f": "AMD Radeon RX 5700 XT",
    "0x1002:0x73bf": "AMD Radeon RX 6900 XT",
    "0x1002:0x744c": "AMD Radeon RX 7900 XTX",
    "0x1002:0x7480": "AMD Radeon RX 7600",
    "0x1002:0x7550": "AMD Radeon RX 9070 XT",
    "0x1002:0x740f": "AMD Instinct MI210",
    "0x1002:0x740c": "AMD Instinct MI250X",
    "0x1002:0x74a1": "AMD Instinct MI300X",
    "0x8086:0x56a0": "Intel Arc A770 Graphics",
    "0x8086:0x56a1": "Intel Arc A750 Graphics",
    "0x8086:0x56a5": "Intel Arc A380 Graphics",
    "0x8086:0xe20b": "Intel Arc B580 Graphics",
    "0x8086:0xe20c": "Intel Arc B570 Graphics",
    "0x8086:0x56c0": "Intel Data Center GPU Flex 170",
    "0x8086:0x0bd5": "Intel Data Center GPU Max 1550",
}
# Chip in a Jetson: (name, CUDA compute capability), from the CUDA GPU list.
_TEGRAS: Final = {
    "nvidia,tegra210": ("NVIDIA Tegra X1", 53),
    "nvidia,tegra186": ("NVIDIA Tegra X2", 62),
    "nvidia,tegra194": ("NVIDIA Xavier", 72),
    "nvidia,tegra234": ("NVIDIA Orin", 87),
}


def sysfs_gpus(
    tree: Tree, absent: dict[str, str], *, first_index: int = 0, with_tegra: bool = True
) -> tuple[GpuDevice, ...]:
    """The GPUs of AMD, Intel and Tegra; numbers go on from `first_index`."""
    found: list[GpuDevice] = []
    for card in tree.names("/sys/class/drm"):
        if not re.fullmatch(r"card\d{1,4}", card):
            continue  # card0-HDMI-A-1 is a plug.
        vendor = _VENDORS.get(tree.line(f"/sys/class/drm/{card}/device/vendor") or "")
        if vendor:
            found.append(_card(tree, card, vendor, first_index + len(found), absent))
    tegra = _tegra(tree, first_index + len(found), absent) if with_tegra else None
    return (*found, tegra) if tegra else tuple(found)


def _card(tree: Tree, card: str, vendor: str, index: int, absent: dict[str, str]) -> GpuDevice:
    where = f"/sys/class/drm/{card}/device"
    ids = f"{tree.line(f'{where}/vendor')}:{tree.line(f'{where}/device')}"
    slot = re.search(
        r"^PCI_SLOT_NAME=(\S{1,32})$", tree.text(f"{where}/uevent") or "", re.MULTILINE
    )
    pci_id = slot[1] if slot else None
    integrated = (
        pci_id == INTEL_INTEGRATED_SLOT if vendor == "intel" else ids[7:] in _AMD_INTEGRATED
    )
    name = tree.line(f"{where}/product_name") or _NAMES.get(ids)
    uuid = tree.line(f"{where}/unique_id")
    total, free = _memory(tree, where)
    if total is None:
        reason = "it uses the machine's memory" if integrated else "its driver tells none"
        absent[f"gpus.{card}.memory"] = reason
    busy = tree.integer(f"{where}/gpu_busy_percent", most=100)
    if busy is None:
        absent[f"gpus.{card}.utilisation"] = "its driver writes no gpu_busy_percent"
    sensor = next((f"{where}/hwmon/{chip}" for chip in tree.names(f"{where}/hwmon")), "")
    temperature = tree.integer(f"{sensor}/temp1_input", most=200_000) if sensor else None
    limit = tree.integer(f"{sensor}/temp1_crit", most=200_000) if sensor else None
    drawn = tree.integer(f"{sensor}/power1_average", most=10**10) if sensor else None
    cap = tree.integer(f"{sensor}/power1_cap", most=10**10) if sensor else None
    return GpuDevice(
        index=index,
        vendor=vendor,
        name=name or f"{vendor.upper()} {ids.replace('0x', '')}",
        device=uuid or pci_id or f"{vendor}#{index}",
        uuid=uuid,
        pci_id=pci_id,
        memory_bytes=total,
        memory_free_bytes=free,
        utilisation_milli=None if busy is None else busy * 10,
        driver=tree.target(f"{where}/driver"),
        temperature_centi=None if temperature is None else temperature // 10,
        temperature_limit_centi=None if limit is None else limit // 10,
        power_mw=None if drawn is None else drawn // 1_000,
        power_limit_mw=None if cap is None else cap // 1_000,
        integrated=integrated,
        numa_node=tree.integer(f"{where}/numa_node", most=1_024),
    )


def _memory(tree: Tree, where: str) -> tuple[int | None, int | None]:
    total = tree.integer(f"{where}/mem_info_vram_total", least=1, most=BYTES_MAX)
    used = tree.integer(f"{where}/mem_info_vram_used", most=BYTES_MAX)
    if total is None:  # Intel's xe driver; it tells no use.
        return tree.integer(
            f"{where}/tile0/physical_vram_size_bytes", least=1, most=BYTES_MAX
        ), None
    return total, None if used is None else max(total - used, 0)


def _tegra(tree: Tree, index: int, absent: dict[str, str]) -> GpuDevice | None:
    compatible = (tree.text("/proc/device-tree/compatible") or "").split("\n")
    chip = next((word for word in compatible if word in _TEGRAS), None)
    names = tree.names("/sys/class/devfreq")
    gpu = next((n for n in names if re.search(r"\.(gpu|ga10b|gv11b|gp10b|gm20b)$", n)), None)
    if chip is None or gpu is None:
        return None
    name, capability = _TEGRAS[chip]
    absent["gpus.tegra.memory"] = "it uses the machine's memory"
    return GpuDevice(
        index=index,
        vendor="nvidia",
        name=name,
        device=gpu,
        utilisation_milli=tree.integer(f"/sys/class/devfreq/{gpu}/device/load", most=1_000),
        compute_capability=capability,
        driver=tree.target(f"/sys/class/devfreq/{gpu}/device/driver"),
    )
