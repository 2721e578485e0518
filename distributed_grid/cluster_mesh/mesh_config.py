"""`MeshConfig` and `TopologyType` of seed 002: how a mesh is to be, built word by word.

    config = (
        MeshConfig.default()
        .with_discovery_interval(timedelta(seconds=30))
        .with_topology(TopologyType.Hybrid)
    )

Lives here: the seed's names and defaults, and which of them count today. Never here: what a value
may be (`config.mesh_file`), obeying it (the agent).
Invariant: a value that would be refused in a file is refused here; no ticket is ever printed.
"""

import os
from collections.abc import Iterator
from datetime import timedelta
from enum import Enum
from typing import Any, ClassVar, Final, Self

import msgspec

from distributed_grid.config import mesh_words
from distributed_grid.config.cluster_file import ClusterFile
from distributed_grid.config.documents import read_located
from distributed_grid.config.mesh_file import COMES_WITH, LATER_TOPOLOGIES, SEED, ClusterMesh
from distributed_grid.config.shape import shaped
from distributed_grid.config.variants import normalised
from distributed_grid.errors import BadValue
from distributed_grid.kernel.placement.power import PowerPolicy
from distributed_grid.model import duration
from distributed_grid.model.discretion import Discreet
from distributed_grid.wire.ticket import read_ticket

TICKETS_MAX: Final = 16  # Each is tried in turn, for some seconds.
# Field -> the variable that tells an agent the same. `ms` follows a number of milliseconds.
_OF_THE_AGENT: Final[dict[str, tuple[str, str]]] = {
    "topology": ("GRID_MESH_TOPOLOGY", ""),
    "max_connections_per_node": ("GRID_MESH_MAX_CONNECTIONS_PER_NODE", ""),
    "connection_timeout_ms": ("GRID_MESH_CONNECTION_TIMEOUT", "ms"),
    "battery_threshold": ("GRID_MESH_BATTERY_THRESHOLD", ""),
    "thermal_limit_celsius": ("GRID_MESH_THERMAL_LIMIT_CELSIUS", ""),
    "prefer_ac_power": ("GRID_MESH_PREFER_AC_POWER", ""),
}


class TopologyType(Enum):
    """Who holds a connection to whom."""

    FullMesh = "full"
    Star = "star"
    Hierarchical = "hierarchical"
    Hybrid = "hybrid"

    @property
    def comes_later(self) -> bool:
        """Whether this version knows the name only."""
        return self.value in LATER_TOPOLOGIES


class MeshConfig(Discreet, frozen=True, kw_only=True):
    """The table `[cluster_mesh]` of seed 002, with its defaults, and ways into a mesh."""

    SECRETS: ClassVar[frozenset[str]] = frozenset({"tickets"})

    discovery_interval_secs: int = 30
    discovery_methods: tuple[str, ...] = ("mdns", "broadcast", "registry")
    subnet_scan_enabled: bool = False
    topology: TopologyType = TopologyType.Hybrid
    max_connections_per_node: int = 50
    connection_timeout_ms: int = 5_000
    enable_relay_nodes: bool = True
    stun_servers: tuple[str, ...] = ("stun.stratoswarm.io:3478",)
    max_relay_hops: int = 2
    battery_threshold: int = 20
    thermal_limit_celsius: int = 85
    prefer_ac_power: bool = True
    # Beyond the seed's table: how to get in.
    tickets: tuple[str, ...] = ()
    addresses: tuple[str, ...] = ()  # Tried before those in a ticket, for the machine that made it.
    asked_for_later: tuple[str, ...] = ()  # Words of a file whose turn has not come.

    def __post_init__(self) -> None:
        if self.topology.comes_later:
            raise BadValue(
                self.topology.name,
                expected="FullMesh or Hybrid; the others come later",
                remedy="Take TopologyType.Hybrid until then",
                field="topology",
            )
        shaped("MeshConfig", self._table(), ClusterMesh)
        for address in self.addresses:
            mesh_words.address(address)
        if len(self.tickets) > TICKETS_MAX:
            raise BadValue(
                len(self.tickets), expected=f"at most {TICKETS_MAX} tickets", remedy="One is enough"
            )
        for ticket in self.tickets:
            read_ticket(ticket)

    @classmethod
    def default(cls) -> Self:
        """The defaults of the seed."""
        return cls()

    @classmethod
    def from_toml(cls, path: str | os.PathLike[str]) -> Self:
        """What the table `[cluster_mesh]` of a file says; BadInput tells what is wrong in it."""
        file = os.fspath(path)
        document, lines = read_located(file)
        found = normalised(file, document, lines)
        table = shaped(file, found.document, ClusterFile, lines=found.lines).cluster_mesh
        told = {} if table is None else msgspec.structs.asdict(table)
        fields: dict[str, Any] = {name: value for name, value in told.items() if value is not None}
        if "thermal_limit_celsius" in fields:
            fields["thermal_limit_celsius"] //= 100
        if fields.get("topology") in LATER_TOPOLOGIES:
            fields["asked_for_later"] = (f"topology {fields.pop('topology')}",)
        elif "topology" in fields:
            fields["topology"] = TopologyType(fields["topology"])
        return cls(**fields)

    def with_discovery_interval(self, interval: timedelta | float | str) -> Self:
        """Look for others this often: a timedelta, seconds, or text such as 30s."""
        return self._with(discovery_interval_secs=_span_ms(interval) // 1_000)

    def with_discovery_methods(self, *methods: str) -> Self:
        """Look for others in these ways, such as mdns, broadcast or registry."""
        return self._with(discovery_methods=methods)

    def with_subnet_scan(self, enabled: bool) -> Self:
        """Also look for others address by address."""
        return self._with(subnet_scan_enabled=enabled)

    def with_topology(self, topology: TopologyType) -> Self:
        """Who holds a connection to whom; Star and Hierarchical come later, and are refused."""
        return self._with(topology=TopologyType(topology))

    def with_max_connections_per_node(self, connections: int) -> Self:
        """Hold at most so many at once."""
        return self._with(max_connections_per_node=connections)

    def with_connection_timeout(self, timeout: timedelta | float | str) -> Self:
        """Give up on a connection after so long: a timedelta, seconds, or text such as 5s."""
        return self._with(connection_timeout_ms=_span_ms(timeout))

    def with_relay_nodes(self, enabled: bool) -> Self:
        """Let members pass on what two others cannot say to each other directly."""
        return self._with(enable_relay_nodes=enabled)

    def with_stun_servers(self, *servers: str) -> Self:
        """Ask these what our address looks like from outside."""
        return self._with(stun_servers=servers)

    def with_max_relay_hops(self, hops: int) -> Self:
        """Pass through at most so many relays."""
        return self._with(max_relay_hops=hops)

    def with_ticket(self, ticket: str) -> Self:
        """Join with this ticket; of several, the first that lets us in."""
        return self._with(tickets=(*self.tickets, ticket.strip()))

    def with_address(self, address: str) -> Self:
        """Look for the machine that made the ticket here first: `host:port`."""
        return self._with(addresses=(*self.addresses, mesh_words.address(address)))

    @property
    def power_policy(self) -> PowerPolicy:
        """What batteries and heat allow, as `distributed_grid.place` takes it."""
        return PowerPolicy(
            battery_percent_min=self.battery_threshold,
            prefer_ac_power=self.prefer_ac_power,
            temperature_centi_max=self.thermal_limit_celsius * 100,
        )

    def environment(self) -> dict[str, str]:
        """The variables that give an agent these settings, for whoever starts it."""
        found = {}
        for field, (variable, unit) in _OF_THE_AGENT.items():
            value = getattr(self, field)
            word = value.value if isinstance(value, Enum) else value
            found[variable] = f"{str(word).lower()}{unit}"
        return found

    @property
    def notes(self) -> tuple[str, ...]:
        """What of this does not count, or not here; one sentence each."""
        return tuple(self._notes())

    def _notes(self) -> Iterator[str]:
        usual = type(self)()
        for field, (variable, _) in _OF_THE_AGENT.items():
            if getattr(self, field) != getattr(usual, field):
                told = self.environment()[variable]
                yield f"{field} is the agent's: start it with {variable}={told}"
        for word in self.asked_for_later:
            yield f"{word} comes later; until then it is {self.topology.value}"
        later: dict[str, list[str]] = {}
        for field in ClusterMesh.__struct_fields__:
            if field not in _OF_THE_AGENT:
                later.setdefault(COMES_WITH[f"{SEED}.{field}"], []).append(field)
        for what, fields in later.items():
            yield f"{what} come later: {', '.join(fields)}"

    def _table(self) -> dict[str, Any]:
        """As a file would have it."""
        table = {name: getattr(self, name) for name in ClusterMesh.__struct_fields__}
        lists = {name: list(value) for name, value in table.items() if isinstance(value, tuple)}
        return {**table, **lists, "topology": self.topology.value}

    def _with(self, **fields: Any) -> Self:
        return msgspec.structs.replace(self, **fields)


def _span_ms(span: timedelta | float | str) -> int:
    if isinstance(span, timedelta):
        return round(span / timedelta(milliseconds=1))
    return duration.parse(span)
