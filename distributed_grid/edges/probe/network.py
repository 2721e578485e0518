"""Network interfaces, from /sys/class/net and /proc/net.

Lives here: kind, link, speed and addresses of each. Never here: latency and NAT, which only show
between nodes (the mesh measures them).
Source: the kernel's Documentation/ABI/testing/sysfs-class-net, Documentation/networking/
{operstates,fib_trie}.rst, proc_net(5).
"""

import ipaddress
import re
from typing import Final

from distributed_grid.edges.probe.tree import Tree
from distributed_grid.model.hardware_parts import Nic
from distributed_grid.model.interfaces import is_container_bridge

SPEED_MBPS_MAX: Final = 10_000_000  # 10 Tbit/s; drivers write 4294967295 for "unknown".
NICS_MAX: Final = 512
ADDRESSES_MAX: Final = 4_096

_LOOPBACK, _INFINIBAND = 772, 32  # ARPHRD numbers of <linux/if_arp.h>.


def nics(tree: Tree, absent: dict[str, str]) -> tuple[Nic, ...]:
    """Every interface but the loopback."""
    addresses = _addresses(tree, absent)
    found = []
    for name in tree.names("/sys/class/net")[:NICS_MAX]:
        where = f"/sys/class/net/{name}"
        kind_number = tree.integer(f"{where}/type")
        if kind_number is None or kind_number == _LOOPBACK or name == "lo":
            continue
        speed = tree.integer(f"{where}/speed", least=1, most=SPEED_MBPS_MAX)
        if speed is None:
            absent[f"network.{name}.speed"] = "its driver tells none, or it has no link"
        found.append(
            Nic(
                name=name,
                kind=_kind(tree, where, kind_number),
                up=_is_up(tree, where),
                speed_mbps=speed,
                mac=tree.line(f"{where}/address"),
                addresses=tuple(addresses.get(name, ())),
                container_bridge=is_container_bridge(name),
            )
        )
    if not found:
        absent["network"] = "/sys/class/net lists no interface but the loopback"
    absent["network.latency"] = "it is measured between nodes, once this one is in a mesh"
    absent["network.nat"] = "its kind shows only from outside, once this node is in a mesh"
    return tuple(found)


def _kind(tree: Tree, where: str, number: int) -> str:
    if number == _INFINIBAND:
        return "infiniband"
    if tree.exists(f"{where}/wireless") or tree.exists(f"{where}/phy80211"):
        return "wifi"
    if tree.exists(f"{where}/bridge"):
        return "bridge"
    if tree.exists(f"{where}/tun_flags"):
        return "tunnel"
    # Only what stands on a bus has a device; the speed of the others is made up.
    return "ethernet" if tree.exists(f"{where}/device") else "virtual"


def _is_up(tree: Tree, where: str) -> bool | None:
    state = tree.line(f"{where}/operstate")
    if state in {"up", "down", "dormant", "lowerlayerdown", "notpresent"}:
        return state == "up"
    carrier = tree.integer(f"{where}/carrier")  # Drivers that keep `unknown` still know this.
    return None if carrier is None else carrier == 1


def _addresses(tree: Tree, absent: dict[str, str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    networks = _connected_networks(tree)
    homeless = []
    for address in _local_ipv4(tree):
        owners = [(net.prefixlen, name) for net, name in networks if address in net]
        if owners:
            found.setdefault(max(owners)[1], []).append(str(address))
        else:
            homeless.append(str(address))
    if homeless:
        absent["network.addresses"] = (
            f"no connected route tells the interface of {', '.join(homeless[:8])}"
        )
    for line in (tree.text("/proc/net/if_inet6") or "").splitlines()[:ADDRESSES_MAX]:
        told = re.fullmatch(r"([0-9a-f]{32})(?: [0-9a-f]{2}){4}\s+(\S+)", line.strip())
        if told and told[2] != "lo":
            found.setdefault(told[2], []).append(str(ipaddress.IPv6Address(int(told[1], 16))))
    return found


def _local_ipv4(tree: Tree) -> list[ipaddress.IPv4Address]:
    """Addresses that the routing trie calls `host LOCAL`, without the loopback's."""
    found: set[ipaddress.IPv4Address] = set()
    last = None
    for line in (tree.text("/proc/net/fib_trie") or "").splitlines():
        if told := re.search(r"\|-- (\d{1,3}(?:\.\d{1,3}){3})$", line):
            last = told[1]
        elif line.strip() == "/32 host LOCAL" and last:
            try:
                address = ipaddress.IPv4Address(last)
            except ipaddress.AddressValueError:
                continue
            if not address.is_loopback:
                found.add(address)
    return sorted(found)[:ADDRESSES_MAX]


def _connected_networks(tree: Tree) -> list[tuple[ipaddress.IPv4Network, str]]:
    """Networks that are reached without a gateway, with their interface."""
    found = []
    for line in (tree.text("/proc/net/route") or "").splitlines()[1:ADDRESSES_MAX]:
        parts = line.split()
        if len(parts) < 8 or not all(re.fullmatch(r"[0-9A-F]{8}", parts[i]) for i in (1, 2, 7)):
            continue
        # The kernel prints them as words of the machine; every machine we run on is little-endian.
        network, gateway, mask = (
            int.from_bytes(bytes.fromhex(parts[i]), "little") for i in (1, 2, 7)
        )
        if gateway == 0 and mask:
            try:
                dotted = str(ipaddress.IPv4Address(mask))
                found.append((ipaddress.IPv4Network((network, dotted)), parts[0]))
            except ValueError:
                continue
    return found
