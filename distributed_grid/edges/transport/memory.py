"""Links inside one process, with the same promise as those over a network; for tests.

Lives here: the network that connects them, and its switches for loss and cuts.
Invariant: it never does what `iroh` could not; the contract suite runs on both.
"""

import asyncio
from collections.abc import Callable

from distributed_grid.edges.transport import (
    Admit,
    CannotListen,
    Counters,
    Lane,
    Limits,
    PathInfo,
    Unreachable,
)
from distributed_grid.edges.transport.end import LinkEnd
from distributed_grid.edges.transport.strangers import Strangers
from distributed_grid.model.ids import NodeId
from distributed_grid.model.membership import Contact

DATAGRAM_BYTES_MAX = 1_200  # As over a path of 1,280 bytes, the least that IPv6 promises.


class MemoryNetwork:
    """What lies between: who is there, what is lost, what is cut."""

    def __init__(self, *, chance: Callable[[int], int] = lambda _: 0) -> None:
        self.datagram_loss_percent = 0
        self._chance = chance
        self._cuts: set[tuple[NodeId, NodeId]] = set()  # (from, to)
        self._changed = asyncio.Event()
        self.ends: dict[NodeId, MemoryTransport] = {}

    def cut(self, one: NodeId, other: NodeId, *, is_one_way: bool = False) -> None:
        """From now on nothing goes from one to the other (nor back). Links stay up, and silent."""
        self._cuts.add((one, other))
        if not is_one_way:
            self._cuts.add((other, one))

    def heal(self) -> None:
        """Undo all cuts; what waited goes on."""
        self._cuts.clear()
        self.stir()

    def break_links(self, one: NodeId, other: NodeId) -> None:
        """Close all links between two, on both ends, as after a long cut."""
        for link in list(self.ends[one].links):
            if link.peer == other:
                link.abort("timed out")

    def reaches(self, one: NodeId, other: NodeId) -> bool:
        """True if there is no cut in this direction."""
        return (one, other) not in self._cuts

    def loses_datagram(self) -> bool:
        """By chance."""
        return self._chance(100) < self.datagram_loss_percent

    def stir(self) -> None:
        """Whoever waits for a change looks again."""
        self._changed.set()
        self._changed = asyncio.Event()

    async def change(self) -> None:
        """Return after the next one."""
        await self._changed.wait()


class MemoryTransport:
    """An end in this process; see `Transport`."""

    def __init__(
        self,
        node: NodeId,
        network: MemoryNetwork,
        *,
        limits: Limits = Limits(),  # noqa: B008 - frozen
        admit: Admit = lambda _: True,
    ) -> None:
        self.id, self.network, self.limits, self.admit = node, network, limits, admit
        self.port = 0
        self.counters = Counters()
        self.links: set[MemoryLink] = set()
        self.strangers = Strangers(limits, self.counters)
        self._accepted: asyncio.Queue[MemoryLink | None] = asyncio.Queue()  # Bound: `strangers`.
        self._is_open = False

    async def open(self) -> None:
        """See `Transport`."""
        if self.id in self.network.ends:
            raise CannotListen(f"memory:{self.id[:8]}", "somebody is there already")
        self.network.ends[self.id] = self
        self._is_open = True

    async def close(self) -> None:
        """See `Transport`."""
        if not self._is_open:
            return
        self._is_open = False
        self.network.ends.pop(self.id, None)
        self.strangers.close()
        await asyncio.gather(*(link.close("closing") for link in list(self.links)))
        self._accepted.put_nowait(None)

    def contact(self) -> Contact:
        """See `Transport`."""
        return Contact(node=self.id, addresses=(f"memory:{self.id[:8]}",))

    async def dial(self, contact: Contact, *, timeout_ms: int) -> "MemoryLink":
        """See `Transport`."""
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                while not (
                    self.network.reaches(self.id, contact.node)
                    and self.network.reaches(contact.node, self.id)
                ):
                    await self.network.change()
        except TimeoutError:
            raise Unreachable(contact.node, f"no answer within {timeout_ms} ms") from None
        other = self.network.ends.get(contact.node)
        if not self._is_open or other is None or other is self or not contact.addresses:
            raise Unreachable(contact.node, "nobody is there")
        if not other.strangers.has_room() or not other.admit(f"memory:{self.id[:8]}"):
            other.counters.not_admitted += 1
            raise Unreachable(contact.node, "it takes no connection from this address now")
        ours, theirs = MemoryLink(self, other.id, is_dialled=True), MemoryLink(other, self.id)
        ours.other, theirs.other = theirs, ours
        self.links.add(ours)
        other.links.add(theirs)
        other.strangers.knock()
        other.strangers.came(theirs)
        other._accepted.put_nowait(theirs)  # noqa: SLF001 - one of us
        return ours

    def take_in(self, *, is_patient: bool) -> None:
        """See `Transport`; nothing waits here."""

    async def accept(self) -> "MemoryLink | None":
        """See `Transport`."""
        link = await self._accepted.get()
        if link is None:
            self._accepted.put_nowait(None)  # For whoever asks again.
        return link


class MemoryLink(LinkEnd):
    """One end; see `Link`."""

    other: "MemoryLink"

    def __init__(self, home: MemoryTransport, peer: NodeId, *, is_dialled: bool = False) -> None:
        super().__init__(
            peer=peer,
            remote_address=f"memory:{peer[:8]}",
            is_dialled=is_dialled,
            limits=home.limits,
            counters=home.counters,
        )
        self._home = home
        self._received_bytes = 0

    def send_datagram(self, data: bytes) -> None:
        """See `Link`."""
        network = self._home.network
        if len(data) > DATAGRAM_BYTES_MAX:
            self.counters.datagrams_dropped += 1
        elif (
            not self.closed.is_set()
            and network.reaches(self._home.id, self.peer)
            and not network.loses_datagram()
        ):
            # Not in the middle of what the sender does: it may be given to somebody at once.
            asyncio.get_running_loop().call_soon(self.other.deliver_datagram, data)

    def path(self) -> PathInfo:
        """See `Link`."""
        if self.closed.is_set():
            return PathInfo()
        return PathInfo(kind="direct", address=self.remote_address)

    def received_bytes(self) -> int:
        """See `LinkEnd`."""
        return self._received_bytes

    async def _write(self, lane: Lane, batch: list[bytes]) -> None:
        network, other = self._home.network, self.other
        for message in batch:
            while not self.closed.is_set() and not network.reaches(self._home.id, self.peer):
                await network.change()
            if self.closed.is_set():
                return
            other._received_bytes += len(message)  # noqa: SLF001 - the other end
            if len(message) > await other.limit_of_next(lane):
                other.malformed(f"{len(message)} bytes on {lane}")
                return
            await other.deliver(lane, message)
            self.outboxes[lane].moved()

    async def _farewell(self) -> None:
        """What was written is in the other's inbox."""

    def _hang_up(self, why: str) -> None:
        self.inbox.close()
        self._home.links.discard(self)
        self._home.network.stir()
        if not self.other.closed.is_set():
            self.other.abort(why)
