"""A machine with the real kernel on it: what an agent, a transport and a disk would do around it.

Lives here: carrying out what the kernel wants, in order; lives, pauses, clocks. Never here: the way
between machines (`network`), when something fails (`faults`), what is right (`checkers`).
Invariant: nothing of a step leaves the machine before its save is on disk; entries reach the kernel
only when their signatures hold.
"""

import random
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec

from distributed_grid.kernel.mesh.events import (
    DialFailed,
    Heard,
    LinkDown,
    LinkUp,
    MeshEvent,
    MeshReady,
    Now,
    Publish,
    Tick,
    Told,
)
from distributed_grid.kernel.mesh.machine import Mesh
from distributed_grid.kernel.mesh.rules import MeshRules, Start
from distributed_grid.model.ids import NodeId
from distributed_grid.model.membership import Contact
from distributed_grid.sim.keys import Key
from distributed_grid.sim.mesh.clocks import BUILD_MS, Clock
from distributed_grid.sim.mesh.connection import Connection
from distributed_grid.sim.mesh.disk import Disk
from distributed_grid.sim.mesh.joining import Joining
from distributed_grid.wire.mesh import Delta, Entry, Hello, MeshMessage, Refused, Renew, Renewed
from distributed_grid.wire.mesh_records import NodeLoad, NodeProfile, Reach

if TYPE_CHECKING:
    from distributed_grid.sim.mesh.world import World

BUFFERED: Final = 20  # Datagrams that wait for a machine that sleeps: a socket's buffer.
_NOTHING: Final = MeshReady()
_encode = msgspec.msgpack.Encoder().encode


class Host:
    """One machine."""

    def __init__(self, world: "World", name: str, key: Key, *, machine: str = "") -> None:
        self.world = world
        self.name = name
        self.key = key
        self.id = NodeId(key.public)
        self.machine = machine or f"machine of {name}"
        self.address = f"{name}:1"
        self.rules: MeshRules = world.rules
        self.is_hidden = False  # Nobody can dial it; it dials.
        self.clock = Clock()
        self.disk = Disk()
        self.mesh: Mesh | None = None
        self.started_us = 0
        self.life = 0  # Counts starts; an effect of an earlier one is void.
        self.is_paused = False
        self.woke_us: int | None = None  # When it last woke up in this life.
        self.is_gone = False  # For good: it left, or was stopped for the rest of the run.
        self.links: dict[NodeId, Connection] = {}
        self.load = 0  # What it last said about itself: a number that only grows.
        self.joining = Joining(self)
        self._asleep: list[Callable[[], None]] = []
        self._datagrams: deque[tuple[NodeId, bytes]] = deque(maxlen=BUFFERED)
        self._held: deque[tuple[MeshReady, Callable[[], None] | None]] = deque()

    def __repr__(self) -> str:
        return self.name

    @property
    def is_up(self) -> bool:
        """Whether there is an agent, awake or not."""
        return self.mesh is not None

    @property
    def is_awake(self) -> bool:
        """Whether it would answer."""
        return self.mesh is not None and not self.is_paused

    @property
    def kernel(self) -> Mesh:
        """Of a machine that is up."""
        assert self.mesh is not None, f"{self.name} is down"
        return self.mesh

    def now(self) -> Now:
        """By its own clocks."""
        return self.clock.now(self.world.timeline.now_us)

    # Lives

    def start(self) -> None:
        """A new life, from what is on disk."""
        self.life += 1
        self.started_us = self.world.timeline.now_us
        self.disk.open()
        rng = random.Random(f"{self.world.mood.seed}/{self.name}/{self.life}")
        self.mesh = Mesh(
            me=self.id,
            signer=self.key,
            verify=self.world.keys.verify,
            chance=lambda below: int(rng.random() * below),
            rules=self.rules,
            start=Start(
                nonce=f"{self.name}/{self.life}",
                machine=self.machine,
                now=self.now(),
                build_ms=BUILD_MS,
            ),
            memory=dict(self.disk.kept),
        )
        if self is self.world.hosts[0]:
            self.mesh.membership.hold_authority(self.world.authority)
        self.world.network.reconsider()
        self.describe()
        self.world.timeline.after(rng.randrange(self.world.tick_us), self._tick, self.life)

    def crash(self) -> None:
        """The agent is gone, and with it whatever was not saved. Nobody is told."""
        self.mesh = None
        self.life += 1
        self.is_paused = False
        self.woke_us = None
        self.links.clear()
        self._asleep.clear()
        self._datagrams.clear()
        self._held.clear()
        self.world.network.reconsider()
        for checker in self.world.checkers:
            checker.crashed(self.world, self)

    def pause(self) -> None:
        """The lid is closed."""
        self.is_paused = True
        self.world.network.reconsider()

    def wake(self, *, is_clock_first: bool | None = None) -> None:
        """Go on: with the clock, or with what came meanwhile, whichever comes first."""
        if not self.is_paused:
            return
        self.is_paused = False
        self.woke_us = self.world.timeline.now_us
        self.world.network.reconsider()
        if is_clock_first is None:
            is_clock_first = self.world.rng.random() < 0.5
        if is_clock_first:
            self.step(Tick(now=self.now()))
        waiting, self._asleep = self._asleep, []
        datagrams = list(self._datagrams)
        self._datagrams.clear()
        for what in waiting:
            what()
        for peer, datagram in datagrams:
            self.heard(peer, datagram)

    def _tick(self, life: int) -> None:
        if self.life != life:
            return
        if not self.is_paused:
            self.step(Tick(now=self.now()))
        self.world.timeline.after(self.world.tick_us, self._tick, life)

    # What it says about itself

    def describe(self) -> None:
        """What every agent says when it starts."""
        addresses = () if self.is_hidden else (self.address,)
        reach = Reach(
            contact=Contact(node=self.id, addresses=addresses),
            machine=self.machine,
            nonce=self.kernel.start.nonce,
        )
        profile = NodeProfile(node_class="desktop", version="0.3.0", cores=4)
        self.step(
            Publish(now=self.now(), values={"contact": _encode(reach), "profile": _encode(profile)})
        )
        self.say()

    def say(self) -> None:
        """Something new about itself, greater than all before."""
        if not self.is_awake:
            return
        self.load = self.world.next_number()
        load = NodeLoad(cpu_milli_free=self.load, memory_bytes_free=0)
        self.step(Publish(now=self.now(), values={"load": _encode(load)}))

    # Events

    def step(self, event: MeshEvent) -> None:
        """Tell the kernel, and do what it wants."""
        mesh = self.mesh
        if mesh is None:
            return
        ready = mesh.step(event)
        if ready != _NOTHING:
            self.carry_out(ready)

    def carry_out(self, ready: MeshReady, then: Callable[[], None] | None = None) -> None:
        """Save first. A full disk holds back everything but heartbeats, which promise nothing."""
        if ready.save and self.world.faults.dies_while_saving(self, ready.save):
            return
        if self._held or (ready.save and self.disk.is_full):
            self._cast(ready)
            ready.datagrams = []
            self._held.append((ready, then))
            return
        if ready.save:
            self.disk.save(ready.save)
            if self.world.faults.dies_after_saving(self):
                return
        self._cast(ready)
        self._send(ready)
        self._happened(ready)
        if then is not None:
            then()

    def _send(self, ready: MeshReady) -> None:
        network = self.world.network
        for peer, message in ready.messages:
            if connection := self.links.get(peer):
                if isinstance(message, Delta):
                    for checker in self.world.checkers:
                        checker.said(self.world, self, message)
                network.send(connection, self, message)
        for contact in ready.dial:
            network.dial(self, contact)
        for contact, renew in ready.ask:
            network.ask(self, contact, renew)
        for peer, why in ready.hang_up:
            if connection := self.links.get(peer):
                connection.hang_up(self, why)

    def room_again(self) -> None:
        """The disk is no longer full."""
        self.disk.is_full = False
        held, self._held = self._held, deque()
        life = self.life
        for ready, then in held:
            if self.life == life:
                self.carry_out(ready, then)

    def _cast(self, ready: MeshReady) -> None:
        cast = self.world.network.cast
        for peer, datagram in ready.datagrams:
            if connection := self.links.get(peer):
                cast(connection, self, datagram)

    def _happened(self, ready: MeshReady) -> None:
        for one in ready.happened:
            self.world.happened(self, one)

    def _awake(self, what: Callable[..., None], *args: Any) -> bool:
        """Now, or when it wakes up; whether it is now."""
        if self.is_paused:
            self._asleep.append(partial(what, *args))
        return not self.is_paused

    def heard(self, peer: NodeId, datagram: bytes) -> None:
        """A datagram came."""
        if self.is_paused:
            self._datagrams.append((peer, datagram))
        else:
            self.step(Heard(now=self.now(), peer=peer, datagram=datagram))

    def told(self, peer: NodeId, message: MeshMessage) -> None:
        """A message came. What is not signed by whom it is about stays outside."""
        mesh = self.kernel
        if isinstance(message, Delta):
            message = Delta(number=message.number, entries=self._verified(mesh, message))
        if isinstance(message, Renew):
            answer = mesh.membership.renewing.renew(peer, message, self.now())
            if connection := self.links.get(peer):
                self.world.network.send(connection, self, answer)
            return
        self.step(Told(now=self.now(), peer=peer, message=message))

    def _verified(self, mesh: Mesh, delta: Delta) -> tuple[Entry, ...]:
        """What is here already is genuine, and tells what the neighbour has."""
        roster, replica = mesh.roster, mesh.replica
        if roster is None or replica is None:
            return ()
        return tuple(
            each
            for each in delta.entries
            if replica.has(each) or (replica.is_news(each) and roster.verify(each))
        )

    def renewed(self, life: int, by: NodeId, answer: Renewed | Refused) -> None:
        """What a delegate said that was asked on a connection of its own."""
        if self.life == life and self.is_awake and isinstance(answer, Renewed):
            ready = MeshReady()
            self.kernel.membership.renewing.take(answer.chain, self.now(), ready, by=by)
            self.carry_out(ready)

    # Links

    def hello(self) -> Hello:
        """How it greets."""
        return self.kernel.hello(self.now())

    def greet(self, peer: NodeId, hello: Hello) -> Refused | None:
        """How it takes a greeting."""
        refusal = self.kernel.greet(peer, hello, self.now())
        for checker in self.world.checkers:
            checker.greeted(self.world, self, peer, hello, refusal)
        return refusal

    def link_up(self, connection: Connection, peer: NodeId, hello: Hello) -> None:
        """Both greetings were good."""
        self.links[peer] = connection
        self.step(LinkUp(now=self.now(), peer=peer, hello=hello))

    def link_down(self, connection: Connection, why: str) -> None:
        """A connection is gone; the one in use, or one that was replaced already."""
        peer = connection.other(self).id
        if self.links.get(peer) is connection and self._awake(self.link_down, connection, why):
            del self.links[peer]
            self.step(LinkDown(now=self.now(), peer=peer, why=why))

    def dial_failed(self, life: int, peer: NodeId, why: str, is_refused: bool) -> None:
        """No link to be had."""
        if self.life == life and self._awake(self.dial_failed, life, peer, why, is_refused):
            self.step(DialFailed(now=self.now(), peer=peer, why=why, is_refused=is_refused))

    def dial_settled(self, life: int, peer: NodeId) -> None:
        """The one that was dialled holds a connection with us already."""
        if self.life == life and self._awake(self.dial_settled, life, peer):
            connection = self.links.get(peer)
            if connection is None:
                self.step(DialFailed(now=self.now(), peer=peer, why="crossed"))
