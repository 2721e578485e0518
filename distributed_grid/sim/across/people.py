"""Those who submit, wait and change their minds; what each was told.

Lives here: a client's patience. Never here: what is asked for (`arrivals`).
Invariant: who got no answer asks again; the same again changes nothing.
"""

from functools import partial
from typing import TYPE_CHECKING, Final

from distributed_grid.errors import GridError
from distributed_grid.kernel.node import Cancel, Force, Submit
from distributed_grid.model.ids import JobId
from distributed_grid.model.job import JobSpec
from distributed_grid.sim.across.arrivals import Arrival
from distributed_grid.sim.across.settling import is_stuck
from distributed_grid.sim.across.views import state_at
from distributed_grid.sim.mesh.timeline import SECOND_US
from distributed_grid.wire.api import ENDED

if TYPE_CHECKING:
    from distributed_grid.sim.across.machine import Machine
    from distributed_grid.sim.across.world import World

AGAIN_US: Final = SECOND_US  # A client whose agent is away asks again.
COPIES_US: Final = SECOND_US  # So long an acknowledgement waits for a second copy.
LOOK_US: Final = 20_000
TRIES_MAX: Final = 30
STUCK_US: Final = 20 * SECOND_US  # So long a person looks at a job that says it is stuck.
UNNOTICED_US: Final = 4 * SECOND_US  # Until a home has heard that a machine is dead, or came back.


class Wish:
    """One submission, and what became of it for the one who made it."""

    def __init__(self, arrival: Arrival) -> None:
        self.arrival = arrival
        self.abroad = frozenset[JobId]()  # What it comes after, and other machines look after.
        self.copies: int | None = None  # As acknowledged; None: it is not.
        self.acknowledged_us = 0
        self.refusal = ""
        self.is_given_up = False  # Nobody ever answered.
        self.is_cancel_wanted = False
        self.is_cancel_taken = False
        self.stuck_us: int | None = None  # Since when it says so, and is right.
        self.is_forced = False
        self.losses = 0  # Disks that held it and were lost, since it was acknowledged.
        self._early_us: list[int] = []  # When such disks were lost before.
        self.tries = 0

    @property
    def spec(self) -> JobSpec:
        """What was asked for."""
        return self.arrival.spec

    def lose(self, now_us: int) -> None:
        """A disk that holds it is lost."""
        if self.copies is None:
            self._early_us.append(now_us)
        else:
            self.losses += 1

    def acknowledge(self, copies: int, now_us: int, aware_us: int) -> None:
        """So many copies, as far as its home knows: what has just been lost is not known yet.

        `aware_us`: until then it has noticed everything.
        """
        self.copies, self.acknowledged_us = copies, now_us
        self.losses = sum(lost_us > aware_us for lost_us in self._early_us)

    @property
    def is_promised(self) -> bool:
        """Whether it must end, whatever happens: fewer disks were lost than hold it."""
        return self.losses < (self.copies or 0)


class People:
    """Everyone who can type."""

    def __init__(self, world: "World") -> None:
        self.world = world

    def plan(self, begin_us: int) -> None:
        """Everything that will be asked for, from this moment on."""
        for wish in self.world.wishes.values():
            arrival = wish.arrival
            self.world.timeline.at(begin_us + arrival.at_us, self.submit, wish)
            if arrival.cancel_us:
                self.world.timeline.at(begin_us + arrival.cancel_us, self.cancel, wish)

    def _later(self, wish: Wish, machine: "Machine") -> None:
        wish.tries += 1
        if machine.is_gone or wish.tries > TRIES_MAX:
            wish.is_given_up = True
            self.world.tell(f"nobody answers for {wish.spec.name}")
        else:
            self.world.timeline.after(AGAIN_US, self.submit, wish)

    def submit(self, wish: Wish) -> None:
        """Ask until an answer comes."""
        if wish.copies is not None or wish.refusal or wish.is_given_up:
            return
        machine = self.world.machines[wish.arrival.machine]
        machine.recall(after.job for after in wish.spec.after)
        event = Submit(now_ms=machine.now_ms(), jobs=(wish.spec,), abroad=wish.abroad)
        life = machine.life
        answered = partial(self._await_copies, wish, machine, self.world.timeline.now_us)
        try:
            is_heard = machine.step(event, answered)
        except GridError as refusal:
            wish.refusal = str(refusal)
            self.world.tell(f"{machine} refuses {wish.spec.name}: {refusal}")
            return
        if not is_heard:
            self._later(wish, machine)
        else:  # The agent may die before it answers.
            self.world.timeline.after(AGAIN_US, self._doubt, wish, machine, life)

    def _doubt(self, wish: Wish, machine: "Machine", life: int) -> None:
        if wish.copies is None and not wish.is_given_up:
            if machine.life != life:
                self._later(wish, machine)
            else:
                self.world.timeline.after(AGAIN_US, self._doubt, wish, machine, life)

    def _await_copies(self, wish: Wish, machine: "Machine", since_us: int) -> None:
        """It is durable here; the answer waits a second for a copy elsewhere."""
        self._look(wish, machine, machine.life, since_us)

    def _look(self, wish: Wish, machine: "Machine", life: int, since_us: int) -> None:
        if machine.life != life or wish.copies is not None:
            return
        now_us = self.world.timeline.now_us
        if machine.is_awake:
            across = machine.kernel.across
            assert across is not None, "it has joined"
            copies = across.copies(wish.spec.id)
            if copies >= 2 or now_us - since_us >= COPIES_US:
                wish.acknowledge(max(copies, 1), now_us, machine.awake_since(UNNOTICED_US))
                self.world.tell(f"{machine} takes {wish.spec.name}, {wish.copies} copies")
                for checker in self.world.checkers:
                    checker.acknowledged(self.world, wish)
                return
        self.world.timeline.after(LOOK_US, self._look, wish, machine, life, since_us)

    def cancel(self, wish: Wish) -> None:
        """Ask until somebody who knows the job takes it."""
        if wish.is_given_up or wish.refusal or wish.is_cancel_taken:
            return
        is_first = not wish.is_cancel_wanted
        if is_first and not self.world.is_rough and wish.copies is None:
            return  # Nobody begins with that now; who has begun goes on until it is taken.
        wish.is_cancel_wanted = True
        machines = self.world.machines
        for number in (wish.arrival.cancel_at, wish.arrival.machine, *range(len(machines))):
            machine = machines[number]
            if machine.is_awake and (state := state_at(machine, wish.spec.id)):
                if state in ENDED:
                    self._cancelled(wish, machine)
                    return
                try:
                    machine.step(
                        Cancel(now_ms=machine.now_ms(), job=wish.spec.id),
                        partial(self._cancelled, wish, machine),
                    )
                except (GridError, KeyError):
                    continue
                break
        self.world.timeline.after(AGAIN_US, self.cancel, wish)

    def force_stuck(self) -> None:
        """What says for long that it lacks votes, and really does, goes on without them."""
        now_us = self.world.timeline.now_us
        for wish in self.world.wishes.values():
            if not wish.spec.at_most_once or wish.is_forced:
                continue
            home = self.says_stuck(wish)
            if home is None or not is_stuck(self.world, wish):
                wish.stuck_us = None
            elif wish.stuck_us is None:
                wish.stuck_us = now_us
            elif now_us - wish.stuck_us >= STUCK_US:
                self.force(wish, home)

    def force(self, wish: Wish, home: "Machine") -> None:
        """Somebody says that it goes on without those who vote on it."""
        wish.is_forced = True
        self.world.tell(f"somebody forces {wish.spec.name} at {home}")
        home.step(Force(now_ms=home.now_ms(), job=wish.spec.id))

    def says_stuck(self, wish: Wish) -> "Machine | None":
        """Where a job says that it needs votes."""
        for machine in self.world.live():
            job = machine.kernel.coordinator.jobs.get(wish.spec.id) if machine.is_awake else None
            if job is None or job.is_guest:
                continue
            if job.reason.startswith("stuck: needs "):
                return machine
        return None

    def _cancelled(self, wish: Wish, machine: "Machine") -> None:
        if not wish.is_cancel_taken:
            wish.is_cancel_taken = True
            self.world.tell(f"{machine} takes the cancel of {wish.spec.name}")
