"""Who thinks whom alive: an oracle that knows the network, and is late as the product is.

Lives here: verdicts by connectivity, false ones too, and what each knows of the others. Never here:
the protocol that finds it out (`kernel.mesh`, and its own simulation).
Invariant: a verdict is local. Who is reached by no way for 2.6 s is dead to the one that listens;
whoever is reached again is alive a moment later. What is known of others is never older than the
mood's bound while there is a way.
"""

import random
from typing import TYPE_CHECKING, Final

import msgspec

from distributed_grid.kernel.across.peers import Peer
from distributed_grid.sim.across.introducing import introduced
from distributed_grid.sim.mesh.timeline import SECOND_US

if TYPE_CHECKING:
    from distributed_grid.sim.across.machine import Machine
    from distributed_grid.sim.across.world import World

DEAD_US: Final = 2_600_000
_ROUND_US: Final = 200_000  # Of gossip: so much later at most.
_FALSE_US: Final = 4 * SECOND_US  # At most, until a false verdict is refuted.


class Verdicts:
    """What every machine thinks of every other."""

    def __init__(self, world: "World", rng: random.Random) -> None:
        self.world = world
        self._rng = rng
        self._heard: set[tuple[int, int]] = set()  # (listener, other): there is a way now.
        self._silent_us: dict[tuple[int, int], int] = {}  # Since when there is none.
        self.dead: set[tuple[int, int]] = set()  # (listener, other).
        self.known: dict[tuple[int, int], tuple[int, Peer]] = {}  # And when it was said.
        self._is_due = False

    # Who is heard

    def reconsider(self) -> None:
        """Something has changed; many things at one moment are looked at once."""
        if not self._is_due:
            self._is_due = True
            self.world.timeline.after(0, self._reconsider)

    def _reconsider(self) -> None:
        self._is_due = False
        now_us = self.world.timeline.now_us
        heard = self._ways()
        for listener in self.world.machines:
            for other in self.world.machines:
                pair = (listener.number, other.number)
                if listener is other or not listener.is_awake or not other.is_member:
                    continue
                if pair in heard:
                    if pair not in self._heard or pair in self.dead:
                        self.world.timeline.after(self._late_us(), self._revive, *pair)
                    self._silent_us.pop(pair, None)
                elif pair in self._heard or pair not in self._silent_us:
                    self._silent_us[pair] = now_us
                    self.world.timeline.after(DEAD_US + self._late_us(), self._judge, *pair)
        self._heard = heard

    def _ways(self) -> set[tuple[int, int]]:
        """Who hears of whom, directly or through others."""
        awake = [one.number for one in self.world.machines if one.is_awake and one.is_member]
        is_open = self.world.network.is_open
        direct = {
            one: [other for other in awake if other != one and is_open(one, other)] for one in awake
        }
        found = set()
        for start in awake:
            seen, edge = {start}, [start]
            while edge:
                edge = [far for near in edge for far in direct[near] if far not in seen]
                seen.update(edge)
            found |= {(listener, start) for listener in seen if listener != start}
        return found

    def _late_us(self) -> int:
        return int(self._rng.random() * _ROUND_US)

    def _revive(self, listener: int, other: int) -> None:
        pair = (listener, other)
        if pair in self._heard and pair in self.dead:
            self.dead.discard(pair)
            self.world.machines[listener].look_around()

    def _judge(self, listener: int, other: int) -> None:
        pair = (listener, other)
        silent_us = self._silent_us.get(pair)
        if silent_us is None or self.world.timeline.now_us - silent_us < DEAD_US:
            return
        self._sentence(listener, other)

    def _sentence(self, listener: int, other: int) -> None:
        machine = self.world.machines[listener]
        if machine.is_awake and (listener, other) not in self.dead:
            self.dead.add((listener, other))
            self.world.tell(f"{machine} thinks {self.world.machines[other]} dead")
            machine.look_around()

    def err(self, listener: int, other: int) -> None:
        """A false verdict, until it is refuted."""
        self._sentence(listener, other)
        wait_us = 1 + int(self._rng.random() * _FALSE_US)
        self.world.timeline.after(wait_us, self._revive, listener, other)

    def woke(self, machine: "Machine") -> None:
        """It slept, not the others: it begins to count anew."""
        for pair in [pair for pair in self._silent_us if pair[0] == machine.number]:
            del self._silent_us[pair]
        self.reconsider()

    def born(self, machine: "Machine") -> None:
        """A new agent thinks ill of nobody yet."""
        self.dead = {pair for pair in self.dead if pair[0] != machine.number}
        self._heard = {pair for pair in self._heard if pair[0] != machine.number}
        self.woke(machine)

    # What is known of others

    def publish(self, machine: "Machine") -> None:
        """What a machine says of itself reaches whoever hears of it, sooner or later."""
        peer = introduced(machine)
        now_us = self.world.timeline.now_us
        for other in self.world.machines:
            if (other.number, machine.number) in self._heard:
                wait_us = int(self._rng.random() * self.world.mood.stale_us)
                self.world.timeline.after(wait_us, self._learn, other, machine, now_us, peer)

    def _learn(self, other: "Machine", machine: "Machine", said_us: int, peer: Peer) -> None:
        pair = (other.number, machine.number)
        before_us, before = self.known.get(pair, (0, None))
        if before_us > said_us or not other.is_awake or pair not in self._heard:
            return
        self.known[pair] = (said_us, peer)
        if before != peer:
            other.is_view_old = True

    def view(self, machine: "Machine") -> list[Peer]:
        """Everyone else, as a machine sees them now."""
        found = []
        for other in self.world.machines:
            if other is machine or not other.is_member:
                continue
            pair = (machine.number, other.number)
            _, known = self.known.get(pair, (0, None))
            found.append(
                msgspec.structs.replace(
                    known or Peer(id=other.id, name=other.name),
                    is_alive=pair not in self.dead,
                    restarting_until_ms=self.world.restarting_ms(machine, other),
                )
            )
        return found
