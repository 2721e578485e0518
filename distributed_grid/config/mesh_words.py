"""The words of the mesh in people's files: addresses, networks, URLs, each with its bounds.

Lives here: reading them into one spelling. Never here: the sections that use them (`mesh_file`),
opening or looking up anything.
Invariant: an address that is read can be dialled or listened on, as far as its text tells.
"""

import contextlib
import re
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Any, Final
from urllib.parse import SplitResult, urlsplit

from distributed_grid.config.shape import Word
from distributed_grid.errors import BadValue
from distributed_grid.model import duration
from distributed_grid.model.membership import ADDRESSES_MAX

PORT_MAX: Final = 65_535
HOST_CHARACTERS_MAX: Final = 253  # As long as a host name may be.
URL_CHARACTERS_MAX: Final = 2_048
NETWORKS_MAX: Final = 1_000  # Each stranger is compared with all of them.

_LABEL: Final = r"(?!-)[a-z0-9_-]{1,63}(?<!-)"
_NAME: Final = re.compile(rf"{_LABEL}(\.{_LABEL})*\.?", re.ASCII)


def listed(value: Any, what: str, *, most: int = ADDRESSES_MAX) -> list[str]:
    """A list, or text with commas, as environment variables have it."""
    items = value.split(",") if isinstance(value, str) else value
    if not isinstance(items, list) or not all(isinstance(item, str) for item in items):
        raise BadValue(value, expected=f"a list of {what}", remedy="Write [one, other]")
    if len(items) > most:
        raise BadValue(len(items), expected=f"at most {most} {what}", remedy="Name fewer")
    return [item.strip() for item in items if item.strip()]


def listening(value: Any) -> str:
    """Where to listen: `0.0.0.0:7946`, `[::]:7946`, `192.168.1.5`, `:7946`, or nothing at all."""
    remedy = "Write it like 0.0.0.0:7946, 192.168.1.5 or :7946"
    if value == "":
        return ""
    if not isinstance(value, str) or value.isdigit():
        raise BadValue(value, expected="an address of this machine and a port", remedy=remedy)
    host, port = _split(value, remedy)
    if port is not None and not 0 <= port <= PORT_MAX:
        raise BadValue(value, expected=f"a port from 0 to {PORT_MAX}", remedy=remedy)
    address = _ip(host)
    if host and (address is None or address.is_multicast):
        raise BadValue(value, expected="an IP address of this machine", remedy=remedy)
    return _joined(address, port)


def address(value: Any) -> str:
    """Where somebody can be reached: a host and a port."""
    remedy = "Write it like home.example.org:7946, 192.168.1.5:7946 or [fd00::5]:7946"
    if not isinstance(value, str):
        raise BadValue(value, expected="a host and a port", remedy=remedy)
    host, port = _split(value.strip(), remedy)
    if port is None or not 1 <= port <= PORT_MAX:
        raise BadValue(value, expected=f"a host and a port from 1 to {PORT_MAX}", remedy=remedy)
    found = _ip(host)
    if found is not None:
        if found.is_multicast or found.is_unspecified:
            raise BadValue(value, expected="the address of one machine", remedy=remedy)
        return _joined(found, port)
    if not is_host_name(host):
        raise BadValue(value, expected="the name or the address of a machine", remedy=remedy)
    return f"{host.lower()}:{port}"


def addresses(value: Any) -> tuple[str, ...]:
    """Some of them, each once, in their order."""
    return tuple(dict.fromkeys(map(address, listed(value, "addresses"))))


def networks(value: Any) -> tuple[str, ...]:
    """Networks: `192.168.0.0/16`, `fd00::/8`, `10.1.2.3`; each once, in their order."""
    return tuple(dict.fromkeys(map(_network, listed(value, "networks", most=NETWORKS_MAX))))


def _network(text: str) -> str:
    try:
        return str(ip_network(text))
    except ValueError:
        remedy = "Write it like 192.168.0.0/16, fd00::/8 or 10.1.2.3"
    with contextlib.suppress(ValueError):
        remedy = f"The network around it is {ip_network(text, strict=False)}"
    raise BadValue(text, expected="a network", remedy=remedy)


def relay_url(value: Any) -> str:
    """The URL of a relay, without a password: it is shown and sent to others."""
    remedy = "Write it like https://relay.example.org"
    if value == "":
        return ""
    parts = _url(value)
    if parts is None or parts.scheme not in ("https", "http") or not parts.hostname:
        raise BadValue(value, expected="the URL of a relay", remedy=remedy)
    if parts.username is not None or parts.password is not None:
        raise BadValue("…", expected="a URL without user and password", remedy=remedy)
    if parts.query or parts.fragment:
        raise BadValue(value, expected="a URL without ? and #", remedy=remedy)
    if _ip(parts.hostname) is None and not is_host_name(parts.hostname):
        raise BadValue(value, expected="a URL with the name of a machine", remedy=remedy)
    return str(value)


def _url(value: Any) -> SplitResult | None:
    if not isinstance(value, str) or len(value) > URL_CHARACTERS_MAX:
        return None
    if not value.isascii() or not value.isprintable() or " " in value:
        return None
    try:
        parts = urlsplit(value)
        _ = parts.port  # Told only when it is asked for.
    except ValueError:
        return None
    return parts


def span(least_ms: int, most_ms: int, example: str) -> Word:
    """A stretch of time between two bounds, in milliseconds."""

    def parse(value: Any) -> int:
        span_ms = duration.parse(value)
        if not least_ms <= span_ms <= most_ms:
            expected = f"{duration.text(least_ms)} to {duration.text(most_ms)}"
            raise BadValue(value, expected=expected, remedy=f"Write it like {example}")
        return span_ms

    return Word(parse)


def is_host_name(host: str) -> bool:
    """Whether this can be looked up; what ends in a number would be a bad address."""
    return (
        len(host) <= HOST_CHARACTERS_MAX
        and _NAME.fullmatch(host.lower()) is not None
        and not host.rstrip(".").rpartition(".")[2].isdigit()
    )


def _ip(host: str) -> IPv4Address | IPv6Address | None:
    if "%" in host:  # A zone means something on one machine only.
        return None
    try:
        return ip_address(host)
    except ValueError:
        return None


def _split(text: str, remedy: str) -> tuple[str, int | None]:
    """Host and port, each of which may be missing."""
    if _ip(text) is not None:  # An IPv6 address by itself has colons too.
        return text, None
    if text.startswith("["):
        host, bracket, rest = text[1:].partition("]")
        if not bracket or not isinstance(_ip(host), IPv6Address) or (rest and rest[0] != ":"):
            raise BadValue(text, expected="an address in brackets and a port", remedy=remedy)
        colon, port = rest[:1], rest[1:]
    else:
        host, colon, port = text.partition(":")
    if not colon:
        return host, None
    if not (port.isascii() and port.isdigit() and len(port) <= len(str(PORT_MAX))):
        raise BadValue(text, expected="a port after the colon", remedy=remedy)
    return host, int(port)


def _joined(found: IPv4Address | IPv6Address | None, port: int | None) -> str:
    host = "" if found is None else f"[{found}]" if isinstance(found, IPv6Address) else str(found)
    return host if port is None else f"{host}:{port}"
