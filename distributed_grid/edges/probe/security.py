"""What the hardware can prove or hide, and what stands between us and the metal.

Lives here: TPM, SEV, SGX, hypervisor, cloud, container. Never here: using any of them.
Source: the kernel's Documentation/ABI/stable/sysfs-class-tpm, arch/x86/{sgx,amd-memory-
encryption}.rst, virt/kvm, ABI/stable/sysfs-hypervisor-xen; the DMI strings of systemd-detect-virt.
"""

import re
from typing import Final

from distributed_grid.edges.probe.tree import Tree
from distributed_grid.model.hardware_parts import Board, Cpu, Security, Virtualisation

# (pattern over vendor, product, board and bios, cloud)
_CLOUDS: Final = (
    (r"amazon ec2|\bamazon\b", "aws"),
    (r"google compute engine|^google$", "google"),
    (r"hetzner", "hetzner"),
    (r"digitalocean", "digitalocean"),
    (r"openstack", "openstack"),
    (r"oraclecloud", "oracle"),
    (r"alibaba cloud", "alibaba"),
    (r"tencent cloud", "tencent"),
    (r"scaleway", "scaleway"),
    (r"linode|akamai", "linode"),
    (r"vultr", "vultr"),
    (r"upcloud", "upcloud"),
    (r"exoscale", "exoscale"),
    (r"ovh", "ovh"),
)
# Azure and a Hyper-V at home name the same product; only this asset tag tells them apart.
AZURE_ASSET_TAG: Final = "7783-7084-3265-9085-8269-3286-77"

_HYPERVISORS: Final = (
    (r"kvm|amazon ec2|google compute engine|hetzner|digitalocean|openstack|alibaba cloud", "kvm"),
    (r"qemu", "qemu"),
    (r"vmware", "vmware"),
    (r"innotek|virtualbox", "virtualbox"),
    (r"microsoft corporation\n.*virtual machine", "hyperv"),
    (r"\bxen\b", "xen"),
    (r"parallels", "parallels"),
    (r"bochs", "bochs"),
    (r"apple virtualization", "apple"),
)
_CGROUP_CONTAINERS: Final = (
    ("kubepods", "kubernetes"),
    ("libpod", "podman"),
    ("/docker", "docker"),
    ("/lxc", "lxc"),
)


def board(tree: Tree, absent: dict[str, str]) -> Board:
    """What the firmware says it is: DMI on PCs and servers, a device tree on boards."""
    dmi = "/sys/class/dmi/id"
    compatible = tree.text("/proc/device-tree/compatible")
    found = Board(
        vendor=tree.line(f"{dmi}/sys_vendor"),
        product=tree.line(f"{dmi}/product_name"),
        board=tree.line(f"{dmi}/board_name"),
        chassis_type=tree.integer(f"{dmi}/chassis_type", least=1, most=255),
        device_tree_model=tree.line("/proc/device-tree/model"),
        device_tree_compatible=tuple((compatible or "").split("\n")[:16]) if compatible else (),
    )
    if not any((found.vendor, found.product, found.device_tree_model)):
        absent["board"] = "the firmware tells neither DMI (/sys/class/dmi) nor a device tree"
    return found


def security(tree: Tree, cpu: Cpu, absent: dict[str, str]) -> Security:
    """TPM, SEV, SGX."""
    major = tree.integer("/sys/class/tpm/tpm0/tpm_version_major", most=9)
    has_tpm = tree.exists("/sys/class/tpm/tpm0")
    version = {1: "1.2", 2: "2.0"}.get(major or 0) or ("unknown" if has_tpm else None)
    if version is None:
        absent["security.tpm"] = "there is no device in /sys/class/tpm"
    sev = tuple(flag for flag in ("sev", "sev_es", "sev_snp") if flag in cpu.features)
    sev_usable = tree.exists("/dev/sev") or tree.exists("/dev/sev-guest")
    if not sev and not sev_usable:
        absent["security.sev"] = "the CPU lists no sev flag and there is no /dev/sev"
    sgx, sgx_usable = "sgx" in cpu.features, tree.exists("/dev/sgx_enclave")
    if not sgx and not sgx_usable:
        absent["security.sgx"] = "the CPU lists no sgx flag and there is no /dev/sgx_enclave"
    return Security(
        tpm_version=version, sev=sev, sev_usable=sev_usable, sgx=sgx, sgx_usable=sgx_usable
    )


def virtualisation(tree: Tree, cpu: Cpu, board: Board, absent: dict[str, str]) -> Virtualisation:
    """The hypervisor, the cloud and the container around us."""
    dmi = "/sys/class/dmi/id"
    bios = [
        tree.line(f"{dmi}/{name}") for name in ("bios_vendor", "board_vendor", "chassis_asset_tag")
    ]
    words = [board.vendor, board.product, board.board, *bios]
    named = "\n".join(word.lower() for word in words if word)
    cloud = next((c for pattern, c in _CLOUDS if re.search(pattern, named, re.MULTILINE)), None)
    if AZURE_ASSET_TAG in named:
        cloud = "azure"
    kind = _hypervisor(tree, cpu, named)
    if kind is None:
        absent["virtualisation.kind"] = "neither a CPU flag, DMI nor the device tree tells"
    container = _container(tree)
    if container is None:
        absent["virtualisation.container"] = "nothing marks the inside of a container"
    if cloud is None:
        absent["virtualisation.cloud"] = "the firmware names no cloud that Grid knows"
    return Virtualisation(kind=kind, cloud=cloud, container=container)


def _hypervisor(tree: Tree, cpu: Cpu, named: str) -> str | None:
    if xen := tree.line("/sys/hypervisor/type", characters_max=20):
        return xen
    tree_says = tree.text("/proc/device-tree/hypervisor/compatible") or ""
    if "kvm" in tree_says:
        return "kvm"
    x86 = cpu.arch in {"x86_64", "i686"} and bool(cpu.features)
    if x86 and "hypervisor" not in cpu.features:
        return "none"  # A cloud's metal machines carry the cloud's name too.
    kind = next((k for pattern, k in _HYPERVISORS if re.search(pattern, named)), None)
    if kind:
        return kind
    if x86:
        return "unknown"
    return "none" if tree.exists("/proc/device-tree/model") else None


def _container(tree: Tree) -> str | None:
    groups = tree.text("/proc/self/cgroup") or ""
    if tree.exists("/var/run/secrets/kubernetes.io") or "kubepods" in groups:
        return "kubernetes"
    if tree.exists("/.dockerenv"):
        return "docker"
    if tree.exists("/run/.containerenv"):
        return "podman"
    if told := tree.line("/run/systemd/container", characters_max=40):
        return told
    return next((name for word, name in _CGROUP_CONTAINERS if word in groups), None)
