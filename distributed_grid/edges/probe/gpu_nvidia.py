"""NVIDIA GPUs: through NVML, else from what the driver and the kernel write into files.

Lives here: which way is taken, deadlines, devices without NVML. Never here: the questions to
NVML (`nvml_device`, `nvml_links`), loading it (`nvml_library`).
Invariant: an NVML that hangs costs its deadline and no more; what it told before is kept.
Source: NVML API reference; NVIDIA driver README, chapter "/proc interface"; sysfs-bus-pci.
"""

import re
import threading
from typing import Any, Final

from distributed_grid.edges.probe import nvml_device, nvml_library, nvml_links
from distributed_grid.edges.probe.tree import Tree, fields
from distributed_grid.model.gpus import GPUS_MAX
from distributed_grid.model.hardware_gpu import GpuDevice

# The driver wakes sleeping devices one after another, some 0.3 s each, when nothing else holds
# them open; eight of them and some air.
NVML_DEADLINE_MS: Final = 5_000
_PROC: Final = "/proc/driver/nvidia"


def nvidia_gpus(
    tree: Tree,
    absent: dict[str, str],
    *,
    library: str | None = None,
    deadline_ms: int = NVML_DEADLINE_MS,
) -> tuple[GpuDevice, ...]:
    """The NVIDIA devices of this tree, as well as they can be known."""
    has_driver = tree.exists(_PROC) or tree.exists("/dev/nvidiactl")
    if library is not None or (has_driver and tree.is_this_machine):
        devices = _through_nvml(library, absent, deadline_ms)
        if devices:
            return devices
    elif has_driver:
        absent["gpus.nvml"] = "NVML answers for a running machine, not for a copy of its files"
    return _from_driver_files(tree, absent) or _without_driver(tree, absent)


def _through_nvml(
    library: str | None, absent: dict[str, str], deadline_ms: int
) -> tuple[GpuDevice, ...]:
    reading = _Reading(library)
    # A thread, because a driver in trouble blocks in the kernel and cannot be interrupted. As a
    # daemon it does not keep the process from ending.
    thread = threading.Thread(target=reading.run, name="nvml", daemon=True)
    thread.start()
    thread.join(deadline_ms / 1_000)
    absent.update(list(reading.absent.items()))
    if thread.is_alive():
        absent["gpus.nvml"] = f"NVML did not answer within {deadline_ms} ms"
    return tuple(reading.devices)


class _Reading:
    """One pass over all devices; what is done is visible before the whole is."""

    def __init__(self, library: str | None) -> None:
        self.library = library
        self.devices: list[GpuDevice] = []
        self.absent: dict[str, str] = {}

    def run(self) -> None:
        try:
            nvml = nvml_library.load(self.library)
            nvml.nvmlInit()
        except (OSError, ImportError) as error:
            self.absent["gpus.nvml"] = f"the NVML library cannot be loaded: {error}"
            return
        except Exception as error:  # noqa: BLE001  (pynvml's errors have no type before it is loaded)
            self.absent["gpus.nvml"] = f"NVML does not start: {error}"
            return
        try:
            self._read(nvml)
        except nvml.NVMLError as error:
            self.absent["gpus.nvml"] = f"NVML fails: {error}"
        finally:
            nvml.nvmlShutdown()

    def _read(self, nvml: Any) -> None:
        driver = nvml_device.text_or_none(nvml.nvmlSystemGetDriverVersion)
        handles: dict[str, Any] = {}
        for index in range(min(nvml.nvmlDeviceGetCount(), GPUS_MAX)):
            try:
                handle = nvml.nvmlDeviceGetHandleByIndex(index)
            except nvml.NVMLError as error:
                self.absent[f"gpus.nvidia{index}"] = f"NVML does not hand it out: {error}"
                continue
            device = nvml_device.read(nvml, handle, index, driver, self.absent)
            self.devices.append(device)
            handles[device.device] = handle
        linked = nvml_links.linked(nvml, self.devices, handles)
        self.devices[:] = linked


def _from_driver_files(tree: Tree, absent: dict[str, str]) -> tuple[GpuDevice, ...]:
    """What /proc/driver/nvidia tells: model, uuid and place, but no amounts."""
    told = re.search(r"Kernel Module(?: for \S+)?\s+([0-9.]+)", tree.text(f"{_PROC}/version") or "")
    found = []
    for index, bus in enumerate(tree.names(f"{_PROC}/gpus")[:GPUS_MAX]):
        facts = fields(tree.text(f"{_PROC}/gpus/{bus}/information"))
        name = facts.get("Model")
        if not name:
            absent[f"gpus.nvidia{index}"] = f"the driver names no model for {bus}"
            continue
        uuid = facts.get("GPU UUID")
        uuid = (
            uuid if uuid and "?" not in uuid else None
        )  # Question marks: never opened since boot.
        pci_id = nvml_device.pci_text(facts.get("Bus Location", bus))
        found.append(
            GpuDevice(
                index=index,
                vendor="nvidia",
                name=name[:100],
                device=uuid or pci_id,
                uuid=uuid,
                pci_id=pci_id,
                driver=told[1] if told else None,
                numa_node=tree.integer(f"/sys/bus/pci/devices/{pci_id}/numa_node"),
            )
        )
    if found:
        absent["gpus.memory"] = "the driver's files name the devices only; memory is told by NVML"
    return tuple(found)


def _without_driver(tree: Tree, absent: dict[str, str]) -> tuple[GpuDevice, ...]:
    """Cards that are plugged in, but that no driver of NVIDIA serves: seen, never granted."""
    found: list[GpuDevice] = []
    for slot in tree.names("/sys/bus/pci/devices"):
        where = f"/sys/bus/pci/devices/{slot}"
        # Class 0x03 is a display controller; audio and USB functions of a card are not.
        if tree.line(f"{where}/vendor") != "0x10de":
            continue
        if not (tree.line(f"{where}/class") or "").startswith("0x03"):
            continue
        number = (tree.line(f"{where}/device") or "0x????").removeprefix("0x")
        found.append(
            GpuDevice(
                index=len(found),
                vendor="nvidia",
                name=f"NVIDIA 10de:{number}",
                device=slot,
                pci_id=slot,
                healthy=False,
                health=("no NVIDIA driver is loaded",),
            )
        )
    if found:
        absent["gpus.nvidia"] = "a card is plugged in, but no NVIDIA driver is loaded"
    return tuple(found)
