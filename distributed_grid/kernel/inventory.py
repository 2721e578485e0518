"""What a node has to grant, thing by thing: core ids, devices, links between them, amounts.

Lives here: the inventory, and how a hardware profile becomes one. Never here: who holds what
(`ledger`), reading the machine (`edges.probe`).
Invariant: nothing is in the inventory that may not be granted: no core beyond the affinity, no
device that is unwell.
"""

import re
from collections.abc import Collection, Iterable
from typing import Final

import msgspec

from distributed_grid.model import milli
from distributed_grid.model.gpus import Gpu
from distributed_grid.model.hardware import HardwareProfile
from distributed_grid.model.hardware_gpu import GpuDevice, GpuLink
from distributed_grid.model.lease import Lease
from distributed_grid.model.resources import Resources

CORES_MAX: Final = 65_536  # Of one node, real or pretended; the kernel itself ends at 8,192.

# How well two devices are linked. The proportions are those of NVIDIA's own allocator
# (go-gpuallocator, "best effort"): ten points a step on PCIe, a hundred for each NVLink.
LINK_WEIGHTS: Final = {
    "nvlink": 100,
    "same-board": 60,
    "pcie-switch": 50,
    "pcie-switches": 40,
    "host-bridge": 30,
    "numa-node": 20,
    "system": 10,
}


class Inventory(msgspec.Struct, frozen=True, kw_only=True):
    """Everything one node may grant."""

    cores: tuple[tuple[int, int], ...] = ()  # (core id, NUMA node), sorted by id.
    cpu_milli: int = 0  # A container may use less than its cores.
    memory_bytes: int = 0
    storage_bytes: int = 0
    gpus: tuple[Gpu, ...] = ()
    links: tuple[tuple[str, str, int], ...] = ()  # (device, device, weight): each pair once.
    custom: tuple[tuple[str, int], ...] = ()
    is_pretended: bool = False  # Its cores have ids, but are not the machine's: never pinned.

    def __post_init__(self) -> None:
        assert self.cpu_milli <= len(self.cores) * milli.WHOLE, "more cpu than cores"

    @property
    def total(self) -> Resources:
        """The same as amounts."""
        return Resources(
            cpu_milli=self.cpu_milli,
            memory_bytes=self.memory_bytes,
            storage_bytes=self.storage_bytes,
            gpus=self.gpus,
            custom=self.custom,
        )

    def pins(self, lease: Lease) -> tuple[int, ...]:
        """The cores to which the processes of a lease are pinned; none if they are pretended."""
        return () if self.is_pretended else tuple(core for core, _ in lease.cores)


def inventory_of(
    profile: HardwareProfile,
    *,
    usable_cores: Collection[int] | None = None,
    custom: tuple[tuple[str, int], ...] = (),
) -> Inventory:
    """What this machine may grant.

    `usable_cores` are the ids that a process here may run on (its affinity); None: all of them.
    `custom` are the kinds that its owner declared. Amounts are what there is, not what is free
    of other programs: the agent publishes the smaller of the two.
    """
    total = profile.total()
    is_pretended = profile.limits.cpu_limit == "pretended"
    cores = _cores(profile, None if is_pretended else usable_cores)
    well = [gpu for gpu in profile.gpus if gpu.grantable]
    granted = {part.device for gpu in well for part in gpu.parts()}
    return Inventory(
        cores=cores,
        cpu_milli=min(total.cpu_milli, len(cores) * milli.WHOLE),
        memory_bytes=total.memory_bytes,
        storage_bytes=total.storage_bytes,
        gpus=tuple(gpu for gpu in total.gpus if gpu.device in granted),
        links=_links(well, granted),
        custom=custom,
        is_pretended=is_pretended,
    )


def _cores(profile: HardwareProfile, usable: Collection[int] | None) -> tuple[tuple[int, int], ...]:
    count = min(profile.cpu.logical_cores or 0, CORES_MAX)
    node_of = {core: node.node for node in profile.cpu.numa_nodes for core in _ids(node.cpus)}
    if len(node_of) != count:
        node_of = dict.fromkeys(range(count), 0)  # Not told, or not wholly: one node.
    if usable is not None:
        # Ids beyond what the probe saw (a core that came later) belong to no known node.
        node_of = {core: node_of.get(core, 0) for core in usable}
    return tuple(sorted(node_of.items()))


def _ids(text: str) -> Iterable[int]:
    """The ids in `0-3,8`; what does not read so names none."""
    for first, last in re.findall(r"(\d{1,5})(?:-(\d{1,5}))?", text):
        yield from range(int(first), int(last or first) + 1)


def _links(gpus: Iterable[GpuDevice], granted: Collection[str]) -> tuple[tuple[str, str, int], ...]:
    weights: dict[tuple[str, str], int] = {}
    for gpu in gpus:
        for link in gpu.links:
            left, right = sorted((gpu.device, link.to))
            if left != right and left in granted and right in granted:
                # Both ends tell; where they differ, the better word is the link that exists.
                weights[left, right] = max(weights.get((left, right), 0), _weight(link))
    return tuple((left, right, weights[left, right]) for left, right in sorted(weights))


def _weight(link: GpuLink) -> int:
    return LINK_WEIGHTS.get(link.kind, 0) * max(link.lanes if link.kind == "nvlink" else 1, 1)
