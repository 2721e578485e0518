"""The mesh of one node, composed: told what happened, answers what to do.

Lives here: `Mesh.step(event) -> MeshReady`, and the questions an agent asks. Never here: I/O,
clocks, dice; letting in and throwing out (`membership`), how others see a node (`views`).
Invariant: nothing is sent to, or taken from, a node whose certificate does not hold.
"""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import msgspec

from distributed_grid.kernel.mesh.bandwidth import Bandwidth
from distributed_grid.kernel.mesh.clones import Clones
from distributed_grid.kernel.mesh.dialling import Dialling
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
from distributed_grid.kernel.mesh.faults import Faults
from distributed_grid.kernel.mesh.liveness import Liveness
from distributed_grid.kernel.mesh.membership import Membership
from distributed_grid.kernel.mesh.neighbourhood import Neighbourhood
from distributed_grid.kernel.mesh.news import News
from distributed_grid.kernel.mesh.positioning import Positioning
from distributed_grid.kernel.mesh.replica import Gossip, Replica
from distributed_grid.kernel.mesh.replica_links import size_bytes
from distributed_grid.kernel.mesh.roster import Roster
from distributed_grid.kernel.mesh.rules import RESTART_MS, Link, MeshRules, Start
from distributed_grid.kernel.mesh.said import Said
from distributed_grid.kernel.mesh.signing import Signer, Verify
from distributed_grid.kernel.mesh.trust import machine_in_mesh, sane_wall_ms
from distributed_grid.kernel.mesh.upkeep import Upkeep
from distributed_grid.kernel.ready import Happened
from distributed_grid.model.ids import NodeId
from distributed_grid.model.membership import Chain, Contact, MeshId
from distributed_grid.wire.mesh import (
    JUNK,
    CloneSeen,
    Delta,
    DeltaTaken,
    Entry,
    Goodbye,
    Have,
    Hello,
    Key,
    MeshMessage,
    Ranges,
    Refused,
    Remember,
    Renewed,
)
from distributed_grid.wire.mesh_records import Reach

# What follows from measuring, and is looked at now and then, not at each word.
MEASURED: Final[frozenset[Key]] = frozenset({"coordinate", "verdicts"})
_TURNED: Final = {"alive": "node.alive", "suspect": "node.suspect", "dead": "node.dead"}


class Mesh:
    """The kernel of one node's part in a mesh."""

    def __init__(
        self,
        *,
        me: NodeId,
        signer: Signer,
        verify: Verify,
        chance: Callable[[int], int],
        rules: MeshRules = MeshRules(),  # noqa: B008 - frozen.
        start: Start,
        memory: Mapping[str, bytes] = MappingProxyType({}),
    ) -> None:
        self.me = me
        self.rules = rules
        self.start = start
        self.signer = signer
        self.verify = verify
        self.chance = chance
        self.links: dict[NodeId, Link] = {}
        self.values: dict[Key, bytes] = {}  # What this node says about itself.
        self.clones = Clones()
        self.quarantined: dict[NodeId, str] = {}  # Why a node is not to be trusted with work.
        self.stopped: dict[NodeId, str] = {}  # Who was told to stop: in which life.
        self.restarting: dict[NodeId, int] = {}  # Who said so: by when it is to be back, in ms.
        self.faults = Faults()
        self.refused_by: dict[NodeId, str] = {}  # Who does not let us in, and why.
        self.positioning = self._new_positioning(start.now)
        self._news = News(self)
        self.replica: Replica | None = None
        self.roster: Roster | None = None
        self.liveness = Liveness(
            me=me, rules=rules.liveness, chance=chance, now_us=start.now.mono_us
        )
        self.dialling = self._new_dialling()
        self.membership = Membership(self, memory)
        self.changed_us: dict[NodeId, int] = {}  # When anything it said was last news.
        self.rounds = 0
        self.turns = 0  # Rises when somebody came, went, died, or said something that counts.
        self._bandwidth = Bandwidth()
        self.neighbourhood = Neighbourhood(self)
        self.upkeep = Upkeep(self, start.now)
        self.said = Said(lambda: self.replica)
        self._handlers: dict[type[MeshEvent], Callable[[Any, MeshReady], None]] = {
            Tick: self.upkeep.tick,
            LinkUp: self._up,
            LinkDown: self._down,
            DialFailed: self._failed,
            Heard: self._heard,
            Told: self._told,
            Publish: self._say,
            Measured: self._measured,
        }
        self.membership.restore(start.now)

    def _new_dialling(self) -> Dialling:
        return Dialling(me=self.me, backoff=self.rules.backoff, chance=self.chance)

    def _new_positioning(self, now: Now) -> Positioning:
        return Positioning(chance=self.chance, now_us=now.mono_us)

    def reset(self, now: Now) -> None:
        """In no mesh any more: what was known of others counts for nothing in the next one."""
        self.replica = self.roster = None
        tables = (
            self.links, self.quarantined, self.refused_by, self.changed_us, self.restarting,
            self.stopped,
        )  # fmt: skip
        for table in tables:
            table.clear()
        self.clones = Clones()
        self.faults = Faults()
        self.dialling = self._new_dialling()
        self.positioning = self._new_positioning(now)
        self._bandwidth = Bandwidth()
        self.neighbourhood = Neighbourhood(self)
        self._news = News(self)
        self.liveness.set_members([], now.mono_us)

    # Questions

    @property
    def is_member(self) -> bool:
        """Whether this node is in a mesh."""
        return self.roster is not None

    @property
    def id(self) -> MeshId | None:
        """Of the mesh."""
        return self.roster.mesh if self.roster else None

    @property
    def machine(self) -> str:
        """The machine's fingerprint, as this mesh and no other sees it."""
        return machine_in_mesh(self.start.machine, self.id) if self.id else ""

    def wall_ms(self, now: Now) -> int:
        """The time by which certificates end: the wall's, unless that cannot be right."""
        if now.wall_ms >= self.start.build_ms:
            return now.wall_ms
        others = [
            link.hello.wall_ms + (now.mono_us - link.since_us) // 1_000
            for link in self.links.values()
            if link.hello.wall_ms
        ]
        return sane_wall_ms(now.wall_ms, self.start.build_ms, others)

    def hello(self, now: Now) -> Hello:
        """How this node greets."""
        return Hello(
            mesh=self.id or MeshId(""),
            chain=self.membership.chain,
            speaks=self.rules.speaks,
            jobs=self.rules.jobs,
            machine=self.machine,
            nonce=self.start.nonce,
            generation=self.replica.generation_of(self.me) if self.replica else 0,
            wall_ms=now.wall_ms,
        )

    def greet(self, peer: NodeId, hello: Hello, now: Now) -> Refused | None:
        """Judge a greeting; both ends do, before there is a link."""
        if self.roster is None:
            return Refused(reason="stranger", detail="this node is in no mesh")
        if not set(hello.speaks) & set(self.rules.speaks):
            return Refused(reason="protocol", detail=f"spoken here: {self.rules.speaks}")
        if peer == self.me:
            return Refused(reason="clone", detail="this is our own key")
        if self._has_stopped(peer, hello):
            return Refused(reason="busy", detail="it said goodbye")
        if note := self.faults.note(peer, now.mono_us):
            return Refused(reason="busy", detail=note)
        return self.roster.refusal(peer, hello, self.wall_ms(now))

    def _has_stopped(self, peer: NodeId, hello: Hello) -> bool:
        """Whether it said in this very life that it stops: a link that comes later is none."""
        return bool(hello.nonce) and self.stopped.get(peer) == hello.nonce

    def wanted(self, entries: Sequence[Entry]) -> list[Entry]:
        """Those that would change something: only they have to be verified."""
        if self.replica is None:
            return []
        return [entry for entry in entries if self.replica.is_news(entry)]

    def holds(self, entry: Entry) -> bool:
        """Whether it is here already, byte for byte; worth knowing that a neighbour has it, too."""
        return self.replica is not None and self.replica.has(entry)

    def neighbours(self) -> tuple[NodeId, ...]:
        """Whom this node wants to be linked with, the most important first."""
        return self.neighbourhood.place().neighbours

    def present(self) -> list[NodeId]:
        """Who belongs and has not said goodbye, this node included."""
        standings = self.roster.standings if self.roster else ()
        return [node for node in sorted(standings) if not self.has_left(node)]

    # Events

    def step(self, event: MeshEvent) -> MeshReady:
        """Told what happened, answers what to do."""
        ready = MeshReady()
        if isinstance(event, Publish):
            self.values.update(event.values)
        if self.roster is None:
            return ready
        self.membership.save_first(ready)
        self._handlers[type(event)](event, ready)
        for peer, message in ready.messages:
            if isinstance(message, Delta):
                self._bandwidth.sent(peer, sum(map(size_bytes, message.entries)), event.now.mono_us)
        return ready

    def _say(self, event: Publish, _: MeshReady) -> None:
        self.publish(event.values, event.now)

    def _failed(self, event: DialFailed, ready: MeshReady) -> None:
        if not event.is_refused:
            self.dialling.failed(event.peer, event.now.mono_us)
            return
        self.dialling.refused(event.peer, event.now.mono_us)
        if self.refused_by.get(event.peer) != event.why:
            self.refused_by[event.peer] = event.why
            self.tell(ready, "mesh.refused", event.peer, event.now, reason=event.why)

    def blame(self, peer: NodeId, kind: str, why: str, now: Now, ready: MeshReady) -> None:
        """What a peer said could not be handled: it has no link for a while."""
        fault = self.faults.blame(peer, kind, now.mono_us)
        told = {"kind": kind, "why": why, "count": fault.count}
        refused_ms = (fault.until_us - now.mono_us) // 1_000
        self.tell(ready, "mesh.fault", peer, now, **told, refused_ms=refused_ms)

    def publish(self, values: dict[Key, bytes], now: Now) -> None:
        """Say this to the others."""
        assert self.replica is not None, "only members publish"
        new: list[Key] = []
        for key, value in values.items():
            said = self._stamped(value) if key == "contact" else value
            if self.replica.publish(key, said, now.mono_us) is not None:
                new.append(key)
        if new:
            self.turns += not MEASURED.issuperset(new)
            self.neighbourhood.moved(self.me)

    def _stamped(self, value: bytes) -> bytes:
        """With the start that says so: said again in another mesh, it is another machine's."""
        try:
            reach = msgspec.msgpack.decode(value, type=Reach)
        except JUNK:
            return value
        stamped = Reach(contact=reach.contact, machine=self.machine, nonce=self.start.nonce)
        return msgspec.msgpack.encode(stamped)

    def _up(self, event: LinkUp, ready: MeshReady) -> None:
        peer, hello, now = event.peer, event.hello, event.now
        assert self.roster is not None and self.replica is not None, "only members link"  # noqa: PT018
        if not self._counts(peer, hello, now):
            ready.hang_up.append((peer, "stranger"))
            return
        if self._has_stopped(peer, hello):
            ready.hang_up.append((peer, "leaving"))
            return
        self.turns += 1
        self.links[peer] = Link(hello=hello, since_us=now.mono_us, wanted_us=now.mono_us)
        self.dialling.up(peer)
        self.refused_by.pop(peer, None)
        self.restarting.pop(peer, None)
        if self.clones.meet(peer, hello.machine, hello.nonce, hello.generation):
            self._news.came_back(peer, now, ready)
        self.roster.see([peer], self.wall_ms(now))
        if not self.liveness.has_member(peer):
            self.refresh(now)
        self._news.seen(peer, now, ready)
        self.liveness.speaks(peer, max(set(hello.speaks) & set(self.rules.speaks)))
        self.liveness.spoke(peer, now.mono_us)
        self.verdicts(now, ready)  # At once: it may be told next that it leaves.
        for message in self.replica.link_up(peer, now.mono_us):
            self._remind(peer, message, ready)

    def _counts(self, peer: NodeId, hello: Hello, now: Now) -> bool:
        """Whether it is one of us; its chain is learnt, unless a later one of it is known."""
        assert self.roster is not None and self.replica is not None, "only members link"  # noqa: PT018
        wall_ms = self.wall_ms(now)
        is_old = hello.generation < self.replica.generation_of(peer)
        if is_old and self.roster.is_member(peer):
            return self.roster.refusal(peer, hello, wall_ms) is None
        return self.roster.take(peer, hello.chain, wall_ms) is not None

    def _remind(self, peer: NodeId, message: MeshMessage, ready: MeshReady) -> None:
        """A peer that lost its disk learns from us in which life it was."""
        if isinstance(message, Remember):
            incarnation = self.liveness.incarnation_of(peer)
            message = msgspec.structs.replace(message, incarnation=incarnation)
        ready.messages.append((peer, message))

    def _down(self, event: LinkDown, ready: MeshReady) -> None:
        peer, now = event.peer, event.now
        assert self.replica is not None, "only members link"
        link = self.links.pop(peer, None)
        if link is None:
            return
        self.turns += 1
        self.replica.link_down(peer)
        self._bandwidth.forget(peer)
        self.dialling.down(peer, up_us=now.mono_us - link.since_us, now_us=now.mono_us)
        if link.path != "none":
            self.tell(
                ready, "node.path_changed", peer, now, path="none", was=link.path, why=event.why
            )

    def _heard(self, event: Heard, ready: MeshReady) -> None:
        peer, now = event.peer, event.now
        if peer not in self.links or self.liveness.is_down(peer):  # Sent before its last word.
            return
        try:
            ready.datagrams += self.liveness.heard(
                peer, event.datagram, now.mono_us, event.waited_us
            )
        except ValueError:
            ready.hang_up.append((peer, "malformed"))
        self.verdicts(now, ready)

    def _told(self, event: Told, ready: MeshReady) -> None:
        peer, message, now = event.peer, event.message, event.now
        assert self.roster is not None and self.replica is not None, "only members talk"  # noqa: PT018
        if peer not in self.links or not self.roster.is_member(peer):
            return
        self.liveness.spoke(peer, now.mono_us)
        self.verdicts(now, ready)
        match message:
            case Delta() | DeltaTaken() | Ranges() | Have() | Remember():
                self._gossip(peer, message, now, ready)
            case Renewed(chain=chain):
                self.membership.renewing.take(chain, now, ready, by=peer)
            case CloneSeen(machine=machine, nonce=nonce):
                if (machine, nonce) != (self.machine, self.start.nonce):
                    self._news.quarantine(self.me, machine, now, ready)
            case Goodbye(reason=reason, is_down=is_down):
                self.turns += 1
                if reason == "restarting":
                    self.restarting[peer] = now.wall_ms + RESTART_MS
                if is_down:
                    self.stopped[peer] = self.links[peer].hello.nonce
                    self.liveness.goes(peer, now.mono_us)
                ready.hang_up.append((peer, reason))
            case _:
                pass  # Not for us: a newer version may say more than we know.

    def _admitted(self, entries: tuple[Entry, ...], now: Now) -> tuple[Entry, ...]:
        """Those of members; a chain first, because it makes its node one, once it was taken."""
        assert self.roster is not None, "only members take"
        wall_ms = self.wall_ms(now)
        coming: set[NodeId] = set()
        admitted = []
        for entry in sorted(entries, key=lambda entry: entry.key != "chain"):
            is_chain = entry.key == "chain"
            if self.holds(entry):
                admitted.append(entry)
            elif self.roster.admits(entry, wall_ms):
                admitted.append(entry)
                coming |= {entry.node} if is_chain else set()
            elif entry.node in coming and not is_chain:
                admitted.append(entry)
        return tuple(admitted)

    def _gossip(self, peer: NodeId, message: Gossip, now: Now, ready: MeshReady) -> None:
        assert self.replica is not None, "only members gossip"
        match message:
            case Delta(entries=entries):
                message = msgspec.structs.replace(message, entries=self._admitted(entries, now))
            case DeltaTaken():
                self._timed(peer, now)
            case Remember(incarnation=incarnation):
                self.liveness.remember(incarnation)
            case _:
                pass
        before = self.replica.generation_of(self.me)
        answers, changed = self.replica.receive(peer, message, now.mono_us)
        ready.messages += [(peer, each) for each in answers]
        self.taken(changed, now, ready)
        if self.replica.generation_of(self.me) != before:
            self.membership.save_generation(ready)

    def taken(self, changed: Sequence[Entry], now: Now, ready: MeshReady) -> None:
        """What is new about others."""
        self.turns += not MEASURED.issuperset(entry.key for entry in changed)
        self._news.taken(changed, now, ready)

    def _timed(self, peer: NodeId, now: Now) -> None:
        found = self._bandwidth.taken(peer, self.liveness.rtt_us(peer), now.mono_us)
        if found is not None:
            self.links[peer].bandwidth_kbps = found

    def _measured(self, event: Measured, ready: MeshReady) -> None:
        link = self.links.get(event.peer)
        if link is None:
            return
        if event.bandwidth_kbps is not None:
            link.bandwidth_kbps = event.bandwidth_kbps
        if (event.path, event.address) != (link.path, link.address):
            change = {"path": event.path, "was": link.path, "address": event.address}
            self.tell(ready, "node.path_changed", event.peer, event.now, **change)
            link.path, link.address = event.path, event.address
            self.turns += 1

    def verdicts(self, now: Now, ready: MeshReady) -> None:
        """Who is found alive, silent or dead since this was last asked."""
        for change in self.liveness.changes():
            self.turns += 1
            self.neighbourhood.look_again()
            if not self.has_left(change.node):
                self.tell(ready, _TURNED[change.health], change.node, now, why=change.why)
            if change.health == "dead" and change.node in self.links:
                ready.hang_up.append((change.node, "silent"))

    # What others said

    def refresh(self, now: Now) -> None:
        """Who is watched follows who belongs."""
        assert self.roster is not None, "only members watch"
        self.turns += 1
        self.neighbourhood.look_again()
        others = [node for node in self.present() if node != self.me]
        watched = None
        if len(others) >= self.rules.liveness.everyone:  # Who watches whom follows from the places.
            watched = self.neighbourhood.place().watched
        self.liveness.set_members(others, now.mono_us, watched)

    def end_quarantines(self, now: Now) -> None:
        """Of whom no second machine was seen for long."""
        self._news.end_quarantines(now)

    def forget(self, node: NodeId) -> None:
        """Nothing is known about it any more."""
        assert self.roster is not None, "only members forget"
        for table in (self.changed_us, self.refused_by, self.restarting, self.stopped):
            table.pop(node, None)
        self.roster.forget(node)
        self.membership.known.discard(node)
        self.dialling.forget(node)
        self.clones.forget(node)
        self.faults.forget(node)
        self._news.forget(node)
        self.positioning.forget(node)

    def has_left(self, node: NodeId) -> bool:
        """Whether it said goodbye."""
        return self.replica is not None and bool(self.replica.value(node, "left"))

    def reach_value(self, contact: Contact) -> bytes:
        """What this node says about how to reach it; `publish` adds which start of it this is."""
        return msgspec.msgpack.encode(Reach(contact=contact))

    def contact(self, node: NodeId) -> Contact | None:
        """How to reach it."""
        if reach := self.said.reach(node):
            return reach.contact if reach.contact.node == node else None
        return self.membership.hints.get(node)

    def name_of(self, node: NodeId) -> str:
        """As people call it."""
        standing = self.roster.standings.get(node) if self.roster else None
        if standing is not None:
            return standing.name
        chain: Chain = self.roster.chains.get(node, ()) if self.roster else ()
        return chain[0].name if chain else node[:8]

    def tell(self, ready: MeshReady, name: str, node: NodeId, now: Now, **fields: object) -> None:
        """Something worth telling."""
        about = {"node": node, "name": self.name_of(node)}
        ready.happened.append(Happened(name=name, at_ms=now.wall_ms, fields={**about, **fields}))
