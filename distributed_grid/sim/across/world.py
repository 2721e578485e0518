"""A cluster, its people and its faults: the real kernel of every node in virtual time.

Lives here: the phases of a run, and what it means that all has settled. Never here: single faults
(`faults`), rules that hold at every moment (`checkers`).
Invariant: everything follows from the mood; nothing asks a clock, and no order comes from a hash.

Things are asked for and fail (safety), then nothing fails any more and within a limit everything
that was acknowledged must have ended, equally for all (liveness).
"""

import hashlib
import random
from collections.abc import Sequence
from typing import Final

from distributed_grid.kernel.ready import Ready
from distributed_grid.model.ids import JobId, NodeId
from distributed_grid.sim.across.arrivals import Arrival, arrivals_of
from distributed_grid.sim.across.checker import Checker, Violation
from distributed_grid.sim.across.faults import Faults
from distributed_grid.sim.across.keeper import Truth
from distributed_grid.sim.across.machine import Machine
from distributed_grid.sim.across.moods import Mood
from distributed_grid.sim.across.network import Network
from distributed_grid.sim.across.people import People, Wish
from distributed_grid.sim.across.settling import unsettled
from distributed_grid.sim.across.verdicts import Verdicts
from distributed_grid.sim.arrivals import Life
from distributed_grid.sim.mesh.timeline import SECOND_US, Timeline

_CORES: Final = (3, 3, 4)
_LEAST_US: Final = 150 * SECOND_US  # Every timeout there is, one after the other.
_LOOK_US: Final = SECOND_US // 2


class World:
    """A run under way."""

    def __init__(
        self,
        mood: Mood,
        checkers: Sequence[Checker] = (),
        arrivals: Sequence[Arrival] | None = None,
    ) -> None:
        self.mood = mood
        self.checkers = checkers
        self._watching = [  # At every step: those that look at none are not called in vain.
            one for one in checkers if type(one).carried_out is not Checker.carried_out
        ]
        self.timeline = Timeline()
        self.trace: list[str] = []
        self.rng = random.Random(f"{mood.seed}/across world")
        self.is_rough = False
        self.codes: dict[tuple[JobId, int], list[int]] = {}  # How processes ended by themselves.
        self.starts: dict[tuple[JobId, int], int] = {}  # Processes, by job and index.
        self.verdicts = Verdicts(self, random.Random(f"{mood.seed}/across verdicts"))
        self.network = Network(
            self.timeline,
            random.Random(f"{mood.seed}/across network"),
            self.verdicts.reconsider,
        )
        self.faults = Faults(self)
        self.people = People(self)
        self.machines = [
            Machine(
                self, number, _node_id(mood.seed, number), mood.cores or self.rng.choice(_CORES)
            )
            for number in range(mood.nodes)
        ]
        self.network.machines = {machine.id: machine for machine in self.machines}
        # Lost for good are fewer than half, and none that comes late.
        early = self.machines[: mood.nodes - mood.latecomers]
        self.doomed = self.rng.sample(early, min(mood.losses, (len(early) - 1) // 2))
        names = [machine.name for machine in self.machines]
        safe = [machine.name for machine in self.machines if machine not in self.doomed]
        asked = arrivals_of(mood, names, safe) if arrivals is None else arrivals
        self.wishes = {arrival.spec.id: Wish(arrival) for arrival in asked}
        self.forgotten: set[JobId] = set()  # Ended so long ago that nobody need remember them.
        self.lost_stores: set[str] = set()  # That votes were on, of disks that were once lost.
        self._announced: dict[tuple[int, int], int] = {}
        self._looked_us = 0  # When the checkers last looked.

    # What everyone asks

    def life(self, job: JobId) -> Life:
        """How long it takes, and how it ends."""
        return self.wishes[job].arrival.life

    def name_of(self, job: JobId) -> str:
        """As people call it."""
        wish = self.wishes.get(job)
        return wish.spec.name if wish else job[:8]

    def live(self) -> list[Machine]:
        """Those that are not lost for good."""
        return [machine for machine in self.machines if not machine.is_gone]

    def announce(self, machine: Machine, until_us: int) -> None:
        """A machine says that it goes and comes back; who hears of it knows."""
        for other in self.machines:
            if (other.number, machine.number) not in self.verdicts.dead:
                self._announced[other.number, machine.number] = until_us
                other.look_around()

    def restarting_ms(self, machine: Machine, other: Machine) -> int:
        """Until when another is away on purpose, by a machine's own clock; 0: it is not."""
        until_us = self._announced.get((machine.number, other.number), 0)
        is_over = until_us <= self.timeline.now_us
        return 0 if is_over else machine.ms_of(until_us)

    def is_back(self, machine: Machine) -> None:
        """Who has restarted says so by being there."""
        for pair in [pair for pair in self._announced if pair[1] == machine.number]:
            del self._announced[pair]

    # Phases

    def run(self) -> None:
        """From beginning to end; raises Violation."""
        self.begin()
        self.endure()
        self.heal()
        for checker in self.checkers:
            checker.ended(self)

    def begin(self) -> None:
        """Everyone is there, and knows of everyone."""
        self.faults.prepare()
        for machine in self.machines:
            if machine.is_member:
                machine.start()
        self.pass_time(3 * SECOND_US)

    def endure(self) -> None:
        """Things are asked for, and fail."""
        self.is_rough = True
        self.tell("rough")
        begin_us = self.timeline.now_us
        self.people.plan(begin_us)
        self.faults.plan(begin_us, begin_us + self.mood.span_us)
        self.pass_time(self.mood.span_us)

    def heal(self) -> None:
        """Nothing fails any more: within a limit everything acknowledged must have ended."""
        self.is_rough = False
        self.tell("calm")
        self.faults.stop()
        for checker in self.checkers:
            checker.calmed(self)
        self.await_end(self.limit_us())

    def limit_us(self) -> int:
        """Everything that is left one after the other, as often as it may be tried; and waits."""
        work_us = 0
        for wish in self.wishes.values():
            spec = wish.spec
            count = len(spec.array.indices) if spec.array else 1
            work_us += (wish.arrival.life.takes_ms + 1_000) * 1_000 * count * (1 + spec.retries)
        return _LEAST_US + 2 * work_us

    def await_end(self, limit_us: int) -> None:
        """Until all has settled, or it has taken too long."""
        end_us = self.timeline.now_us + limit_us
        while problem := unsettled(self):
            if self.timeline.now_us >= end_us:
                raise Violation(f"not settled within {limit_us // SECOND_US} s: {problem}")
            self.people.force_stuck()
            self.pass_time(_LOOK_US)
        self.tell("settled")

    def pass_time(self, wait_us: int) -> None:
        """Let things happen for so long."""
        end_us = self.timeline.now_us + wait_us
        while self.timeline.now_us < end_us:
            self.timeline.run_until(min(self._looked_us + SECOND_US, end_us))
            if self.timeline.now_us >= self._looked_us + SECOND_US:
                self._looked_us = self.timeline.now_us
                for checker in self.checkers:
                    checker.looked(self)

    # The story

    def began(self, machine: Machine, truth: Truth) -> None:
        """A process runs."""
        key = (truth.job, truth.index)
        self.starts[key] = self.starts.get(key, 0) + 1
        index = f"[{truth.index}]" if truth.index >= 0 else ""
        self.tell(f"{machine} runs {self.name_of(truth.job)}{index} as {truth.attempt[:6]}")
        for checker in self.checkers:
            checker.began(self, machine, truth)

    def happened(self, machine: Machine, ready: Ready) -> None:
        """A machine has saved, told and sent what a step of its kernel wanted."""
        for one in ready.happened:
            if one.job is not None and one.job in self.wishes:
                told = " ".join(str(value) for value in one.fields.values())
                self.tell(f"{machine}: {one.name} {self.name_of(one.job)} {told}".rstrip())
        for checker in self._watching:
            checker.carried_out(self, machine, ready)

    def tell(self, what: str) -> None:
        """Add a line to the trace."""
        now_us = self.timeline.now_us
        self.trace.append(f"{now_us // SECOND_US:>5}.{now_us // 1_000 % 1_000:03d} {what}")


def _node_id(seed: int, number: int) -> NodeId:
    name = f"{seed}/machine {number}".encode()
    return NodeId(hashlib.blake2b(name, digest_size=32).hexdigest())
