"""Some mesh machines in one room: keys without cryptography, a network without delay, one clock.

Lives here: hosts, the links between them, time that passes when told to. Never here: expectations.
Invariant: everything is carried out in the order of `MeshReady`, and no chance is left to chance.
"""

import random
from collections import deque
from typing import Any

import msgspec

from distributed_grid.kernel.mesh.events import (
    DialFailed,
    Heard,
    LinkDown,
    LinkUp,
    Measured,
    MeshEvent,
    MeshReady,
    Now,
    Publish,
    Tick,
    Told,
)
from distributed_grid.kernel.mesh.machine import Mesh
from distributed_grid.kernel.mesh.membership import Forward
from distributed_grid.kernel.mesh.rules import MeshRules, Start
from distributed_grid.kernel.mesh.tickets import mac
from distributed_grid.kernel.mesh.views import everyone, view
from distributed_grid.kernel.ready import Happened
from distributed_grid.model.ids import NodeId
from distributed_grid.model.membership import Contact, Role, TicketRecord
from distributed_grid.sim.keys import Keys
from distributed_grid.wire.mesh import Delta, Entry, MeshMessage, Redeem, Refused, Renew, Welcome
from distributed_grid.wire.mesh_api import NodeView
from distributed_grid.wire.mesh_records import NodeLoad, NodeProfile

WALL_MS = 1_800_000_000_000
DAY_MS = 86_400_000
TICK_US = 50_000


class Host:
    """One machine: a disk, and an agent that may be down."""

    def __init__(self, lab: "Lab", name: str, *, machine: str = "", **start: Any) -> None:
        self.lab, self.name, self.machine = lab, name, machine or f"machine of {name}"
        self.key = lab.keys.make(name)
        self.id = NodeId(self.key.public)
        self.disk: dict[str, bytes] = {}
        self.events: list[Happened] = []
        self.sent: list[tuple[str, MeshMessage]] = []  # Names of receivers, with the messages.
        self.steps: list[MeshReady] = []
        self.rules: MeshRules = start.pop("rules", MeshRules())
        self._start = start
        self.up()

    def up(self) -> "Host":
        """A start, from what is on the disk."""
        self.lab.starts += 1
        start: dict[str, Any] = {"nonce": f"start {self.lab.starts}", "machine": self.machine}
        dice = random.Random(self.lab.starts)
        self.mesh = Mesh(
            me=self.id,
            signer=self.key,
            verify=self.lab.keys.verify,
            chance=dice.randrange,
            rules=self.rules,
            start=Start(**start | {"now": self.now} | self._start),
            memory=dict(self.disk),
        )
        self.is_up = True
        contact = Contact(node=self.id, addresses=(f"{self.name}:1",))
        profile = NodeProfile(node_class="workstation", version="1", cores=4, cpu_milli=4_000)
        load = NodeLoad(cpu_milli_free=1_000, memory_bytes_free=2)
        self.say(
            contact=self.mesh.reach_value(contact),
            profile=msgspec.msgpack.encode(profile),
            load=msgspec.msgpack.encode(load),
        )
        return self

    def down(self) -> None:
        """The agent is killed; its links are gone on both ends."""
        self.is_up = False
        for peer in [other for other in self.lab.hosts if self.lab.is_linked(self, other)]:
            self.lab.cut(self, peer, "killed")

    @property
    def now(self) -> Now:
        return self.lab.now

    @property
    def linked(self) -> set[str]:
        return {self.lab.name_of(peer) for peer in self.mesh.links}

    @property
    def members(self) -> set[str]:
        assert self.mesh.roster is not None
        return {self.lab.name_of(node) for node in self.mesh.roster.standings}

    def say(self, **values: bytes) -> MeshReady:
        return self.step(Publish(now=self.now, values=values))  # type: ignore[arg-type]

    def step(self, event: MeshEvent) -> MeshReady:
        ready = self.mesh.step(event)
        self.lab.carry(self, ready)
        return ready

    def tick(self) -> MeshReady:
        return self.step(Tick(now=self.now))

    def told(self, peer: "Host", message: MeshMessage) -> MeshReady:
        return self.step(Told(now=self.now, peer=peer.id, message=message))

    def do(self, ready: MeshReady) -> MeshReady:
        assert isinstance(ready, MeshReady), ready
        self.lab.carry(self, ready)
        return ready

    def names(self, *events: str) -> list[tuple[str, str]]:
        """What happened, of these kinds: event and name of the node."""
        return [
            (each.name, self.lab.name_of(each.fields["node"]))
            for each in self.events
            if each.name in events
        ]

    def fields(self, event: str) -> list[dict[str, Any]]:
        return [each.fields for each in self.events if each.name == event]

    def sees(self, other: "Host") -> NodeView:
        return view(self.mesh, other.id, self.now)

    def views(self) -> tuple[NodeView, ...]:
        return everyone(self.mesh, self.now)

    # Joining

    def ticket(self, role: Role = "member", *, ttl_ms: int = DAY_MS, uses: int = 9) -> TicketRecord:
        self.lab.secrets += 1
        record, ready = self.mesh.membership.make_ticket(
            role, ttl_ms=ttl_ms, uses=uses, secret=b"%016d" % self.lab.secrets, now=self.now
        )
        self.do(ready)
        return record

    def redeem_of(self, record: TicketRecord, issuer: "Host", **changes: Any) -> Redeem:
        """What this host would say to show that it holds a ticket."""
        assert issuer.mesh.id is not None
        asked = Redeem(
            mesh=issuer.mesh.id,
            ticket=record.id,
            issuer=issuer.id,
            node=self.id,
            name=self.name,
            mac=mac(record.secret, issuer.mesh.id, issuer.id, self.id),
        )
        return msgspec.structs.replace(asked, **changes)

    def ask(self, at: "Host", asked: Redeem) -> Welcome | Refused | Forward:
        """Somebody is asked; what it has to save is saved before the answer."""
        answer, ready = at.mesh.membership.redeem(self.id, asked, at.now)
        at.do(ready)
        return answer

    def join(self, issuer: "Host", role: Role = "member") -> "Host":
        answer = self.ask(issuer, self.redeem_of(issuer.ticket(role), issuer))
        assert isinstance(answer, Welcome), answer
        assert issuer.mesh.id is not None
        self.do(self.mesh.membership.adopt(issuer.mesh.id, answer, self.now))  # type: ignore[arg-type]
        return self


class Lab:
    """All of them, and what lies between."""

    def __init__(self) -> None:
        self.keys = Keys("lab")
        self.mono_us = 1_000_000
        self.wall_ms = WALL_MS
        self.hosts: list[Host] = []
        self.starts = self.secrets = 0
        self.refusals: list[tuple[str, str, str]] = []  # Who refused whom, and why.
        self.unreachable: set[frozenset[str]] = set()
        self._links: set[tuple[int, int]] = set()
        self._inbox: deque[tuple[Host, Host, bytes | MeshMessage]] = deque()

    @property
    def now(self) -> Now:
        return Now(self.wall_ms, self.mono_us)

    def add(self, *names: str, **start: Any) -> list[Host]:
        made = [Host(self, name, **start) for name in names]
        self.hosts += made
        return made

    def found(self, name: str, **start: Any) -> Host:
        """A mesh of one."""
        (host,) = self.add(name, **start)
        authority = self.keys.make(f"authority of {name}")
        host.do(host.mesh.membership.found(authority, name, host.now))
        return host

    def mesh_of(self, *names: str, **start: Any) -> list[Host]:
        """The first founds it, the others join with its tickets; all know each other."""
        hosts = [self.found(names[0], **start)]
        hosts += [each.join(hosts[0]) for each in self.add(*names[1:], **start)]
        self.run(3)
        return hosts

    def host(self, node: NodeId) -> Host | None:
        """The one that is up, if two have this key: the later one."""
        return next((each for each in reversed(self.hosts) if each.id == node and each.is_up), None)

    def name_of(self, node: NodeId) -> str:
        return next((each.name for each in self.hosts if each.id == node), node[:8])

    # Time

    def pass_ms(self, elapsed_ms: int) -> None:
        """Time goes by and nobody does anything: all of them sleep."""
        self.mono_us += elapsed_ms * 1_000
        self.wall_ms += elapsed_ms

    def run(self, seconds: float) -> None:
        end_us = self.mono_us + int(seconds * 1_000_000)
        self._pump()
        while self.mono_us < end_us:
            self.pass_ms(TICK_US // 1_000)
            for host in list(self.hosts):
                if host.is_up:
                    host.tick()
            self._pump()

    # Carrying out

    def carry(self, host: Host, ready: MeshReady) -> None:
        host.steps.append(ready)
        for key, value in ready.save.items():
            host.disk[key] = value or b""
        for contact in ready.dial:
            self.dial(host, contact.node)
        for peer, message in ready.messages:
            self._send(host, peer, message)
        for peer, datagram in ready.datagrams:
            self._send(host, peer, datagram)
        for contact, renew in ready.ask:
            self._ask(host, contact.node, renew)
        for peer, why in ready.hang_up:
            other = self.host(peer)
            if other is not None and self.is_linked(host, other):
                self._pump()
                self.cut(host, other, why)
        host.events += ready.happened

    def _send(self, host: Host, peer: NodeId, what: bytes | MeshMessage) -> None:
        other = self._linked(host, peer)
        if other is None:
            return
        if not isinstance(what, bytes):
            host.sent.append((other.name, what))
        if frozenset((host.name, other.name)) not in self.unreachable:
            self._inbox.append((other, host, what))

    def _linked(self, host: Host, peer: NodeId) -> Host | None:
        for other in self.hosts:
            if other.id == peer and self.is_linked(host, other):
                return other
        return None

    def _ask(self, host: Host, peer: NodeId, renew: Renew) -> None:
        other = self.host(peer)
        if other is None:
            return
        host.sent.append((other.name, renew))
        self._answer(other, host, renew, is_linked=False)

    def _answer(self, at: Host, asker: Host, renew: Renew, *, is_linked: bool = True) -> None:
        answer = at.mesh.membership.renewing.renew(asker.id, renew, at.now)
        if isinstance(answer, Refused):
            self.refusals.append((at.name, asker.name, answer.reason))
        elif is_linked:
            self._send(at, asker.id, answer)
        else:
            ready = MeshReady()
            asker.mesh.membership.renewing.take(answer.chain, asker.now, ready, by=at.id)
            asker.do(ready)

    def _pump(self) -> None:
        while self._inbox:
            to, source, what = self._inbox.popleft()
            if not to.is_up or not self.is_linked(to, source):
                continue
            if isinstance(what, bytes):
                to.step(Heard(now=to.now, peer=source.id, datagram=what))
            elif isinstance(what, Renew):
                self._answer(to, source, what)
            else:
                to.told(source, self._verified(to, what))

    @staticmethod
    def _verified(to: Host, message: MeshMessage) -> MeshMessage:
        if not isinstance(message, Delta) or to.mesh.roster is None:
            return message
        wanted = to.mesh.wanted(message.entries)
        good: tuple[Entry, ...] = tuple(each for each in wanted if to.mesh.roster.verify(each))
        return msgspec.structs.replace(message, entries=good)

    # Links

    def is_linked(self, one: Host, other: Host) -> bool:
        return (id(one), id(other)) in self._links

    def dial(self, host: Host, peer: NodeId) -> None:
        other = self.host(peer)
        if other is None or frozenset((host.name, other.name)) in self.unreachable:
            host.step(DialFailed(now=host.now, peer=peer, why="nobody is there"))
            return
        if self.is_linked(host, other):
            return
        hellos = host.mesh.hello(host.now), other.mesh.hello(other.now)
        for at, asker, hello in ((other, host, hellos[0]), (host, other, hellos[1])):
            refused = at.mesh.greet(asker.id, hello, at.now)
            if refused is not None:
                self.refusals.append((at.name, asker.name, refused.reason))
                host.step(DialFailed(now=host.now, peer=peer, why=refused.reason, is_refused=True))
                return
        for former in self.hosts:  # Another start under the same key has taken its place.
            if former.id == host.id and former is not host and self.is_linked(former, other):
                self.cut(former, other, "twice")
        self._links |= {(id(host), id(other)), (id(other), id(host))}
        host.step(LinkUp(now=host.now, peer=other.id, hello=hellos[1]))
        other.step(LinkUp(now=other.now, peer=host.id, hello=hellos[0]))
        for at, towards in ((host, other), (other, host)):
            address = f"{towards.name}:1"
            at.step(Measured(now=at.now, peer=towards.id, path="direct", address=address))

    def cut(self, one: Host, other: Host, why: str) -> None:
        self._links -= {(id(one), id(other)), (id(other), id(one))}
        for at, towards in ((one, other), (other, one)):
            if at.is_up:
                at.step(LinkDown(now=at.now, peer=towards.id, why=why))
