"""Figures of the mesh for Prometheus.

Lives here: what is counted, read when somebody asks.
"""

from collections.abc import Iterator

from distributed_grid.agent.mesh import MeshSide
from distributed_grid.wire.mesh_api import Health

HEALTHS: tuple[Health, ...] = ("alive", "suspect", "dead", "down", "left")


def mesh_lines(side: MeshSide) -> Iterator[str]:
    """Lines of the text format; none, if this node is in no mesh."""
    if not side.is_member or side.links is None:
        return
    mesh, links = side.mesh, side.links
    replica, liveness, transport = mesh.replica, mesh.liveness, side.transport
    assert replica is not None, "a member"
    assert transport is not None, "open"
    healths = [each.health for each in side.views()]
    yield from _table("grid_mesh_nodes", "gauge", "Nodes by health", "health", {
        health: healths.count(health) for health in HEALTHS
    })  # fmt: skip
    paths = [link.path for link in mesh.links.values()]
    yield from _table("grid_mesh_connections", "gauge", "Connections by path", "path", {
        path: paths.count(path) for path in ("direct", "relayed", "none")
    })  # fmt: skip
    sent = {"control": links.sent_bytes, "datagram": links.sent_datagram_bytes}
    yield from _table(
        "grid_mesh_sent_bytes_total", "counter", "Bytes handed to the transport", "kind", sent
    )
    for name, help_text, value in (
        ("gossip_rounds", "Rounds of gossip", mesh.rounds),
        ("gossip_deltas", "Messages with entries", replica.deltas_sent),
        ("gossip_entries_sent", "Entries sent", replica.entries_sent),
        ("gossip_entries_taken", "Entries that were news", replica.entries_taken),
        ("heartbeats_sent", "Datagrams sent", liveness.sent),
        ("heartbeats_received", "Datagrams received", liveness.received),
        ("suspicions", "Nodes that became suspect", liveness.suspicions),
        ("false_alarms", "Suspicions that were refuted", liveness.false_alarms),
        ("deaths", "Nodes that were declared dead", liveness.deaths),
        ("faults", "Words of nodes that could not be handled", mesh.faults.total),
        ("junk", "Messages and entries that were no good", links.junk),
        ("turned_away", "Knocks that were not answered", transport.counters.not_admitted),
        ("datagrams_dropped", "Datagrams lost here", transport.counters.datagrams_dropped),
    ):
        full = f"grid_mesh_{name}_total"
        yield from (f"# HELP {full} {help_text}", f"# TYPE {full} counter", f"{full} {value}")
    yield from _table(
        "grid_mesh_refused_total", "counter", "Greetings refused, by reason", "reason",
        dict(sorted(links.refused.items())),
    )  # fmt: skip
    yield from _gauge("staleness_us", "Age of the oldest news not told", replica.staleness_us)
    rtts = sorted(filter(None, (liveness.rtt_us(peer) for peer in mesh.links)))
    for quantile in (50, 99) if rtts else ():
        value = rtts[min(len(rtts) * quantile // 100, len(rtts) - 1)]
        yield from _gauge(f"round_trip_us_p{quantile}", "Round trips to neighbours", value)


def _gauge(name: str, help_text: str, value: int) -> Iterator[str]:
    full = f"grid_mesh_{name}"
    yield from (f"# HELP {full} {help_text}", f"# TYPE {full} gauge", f"{full} {value}")


def _table(
    name: str, kind: str, help_text: str, label: str, values: dict[str, int]
) -> Iterator[str]:
    yield f"# HELP {name} {help_text}"
    yield f"# TYPE {name} {kind}"
    for word, value in values.items():
        yield f'{name}{{{label}="{word}"}} {value}'
