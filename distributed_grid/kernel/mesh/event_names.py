"""The events of the mesh by name: for `grid events`, `GET /v1/events`, logs, and for grep.

Lives here: the one table that docs/reference/events.md repeats. Never here: deciding that something
happened (`machine`), writing it anywhere (`agent`).
Invariant: a name, once released, keeps its meaning; fields are added, never renamed.
"""

from typing import Final, Literal, NamedTuple

Level = Literal["debug", "info", "warning", "error"]


class EventName(NamedTuple):
    """One kind of event. `node` and `name`, of the node it is about, are fields of every one."""

    name: str
    level: Level  # From which its log line is written.
    fields: tuple[str, ...]  # Beside `node` and `name`.
    meaning: str


MESH_EVENTS: Final[tuple[EventName, ...]] = (
    EventName("node.joined", "info", (), "a node was seen in the mesh for the first time"),
    EventName("node.left", "info", ("why",), "it left by itself, or was removed for good"),
    EventName("node.suspect", "info", ("why",), "nobody has heard it for a while; it is probed"),
    EventName("node.dead", "warning", ("why",), "it has been silent for too long"),
    EventName("node.alive", "info", ("why",), "it is heard again, or for the first time"),
    EventName("node.updated", "debug", ("what",), "its profile or its offers changed"),
    EventName("node.path_changed", "info", ("path", "was", "address", "why"),
              "it is reached at another address, through a relay, or not at all, other than before"),
    EventName("mesh.founded", "info", ("mesh",), "this node founded a mesh"),
    EventName("mesh.joined", "info", ("mesh",), "this node joined a mesh"),
    EventName("mesh.left", "info", (), "this node left its mesh"),
    EventName("mesh.refused", "warning", ("reason",),
              "another node does not let this one in, or an admin removed it"),
    EventName("mesh.fault", "warning", ("kind", "why", "count", "refused_ms"),
              "what a node said could not be handled: it has no link for so long"),
    EventName("mesh.clone", "error", ("machine",), "two machines use one key; both are told"),
    EventName("mesh.certificate_renewed", "info", ("expires_ms",),
              "a certificate was renewed in time"),
    EventName("mesh.verified", "info", ("verification", "what"),
              "a node was asked to show what it claims; it did, or failed, or was too busy"),
)  # fmt: skip

BY_NAME: Final[dict[str, EventName]] = {event.name: event for event in MESH_EVENTS}
