"""The sections of a configuration file about the mesh: ours, and the table of seed 002.

Lives here: their keys, with what each may hold, which key is which setting, and what comes later.
Never here: the words for addresses (`mesh_words`), the rest of the file (`cluster_file`).
Invariant: what is None was not written.
"""

from collections.abc import Mapping
from ipaddress import ip_network
from typing import Annotated, Any, Final

import msgspec

from distributed_grid.config import mesh_words, words
from distributed_grid.config.shape import Word
from distributed_grid.errors import BadInput
from distributed_grid.model.mesh_settings import MeshSettings
from distributed_grid.model.settings import Origin

SECTION: Final = "mesh"
SEED: Final = "cluster_mesh"  # The name of the table in seed 002.

CONNECTIONS_MIN: Final = 2  # A ring; with one each, three machines are no mesh.
CONNECTIONS_MAX: Final = 1_000  # 115 MB of them.
TIMEOUT_MS_MIN: Final = 100  # A handshake over half the world takes two round trips.
TIMEOUT_MS_MAX: Final = 300_000
IDLE_MS_MIN: Final = 1_000  # Shorter, and every message would be a handshake.
IDLE_MS_MAX: Final = 86_400_000
GOSSIP_MS_MIN: Final = 50  # The machine's own tick.
GOSSIP_MS_MAX: Final = 10_000  # Slower, and a record is stale when it arrives.
DISCOVERY_S_MAX: Final = 86_400
HOPS_MAX: Final = 8  # Each costs a round trip; the seed has two.

METHODS: Final = ("mdns", "broadcast", "registry", "peer_exchange", "scan", "manual")
TOPOLOGIES: Final = ("full", "hybrid")
LATER_TOPOLOGIES: Final = ("star", "hierarchical")

Topology = Annotated[
    str, words.word_of(*TOPOLOGIES, *LATER_TOPOLOGIES, full_mesh="full", fullmesh="full")
]
Connections = Annotated[int, words.whole(CONNECTIONS_MIN, CONNECTIONS_MAX, 50)]
ThermalLimit = Annotated[
    int, words.scaled("degrees Celsius", factor=100, low=0, high=200, example="85")
]


def _methods(value: Any) -> tuple[str, ...]:
    known = words.word_of(*METHODS)
    return tuple(dict.fromkeys(map(known.parse, mesh_words.listed(value, "methods"))))


class Mesh(msgspec.Struct, frozen=True, kw_only=True):
    """How this node meets the others."""

    listen: Annotated[str, Word(mesh_words.listening)] | None = None
    advertise: Annotated[tuple[str, ...], Word(mesh_words.addresses)] | None = None
    relay: Annotated[str, Word(mesh_words.relay_url)] | None = None
    topology: Topology | None = None
    preset: Annotated[str, words.word_of("lan", "wan", laptop="wan")] | None = None
    max_connections_per_node: Connections | None = None
    connection_timeout: (
        Annotated[int, mesh_words.span(TIMEOUT_MS_MIN, TIMEOUT_MS_MAX, "5s")] | None
    ) = None
    idle_connection: Annotated[int, mesh_words.span(IDLE_MS_MIN, IDLE_MS_MAX, "5m")] | None = None
    allow: Annotated[tuple[str, ...], Word(mesh_words.networks)] | None = None
    deny: Annotated[tuple[str, ...], Word(mesh_words.networks)] | None = None
    verify_capabilities: words.Flag | None = None
    gossip_interval: (
        Annotated[int, mesh_words.span(GOSSIP_MS_MIN, GOSSIP_MS_MAX, "200ms")] | None
    ) = None
    battery_threshold: words.Percent | None = None
    thermal_limit_celsius: ThermalLimit | None = None
    prefer_ac_power: words.Flag | None = None


class ClusterMesh(msgspec.Struct, frozen=True, kw_only=True):
    """Discovery, topology, NAT and power, in the words of seed 002."""

    discovery_interval_secs: Annotated[int, words.whole(1, DISCOVERY_S_MAX, 30)] | None = None
    discovery_methods: Annotated[tuple[str, ...], Word(_methods)] | None = None
    subnet_scan_enabled: words.Flag | None = None
    topology: Topology | None = None
    max_connections_per_node: Connections | None = None
    connection_timeout_ms: (
        Annotated[int, words.whole(TIMEOUT_MS_MIN, TIMEOUT_MS_MAX, 5_000)] | None
    ) = None
    enable_relay_nodes: words.Flag | None = None
    stun_servers: Annotated[tuple[str, ...], Word(mesh_words.addresses)] | None = None
    max_relay_hops: Annotated[int, words.whole(0, HOPS_MAX, 2)] | None = None
    battery_threshold: words.Percent | None = None
    thermal_limit_celsius: ThermalLimit | None = None
    prefer_ac_power: words.Flag | None = None


# Key -> where it is in Settings.
KEYS: Final[dict[str, str]] = {
    f"{SECTION}.{key}": f"mesh.{field}"
    for key, field in {
        "listen": "listen",
        "advertise": "advertise",
        "relay": "relay",
        "topology": "topology",
        "preset": "preset",
        "max_connections_per_node": "max_connections_per_node",
        "connection_timeout": "connection_timeout_ms",
        "idle_connection": "idle_connection_ms",
        "allow": "allow",
        "deny": "deny",
        "verify_capabilities": "verify_capabilities",
        "gossip_interval": "gossip_interval_ms",
        "battery_threshold": "battery_threshold_percent",
        "thermal_limit_celsius": "thermal_limit_centi",
        "prefer_ac_power": "prefer_ac_power",
    }.items()
}
# The seed's word -> ours.
SAME: Final[dict[str, str]] = {
    f"{SEED}.topology": f"{SECTION}.topology",
    f"{SEED}.max_connections_per_node": f"{SECTION}.max_connections_per_node",
    f"{SEED}.connection_timeout_ms": f"{SECTION}.connection_timeout",
    f"{SEED}.battery_threshold": f"{SECTION}.battery_threshold",
    f"{SEED}.thermal_limit_celsius": f"{SECTION}.thermal_limit_celsius",
    f"{SEED}.prefer_ac_power": f"{SECTION}.prefer_ac_power",
}
# What a key waits for.
_DISCOVERY: Final = "ways of discovery beyond tickets and addresses"
_NAT: Final = "relays among members and NAT traversal"
TOPOLOGY: Final = "topologies other than full and hybrid"
COMES_WITH: Final[dict[str, str]] = {
    f"{SEED}.{key}": what
    for what, keys in {
        _DISCOVERY: ("discovery_interval_secs", "discovery_methods", "subnet_scan_enabled"),
        _NAT: ("enable_relay_nodes", "stun_servers", "max_relay_hops"),
        TOPOLOGY: ("topology",),
    }.items()
    for key in keys
} | {f"{SECTION}.topology": TOPOLOGY}


def is_later(key: str, value: Any) -> bool:
    """Whether a key that is used holds a word whose turn has not come."""
    return SAME.get(key, key) == f"{SECTION}.topology" and value in LATER_TOPOLOGIES


def refuse_twice(file: str, document: Mapping[str, Any], lines: Mapping[str, int]) -> None:
    """A thing that both sections of one file decide is decided by neither."""
    for theirs, ours in SAME.items():
        if _written(document, theirs) and _written(document, ours):
            raise BadInput(
                file,
                path=f"$.{theirs}",
                problem=f"says what '{ours}' says too",
                remedy="Keep one of them",
                line=lines.get(f"$.{theirs}", 0),
            )


def _written(document: Mapping[str, Any], key: str) -> bool:
    section, _, name = key.partition(".")
    inside = document.get(section)
    return isinstance(inside, dict) and inside.get(name) is not None


def check(settings: MeshSettings, origins: Mapping[str, Origin]) -> None:
    """Refuse a network that may knock although it, or one around it, may not."""
    denied = list(map(ip_network, settings.deny))
    for text in settings.allow:
        network = ip_network(text)
        for around in denied:
            if network.version == around.version and network.subnet_of(around):  # type: ignore[arg-type]
                origin = origins.get(f"{SECTION}.allow", Origin())
                raise BadInput(
                    origin.file or origin.name or SECTION,
                    path=f"$.{SECTION}.allow",
                    problem=f"has {text}, which 'deny' refuses with {around}; what is denied stays out",
                    remedy="Take it out of one of the two",
                    line=origin.line,
                )
