"""The questions to NVML about one device: what it is, what it does, how it is.

Lives here: each question with its fallback to "absent, because". Never here: links between
devices (`nvml_links`), deadlines (`gpu_nvidia`).
Invariant: a question that fails costs that one fact.
"""

from collections.abc import Callable
from typing import Any, Final

from distributed_grid.model.bytesize import BYTES_MAX
from distributed_grid.model.hardware_gpu import GpuDevice, MigSlice

_GPU_IS_LOST, _RESET_REQUIRED, _NOT_SUPPORTED = 15, 16, 3  # NVML_ERROR_* of nvml.h.
_TEMPERATURE_GPU, _THRESHOLD_SLOWDOWN = 0, 1
_UNCORRECTED, _VOLATILE = 1, 0
MIG_SLICES_MAX: Final = 16  # NVIDIA cuts a device into seven at most.


class _Questions:
    """Asks about one device, and remembers why answers are missing."""

    def __init__(self, nvml: Any, handle: Any, index: int, absent: dict[str, str]) -> None:
        self.nvml, self.handle, self.index, self.absent = nvml, handle, index, absent
        self.ills: list[str] = []

    def ask(self, fact: str, name: str, *arguments: Any) -> Any:
        """The answer, or None with the reason noted."""
        try:
            return getattr(self.nvml, name)(self.handle, *arguments)
        except self.nvml.NVMLError as error:
            if error.value == _GPU_IS_LOST:
                self._ill("the driver has lost it (it fell off the bus)")
            elif error.value == _RESET_REQUIRED:
                self._ill("it needs a reset")
            self.absent[f"gpus.nvidia{self.index}.{fact}"] = f"NVML says: {error}"
            return None

    def _ill(self, why: str) -> None:
        if why not in self.ills:
            self.ills.append(why)


def read(
    nvml: Any, handle: Any, index: int, driver: str | None, absent: dict[str, str]
) -> GpuDevice:
    """Everything NVML tells about one device alone."""
    questions = _Questions(nvml, handle, index, absent)
    ask = questions.ask
    name = ask("name", "nvmlDeviceGetName")
    uuid = ask("uuid", "nvmlDeviceGetUUID")
    pci = ask("pci_id", "nvmlDeviceGetPciInfo")
    memory = ask("memory", "nvmlDeviceGetMemoryInfo")
    busy = ask("utilisation", "nvmlDeviceGetUtilizationRates")
    capability = ask("compute_capability", "nvmlDeviceGetCudaComputeCapability")
    celsius = ask("temperature", "nvmlDeviceGetTemperature", _TEMPERATURE_GPU)
    limit = ask("temperature_limit", "nvmlDeviceGetTemperatureThreshold", _THRESHOLD_SLOWDOWN)
    mig_enabled, mig = _mig(questions)
    healthy, health = _health(questions)
    pci_id = pci_text(plain_text(pci.busId)) if pci else None
    return GpuDevice(
        index=index,
        vendor="nvidia",
        name=plain_text(name) or "NVIDIA unknown",
        device=plain_text(uuid) or pci_id or f"nvidia#{index}",
        uuid=plain_text(uuid) or None,
        pci_id=pci_id,
        memory_bytes=min(int(memory.total), BYTES_MAX) if memory else None,
        memory_free_bytes=min(int(memory.free), BYTES_MAX) if memory else None,
        utilisation_milli=min(int(busy.gpu), 100) * 10 if busy else None,
        compute_capability=capability[0] * 10 + capability[1] if capability else None,
        driver=driver,
        temperature_centi=None if celsius is None else int(celsius) * 100,
        temperature_limit_centi=None if limit is None else int(limit) * 100,
        power_mw=ask("power", "nvmlDeviceGetPowerUsage"),
        power_limit_mw=ask("power_limit", "nvmlDeviceGetEnforcedPowerLimit"),
        healthy=healthy,
        health=health,
        mig_enabled=mig_enabled,
        mig=mig,
    )


def _mig(questions: _Questions) -> tuple[bool | None, tuple[MigSlice, ...]]:
    nvml = questions.nvml
    mode = questions.ask("mig", "nvmlDeviceGetMigMode")
    if mode is None:
        return None, ()
    if mode[0] != 1:
        return False, ()
    found = []
    count = questions.ask("mig.count", "nvmlDeviceGetMaxMigDeviceCount") or 0
    for number in range(min(count, MIG_SLICES_MAX)):
        try:
            handle = nvml.nvmlDeviceGetMigDeviceHandleByIndex(questions.handle, number)
        except nvml.NVMLError:
            continue  # Slots are numbered to the maximum; the unused ones answer "not found".
        uuid = text_or_none(nvml.nvmlDeviceGetUUID, handle)
        if uuid is None:
            questions.absent[f"gpus.nvidia{questions.index}.mig{number}"] = "NVML tells no uuid"
            continue
        memory = _or_none(nvml.nvmlDeviceGetMemoryInfo, handle)
        found.append(
            MigSlice(
                uuid=uuid,
                name=text_or_none(nvml.nvmlDeviceGetName, handle) or "NVIDIA MIG unknown",
                memory_bytes=min(int(memory.total), BYTES_MAX) if memory else None,
            )
        )
    return True, tuple(found)


def _health(questions: _Questions) -> tuple[bool | None, tuple[str, ...]]:
    """Healthy if asked and nothing is wrong; None if this model answers none of the questions."""
    ecc = questions.ask("health.ecc", "nvmlDeviceGetTotalEccErrors", _UNCORRECTED, _VOLATILE)
    rows = questions.ask("health.remapped_rows", "nvmlDeviceGetRemappedRows")
    pages = questions.ask("health.retired_pages", "nvmlDeviceGetRetiredPagesPendingStatus")
    ills = questions.ills
    if ecc:
        ills.append(f"{ecc} uncorrected memory errors since the driver was loaded")
    if rows and rows[3]:
        ills.append("remapping a broken memory row failed")
    if rows and rows[2]:
        ills.append("a broken memory row waits for a reset to be remapped")
    if pages:
        ills.append("broken memory pages wait for a reset to be retired")
    if ills:
        return False, tuple(ills)
    return (True, ()) if any(fact is not None for fact in (ecc, rows, pages)) else (None, ())


def pci_text(bus_id: str) -> str:
    """A PCI address as sysfs writes it: NVML's 00000000:3B:00.0 is 0000:3b:00.0."""
    domain, colon, rest = bus_id.strip().lower().partition(":")
    short = domain[-4:] if domain[:-4].strip("0") == "" else domain
    return f"{short}{colon}{rest}"[:32]


def text_or_none(call: Callable[..., Any], *arguments: Any) -> str | None:
    """A text from NVML, or None if it is not told."""
    answer = _or_none(call, *arguments)
    return None if answer is None else plain_text(answer) or None


def _or_none(call: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return call(*arguments)
    except Exception as error:
        # pynvml makes a class for each error; their root is reachable only through the module.
        if hasattr(error, "value"):
            return None
        raise


def plain_text(value: str | bytes | None) -> str:
    """What NVML wrote, as printable text."""
    text = value.decode(errors="replace") if isinstance(value, bytes) else value or ""
    return "".join(character for character in text if character.isprintable())[:100]
