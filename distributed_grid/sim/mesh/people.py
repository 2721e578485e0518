"""The people of a mesh: they found it, hand out tickets, throw out, leave, and mind their machines.

Lives here: what somebody types. Never here: what the machines make of it (`kernel.mesh`).
Invariant: the founder's machine keeps its disk, so there is always somebody who can let others in.
"""

from functools import partial
from typing import TYPE_CHECKING, Final

from distributed_grid.errors import NotPermitted
from distributed_grid.model.ids import NodeId
from distributed_grid.model.membership import Contact, Role, Ticket
from distributed_grid.sim.mesh.timeline import SECOND_US

if TYPE_CHECKING:
    from distributed_grid.sim.mesh.host import Host
    from distributed_grid.sim.mesh.world import World

TTL_MS: Final = 3_600_000
_MIND_US: Final = 2 * SECOND_US  # So often do people look whether their machine is in.
_ROLES: Final[tuple[Role, ...]] = ("member", "member", "worker", "guest", "admin")


class People:
    """Everyone who can type."""

    def __init__(self, world: "World") -> None:
        self.world = world
        self.tickets: dict[str, Ticket] = {}  # The last one that each machine was given, by name.
        self._invited: set[str] = set()
        self._group: Ticket | None = None  # One ticket for many.
        self._kicks: set[NodeId] = set()  # That were typed, whether or not they are durable yet.

    def wants_in(self, host: "Host") -> bool:
        """Whether it should be one of us by now."""
        return host.name in self._invited and not host.is_gone and host.id not in self.world.kicked

    # Coming

    def found(self) -> None:
        """The first machine begins; all but the latecomers follow."""
        world = self.world
        first = world.hosts[0]
        first.start()
        first.carry_out(first.kernel.membership.found(world.authority, first.name, first.now()))
        self._invited.add(first.name)
        early = world.hosts[1 : len(world.hosts) - world.mood.latecomers]
        spread_us = world.rules.liveness.period_us * 10
        for host in early:
            self._invited.add(host.name)
            world.timeline.after(world.rng.randrange(spread_us), self.come, host)
        for host in world.hosts:
            world.timeline.after(world.rng.randrange(SECOND_US), self._talk, host)
        world.timeline.after(_MIND_US, self._mind)

    def come(self, host: "Host") -> None:
        """A machine is switched on, and somebody has a ticket for it."""
        self._invited.add(host.name)
        if not host.is_up:
            host.start()
        self.invite(host)

    def invite(self, host: "Host", *, uses: int = 0) -> None:
        """Some admin makes a ticket; or there is one for many that may be used up."""
        world = self.world
        if not uses and self._group is not None and world.rng.random() < 0.5:
            self._hand(host, self._group)
            return
        issuer = self._admin()
        if issuer is None:
            return
        uses = uses or world.rng.choice((1, 1, 1, 3, len(world.hosts)))
        role = world.rng.choice(_ROLES)
        secret = world.rng.randbytes(16)
        record, ready = issuer.kernel.membership.make_ticket(
            role, ttl_ms=TTL_MS, uses=uses, secret=secret, now=issuer.now()
        )
        ticket = Ticket(
            mesh=world.mesh_id,
            issuer=Contact(node=issuer.id, addresses=(issuer.address,)),
            others=tuple(
                Contact(node=other.id, addresses=(other.address,)) for other in world.hosts[:2]
            ),
            secret=secret,
            expires_ms=record.expires_ms,
        )
        for checker in world.checkers:
            checker.ticket_made(world, issuer, record)
        if uses > 1:
            self._group = ticket
        issuer.carry_out(ready, partial(self._hand, host, ticket))

    def _hand(self, host: "Host", ticket: Ticket) -> None:
        self.tickets[host.name] = ticket
        host.joining.use(ticket)

    def _admin(self) -> "Host | None":
        able = [
            host
            for host in self.world.hosts
            if host.is_awake
            and self.wants_in(host)
            and host.kernel.roster is not None
            and host.kernel.roster.is_delegate(host.id)
            and not host.kernel.membership.was_revoked
        ]
        return self.world.rng.choice(able) if able else None

    def _mind(self) -> None:
        """Whose machine is not in asks for a ticket: the old one is used up, or the disk is new."""
        self.world.timeline.after(_MIND_US, self._mind)
        for host in self.world.hosts:
            if host.id in self._kicks - self.world.kicked:
                self._throw_out(host)
            if not host.is_awake or not self.wants_in(host) or host.kernel.id is not None:
                continue
            ticket = self.tickets.get(host.name)
            if ticket is None or host.joining.refused:
                self.invite(host)
            elif host.joining.ticket is None:
                host.joining.use(ticket)

    def _talk(self, host: "Host") -> None:
        """Machines are busy, and say so; in a calm mesh less often, so that they can agree."""
        pace = self.world.tick_us // 50_000
        wait_us = self.world.rng.randint(1, 6) * pace * SECOND_US // 2
        self.world.timeline.after(wait_us, self._talk, host)
        if self.world.is_rough and not host.is_gone:
            host.say()

    # Going

    def kick(self) -> None:
        """An admin throws somebody out."""
        if able := self._spare():
            self._throw_out(self.world.rng.choice(able))

    def _throw_out(self, victim: "Host") -> None:
        """And again, until it is durable."""
        world, issuer = self.world, self._admin()
        if issuer is None or issuer is victim:
            return
        self._kicks.add(victim.id)
        try:
            ready = issuer.kernel.membership.kick(victim.id, issuer.now())
        except NotPermitted:
            return  # It was let in by the victim; some other admin will do it.
        world.tell(f"{issuer} kicks {victim}")
        issuer.carry_out(ready, lambda: world.kicked.add(victim.id))

    def is_being_kicked(self, node: NodeId) -> bool:
        """Whether an admin has said so, saved or not."""
        return node in self._kicks

    def leave(self) -> None:
        """Somebody goes, and says so."""
        able = [host for host in self._spare() if host.is_awake and host.kernel.id is not None]
        if not able:
            return
        host = self.world.rng.choice(able)
        self.world.tell(f"{host} leaves")
        host.is_gone = True
        host.joining.give_up()
        host.carry_out(host.kernel.membership.leave(host.now()))
        self.world.timeline.after(SECOND_US, self._gone, host, host.life)

    def _gone(self, host: "Host", life: int) -> None:
        if host.life == life and host.is_awake:
            host.carry_out(host.kernel.membership.gone(host.now()))
            host.crash()

    def _spare(self) -> "list[Host]":
        """Those whose going leaves enough for a mesh."""
        inside = self.world.insiders()
        return inside[1:] if len(inside) > 4 else []
