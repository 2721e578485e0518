"""A small discrete model of heartbeats: real kernels, virtual time, a network that loses.

Lives here: what the tests of liveness and the long runs by hand play with. Never here: links that
are made and broken, state, trust: the simulation of the whole mesh (`sim.mesh`) has them.
"""

import argparse
import hashlib
import heapq
import random
import statistics

from distributed_grid.kernel.mesh.liveness import LAN, WAN, Change, Liveness

TICK_US = 50_000
SECOND = 1_000_000


def node(number):
    """Like a public key: looks random, is the same every time."""
    return hashlib.sha256(f"node {number}".encode()).hexdigest()


class Model:
    """Nodes, all linked unless told otherwise."""

    def __init__(
        self, count, *, seed=0, loss=0.0, rules=LAN, delay_us=(200, 2_000), tick_us=TICK_US
    ):
        self.dice = random.Random(seed)
        self.tick_us = tick_us
        self.rules, self.loss, self.delay_us = rules, loss, delay_us
        self.now_us = 1_000 * SECOND
        self.ids = [node(number) for number in range(count)]
        self.heap, self.count = [], 0
        self.nodes, self.down, self.paused = {}, set(), {}
        self.cut = set()  # (from, to): nothing passes.
        self.unlinked = set()  # (one, other), both ways.
        self.story: list[tuple[int, str, Change]] = []  # (when, who believes it, what)
        self.datagrams = self.bytes = 0
        for id_ in self.ids:
            self.start(id_)

    def start(self, id_):
        """A node starts, or starts again and knows nothing."""
        self.down.discard(id_)
        chance = random.Random(f"{self.dice.random()}").randrange
        kernel = Liveness(me=id_, rules=self.rules, chance=chance, now_us=self.now_us)
        kernel.set_members(self.ids, self.now_us)
        self.nodes[id_] = kernel
        self._at(self.now_us + self.dice.randrange(self.tick_us), id_, kernel, None)

    def kill(self, id_):
        self.down.add(id_)

    def pause(self, id_, duration_us):
        """Nothing runs there; what arrives meanwhile is lost."""
        self.paused[id_] = self.now_us + duration_us

    def linked(self, id_):
        if not self.unlinked:
            return self._everyone
        return [o for o in self.ids if o != id_ and (min(o, id_), max(o, id_)) not in self.unlinked]

    def run(self, duration_us):
        self._everyone = frozenset(self.ids)
        end_us = self.now_us + duration_us
        while self.heap[0][0] <= end_us:
            self.now_us, _, id_, kernel, datagram = heapq.heappop(self.heap)
            self._step(id_, kernel, datagram)
        self.now_us = end_us
        return self

    def _step(self, id_, kernel, datagram):
        if id_ in self.down or self.nodes[id_] is not kernel:
            return
        now_us = self.now_us
        if self.paused.get(id_, 0) > now_us:
            if datagram is None:
                self._at(self.paused[id_], id_, kernel, None)
            return
        if datagram is None:
            sent = kernel.tick(now_us, self.linked(id_))
            self._at(now_us + self.tick_us, id_, kernel, None)
        else:
            sent = kernel.heard(*datagram, now_us)
        for change in kernel.changes():
            self.story.append((now_us, id_, change))
        dice = self.dice
        for to, body in sent:
            self.datagrams += 1
            self.bytes += len(body)
            if dice.random() >= self.loss and (id_, to) not in self.cut:
                delay_us = dice.randrange(*self.delay_us)
                self._at(now_us + delay_us, to, self.nodes[to], (id_, body))

    def _at(self, at_us, id_, kernel, datagram):
        self.count += 1
        heapq.heappush(self.heap, (at_us, self.count, id_, kernel, datagram))

    def verdicts(self, health):
        return [(at, who, change) for at, who, change in self.story if change.health == health]

    def beliefs(self, about):
        """What the others believe of one, by how many."""
        found = {}
        for id_ in self.ids:
            if id_ != about and id_ not in self.down:
                health = self.nodes[id_].health(about).health
                found[health] = found.get(health, 0) + 1
        return found


def detection_us(count, *, seed, loss, rules=LAN):
    """How long each survivor takes to notice one death."""
    model = Model(count, seed=seed, loss=loss, rules=rules)
    model.run(5 * SECOND + model.dice.randrange(SECOND))
    victim, died_us = model.ids[seed % count], model.now_us
    model.kill(victim)
    model.run(3 * rules.dead_us)
    return [at - died_us for at, _, change in model.verdicts("dead") if change.node == victim]


def main():
    """A long run by hand: `python -m tests.liveness_model --hours 20`."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--nodes", type=int, default=30)
    parser.add_argument("--hours", type=float, default=0.1)
    parser.add_argument("--loss", type=float, default=0.5)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--deaths", type=int, default=20)
    parser.add_argument("--tick-ms", type=int, default=TICK_US // 1_000)
    parser.add_argument("--wan", action="store_true")
    asked = parser.parse_args()
    rules = WAN if asked.wan else LAN
    tick_us = asked.tick_ms * 1_000
    model = Model(asked.nodes, seed=asked.seed, loss=asked.loss, rules=rules, tick_us=tick_us)
    steps = max(round(asked.hours * 6), 1)
    for step in range(1, steps + 1):
        model.run(round(asked.hours * 3_600 * SECOND / steps))
        print(
            f"{step * asked.hours / steps:.2f} h: dead {len(model.verdicts('dead'))}, "
            f"suspect {len(model.verdicts('suspect'))}, "
            f"{model.datagrams} datagrams, {model.bytes} bytes",
            flush=True,
        )
    for _, _, change in model.verdicts("dead")[:20]:
        print(change)
    times = sorted(
        at
        for seed in range(asked.deaths)
        for at in detection_us(asked.nodes, seed=seed, loss=asked.loss, rules=rules)
    )
    if times:
        p99 = times[len(times) * 99 // 100]
        print(f"detection: n {len(times)} p50 {statistics.median(times)} p99 {p99} max {times[-1]}")


if __name__ == "__main__":
    main()
