"""Who may knock: rates for each address and each peer, lists of networks. Before any handshake.

Lives here: the decision. Never here: the door itself (`edges.transport`), trust (`trust`).
Invariant: whatever knocks, the tables are bounded, and at most `handshakes_per_s` handshakes begin.
"""

import ipaddress
from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

import msgspec

from distributed_grid.errors import BadValue
from distributed_grid.model.ids import NodeId
from distributed_grid.wire.mesh import Reason

FORGIVE_US: Final = 60_000_000  # Each minute without junk halves the price again.
ENTRIES_MAX: Final = 4_096  # Addresses or peers that are remembered; some 1 MB.
_TOKEN: Final = 1_000_000  # Millionths, so that a rate per second is one per microsecond.
_V6_PREFIX: Final = 64  # One customer has at least so much of IPv6; single addresses are free.

_Network = ipaddress.IPv4Network | ipaddress.IPv6Network
_Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class DoorLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How often anybody may knock."""

    address_per_s: int = 16
    address_burst: int = 64  # Thirty agents on one machine that all start at once, twice.
    peer_per_s: int = 2
    peer_burst: int = 8
    handshakes_per_s: int = 100  # Of all together: at some 2 ms each a fifth of a core.
    handshakes_burst: int = 200


class _Bucket:
    __slots__ = ("at_us", "bad", "bad_us", "level")

    def __init__(self, level: int, at_us: int) -> None:
        self.level, self.at_us = level, at_us
        self.bad = 0  # How often its price was doubled,
        self.bad_us = at_us  # and since when that is being forgiven.


class Buckets:
    """A token bucket for each key; those not seen for longest are forgotten first."""

    def __init__(self, *, per_s: int, burst: int, entries_max: int = ENTRIES_MAX) -> None:
        self._per_s, self._burst, self._entries_max = per_s, burst, entries_max
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()

    def __len__(self) -> int:
        return len(self._buckets)

    def take(self, key: str, now_us: int) -> bool:
        """True if it may; that costs a token, or more of who has sent junk."""
        bucket = self._bucket(key, now_us)
        forgiven = max(0, now_us - bucket.bad_us) // FORGIVE_US
        bucket.bad = max(0, bucket.bad - forgiven)
        bucket.bad_us += forgiven * FORGIVE_US
        passed_us = max(0, now_us - bucket.at_us)
        bucket.level = min(bucket.level + passed_us * self._per_s, self._burst * _TOKEN)
        bucket.at_us = max(now_us, bucket.at_us)
        price = min(1 << bucket.bad, self._burst) * _TOKEN
        if bucket.level < price:
            return False
        bucket.level -= price
        return True

    def worsen(self, key: str, now_us: int) -> None:
        """It sent junk: the next ones cost twice as much."""
        bucket = self._bucket(key, now_us)
        if 1 << bucket.bad < self._burst:
            bucket.bad += 1
        bucket.bad_us = max(now_us, bucket.bad_us)

    def _bucket(self, key: str, now_us: int) -> _Bucket:
        bucket = self._buckets.get(key)
        if bucket is None:
            if len(self._buckets) >= self._entries_max:
                self._buckets.popitem(last=False)
            bucket = self._buckets[key] = _Bucket(self._burst * _TOKEN, now_us)
        self._buckets.move_to_end(key)
        return bucket


class Doorman:
    """Says who may knock, and who must wait."""

    def __init__(
        self,
        *,
        allow: Sequence[str] = (),
        deny: Sequence[str] = (),
        limits: DoorLimits = DoorLimits(),  # noqa: B008 - frozen
    ) -> None:
        self._allow = [network(text) for text in allow]
        self._deny = [network(text) for text in deny]
        self._addresses = Buckets(per_s=limits.address_per_s, burst=limits.address_burst)
        self._peers = Buckets(per_s=limits.peer_per_s, burst=limits.peer_burst)
        self._all = Buckets(per_s=limits.handshakes_per_s, burst=limits.handshakes_burst)

    def admit(self, address: str, now_us: int) -> Reason | None:
        """May it begin a handshake? `address` with or without a port. None: yes."""
        ip = _parsed(address)
        if not self._is_permitted(ip):
            return "denied"
        # The common budget last: one flooding address must not use it up.
        if self._addresses.take(_key(address, ip), now_us) and self._all.take("", now_us):
            return None
        return "busy"

    def admit_peer(self, node: NodeId, now_us: int) -> Reason | None:
        """May this peer, whose key is proven, open one more link? None: yes."""
        return None if self._peers.take(node, now_us) else "busy"

    def count_bad(self, address: str, now_us: int) -> None:
        """Something malformed came from there."""
        self._addresses.worsen(_key(address, _parsed(address)), now_us)

    def _is_permitted(self, ip: _Address | None) -> bool:
        if ip is None:  # Through a relay: nobody knows from where.
            return not self._allow
        if any(ip in net for net in self._deny):
            return False
        return not self._allow or any(ip in net for net in self._allow)


def network(text: str) -> _Network:
    """A network as people write it: `10.0.0.0/8`, `fd00::/8`, or a single address."""
    try:
        found = ipaddress.ip_network(text.strip(), strict=False)
    except ValueError:
        raise BadValue(
            text, expected="a network", remedy="Write it as 192.168.0.0/16, fd00::/8 or one address"
        ) from None
    if isinstance(found, ipaddress.IPv6Network) and found.prefixlen >= 96:
        mapped = found.network_address.ipv4_mapped
        if mapped is not None:
            return ipaddress.IPv4Network((mapped, found.prefixlen - 96))
    return found


def _parsed(text: str) -> _Address | None:
    host = text.strip()
    if host.startswith("["):
        host = host[1:].partition("]")[0]
    elif host.count(":") == 1:
        host = host.partition(":")[0]
    try:
        ip = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return None
    if isinstance(ip, ipaddress.IPv6Address) and ip.ipv4_mapped is not None:
        return ip.ipv4_mapped
    return ip


def _key(address: str, ip: _Address | None) -> str:
    if ip is None:
        return address[:256]
    if ip.version == 4:
        return str(ip)
    return f"{int(ip) >> (128 - _V6_PREFIX):x}/64"
