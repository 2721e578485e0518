"""The seam through which nodes talk: links to peers whose keys were proven, messages and datagrams.

Lives here: the promise, its limits, what can go wrong. Never here: who may talk
(`kernel.mesh.trust`, `kernel.mesh.doorman`), what is said (`wire.mesh`), whom to dial and when
(`kernel.mesh.dialling`).
Invariant: whatever a peer sends, or leaves unsent or unread, costs bounded memory and at most its
own link.
"""

import asyncio
from collections.abc import Callable
from typing import Final, Literal, NamedTuple, Protocol

import msgspec

from distributed_grid.errors import GridError
from distributed_grid.model.ids import NodeId
from distributed_grid.model.membership import Contact
from distributed_grid.wire.mesh import GREETING_BYTES_MAX, MESSAGE_BYTES_MAX

Lane = Literal["control", "job", "bulk"]  # The most urgent first.
PathKind = Literal["direct", "relayed", "none"]
Admit = Callable[[str], bool]  # May this address knock? Asked before any work of a handshake.

LANES: Final[tuple[Lane, ...]] = ("control", "job", "bulk")
DATAGRAMS_MAX: Final = 256  # Kept for a slow reader of one link: a second of a hundred nodes' talk.


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """How much of a peer is put up with."""

    greeting_bytes: int = GREETING_BYTES_MAX  # One message of a stranger.
    message_bytes: int = MESSAGE_BYTES_MAX  # One message of a member on the control lane.
    # One message of a member on the job lane: the record of a job whose arguments are 16 MiB.
    job_bytes: int = 24 << 20
    bulk_bytes: int = 16 << 20  # One message of a member on the bulk lane.
    queue_bytes: int = 256 << 10  # Messages that wait in a lane, each way; one always fits.
    strangers: int = 64  # Accepted and not trusted yet: 64 machines that start at once.
    stranger_idle_ms: int = 5_000  # Without a whole message.
    stranger_ms: int = 30_000  # In all: a redemption that is forwarded takes some seconds.
    stranger_bytes: int = 256 << 10  # In all; QUIC itself would take a hundred streams of 1.25 MB.
    stalled_ms: int = 30_000  # Back-pressure without any progress; then the link is closed.
    farewell_ms: int = 1_000  # For the last words of a link that is closed.

    def message_limit(self, lane: Lane, *, is_member: bool) -> int:
        """How long one message may be."""
        if not is_member:
            return self.greeting_bytes
        most = {"control": self.message_bytes, "job": self.job_bytes, "bulk": self.bulk_bytes}
        return most[lane]


class PathInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The way that packets take now."""

    kind: PathKind = "none"
    address: str = ""
    rtt_us: int = 0  # As the transport estimates it; iroh tells whole milliseconds.


class Counters(msgspec.Struct, kw_only=True):
    """What became of what came, since the start."""

    datagrams_dropped: int = 0  # Too large, no room, or nobody read them in time.
    malformed: int = 0  # Links closed for what came over them.
    not_admitted: int = 0  # Turned away by address, or because too many strangers were here.
    strangers_closed: int = 0  # They took too long, or sent too much.
    stalled: int = 0  # Links closed because the peer did not read.
    handshakes_failed: int = 0


class Datagram(NamedTuple):
    """What came, and how long ago: it may have waited until somebody looked."""

    data: bytes
    waited_us: int = 0


class Link(Protocol):
    """One connection to one peer, whose key was proven.

    Messages of a lane arrive whole and in order, each once, or the link closes; lanes do not wait
    for each other. Cancelling any call loses nothing and harms nothing.
    """

    peer: NodeId
    remote_address: str
    is_dialled: bool  # By this end.
    closed: asyncio.Event
    why_closed: str

    async def send(self, message: bytes, *, lane: Lane = "control") -> None:
        """Send a message; waits while too much is on its way. Raises TooLarge or LinkClosed."""
        ...

    def send_datagram(self, data: bytes) -> None:
        """Send a datagram, or drop and count it."""
        ...

    async def receive(self) -> tuple[Lane, bytes] | None:
        """The next message of any lane, the more urgent lane first. None: closed.

        A stranger's next message is read only when this is called again: its limit is that of the
        moment, so call `trust` in between.
        """
        ...

    async def receive_datagrams(self) -> list[Datagram]:
        """All datagrams that are there, at least one. Empty: closed."""
        ...

    def hand_datagrams(self, take: Callable[[Datagram], None]) -> None:
        """From now on each datagram is given to this when it comes, and not kept.

        Among thirty nodes twenty come in a second, and a task that waits for them would cost as
        much as what they say.
        """
        ...

    def trust(self) -> None:
        """The peer is a member: a member's limits hold now, and its other lanes are read."""
        ...

    def path(self) -> PathInfo:
        """The way that packets take now."""
        ...

    async def close(self, reason: str = "") -> None:
        """Send what was taken, for a moment, then close; a second time is harmless.

        From now on `send` raises LinkClosed, also where it waits already: that was not taken.
        """
        ...


class Transport(Protocol):
    """An end of links."""

    id: NodeId
    counters: Counters
    port: int  # Where it listens, once open; 0: nowhere.

    async def open(self) -> None:
        """Begin to listen. Raises CannotListen."""
        ...

    async def close(self) -> None:
        """Close every link, and the end itself."""
        ...

    def contact(self) -> Contact:
        """How others reach this node."""
        ...

    async def dial(self, contact: Contact, *, timeout_ms: int) -> Link:
        """A link to this peer. Raises Unreachable; a refusal by the peer is a message."""
        ...

    async def accept(self) -> Link | None:
        """The next link that somebody else dialled. None: closed."""
        ...

    def take_in(self, *, is_patient: bool) -> None:
        """Read the datagrams that came; with patience, later ones may wait for the next time.

        Whoever looks ten times a second anyway need not be woken for each of them.
        """
        ...


class TransportError(GridError):
    """What was wanted of the network could not be had."""


class Unreachable(TransportError):
    """There is no link to be had. Nobody said no: nothing of ours answered."""

    def __init__(self, peer: NodeId, why: str) -> None:
        self.peer, self.why = peer, why
        super().__init__(
            f"node {peer[:8]} cannot be reached: {why}",
            remedy="Check that it is up, and that this machine reaches its address and UDP port",
        )


class LinkClosed(TransportError):
    """The link is gone, and with it what was under way."""

    def __init__(self, peer: NodeId, why: str) -> None:
        self.peer, self.why = peer, why
        super().__init__(
            f"the link to node {peer[:8]} is closed: {why or 'no reason given'}",
            remedy="It is dialled again by itself",
        )


class TooLarge(TransportError):
    """A message that no member would read."""

    def __init__(self, size: int, limit: int) -> None:
        self.size, self.limit = size, limit
        super().__init__(
            f"a message of {size} bytes, at most {limit} are read", remedy="Send it in parts"
        )


class CannotListen(TransportError):
    """The address cannot be bound."""

    def __init__(self, address: str, why: str) -> None:
        self.address, self.why = address, why
        super().__init__(
            f"cannot listen on {address}: {why}",
            remedy="Choose another address or port in [mesh] listen, or leave it out",
        )
