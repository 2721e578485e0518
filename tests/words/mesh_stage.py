"""Honest members of a mesh with real kernels, and one that says anything, with a valid key.

Lives here: the mesh lane: messages, signed entries, datagrams, greetings, tickets; what every step
must keep to. Never here: the words themselves (`drawing`).
"""

import random

import msgspec

from distributed_grid.agent.peers import peers_of
from distributed_grid.kernel.mesh.coordinates import Coordinate
from distributed_grid.kernel.mesh.events import Heard, LinkUp, MeshReady, Told
from distributed_grid.kernel.mesh.proving import is_fair, judge_proof, make_challenge
from distributed_grid.kernel.mesh.views import everyone
from distributed_grid.model.membership import Chain, Revocation
from distributed_grid.wire.mesh import (
    JUNK,
    Challenge,
    Entry,
    Hello,
    MeshMessage,
    Proof,
    Redeem,
    Renew,
    decode,
    encode,
)
from distributed_grid.wire.mesh_records import (
    NodeLoad,
    NodeProfile,
    Offered,
    Position,
    Reach,
    Verdicts,
)
from tests.unit.mesh.machine_lab import Host, Lab
from tests.words.drawing import ABSENT, Drawer, kind_of
from tests.words.stage import Measured, Watch

VALUES = {
    "profile": NodeProfile,
    "load": NodeLoad,
    "offers": Offered,
    "coordinate": Position,
    "contact": Reach,
    "chain": Chain,
    "verdicts": Verdicts,
    "revoked": Revocation,
}
INSIDE = {("mesh_records.Position", "coordinate"): Coordinate}
HONEST = 3
ACT_S = 3.0
KINDS = {kind.tag: kind for kind in kind_of(MeshMessage).types}
TAGS = (*KINDS,)
ROLES = ("guest", "worker", "member", "admin")
ENTRY, HELLO = kind_of(Entry), kind_of(Hello)


class MeshTalk:
    """One mesh, and who talks there."""

    def __init__(self, seed: int) -> None:
        self.seed, self.role = seed, ROLES[seed % len(ROLES)]
        self.rng = random.Random(f"{seed}/mesh words")
        self.drawer = Drawer(self.rng)
        self.drawer.inside = INSIDE
        self.lab = Lab()
        self.honest = [self.lab.found("one")]
        self.honest += [one.join(self.honest[0]) for one in self.lab.add("two", "three")]
        (self.liar,) = self.lab.add("liar")
        self.liar.join(self.honest[0], self.role)
        self.ticket = self.honest[0].ticket("member")
        self.lab.run(3)
        self.said, self._versions = 0, 100
        self.last: list[str] = []  # What was said, the newest last.
        for host in self.lab.hosts:
            for name, message in host.sent:
                self._learn(name, message)

    def run(self, messages: int) -> None:
        """Words until the end; and what honest members then know of each other."""
        while self.said < messages:
            with Watch(ACT_S):
                self._act()
        self.lab.run(1)
        names = {host.name for host in self.honest}
        for host in self.honest:
            assert {*names} <= host.members, f"{host.name} knows {host.members}"
            assert {*names} - {host.name} <= host.linked | {"liar"}, f"{host.name}: {host.linked}"
            again = host.disk
            msgspec.msgpack.encode(again)
            host.up()  # From what was saved.

    def _learn(self, name: str, message) -> None:
        raw = msgspec.msgpack.decode(msgspec.msgpack.encode(message))
        self.drawer.learn(KINDS[raw["type"]], raw)

    def _act(self) -> None:
        rng = self.rng
        host = rng.choice(self.honest)
        at = rng.random()
        if at < 0.02:
            self.lab.run(rng.choice((0.05, 0.5)))
        elif at < 0.03:
            self.lab.pass_ms(rng.choice((1_000, 60_000)))
        elif at < 0.10:
            self._cast(host)
        elif at < 0.14:
            self._greet(host)
        else:
            self._say(host)
        if rng.random() < 0.05:
            self._look(host)
        self._call(host)

    def _call(self, host: Host) -> None:
        """It was hung up on: it calls again, in another life if need be."""
        for _ in range(2):
            if self.lab.is_linked(self.liar, host):
                return
            self.lab.dial(self.liar, host.id)
            if not self.lab.is_linked(self.liar, host):
                self.liar.down()
                self.liar.up()

    def _say(self, host: Host) -> None:
        message = self._message(host)
        self._told(message)
        match message:
            case Challenge():
                is_fair(message)
            case Proof():
                self._judge(message)
            case Redeem():
                asked = self._nearly(message, host)
                answer, *_ = self._timed(host.mesh.membership.redeem, self.liar.id, asked, host.now)
                self._encoded(answer)
            case Renew():
                self._encoded(
                    self._timed(
                        host.mesh.membership.renewing.renew, self.liar.id, message, host.now
                    )
                )
            case Hello():
                pass
            case _:
                known = Lab._verified(host, message)
                self._step(host, Told(now=host.now, peer=self.liar.id, message=known))
        self.said += 1

    def _nearly(self, message: Redeem, host: Host) -> Redeem:
        """Sometimes with a real ticket."""
        if self.rng.random() < 0.5:
            return message
        real = self.liar.redeem_of(self.ticket, self.honest[0])
        return msgspec.structs.replace(real, name=message.name, node=message.node)

    def _judge(self, proof: Proof) -> None:
        asked = make_challenge(1, b"s" * 32, cores=2, memory_bytes=1 << 20)
        self._timed(
            judge_proof, asked, proof, sent_us=1, received_us=2_000_000, chance=self.rng.randrange
        )

    def _cast(self, host: Host) -> None:
        rng = self.rng
        body = rng.randbytes(rng.choice((0, 1, 9, 22, 40, 300)))
        if rng.random() < 0.7:
            body = bytes((rng.randrange(1, 3), rng.randrange(6))) + body
        self._told(body)
        self._step(host, Heard(now=host.now, peer=self.liar.id, datagram=body))
        self.said += 1

    def _greet(self, host: Host) -> None:
        raw = msgspec.msgpack.decode(msgspec.msgpack.encode(self.liar.mesh.hello(host.now)))
        self.drawer.wild = self.rng.choice((0.05, 0.2, 1.0))
        hello = self._drawn(KINDS["hello"], raw)
        if hello is None:
            return
        self._told(hello)
        refused = self._timed(host.mesh.greet, self.liar.id, hello, host.now)
        if refused is not None:
            self._encoded(refused)
        elif self.rng.random() < 0.3:
            self._step(host, LinkUp(now=host.now, peer=self.liar.id, hello=hello))
        self.said += 1

    def _message(self, host: Host):
        while True:
            tag = self.rng.choice(TAGS) if self.rng.random() < 0.4 else "delta"
            if tag == "goodbye" and self.rng.random() < 0.8:
                continue
            self.drawer.wild = self.rng.choice((0.05, 0.2, 1.0))
            found = self._delta(host) if tag == "delta" else self._drawn(KINDS[tag])
            if found is not None:
                return found

    def _delta(self, host: Host):
        rng = self.rng
        entries = [self._entry(host) for _ in range(rng.choice((1, 1, 2, 5)))]
        return self._decoded({"type": "delta", "number": rng.randrange(5), "entries": entries})

    def _entry(self, host: Host) -> list:
        """Signed by the liar, mostly about itself."""
        rng, drawer = self.rng, self.drawer
        raw = drawer.draw(ENTRY)
        if rng.random() < 0.9:
            raw[0] = self.liar.id
        if rng.random() < 0.9 and host.mesh.replica is not None:  # As news would be.
            self._versions += 1
            raw[1] = host.mesh.replica.generation_of(self.liar.id) + (rng.random() < 0.05)
            raw[3] = self._versions if rng.random() < 0.97 else raw[3]
        if (kind := VALUES.get(raw[2])) is not None and rng.random() < 0.9:
            try:
                raw[4] = msgspec.msgpack.encode(drawer.draw(kind_of(kind)))
            except OverflowError:
                raw[4] = b""
        try:
            entry = msgspec.convert(raw, Entry)
            signed = entry.signed_bytes(self.honest[0].mesh.id)
        except (msgspec.ValidationError, OverflowError):
            return raw
        raw[5] = self.liar.key.sign(signed)
        return raw

    def _drawn(self, kind, like=ABSENT):
        return self._decoded(self.drawer.draw(kind, "", like))

    @staticmethod
    def _decoded(raw):
        try:
            return decode(msgspec.msgpack.encode(raw))
        except (*JUNK, OverflowError):
            return None

    def _told(self, what) -> None:
        self.last.append(f"{what}"[:1_500])
        del self.last[:-6]

    # What must hold

    def _timed(self, call, *arguments, **named):
        with Measured(f"{call}"):
            return call(*arguments, **named)

    def _step(self, host: Host, event) -> None:
        ready = self._timed(host.mesh.step, event)
        self._check(ready)
        host.lab.carry(host, ready)
        host.lab._pump()

    def _check(self, ready: MeshReady) -> None:
        for _, message in ready.messages:
            self._encoded(message)
        for contact, message in ready.ask:
            msgspec.msgpack.encode(contact)
            self._encoded(message)
        for one in ready.happened:
            msgspec.json.encode(one)
        for value in ready.save.values():
            assert value is None or isinstance(value, bytes)

    @staticmethod
    def _encoded(message) -> None:
        if not isinstance(message, msgspec.Struct) or type(message).__name__ == "Forward":
            return
        assert decode(encode(message)) == message, "it is not what was said"

    def _look(self, host: Host) -> None:
        """What people and jobs make of it."""
        for one in self._timed(everyone, host.mesh, host.now):
            msgspec.json.encode(one)
        peers, own = self._timed(peers_of, host.mesh, host.now)
        msgspec.json.encode([*peers.values(), own])
