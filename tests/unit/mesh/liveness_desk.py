"""One machine that watches others, and everything that these say to it.

Lives here: what the tests of one kernel share. Never here: several (`tests.liveness_model`).
"""

from distributed_grid.kernel.mesh.liveness import LAN, Liveness
from distributed_grid.wire import heartbeat as wire
from distributed_grid.wire.heartbeat import Heartbeat
from tests.liveness_model import node

ME, A, B, C, D, E = (node(number) for number in range(6))
TICK_US = 50_000
SECOND = 1_000_000


class Desk:
    """One machine, and everything that others say to it."""

    def __init__(self, *others, rules=LAN, linked=None, chance=lambda top: 0):
        self.now_us = 7 * SECOND
        self.linked = list(others) if linked is None else linked
        self.kernel = Liveness(me=ME, rules=rules, chance=chance, now_us=self.now_us)
        self.kernel.set_members(others, self.now_us)
        self.stamps = dict.fromkeys(others, 0)
        self.sent = []

    def wait(self, duration_us, *speakers):
        """Time passes in ticks; the speakers send a beat at each."""
        for _ in range(duration_us // TICK_US):
            self.now_us += TICK_US
            self.sent += self.kernel.tick(self.now_us, self.linked)
            for speaker in speakers:
                self.hear(speaker)
        return self

    def hear(self, speaker, kind=wire.BEAT, about=0, members=b"", **clocks):
        self.stamps[speaker] = stamp = self.stamps[speaker] + 1
        beat = Heartbeat(kind, stamp, about, members, **clocks)
        return self.kernel.heard(speaker, wire.encode(beat), self.now_us)

    def told(self, about, stamp, age_us=0, health=wire.ALIVE):
        return wire.packed_member(wire.short_id(about), stamp, health, age_us)

    def took(self, kind):
        """(to, about) of everything of this kind that was sent; and forgets what was sent."""
        told = [(to, wire.decode(body)) for to, body in self.sent]
        self.sent = []
        return [(to, beat.about) for to, beat in told if beat.kind == kind]

    def health(self, id_):
        return self.kernel.health(id_).health

    def story(self):
        return [(change.node, change.was, change.health) for change in self.kernel.changes()]
