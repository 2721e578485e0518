"""What each GPU does now: NVML kept open, sysfs for the others.

Lives here: use and free memory of devices that are known already. Never here: what they are
(`gpu_nvidia`, `gpu_sysfs`).
Invariant: a driver that hangs costs one deadline, once; until it answers, its devices are not told.
"""

import threading
from collections.abc import Collection
from typing import Any, Final

from distributed_grid.edges.probe import gpu_sysfs, nvml_device, nvml_library
from distributed_grid.edges.probe.tree import Tree
from distributed_grid.model.bytesize import BYTES_MAX
from distributed_grid.model.gpus import GPUS_MAX
from distributed_grid.model.hardware_gpu import GpuDevice
from distributed_grid.model.lending import GpuUse
from distributed_grid.model.pretend import PretendLoad

DEADLINE_MS: Final = 1_000  # The devices are open already; an answer takes microseconds.


class GpuLoad:
    """Measures the devices of one machine, again and again."""

    def __init__(
        self,
        tree: Tree,
        devices: Collection[GpuDevice],
        *,
        pretended: PretendLoad | None = None,
        library: str | None = None,
        deadline_ms: int = DEADLINE_MS,
    ) -> None:
        self._tree, self._deadline_ms = tree, deadline_ms
        self._devices = [device for device in devices if device.grantable]
        self._pretended_milli = pretended.gpu_used_milli if pretended else None
        nvidia = any(gpu.vendor == "nvidia" and gpu.uuid for gpu in self._devices)
        self._nvml = _Nvml(library) if nvidia and (library or tree.is_this_machine) else None
        self._has_others = any(gpu.vendor not in {"nvidia", "pretended"} for gpu in self._devices)

    def measure(self, held: Collection[str] = ()) -> tuple[GpuUse, ...]:
        """Every device that answers. What runs on those that Grid granted, `held`, is Grid's."""
        told = self._nvml.answers(self._deadline_ms) if self._nvml else {}
        if self._has_others:
            for gpu in gpu_sysfs.sysfs_gpus(self._tree, {}):
                if gpu.utilisation_milli is not None:
                    told[gpu.device] = (
                        gpu.utilisation_milli,
                        gpu.memory_free_bytes or 0,
                        gpu.memory_bytes or 0,
                    )
        found = []
        for gpu in self._devices:
            for part in gpu.parts():
                answer = told.get(part.device)
                if gpu.pretended:
                    answer = (0, part.memory_bytes, part.memory_bytes)
                if answer is None:
                    continue
                used, free, total = answer
                if self._pretended_milli is not None:
                    used = self._pretended_milli
                if part.device in held:
                    used, free = 0, total
                found.append(
                    GpuUse(
                        device=part.device,
                        utilization_milli=used,
                        memory_free_bytes=free,
                        memory_total_bytes=total,
                    )
                )
        return tuple(found)

    def close(self) -> None:
        """Let the driver go."""
        if self._nvml:
            self._nvml.close()


Answers = dict[str, tuple[int, int, int]]  # Device to (use in thousandths, bytes free, bytes).


class _Nvml:
    """NVML, started at the first question and kept, because starting it may take seconds."""

    def __init__(self, library: str | None) -> None:
        self._library = library
        self._nvml: Any = None
        self._handles: dict[str, Any] = {}  # Devices and slices, by uuid.
        self._parents: dict[str, Any] = {}  # Of slices: only the whole device tells its use.
        self._told: Answers = {}
        self._thread: threading.Thread | None = None

    def answers(self, deadline_ms: int) -> Answers:
        """What the devices say, or nothing while the driver does not answer."""
        if self._thread is None or not self._thread.is_alive():
            # In a thread of its own: a driver in trouble blocks where no signal reaches.
            self._thread = threading.Thread(target=self._ask, name="nvml-load", daemon=True)
            self._thread.start()
            self._thread.join(deadline_ms / 1_000)
        return {} if self._thread.is_alive() else dict(self._told)

    def close(self) -> None:
        if self._nvml is not None and not (self._thread and self._thread.is_alive()):
            self._nvml.nvmlShutdown()
            self._nvml = None

    def _ask(self) -> None:
        found: Answers = {}
        try:
            if self._nvml is None:
                self._start()
            for uuid, handle in self._handles.items():
                answer = self._answer(handle, self._parents.get(uuid))
                if answer is not None:
                    found[uuid] = answer
        except Exception:  # noqa: BLE001  (pynvml's errors have no type before it is loaded)
            found = {}  # No driver, or one that went away: nothing is known, so nothing is lent.
        self._told = found

    def _start(self) -> None:
        nvml = nvml_library.load(self._library)
        nvml.nvmlInit()
        for index in range(min(nvml.nvmlDeviceGetCount(), GPUS_MAX)):
            try:
                handle = nvml.nvmlDeviceGetHandleByIndex(index)
            except nvml.NVMLError:
                continue
            uuid = nvml_device.text_or_none(nvml.nvmlDeviceGetUUID, handle)
            if uuid is not None:
                self._handles[uuid] = handle
            for number in range(nvml_device.MIG_SLICES_MAX):
                self._add_slice(nvml, handle, number)
        self._nvml = nvml

    def _add_slice(self, nvml: Any, parent: Any, number: int) -> None:
        try:
            handle = nvml.nvmlDeviceGetMigDeviceHandleByIndex(parent, number)
        except nvml.NVMLError:
            return  # It is not cut, or this slot is empty.
        uuid = nvml_device.text_or_none(nvml.nvmlDeviceGetUUID, handle)
        if uuid is not None:
            self._handles[uuid], self._parents[uuid] = handle, parent

    def _answer(self, handle: Any, parent: Any) -> tuple[int, int, int] | None:
        nvml = self._nvml
        try:
            memory = nvml.nvmlDeviceGetMemoryInfo(handle)
        except nvml.NVMLError:
            return None
        try:
            used = nvml.nvmlDeviceGetUtilizationRates(handle if parent is None else parent).gpu
        except nvml.NVMLError:
            if parent is None:
                return None
            used = 0  # A cut device tells no use; the free memory of the slice decides.
        return (
            min(int(used), 100) * 10,
            min(int(memory.free), BYTES_MAX),
            min(int(memory.total), BYTES_MAX),
        )
