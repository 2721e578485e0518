"""A Mac, from `sysctl` and `system_profiler -json`.

Lives here: asking the two programs, and reading what they say (a pure function, so that it is
tested where no Mac is). Never here: Linux on a Mac, which has /proc and /sys like any other.
Source: sysctl(3) names `hw.*`, `machdep.cpu.*`, `kern.*`; system_profiler(8).
Not run on a Mac by the project's own tests: see docs/limitations.md.
"""

import json
import os
import platform
import re
import subprocess
from collections.abc import Mapping
from typing import Any, Final

from distributed_grid.edges.probe import compute, compute_full
from distributed_grid.model.bytesize import BYTES_MAX
from distributed_grid.model.bytesize import parse as parse_bytes
from distributed_grid.model.hardware import HardwareProfile
from distributed_grid.model.hardware_gpu import GpuDevice
from distributed_grid.model.hardware_parts import (
    Battery,
    Board,
    Cpu,
    Disk,
    Memory,
    Os,
    Power,
    Storage,
    Virtualisation,
)

REPORT_DEADLINE_S: Final = 10  # system_profiler asks devices one by one; it takes about a second.
SYSCTL_DEADLINE_S: Final = 2
_SECTIONS: Final = ("SPDisplaysDataType", "SPNVMeDataType", "SPPowerDataType")
_SYSCTLS: Final = (
    "hw.memsize",
    "hw.model",
    "hw.physicalcpu",
    "hw.logicalcpu",
    "hw.cpufrequency_max",
    "machdep.cpu.brand_string",
    "kern.osrelease",
    "kern.osproductversion",
    "kern.hostname",
    "kern.hv_vmm_present",
)


def profile(*, full: bool) -> HardwareProfile:
    """The Mac this runs on."""
    absent: dict[str, str] = {}
    told = parse_sysctl(_run(["sysctl", *_SYSCTLS], SYSCTL_DEADLINE_S, absent))
    report = _run(
        ["system_profiler", "-json", "-detailLevel", "mini", *_SECTIONS], REPORT_DEADLINE_S, absent
    )
    try:
        sections = json.loads(report) if report else {}
    except ValueError:
        sections = {}
        absent["system_profiler"] = "its answer is not JSON"
    found = profile_from(told, sections, platform.machine(), absent)
    space = os.statvfs("/")
    cores = found.cpu.logical_cores or 1
    return HardwareProfile(
        board=found.board,
        cpu=found.cpu,
        memory=found.memory,
        storage=Storage(
            disks=found.storage.disks,
            path="/",
            file_system_bytes=space.f_blocks * space.f_frsize,
            free_bytes=space.f_bavail * space.f_frsize,
        ),
        gpus=found.gpus,
        power=found.power,
        virtualisation=found.virtualisation,
        os=found.os,
        compute=(compute_full.full_score(cores=cores, absent=absent) if full else None)
        or compute.short_score(),
        absent=absent,
    )


def parse_sysctl(text: str) -> dict[str, str]:
    """`name: value` lines."""
    pairs = (line.partition(": ") for line in text.splitlines())
    return {name: value.strip() for name, colon, value in pairs if colon}


def profile_from(
    sysctl: Mapping[str, str], report: Any, machine: str, absent: dict[str, str]
) -> HardwareProfile:
    """The profile that these answers make; pure."""
    memory_bytes = _number(sysctl.get("hw.memsize"), BYTES_MAX)
    hertz = _number(sysctl.get("hw.cpufrequency_max"), 20_000_000_000)
    gpus = tuple(_gpus(_items(report, "SPDisplaysDataType"), memory_bytes))
    facts = (
        ("memory.available", None, "macOS tells it only through a private interface"),
        ("cpu.frequency", hertz, "Apple processors tell none"),
        ("gpus", gpus, "system_profiler lists no GPU"),
        ("limits.cgroup", None, "macOS has no control groups"),
        ("network", None, "Grid does not read network interfaces of a Mac yet"),
        ("thermals", None, "macOS shows temperatures to the administrator only"),
        ("security.tpm", None, "a Mac has a Secure Enclave, not a TPM"),
        ("security.sev", None, "a Mac has none"),
        ("security.sgx", None, "a Mac has none"),
        ("runtimes", None, "containers on a Mac run inside a virtual machine"),
    )
    absent.update((fact, why) for fact, known, why in facts if not known)
    return HardwareProfile(
        board=Board(vendor="Apple Inc.", product=sysctl.get("hw.model")),
        cpu=Cpu(
            model=sysctl.get("machdep.cpu.brand_string"),
            arch=machine,
            physical_cores=_number(sysctl.get("hw.physicalcpu"), 65_536),
            logical_cores=_number(sysctl.get("hw.logicalcpu"), 65_536),
            frequency_max_khz=hertz // 1_000 if hertz else None,
        ),
        memory=Memory(total_bytes=memory_bytes),
        storage=Storage(disks=tuple(_disks(_items(report, "SPNVMeDataType")))),
        gpus=gpus,
        power=_power(_items(report, "SPPowerDataType"), absent),
        virtualisation=Virtualisation(
            kind="apple" if sysctl.get("kern.hv_vmm_present") == "1" else "none"
        ),
        os=Os(
            name="macOS",
            version=sysctl.get("kern.osproductversion"),
            kernel=sysctl.get("kern.osrelease"),
            hostname=sysctl.get("kern.hostname"),
        ),
        absent=absent,
    )


def _gpus(items: list[dict[str, Any]], memory_bytes: int | None) -> list[GpuDevice]:
    found: list[GpuDevice] = []
    for item in items:
        name = str(item.get("sppci_model") or item.get("_name") or "Apple GPU")
        own = item.get("spdisplays_vram")
        is_apple = name.startswith("Apple")
        found.append(
            GpuDevice(
                index=len(found),
                vendor="apple" if is_apple else "amd" if "AMD" in name else "intel",
                name=name,
                device=f"{name}#{len(found)}",
                # Apple's GPU uses all of the machine's memory; the others have their own.
                memory_bytes=memory_bytes if is_apple else _vram(own),
                integrated="Intel" in name,
            )
        )
    return found


def _disks(items: list[dict[str, Any]]) -> list[Disk]:
    found = []
    for controller in items:
        for item in _dicts(controller.get("_items")):
            size = item.get("size_in_bytes")
            if isinstance(size, int) and 0 < size <= BYTES_MAX:
                name = str(item.get("bsd_name") or "disk")
                model = str(item.get("device_model") or "") or None
                found.append(Disk(name=name, kind="nvme", capacity_bytes=size, model=model))
    return found


def _power(items: list[dict[str, Any]], absent: dict[str, str]) -> Power:
    told: dict[str, Any] = {}
    for item in items:
        told.update(item)
    charge = told.get("sppower_battery_charge_info")
    if not isinstance(charge, dict):
        absent["power.battery"] = "system_profiler lists no battery"
        return Power(on_battery=False)
    charger = told.get("sppower_ac_charger_information")
    plugged = (
        isinstance(charger, dict) and charger.get("sppower_battery_charger_connected") == "TRUE"
    )
    percent = _number(str(charge.get("sppower_battery_state_of_charge", "")), 100)
    charging = charge.get("sppower_battery_is_charging") == "TRUE"
    state = "charging" if charging else "not charging" if plugged else "discharging"
    return Power(
        source="ac" if plugged else "battery",
        on_battery=not plugged,
        battery=Battery(percent=percent, state=state),
    )


def _items(report: Any, section: str) -> list[dict[str, Any]]:
    return _dicts(report.get(section)) if isinstance(report, dict) else []


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _vram(text: Any) -> int | None:
    match = re.fullmatch(r"(\d{1,6}) ([MG]B)", str(text or ""))
    return parse_bytes(f"{match[1]}{match[2][0]}iB") if match else None


def _number(text: str | None, most: int) -> int | None:
    if not text or not re.fullmatch(r"[0-9]{1,19}", text):
        return None
    return int(text) if int(text) <= most else None


def _run(command: list[str], deadline_s: int, absent: dict[str, str]) -> str:
    """What a program prints; empty, with the reason noted, if it does not."""
    try:
        done = subprocess.run(  # noqa: S603
            command, capture_output=True, text=True, timeout=deadline_s, check=False
        )
    except (OSError, subprocess.SubprocessError) as error:
        absent[command[0]] = f"it cannot be asked: {type(error).__name__}"
        return ""
    return done.stdout
