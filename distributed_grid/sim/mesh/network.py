"""The network between the machines of a world: who reaches whom, how late, and how badly.

Lives here: directions that are blocked, dials with their greetings, datagrams. Never here: one
connection (`connection`), what a machine makes of it (`host`), when something fails (`faults`).
Invariant: a dial ends once: in a link at both ends, a refusal, or a failure.

Connecting needs both directions. A connection that works in one direction only goes silent, and is
given up by both ends after a while, as QUIC does.
"""

import random
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from distributed_grid.model.ids import NodeId
from distributed_grid.model.membership import Contact
from distributed_grid.sim.mesh.connection import Connection
from distributed_grid.sim.mesh.timeline import SECOND_US, Timeline
from distributed_grid.wire.mesh import Hello, MeshMessage, Redeem, Refused, Renew, Welcome

if TYPE_CHECKING:
    from distributed_grid.sim.mesh.host import Host

DIAL_US: Final = 2 * SECOND_US  # After so long a dial has failed.
IDLE_US: Final = 6 * SECOND_US  # After so long of silence a connection is given up.


class Network:
    """Everything between the hosts."""

    def __init__(self, timeline: Timeline, rng: random.Random) -> None:
        self.timeline = timeline
        self.rng = rng
        self.hosts: dict[NodeId, Host] = {}
        self.doubles: dict[str, Host] = {}  # Clones, by their address.
        self.idle_us = IDLE_US
        self.delay_us = 1_000  # At least, one way.
        self.jitter_us = 2_000  # And up to so much more, which reorders datagrams.
        self.loss_milli = 0
        self.duplicate_milli = 0
        self.blocked: Counter[tuple[str, str]] = Counter()  # (from, to), by address.
        self.changed_us = 0  # When something was last blocked, or free again.
        self.connections: list[Connection] = []
        self.answers_lost = 0  # So many of the next, to who asks to be let in.
        self.datagrams = 0
        self.datagram_bytes = 0
        self.message_bytes = 0

    # Who reaches whom

    def block(self, ways: Iterable[tuple[str, str]]) -> None:
        """From now on nothing goes these ways."""
        self.blocked.update(ways)
        self.changed_us = self.timeline.now_us
        self.reconsider()

    def unblock(self, ways: Iterable[tuple[str, str]]) -> None:
        """It may go again, unless something else blocks it too."""
        self.blocked.subtract(ways)
        self.blocked += Counter()
        self.changed_us = self.timeline.now_us
        self.reconsider()

    def heal(self) -> None:
        """Everyone reaches everyone, with the delays of a good day."""
        self.loss_milli = self.duplicate_milli = 0
        self.delay_us, self.jitter_us = 1_000, 2_000
        if self.blocked:
            self.changed_us = self.timeline.now_us
        self.blocked.clear()
        self.reconsider()

    def is_open(self, source: str, target: str) -> bool:
        """Whether anything gets through in this direction."""
        return (source, target) not in self.blocked

    def reconsider(self) -> None:
        """Something has changed: which connections have gone silent, which work again?"""
        self.connections = [one for one in self.connections if one.reconsider()]

    def late_us(self) -> int:
        """How long something takes, one way."""
        return self.delay_us + int(self.rng.random() * self.jitter_us)

    def resent_us(self) -> int:
        """How long it takes if it is sent again when it is lost: later and later."""
        late_us, again_us = self.late_us(), 2 * (self.delay_us + self.jitter_us)
        while self.loss_milli and self.rng.random() * 1_000 < self.loss_milli:
            late_us += again_us
            again_us = min(2 * again_us, 2 * SECOND_US)
        return late_us

    # Connecting

    def dial(self, source: "Host", contact: Contact) -> None:
        """Try each address; greetings go both ways."""
        self.timeline.after(self.resent_us(), self._knock, source, source.life, contact)

    def _reached(self, source: "Host", contact: Contact) -> "Host | None":
        for host in (self.hosts.get(contact.node), *self.doubles.values()):
            if (
                host is not None
                and host.key.public == contact.node
                and host.address in contact.addresses
                and not host.is_hidden
                and host.is_awake
                and self.is_open(source.address, host.address)
                and self.is_open(host.address, source.address)
            ):
                return host
        return None

    def _knock(self, source: "Host", life: int, contact: Contact) -> None:
        if source.life != life:
            return
        target = self._reached(source, contact)
        if target is None or target is source:
            self.timeline.after(DIAL_US, source.dial_failed, life, contact.node, "no answer", False)
            return
        if (known := target.links.get(source.id)) and known.is_whole_between(source, target):
            self.timeline.after(self.late_us(), source.dial_settled, life, contact.node)
            return
        refusal = target.greet(source.id, source.hello())
        if refusal is not None:
            why = f"{refusal.reason} {refusal.detail}".strip()
            self.timeline.after(self.resent_us(), source.dial_failed, life, contact.node, why, True)
            return
        connection = Connection(self, source, target)
        late_us = self.resent_us()
        self.timeline.after(late_us, self._answered, connection, source.hello(), target.hello())

    def _answered(self, connection: Connection, ours: Hello, theirs: Hello) -> None:
        """The dialler judges whom it has reached."""
        source, target = connection.ends
        life = connection.lives[0]
        if not connection.both_live():
            source.dial_failed(life, target.id, "no answer", False)
            return
        refusal = source.greet(target.id, theirs)
        if refusal is not None:
            source.dial_failed(life, target.id, f"{refusal.reason}, by us", True)
            return
        self.connections.append(connection)
        connection.open_at(source, theirs)
        self.timeline.after(self.resent_us(), connection.open_at, target, ours)

    def ask(self, source: "Host", contact: Contact, asked: Redeem | Renew) -> None:
        """The only questions of who is no member; the answer may get lost with the connection."""
        self.timeline.after(self.resent_us(), self._asked, source, source.life, contact, asked)

    def _asked(self, source: "Host", life: int, contact: Contact, asked: Redeem | Renew) -> None:
        target = self._reached(source, contact)
        if target is None or source.life != life:
            return
        if isinstance(asked, Renew):
            renewed = target.kernel.membership.renewing.renew(source.id, asked, target.now())
            self.timeline.after(self.resent_us(), source.renewed, life, target.id, renewed)
            return
        target.joining.redeem(source.id, asked, lambda answer: self._answer(source, life, answer))

    def _answer(self, source: "Host", life: int, answer: Welcome | Refused) -> None:
        if self.answers_lost:
            self.answers_lost -= 1
        elif self.rng.random() * 1_000 >= self.loss_milli:
            self.timeline.after(self.resent_us(), source.joining.answered, life, answer)

    # Traffic

    def send(self, connection: Connection, source: "Host", message: MeshMessage) -> None:
        """A message, in order."""
        self.message_bytes += connection.send(source, message)

    def cast(self, connection: Connection, source: "Host", datagram: bytes) -> None:
        """A datagram: lost, late, twice, in any order."""
        self.datagrams += 1
        self.datagram_bytes += len(datagram)
        chance = self.rng.random
        if self.loss_milli and chance() * 1_000 < self.loss_milli:
            return
        target = connection.other(source)
        late_us = self.delay_us + int(chance() * self.jitter_us)
        self.timeline.after(late_us, self._arrive, connection, source, target, datagram)
        if self.duplicate_milli and chance() * 1_000 < self.duplicate_milli:
            late_us += int(chance() * self.jitter_us)
            self.timeline.after(late_us, self._arrive, connection, source, target, datagram)

    def _arrive(
        self, connection: Connection, source: "Host", target: "Host", datagram: bytes
    ) -> None:
        if (source.address, target.address) in self.blocked:
            return
        if target.links.get(source.id) is connection:
            target.heard(source.id, datagram)
