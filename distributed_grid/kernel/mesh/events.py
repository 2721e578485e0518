"""What the mesh machine is told, and what it wants done.

Lives here: events and effects as values. Never here: deciding (`machine`), doing (`agent`).
Invariant: what is to be saved is durable before anything of the same step is sent.
"""

from typing import Literal

import msgspec

from distributed_grid.kernel.ready import Happened
from distributed_grid.model.ids import NodeId
from distributed_grid.model.membership import Contact
from distributed_grid.wire.mesh import Hello, Key, MeshMessage, Renew

PathKind = Literal["direct", "relayed", "none"]


class Now(msgspec.Struct, frozen=True):
    """Two clocks: certificates go by the wall, everything else by the one that never jumps."""

    wall_ms: int
    mono_us: int  # Microseconds since the machine came up, asleep or not.


class Tick(msgspec.Struct, frozen=True, kw_only=True):
    """Time passes; every 50 ms or so."""

    now: Now


class LinkUp(msgspec.Struct, frozen=True, kw_only=True):
    """A connection whose greetings were judged good by both ends (see `Mesh.greet`)."""

    now: Now
    peer: NodeId
    hello: Hello


class LinkDown(msgspec.Struct, frozen=True, kw_only=True):
    """The connection is gone."""

    now: Now
    peer: NodeId
    why: str = ""


class DialFailed(msgspec.Struct, frozen=True, kw_only=True):
    """There was no connection to be had. Refused: the peer answered and said no."""

    now: Now
    peer: NodeId
    why: str = ""
    is_refused: bool = False


class Heard(msgspec.Struct, frozen=True, kw_only=True):
    """A datagram came over a good link."""

    now: Now
    peer: NodeId
    datagram: bytes
    waited_us: int = 0  # Before it was read: the way it came was shorter by that.


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """A message came over a good link. Of a `Delta`, only verified entries are left."""

    now: Now
    peer: NodeId
    message: MeshMessage


class Publish(msgspec.Struct, frozen=True, kw_only=True):
    """This node has something new to say about itself."""

    now: Now
    values: dict[Key, bytes]


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """What traffic showed of a link."""

    now: Now
    peer: NodeId
    path: PathKind = "none"
    address: str = ""
    bandwidth_kbps: int | None = None


MeshEvent = Tick | LinkUp | LinkDown | DialFailed | Heard | Told | Publish | Measured


class MeshReady(msgspec.Struct, kw_only=True):
    """The effects of one step."""

    save: dict[str, bytes | None] = {}  # First; durable before the rest. None: forget it.
    dial: list[Contact] = []  # Nobody is dialled twice at once.
    messages: list[tuple[NodeId, MeshMessage]] = []  # In order for each peer.
    datagrams: list[tuple[NodeId, bytes]] = []
    # One question on a connection of its own, for who cannot have a link: see `renewing`.
    ask: list[tuple[Contact, Renew]] = []
    hang_up: list[tuple[NodeId, str]] = []  # After the messages.
    happened: list[Happened] = []
