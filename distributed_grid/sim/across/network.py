"""The network between machines: who reaches whom, how late, and how badly.

Lives here: directions that are blocked, messages as bytes. Never here: who thinks whom alive
(`verdicts`), when something fails (`faults`).
Invariant: what arrives was sent; it may come late, twice, in another order, or never.

A link needs both directions: with one of them blocked it is given up after a while, as QUIC does,
and until then what is said in the other direction still arrives.
"""

import random
from collections import Counter
from collections.abc import Callable, Iterable
from itertools import product
from typing import TYPE_CHECKING, Final, cast

from distributed_grid.model.ids import NodeId
from distributed_grid.sim.mesh.timeline import SECOND_US, Timeline
from distributed_grid.wire.job_lane import JobMessage, decode, encode

if TYPE_CHECKING:
    from distributed_grid.sim.across.machine import Machine

IDLE_US: Final = 6 * SECOND_US  # After so long of silence a link is given up.
LATE_US: Final = 8 * SECOND_US  # At most, for what is late.

Way = tuple[int, int]  # From, to: numbers of machines.


class Network:
    """Everything between the machines."""

    def __init__(self, timeline: Timeline, rng: random.Random, changed: Callable[[], None]) -> None:
        self.timeline = timeline
        self._rng = rng
        self._changed = changed  # Who reaches whom is another question now.
        self.machines: dict[NodeId, Machine] = {}
        self.delay_us = 1_000
        self.jitter_us = 2_000
        self.loss_milli = 0
        self.duplicate_milli = 0
        self.late_milli = 0
        self._blocked: Counter[Way] = Counter()
        self._since_us: dict[Way, int] = {}
        self.lost_next: Counter[str] = Counter()  # So many of the next, by kind.
        self.sent: Counter[str] = Counter()  # Messages by kind.
        self.sent_bytes = 0

    # Who reaches whom

    def block(self, ways: Iterable[Way]) -> None:
        """From now on nothing goes these ways."""
        for way in ways:
            self._blocked[way] += 1
            self._since_us.setdefault(way, self.timeline.now_us)
        self._changed()
        self.timeline.after(IDLE_US, self._changed)  # Then the other direction ends too.

    def unblock(self, ways: Iterable[Way]) -> None:
        """It may go again, unless something else blocks it too."""
        for way in ways:
            if self._blocked[way] > 1:
                self._blocked[way] -= 1
            else:
                self._blocked.pop(way, None)
                self._since_us.pop(way, None)
        self._changed()

    def heal(self) -> None:
        """Everyone reaches everyone, with the delays of a good day."""
        self.loss_milli = self.duplicate_milli = self.late_milli = 0
        self.delay_us, self.jitter_us = 1_000, 2_000
        self._blocked.clear()
        self._since_us.clear()
        self._changed()

    def is_open(self, source: int, target: int) -> bool:
        """Whether anything gets through in this direction."""
        if (source, target) in self._blocked:
            return False
        back_us = self._since_us.get((target, source))
        return back_us is None or self.timeline.now_us - back_us < IDLE_US

    # Traffic

    def send(self, source: "Machine", target: NodeId, message: JobMessage) -> None:
        """A message: lost, late, twice, in any order; what does not understand itself raises."""
        self.sent[type(message).__name__] += 1
        body = encode(message)
        self.sent_bytes += len(body)
        machine = self.machines.get(target)
        assert machine is not None, f"{source} writes to {target[:8]}, and nobody is called so"
        assert machine is not source, f"{source} writes to itself: {message}"
        if self.lost_next[type(message).__name__] > 0:
            self.lost_next[type(message).__name__] -= 1
            return
        chance = self._rng.random
        copies = 1 + (self.duplicate_milli > 0 and chance() * 1_000 < self.duplicate_milli)
        for _ in range(copies):
            if self.loss_milli and chance() * 1_000 < self.loss_milli:
                continue
            late_us = self.delay_us + int(chance() * self.jitter_us)
            if self.late_milli and chance() * 1_000 < self.late_milli:
                late_us += int(chance() * LATE_US)
            if self.is_open(source.number, machine.number):
                self.timeline.after(late_us, self._arrive, source, machine, body)

    def _arrive(self, source: "Machine", target: "Machine", body: bytes) -> None:
        if self.is_open(source.number, target.number):
            target.told(source.id, cast("JobMessage", decode(body)))  # People ask nothing here.


def between(left: Iterable[int], right: Iterable[int]) -> list[Way]:
    """All ways from these to those and back."""
    there = list(product(left, right))
    return there + [(target, source) for source, target in there]
