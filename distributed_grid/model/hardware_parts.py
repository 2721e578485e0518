"""The parts of a machine, one struct each.

Lives here: facts in integers with their units in the name. Never here: how they are read.
Invariant: None means not known; the profile says why.
"""

import msgspec


class Board(msgspec.Struct, frozen=True, kw_only=True):
    """What the maker wrote into the firmware: the surest hint at what a machine is."""

    vendor: str | None = None
    product: str | None = None
    board: str | None = None
    chassis_type: int | None = None  # SMBIOS table 7.4.1: 3 desktop, 9 laptop, 23 rack …
    device_tree_model: str | None = None
    device_tree_compatible: tuple[str, ...] = ()


class Cache(msgspec.Struct, frozen=True, kw_only=True):
    """One cache, as the first core sees it."""

    level: int
    kind: str  # data, instruction, unified.
    size_bytes: int
    shared_by_cpus: int


class NumaNode(msgspec.Struct, frozen=True, kw_only=True):
    """Cores and the memory that is near to them."""

    node: int
    cpus: str  # As the kernel writes it: 0-15,32-47.
    logical_cores: int
    memory_bytes: int | None = None


class Cpu(msgspec.Struct, frozen=True, kw_only=True):
    """The processors."""

    model: str | None = None
    arch: str | None = None
    sockets: int | None = None
    physical_cores: int | None = None
    logical_cores: int | None = None
    frequency_khz: int | None = None  # Now.
    frequency_max_khz: int | None = None
    features: tuple[str, ...] = ()
    caches: tuple[Cache, ...] = ()
    numa_nodes: tuple[NumaNode, ...] = ()
    load_milli: int | None = None  # Mean of the last minute: 1000 is one busy core.


class Memory(msgspec.Struct, frozen=True, kw_only=True):
    """Main memory."""

    total_bytes: int | None = None
    available_bytes: int | None = None
    swap_bytes: int | None = None


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What of the machine a process here may use, and which limit counted."""

    cgroup_version: int | None = None
    cpu_milli: int | None = None  # None: no limit below the machine itself.
    cpu_limit: str | None = None  # The file, or `affinity`, or `pretended`.
    memory_bytes: int | None = None
    memory_limit: str | None = None
    memory_used_bytes: int | None = None  # Inside the limit.


class Disk(msgspec.Struct, frozen=True, kw_only=True):
    """One storage device."""

    name: str
    kind: str  # nvme, ssd, hdd, flash (SD card, eMMC), virtual (what is behind it is hidden).
    capacity_bytes: int
    model: str | None = None
    removable: bool = False


class Storage(msgspec.Struct, frozen=True, kw_only=True):
    """The storage devices, and the file system that jobs write to."""

    disks: tuple[Disk, ...] = ()
    path: str | None = None
    file_system_bytes: int | None = None
    free_bytes: int | None = None

    @property
    def usable_bytes(self) -> int:
        """Where jobs write is what counts; without that, the fixed disks together."""
        if self.file_system_bytes is not None:
            return self.file_system_bytes
        return sum(disk.capacity_bytes for disk in self.disks if not disk.removable)


class Nic(msgspec.Struct, frozen=True, kw_only=True):
    """One network interface."""

    name: str
    kind: str  # ethernet, wifi, infiniband, bridge, tunnel, virtual.
    up: bool | None = None
    speed_mbps: int | None = None
    mac: str | None = None
    addresses: tuple[str, ...] = ()
    container_bridge: bool = (
        False  # Made by a container engine: its addresses mean nothing outside.
    )

    @property
    def carries_traffic(self) -> bool:
        """Whether it is a real card with a link."""
        return self.kind in {"ethernet", "wifi", "infiniband"} and self.up is not False


class Battery(msgspec.Struct, frozen=True, kw_only=True):
    """The batteries of the machine, together."""

    percent: int | None = None
    state: str | None = None  # charging, discharging, full, not charging.
    runtime_minutes: int | None = None


class Power(msgspec.Struct, frozen=True, kw_only=True):
    """Where the current comes from."""

    source: str | None = None  # ac, battery.
    on_battery: bool | None = None
    battery: Battery | None = None
    plan: str | None = None  # performance, balanced, power-saver.
    plan_raw: str | None = None  # The kernel's own word for it.


class ThermalSensor(msgspec.Struct, frozen=True, kw_only=True):
    """One temperature, and where throttling and shutdown begin."""

    name: str
    temperature_centi: int | None = None
    limit_centi: int | None = None  # Throttles from here.
    critical_centi: int | None = None  # Switches off from here.


class Security(msgspec.Struct, frozen=True, kw_only=True):
    """What the hardware can prove or hide."""

    tpm_version: str | None = None
    sev: tuple[str, ...] = ()  # sev, sev_es, sev_snp: what the CPU or the firmware offers.
    sev_usable: bool = False  # /dev/sev or /dev/sev-guest is there.
    sgx: bool = False
    sgx_usable: bool = False  # /dev/sgx_enclave is there.


class Virtualisation(msgspec.Struct, frozen=True, kw_only=True):
    """What stands between us and the metal."""

    kind: str | None = None  # none (bare metal), kvm, qemu, vmware, hyperv, xen, …, unknown.
    cloud: str | None = None  # aws, google, azure, …
    container: str | None = None  # docker, podman, lxc, kubernetes, …


class ContainerRuntime(msgspec.Struct, frozen=True, kw_only=True):
    """A program that runs containers."""

    name: str
    path: str
    socket: str | None = None


class Os(msgspec.Struct, frozen=True, kw_only=True):
    """The operating system."""

    name: str | None = None
    version: str | None = None
    pretty_name: str | None = None
    kernel: str | None = None
    hostname: str | None = None


class ComputeScore(msgspec.Struct, frozen=True, kw_only=True):
    """A measured speed: what ran, on how many cores, for how long."""

    mega_flops: int
    method: str
    cores: int
    milliseconds: int
