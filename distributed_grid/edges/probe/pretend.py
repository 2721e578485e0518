"""Laying pretended hardware over a profile.

Lives here: what changes when the configuration pretends, and the marks that say so. Never here:
reading the configuration (`config.pretend`).
Invariant: every group that is touched is named in `pretended`; untouched ones stay as measured.
"""

from typing import Any

import msgspec

from distributed_grid.model import milli
from distributed_grid.model.gpus import canonical_model
from distributed_grid.model.hardware import HardwareProfile
from distributed_grid.model.hardware_gpu import GpuDevice
from distributed_grid.model.hardware_parts import Battery, Memory, Nic, Power, Storage
from distributed_grid.model.pretend import Pretend

_REASON_PREFIXES = {
    "cpu": ("cpu.logical_cores", "cpu.physical_cores", "cpu.load", "cpu.arch"),
    "memory": ("memory",),
    "storage": ("storage",),
    "gpus": ("gpus",),
    "power": ("power.battery", "power.source"),
    "network": ("network.pretend0",),
    "class": (),
}


def with_pretended(profile: HardwareProfile, pretend: Pretend) -> HardwareProfile:
    """The profile as the configuration wants it to look."""
    changes: dict[str, Any] = {}
    limits = profile.limits
    groups = []
    if pretend.cpu_milli is not None or pretend.arch is not None:
        groups.append("cpu")
        cpu = profile.cpu
        if pretend.cpu_milli is not None:
            cores = -(-pretend.cpu_milli // milli.WHOLE)
            cpu = msgspec.structs.replace(
                cpu,
                logical_cores=cores,
                physical_cores=cores,
                sockets=None,
                numa_nodes=(),
                load_milli=0,
            )
            limits = msgspec.structs.replace(
                limits, cpu_milli=pretend.cpu_milli, cpu_limit="pretended"
            )
        changes["cpu"] = msgspec.structs.replace(cpu, arch=pretend.arch or cpu.arch)
    if pretend.memory_bytes is not None:
        groups.append("memory")
        changes["memory"] = Memory(
            total_bytes=pretend.memory_bytes, available_bytes=pretend.memory_bytes
        )
        limits = msgspec.structs.replace(
            limits, memory_bytes=None, memory_limit=None, memory_used_bytes=None
        )
    if pretend.storage_bytes is not None:
        groups.append("storage")
        changes["storage"] = Storage(
            file_system_bytes=pretend.storage_bytes, free_bytes=pretend.storage_bytes
        )
    if pretend.gpus is not None:
        groups.append("gpus")
        changes["gpus"] = _gpus(pretend)
    if pretend.battery_percent is not None or pretend.on_battery is not None:
        groups.append("power")
        changes["power"] = _power(profile, pretend)
    if pretend.bandwidth_mbps is not None:
        groups.append("network")
        made = Nic(name="pretend0", kind="ethernet", up=True, speed_mbps=pretend.bandwidth_mbps)
        changes["nics"] = (*profile.nics, made)
    if pretend.node_class is not None:
        groups.append("class")
        changes["pretended_class"] = pretend.node_class
        changes["pretended_device_type"] = pretend.device_type
    return msgspec.structs.replace(
        profile,
        **changes,
        limits=limits,
        absent=_still_absent(profile.absent, groups),
        pretended=tuple(groups),
    )


def _gpus(pretend: Pretend) -> tuple[GpuDevice, ...]:
    found: list[GpuDevice] = []
    for kind in pretend.gpus or ():
        for _ in range(kind.count):
            index = len(found)
            found.append(
                GpuDevice(
                    index=index,
                    vendor="pretended",
                    name=kind.model,
                    device=f"{canonical_model(kind.model)}#{index:04d}",  # Padded: sorts by number.
                    memory_bytes=kind.memory_bytes,
                    memory_free_bytes=kind.memory_bytes,
                    compute_capability=kind.compute_capability,
                    pretended=True,
                )
            )
    return tuple(found)


def _power(profile: HardwareProfile, pretend: Pretend) -> Power:
    # A level without a word on the source means the interesting case: it discharges.
    on_battery = True if pretend.on_battery is None else pretend.on_battery
    battery = None
    if pretend.battery_percent is not None or on_battery:
        battery = Battery(
            percent=pretend.battery_percent, state="discharging" if on_battery else "charging"
        )
    return Power(
        source="battery" if on_battery else "ac",
        on_battery=on_battery,
        battery=battery,
        plan=profile.power.plan,
        plan_raw=profile.power.plan_raw,
    )


def _still_absent(absent: dict[str, str], groups: list[str]) -> dict[str, str]:
    gone = tuple(prefix for group in groups for prefix in _REASON_PREFIXES[group])
    return {fact: why for fact, why in absent.items() if not (gone and fact.startswith(gone))}
