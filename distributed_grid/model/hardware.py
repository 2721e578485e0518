"""What a machine is made of, as the probe read it.

Lives here: the profile of one machine and what it yields as `Resources`. Never here: reading
files or drivers (`edges.probe`), deciding the class (`kernel.classification`).
Invariant: a fact that is None has its reason in `absent`; nothing here is a guess.
"""

from collections.abc import Iterable

import msgspec

from distributed_grid.model import bytesize, milli
from distributed_grid.model.gpus import GPUS_MAX, Gpu
from distributed_grid.model.hardware_gpu import GpuDevice
from distributed_grid.model.hardware_parts import (
    Board,
    ComputeScore,
    ContainerRuntime,
    Cpu,
    Limits,
    Memory,
    Nic,
    Os,
    Power,
    Security,
    Storage,
    ThermalSensor,
    Virtualisation,
)
from distributed_grid.model.resources import Resources


class HardwareProfile(msgspec.Struct, frozen=True, kw_only=True):
    """One machine: everything the probe found, and why the rest is missing."""

    board: Board = Board()
    cpu: Cpu = Cpu()
    memory: Memory = Memory()
    limits: Limits = Limits()
    storage: Storage = Storage()
    gpus: tuple[GpuDevice, ...] = ()
    nics: tuple[Nic, ...] = ()
    power: Power = Power()
    thermals: tuple[ThermalSensor, ...] = ()
    security: Security = Security()
    virtualisation: Virtualisation = Virtualisation()
    runtimes: tuple[ContainerRuntime, ...] = ()
    os: Os = Os()
    compute: ComputeScore | None = None
    absent: dict[str, str] = {}  # A dotted fact name to the reason, one sentence.
    pretended: tuple[str, ...] = ()  # Groups that the configuration gave, not the machine.
    pretended_class: str | None = None
    pretended_device_type: str | None = None

    def total(self) -> Resources:
        """What a job could ever get here: limits of the container counted, nothing subtracted."""
        gpus = (part for gpu in self.gpus if not gpu.integrated for part in gpu.parts())
        return _resources(
            cpu_milli=self.cpu_milli,
            memory_bytes=self.memory_bytes,
            storage_bytes=self.storage.usable_bytes,
            gpus=gpus,
        )

    def free(self) -> Resources:
        """What a job could get now: without load, memory in use, and devices that are unwell."""
        logical_milli = (self.cpu.logical_cores or 0) * milli.WHOLE
        idle_milli = max(logical_milli - (self.cpu.load_milli or 0), 0)
        available = [self.memory_bytes]
        if self.memory.available_bytes is not None:
            available.append(self.memory.available_bytes)
        if self.limits.memory_bytes is not None and self.limits.memory_used_bytes is not None:
            available.append(max(self.limits.memory_bytes - self.limits.memory_used_bytes, 0))
        well = (gpu for gpu in self.gpus if gpu.grantable)
        return _resources(
            # A host's load is not told apart by container: what the host has idle bounds us too.
            cpu_milli=min(self.cpu_milli, idle_milli),
            memory_bytes=min(available),
            storage_bytes=min(self.storage.free_bytes or 0, self.storage.usable_bytes),
            gpus=(part for gpu in well for part in gpu.parts()),
        )

    @property
    def cpu_milli(self) -> int:
        """Cores a job may use: the limit of the container, else all of them."""
        if self.limits.cpu_milli is not None:
            return self.limits.cpu_milli
        return (self.cpu.logical_cores or 0) * milli.WHOLE

    @property
    def memory_bytes(self) -> int:
        """Memory a job may use: the limit of the container, else all of it."""
        if self.limits.memory_bytes is not None:
            return self.limits.memory_bytes
        return self.memory.total_bytes or 0

    @property
    def bandwidth_mbps(self) -> int | None:
        """The fastest link of a real network card that is up; virtual ones tell fairy tales."""
        speeds = [nic.speed_mbps for nic in self.nics if nic.speed_mbps and nic.carries_traffic]
        return max(speeds, default=None)

    @property
    def temperature_centi(self) -> int | None:
        """The hottest sensor now, in hundredths of a degree Celsius."""
        known = [s.temperature_centi for s in self.thermals if s.temperature_centi is not None]
        return max(known, default=None)

    @property
    def capable_gpus(self) -> int:
        """Devices that compute: not the integrated ones that only draw the screen."""
        return sum(not gpu.integrated for gpu in self.gpus)


def _resources(
    *, cpu_milli: int, memory_bytes: int, storage_bytes: int, gpus: Iterable[Gpu]
) -> Resources:
    # A device told twice (an odd driver, two card entries) counts once.
    devices = {gpu.device: gpu for gpu in gpus}
    return Resources(
        cpu_milli=min(cpu_milli, milli.MILLI_MAX),
        memory_bytes=min(memory_bytes, bytesize.BYTES_MAX),
        storage_bytes=min(storage_bytes, bytesize.BYTES_MAX),
        gpus=tuple(devices[name] for name in sorted(devices)[:GPUS_MAX]),
    )
