"""What class a machine is: edge, laptop, data centre, else workstation.

Lives here: the rules, in the order in which they are asked, and the reason each gives. Never
here: reading the machine (`edges.probe`), what the classes carry (`model.node_class`).
Invariant: every profile, also an empty one, gets exactly one class and one reason.
"""

import re
from collections.abc import Callable
from typing import Final

from distributed_grid.model import bytesize, milli
from distributed_grid.model.hardware import HardwareProfile
from distributed_grid.model.node_class import AnyNodeClass, DataCenter, Edge, Laptop, Workstation

DEVICE_TYPES: Final = (
    "raspberry-pi",
    "jetson-nano",
    "jetson-xavier",
    "jetson-orin",
    "nuc",
    "generic",
)

DATACENTER_GPUS_MIN: Final = 4  # Four double-width cards no longer fit a desk-side case.
# Decimal: the kernel keeps a few GiB for itself, so 128 GiB of modules show as less than 128 GiB.
DATACENTER_MEMORY_BYTES_MIN: Final = 128 * 10**9
DATACENTER_CPU_MILLI_MIN: Final = 32 * milli.WHOLE
DATACENTER_BANDWIDTH_MBPS_MIN: Final = 10_000
EDGE_CPU_MILLI_MAX: Final = 4 * milli.WHOLE  # Boards sold as edge devices begin with four cores.
EDGE_MEMORY_BYTES_MAX: Final = 8 * bytesize.GIB
BOARD_CORES_MAX: Final = 8  # A device-tree board with more is a server or an Apple machine.
BOARD_MEMORY_BYTES_MAX: Final = 16 * bytesize.GIB
JETSON_NANO_BYTES_MAX: Final = 4 * bytesize.GIB  # As StratoSwarm tells Tegra machines apart.
JETSON_XAVIER_BYTES_MAX: Final = 16 * bytesize.GIB

# SMBIOS specification, table "System Enclosure or Chassis Types".
_CHASSIS_LAPTOP: Final = {
    8: "portable",
    9: "laptop",
    10: "notebook",
    14: "sub-notebook",
    30: "tablet",
    31: "convertible",
    32: "detachable",
}
_CHASSIS_SERVER: Final = {
    17: "main server chassis",
    23: "rack mount chassis",
    25: "multi-system chassis",
    28: "blade",
    29: "blade enclosure",
}
_CHASSIS_EDGE: Final = {33: "IoT gateway", 34: "embedded PC", 35: "mini PC", 36: "stick PC"}

_NUC: Final = re.compile(r"\bnuc(?=\d|\b)", re.IGNORECASE)
_RASPBERRY_CHIP: Final = re.compile(r"\bbcm2(711|712|835|836|837)\b", re.IGNORECASE)
_SMALL_CPU: Final = re.compile(r"\b(celeron|atom)\b", re.IGNORECASE)

Verdict = tuple[AnyNodeClass, str]
Rule = Callable[[HardwareProfile], Verdict | None]


def classify(profile: HardwareProfile) -> AnyNodeClass:
    """The class of this machine."""
    return classify_with_reason(profile)[0]


def classify_with_reason(profile: HardwareProfile) -> Verdict:
    """The class of this machine, and the one fact that decided it."""
    verdicts = (rule(profile) for rule in RULES)
    return next(verdict for verdict in verdicts if verdict is not None)


def classify_capabilities(
    *,
    cpu_milli: int,
    memory_bytes: int,
    gpu_count: int,
    bandwidth_mbps: int | None,
    arch: str,
    on_battery: bool | None,
    battery_percent: int | None,
) -> AnyNodeClass:
    """The class of a node of which only amounts are known."""
    if battery_percent is not None or on_battery:
        return Laptop(battery_level=battery_percent)
    if gpu_count >= DATACENTER_GPUS_MIN or _is_big(cpu_milli, memory_bytes, bandwidth_mbps):
        return DataCenter(gpus=gpu_count, bandwidth=bandwidth_mbps)
    small = cpu_milli <= EDGE_CPU_MILLI_MAX and memory_bytes <= EDGE_MEMORY_BYTES_MAX
    if small and arch.lower().startswith(("arm", "aarch64")):
        return Edge()
    return Workstation(gpu_capable=gpu_count > 0)


def _pretended(profile: HardwareProfile) -> Verdict | None:
    match profile.pretended_class:
        case "datacenter":
            made: AnyNodeClass = _datacenter(profile)
        case "workstation":
            made = _workstation(profile)
        case "laptop":
            made = _laptop(profile)
        case "edge":
            made = Edge(device_type=profile.pretended_device_type or "generic")
        case _:
            return None
    return made, "the configuration pretends it"


def _raspberry_pi(profile: HardwareProfile) -> Verdict | None:
    model = profile.board.device_tree_model or ""
    if "raspberry pi" in model.lower():
        return Edge(device_type="raspberry-pi"), f"the device tree says {model}"
    if chip := _RASPBERRY_CHIP.search(profile.cpu.model or ""):
        return Edge(device_type="raspberry-pi"), f"the chip is a {chip[0]}"
    return None


def _jetson(profile: HardwareProfile) -> Verdict | None:
    model = profile.board.device_tree_model or ""
    tegra = any("tegra" in word for word in profile.board.device_tree_compatible)
    if (
        not tegra
        and "jetson" not in model.lower()
        and "tegra" not in (profile.cpu.model or "").lower()
    ):
        return None
    # Orin first: there is a Jetson Orin Nano.
    for word in ("orin", "xavier", "nano"):
        if word in model.lower():
            return Edge(device_type=f"jetson-{word}"), f"the device tree says {model}"
    memory_bytes = profile.memory.total_bytes or 0
    word = (
        "nano"
        if memory_bytes <= JETSON_NANO_BYTES_MAX
        else "xavier"
        if memory_bytes <= JETSON_XAVIER_BYTES_MAX
        else "orin"
    )
    return Edge(device_type=f"jetson-{word}"), f"a Tegra with {bytesize.text(memory_bytes)}"


def _nuc(profile: HardwareProfile) -> Verdict | None:
    # Laptop kits are sold under the same name; they have a battery and are asked about below.
    if profile.power.battery is not None or profile.board.chassis_type in _CHASSIS_LAPTOP:
        return None
    for name in (profile.board.product, profile.board.board):
        if name and _NUC.search(name):
            return Edge(device_type="nuc"), f"the firmware names the product {name}"
    return None


def _small_box(profile: HardwareProfile) -> Verdict | None:
    if profile.power.battery is not None or profile.virtualisation.kind not in {None, "none"}:
        return None
    if chassis := _CHASSIS_EDGE.get(profile.board.chassis_type or 0):
        return Edge(), f"the firmware calls the case a {chassis}"
    cores = profile.cpu.physical_cores or profile.cpu.logical_cores or 0
    memory_bytes = profile.memory.total_bytes or 0
    model = profile.board.device_tree_model
    fits = 0 < cores <= BOARD_CORES_MAX and 0 < memory_bytes <= BOARD_MEMORY_BYTES_MAX
    if model and fits and not model.lower().startswith("apple"):
        return Edge(), f"a board described by a device tree ({model})"
    cpu = _SMALL_CPU.search(profile.cpu.model or "")
    if cpu and fits and cores <= 4 and profile.board.chassis_type not in _CHASSIS_LAPTOP:
        return Edge(), f"a small {cpu[0]} machine"
    return None


def _laptop_chassis(profile: HardwareProfile) -> Verdict | None:
    chassis = _CHASSIS_LAPTOP.get(profile.board.chassis_type or 0)
    return (_laptop(profile), f"the firmware calls the case a {chassis}") if chassis else None


def _battery(profile: HardwareProfile) -> Verdict | None:
    return (_laptop(profile), "it has a battery") if profile.power.battery else None


def _cloud(profile: HardwareProfile) -> Verdict | None:
    cloud = profile.virtualisation.cloud
    return (_datacenter(profile), f"the firmware names the cloud {cloud}") if cloud else None


def _server_chassis(profile: HardwareProfile) -> Verdict | None:
    if profile.virtualisation.kind not in {None, "none"}:
        return None  # Hypervisors fill the field with whatever they like.
    chassis = _CHASSIS_SERVER.get(profile.board.chassis_type or 0)
    return (_datacenter(profile), f"the firmware calls the case a {chassis}") if chassis else None


def _many_gpus(profile: HardwareProfile) -> Verdict | None:
    count = profile.capable_gpus
    if count < DATACENTER_GPUS_MIN:
        return None
    return _datacenter(profile), f"it has {count} GPUs, {DATACENTER_GPUS_MIN} are enough"


def _big(profile: HardwareProfile) -> Verdict | None:
    if not _is_big(profile.cpu_milli, profile.memory_bytes, profile.bandwidth_mbps):
        return None
    return _datacenter(profile), "at least 128 GB, 32 cores and 10 Gbit/s"


def _otherwise(profile: HardwareProfile) -> Verdict:
    return _workstation(profile), "nothing says edge device, laptop or data centre"


# The order is StratoSwarm's: edge, laptop, data centre, else workstation. The first answer counts.
RULES: Final[tuple[Rule, ...]] = (
    _pretended,
    _raspberry_pi,
    _jetson,
    _nuc,
    _small_box,
    _laptop_chassis,
    _battery,
    _cloud,
    _server_chassis,
    _many_gpus,
    _big,
    _otherwise,
)


def _datacenter(profile: HardwareProfile) -> DataCenter:
    return DataCenter(gpus=profile.capable_gpus, bandwidth=profile.bandwidth_mbps)


def _workstation(profile: HardwareProfile) -> Workstation:
    return Workstation(gpu_capable=any(gpu.grantable for gpu in profile.gpus))


def _laptop(profile: HardwareProfile) -> Laptop:
    battery = profile.power.battery
    return Laptop(battery_level=battery.percent if battery else None)


def _is_big(cpu_milli: int, memory_bytes: int, bandwidth_mbps: int | None) -> bool:
    return (
        memory_bytes >= DATACENTER_MEMORY_BYTES_MIN
        and cpu_milli >= DATACENTER_CPU_MILLI_MIN
        and (bandwidth_mbps or 0) >= DATACENTER_BANDWIDTH_MBPS_MIN
    )
