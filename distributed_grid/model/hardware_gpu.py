"""One GPU as the probe read it, with its links, slices and health.

Lives here: what is known of a device. Never here: reading a driver (`edges.probe`), granting
shares (`kernel.ledger`).
Invariant: a device with a reason in `health` is not healthy, and is not granted.
"""

import msgspec

from distributed_grid.model.gpus import Gpu, canonical_model

# From near to far; the words of `nvidia-smi topo -m` in brackets.
LINK_KINDS = (
    "nvlink",  # (NV#) direct, or through an NVSwitch
    "same-board",  # (internal) two chips on one card
    "pcie-switch",  # (PIX) one PCIe switch
    "pcie-switches",  # (PXB) several PCIe switches
    "host-bridge",  # (PHB) through the host bridge
    "numa-node",  # (NODE) within one NUMA node
    "system",  # (SYS) between NUMA nodes
)


class GpuLink(msgspec.Struct, frozen=True, kw_only=True):
    """How one device reaches another."""

    to: str  # The `device` of the other.
    kind: str  # One of LINK_KINDS.
    lanes: int = 0  # Active NVLinks between the two; 0 for PCIe.


class MigSlice(msgspec.Struct, frozen=True, kw_only=True):
    """A hardware partition of a device (NVIDIA MIG)."""

    uuid: str
    name: str
    memory_bytes: int | None = None


class GpuDevice(msgspec.Struct, frozen=True, kw_only=True):
    """One GPU."""

    index: int
    vendor: str  # nvidia, amd, intel, apple.
    name: str  # As the vendor says it.
    device: str  # uuid, else PCI id, else model#index: what grants name.
    uuid: str | None = None
    pci_id: str | None = None
    memory_bytes: int | None = None
    memory_free_bytes: int | None = None
    utilisation_milli: int | None = None
    compute_capability: int | None = None  # 89 is 8.9.
    driver: str | None = None
    temperature_centi: int | None = None
    temperature_limit_centi: int | None = None
    power_mw: int | None = None
    power_limit_mw: int | None = None
    integrated: bool = False  # Shares the CPU's package and memory and only draws: never granted.
    healthy: bool | None = None  # None: nobody tells.
    health: tuple[str, ...] = ()  # Why it is not healthy.
    numa_node: int | None = None
    nvlinks_active: int | None = None
    nvswitch: bool = False  # Its NVLinks end in a switch: it reaches every device there.
    links: tuple[GpuLink, ...] = ()
    mig_enabled: bool | None = None
    mig: tuple[MigSlice, ...] = ()
    pretended: bool = False

    @property
    def model(self) -> str:
        """The canonical model, by which jobs ask."""
        return canonical_model(self.name)

    @property
    def grantable(self) -> bool:
        """Whether a job may get it."""
        return not self.integrated and self.healthy is not False

    def parts(self) -> tuple[Gpu, ...]:
        """What can be granted: the device, or its slices where it is cut into slices."""
        if self.mig_enabled:
            return tuple(
                Gpu(
                    device=piece.uuid,
                    model=canonical_model(piece.name),
                    memory_bytes=piece.memory_bytes or 0,
                    compute_capability=self.compute_capability or 0,
                )
                for piece in self.mig
            )
        return (
            Gpu(
                device=self.device,
                model=self.model,
                memory_bytes=self.memory_bytes or 0,
                compute_capability=self.compute_capability or 0,
            ),
        )
