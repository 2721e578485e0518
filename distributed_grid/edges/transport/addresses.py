"""Addresses as people write them, and those of this machine that others can use.

Lives here: `host:port` and its parts, interfaces, names. Never here: sockets.
Invariant: a loopback address is told to others only if there is nothing else.
"""

import asyncio
import ipaddress
import socket
from collections.abc import Iterable
from typing import Final

import psutil

from distributed_grid.errors import BadValue
from distributed_grid.model.interfaces import is_container_bridge
from distributed_grid.model.membership import ADDRESSES_MAX

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
PORT_MAX: Final = 65_535


def split(text: str) -> tuple[str, int]:
    """Host and port of `host:port`, `host`, `:port`, `[v6]:port` or `v6`; absent: "" and 0."""
    host, colon, port = text.rpartition(":")
    if not colon or (":" in host and not host.endswith("]")):
        host, port = text, ""  # No port: a name, or a bare IPv6 address.
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    if port and not (port.isascii() and port.isdigit() and int(port) <= PORT_MAX):
        raise BadValue(text, expected="address:port", remedy=f"A port is 0 to {PORT_MAX}")
    return host, int(port or 0)


def joined(host: str, port: int) -> str:
    """`host:port`, with brackets where it needs them."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def bind_address(listen: str, *, kept_port: int = 0) -> str:
    """Where to listen: what the owner wrote, or every address and the port kept from last time."""
    host, port = split(listen)
    try:
        ipaddress.ip_address(host or "0.0.0.0")  # noqa: S104 - every address is the default
    except ValueError:
        raise BadValue(
            listen, expected="address:port", remedy="Write an IP address of this machine"
        ) from None
    return joined(host or "0.0.0.0", port or kept_port)  # noqa: S104


def of_this_machine() -> list[Address]:
    """Every address of an interface that is up, without containers' bridges, most useful first."""
    states = psutil.net_if_stats()
    found: set[Address] = set()
    for name, entries in psutil.net_if_addrs().items():
        if is_container_bridge(name) or not (name in states and states[name].isup):
            continue
        for entry in entries:
            if entry.family in {socket.AF_INET, socket.AF_INET6} and "%" not in entry.address:
                found.add(ipaddress.ip_address(entry.address))
    return sorted(found, key=_usefulness)


def reachable(bound: Iterable[str], here: Iterable[Address]) -> list[str]:
    """What others can dial, given the sockets and the addresses of this machine."""
    told: list[tuple[Address, int]] = []
    for text in bound:
        host, port = split(text)
        own = ipaddress.ip_address(host)
        if own.is_unspecified:
            told += [(address, port) for address in here if address.version == own.version]
        else:
            told.append((own, port))
    useful = [pair for pair in told if not pair[0].is_link_local]
    outside = [pair for pair in useful if not pair[0].is_loopback]
    chosen = sorted(outside or useful, key=lambda pair: _usefulness(pair[0]))
    return [joined(str(address), port) for address, port in chosen]


async def resolved(addresses: Iterable[str]) -> list[str]:
    """The same with names looked up; what cannot be understood is left out."""
    found: list[str] = []
    for text in list(addresses)[:ADDRESSES_MAX]:
        try:
            host, port = split(text)
            try:
                ips = [str(ipaddress.ip_address(host))]
            except ValueError:
                loop = asyncio.get_running_loop()
                answers = await loop.getaddrinfo(host, port, type=socket.SOCK_DGRAM)
                ips = [str(answer[4][0]) for answer in answers]
        except (BadValue, OSError, UnicodeError):
            continue
        found += [joined(ip, port) for ip in ips if "%" not in ip and port]
    return found


def _usefulness(address: Address) -> tuple[bool, bool, int, int]:
    # Neighbours on the same network first: IPv4, private, then by number, so that it never changes.
    return (address.is_loopback, not address.is_private, address.version, int(address))
