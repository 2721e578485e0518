"""How a machine gets in: a person brings a ticket, and the machine asks until somebody answers.

Lives here: both ends of redeeming, and passing it on. Never here: who may get in (`kernel.mesh`).
Invariant: an answer leaves the issuer only after the use of the ticket is on disk.
"""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from distributed_grid.kernel.mesh.membership import Forward
from distributed_grid.kernel.mesh.tickets import mac, ticket_id
from distributed_grid.model.ids import NodeId
from distributed_grid.model.membership import Ticket
from distributed_grid.sim.mesh.timeline import SECOND_US
from distributed_grid.wire.mesh import Redeem, Refused, Welcome

if TYPE_CHECKING:
    from distributed_grid.sim.mesh.host import Host

Answer = Callable[[Welcome | Refused], None]
PATIENCE: Final = 10  # So often does a machine ask with one ticket.
_FOR_NOW: Final = frozenset({"issuer-unreachable", "busy", "stranger"})  # Worth another try.


class Joining:
    """One machine's way into a mesh."""

    def __init__(self, host: "Host") -> None:
        self.host = host
        self.ticket: Ticket | None = None
        self.refused = ""  # For good, and why.
        self._tries = 0  # Tickets that were tried.
        self._asked = 0  # How often with the last one.

    def use(self, ticket: Ticket) -> None:
        """A person types `grid join`."""
        self.ticket, self.refused = ticket, ""
        self._asked = 0
        self._tries += 1
        self.ask(self._tries)

    def give_up(self) -> None:
        """The person goes away."""
        self.ticket = None

    def ask(self, attempt: int) -> None:
        """Ask the issuer, or somebody who passes it on; again, until there is an answer."""
        host, ticket = self.host, self.ticket
        if ticket is None or attempt != self._tries or self.refused:
            return
        host.world.timeline.after(SECOND_US, self.ask, attempt)
        if not host.is_awake or host.kernel.id == ticket.mesh:
            return
        self._asked += 1
        if self._asked > PATIENCE:
            self.refused = "no answer"  # The issuer may be gone: somebody else has tickets too.
            return
        redeem = Redeem(
            mesh=ticket.mesh,
            ticket=ticket_id(ticket.secret),
            issuer=ticket.issuer.node,
            node=host.id,
            name=host.name,
            mac=mac(ticket.secret, ticket.mesh, ticket.issuer.node, host.id),
        )
        contacts = (ticket.issuer, *ticket.others)
        host.world.network.ask(host, host.world.rng.choice(contacts), redeem)

    def answered(self, life: int, answer: Welcome | Refused) -> None:
        """In, or not."""
        host, ticket = self.host, self.ticket
        if host.life != life or not host.is_awake or ticket is None:
            return
        if isinstance(answer, Refused):
            if answer.reason not in _FOR_NOW:
                host.world.tell(f"{host} is refused: {answer.reason}")
                self.refused = answer.reason
            return
        adopted = host.kernel.membership.adopt(ticket.mesh, answer, host.now())
        if isinstance(adopted, Refused):
            host.world.tell(f"{host} does not accept its own certificate: {adopted.reason}")
            return
        host.carry_out(adopted)

    def redeem(self, peer: NodeId, redeem: Redeem, answer: Answer) -> None:
        """The other end: this machine is asked."""
        host = self.host
        found, ready = host.kernel.membership.redeem(peer, redeem, host.now())
        if isinstance(found, Forward):
            self._forward(found, answer)
            return
        host.carry_out(ready, partial(self._tell, redeem, found, answer))

    def _tell(self, redeem: Redeem, found: Welcome | Refused, answer: Answer) -> None:
        for checker in self.host.world.checkers:
            checker.redeemed(self.host.world, self.host, redeem, found)
        answer(found)

    def _forward(self, found: Forward, answer: Answer) -> None:
        host = self.host
        connection = host.links.get(found.issuer)
        if connection is None:
            answer(Refused(reason="issuer-unreachable", about=found.redeem.node))
            return
        issuer = connection.other(host)
        late_us = host.world.network.resent_us()
        host.world.timeline.after(late_us, _pass_on, host, issuer, found.redeem, answer)


def _pass_on(source: "Host", issuer: "Host", redeem: Redeem, answer: Answer) -> None:
    network = source.world.network
    if issuer.is_awake and network.is_open(source.address, issuer.address):
        issuer.joining.redeem(source.id, redeem, answer)
