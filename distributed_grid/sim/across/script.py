"""The words that scenes are written in: submit, lose, part, restart, wait until.

Lives here: a calm cluster of five, and what a script may do with it. Never here: the scripts
(`scenes`).
"""

import hashlib
from collections.abc import Callable, Sequence

from distributed_grid.kernel.across.register_sets import members_of
from distributed_grid.kernel.node import Cancel, Drain, Submit
from distributed_grid.model.bytesize import GIB
from distributed_grid.model.ids import JobId
from distributed_grid.model.job import NOWHERE, After, JobSpec, Where, Work
from distributed_grid.model.resources import Request
from distributed_grid.sim.across.arrivals import Arrival
from distributed_grid.sim.across.checker import Violation
from distributed_grid.sim.across.checkers import all_checkers
from distributed_grid.sim.across.machine import Machine
from distributed_grid.sim.across.moods import Mood
from distributed_grid.sim.across.network import Way, between
from distributed_grid.sim.across.people import Wish
from distributed_grid.sim.across.settling import sets_of
from distributed_grid.sim.across.views import states_of
from distributed_grid.sim.across.world import World
from distributed_grid.sim.arrivals import Life
from distributed_grid.sim.mesh.timeline import SECOND_US
from distributed_grid.wire.api import ENDED

_STEP_US = SECOND_US // 40  # Limits are in seconds.
_SOON_US = 10 * SECOND_US
_SETTLED_US = 120 * SECOND_US  # After a script, in which everything has ended.


class Scene:
    """A cluster of five on a calm day."""

    def __init__(self, *, cores: int) -> None:
        mood = Mood(seed=0, nodes=5, span_us=0, jobs=0, cores=cores, once_milli=1)
        self.world = World(mood, all_checkers(), arrivals=())
        self.machines = self.world.machines

    def finish(self) -> None:
        """Everything settles, and every checker has its last look."""
        self.world.await_end(_SETTLED_US)
        for checker in self.world.checkers:
            checker.ended(self.world)

    # What happens

    def submit(
        self,
        name: str,
        *,
        at: Machine,
        takes_s: int,
        on: Machine | None = None,
        avoid: Machine | None = None,
        cpu_milli: int = 1_000,
        is_once: bool = False,
        fails_first: int = 0,
        gang: int = 1,
        after: Wish | None = None,
    ) -> Wish:
        """Somebody asks for a job."""
        spec = JobSpec(
            id=JobId(hashlib.sha256(name.encode()).hexdigest()),
            name=name,
            request=Request(cpu_milli=cpu_milli, memory_bytes=GIB // 4),
            work=Work(argv=("work",), cwd="/", grace_ms=500),
            require=Where(nodes=(on.name,)) if on else NOWHERE,
            avoid=Where(nodes=(avoid.name,)) if avoid else NOWHERE,
            at_most_once=is_once,
            gang=gang,
            after=(After(job=after.spec.id, when="any"),) if after else (),
            user="ada",
        )
        arrival = Arrival(
            at_us=0,
            machine=at.number,
            spec=spec,
            life=Life(takes_ms=takes_s * 1_000, fails_first=fails_first),
        )
        wish = self.world.wishes[spec.id] = Wish(arrival)
        if after is not None and after.arrival.machine != at.number:
            wish.abroad = frozenset({after.spec.id})
        self.world.people.submit(wish)
        return wish

    def ask_again(self, wish: Wish) -> None:
        """The same submission at the same machine, as by a client that heard no answer."""
        machine = self.machines[wish.arrival.machine]
        machine.step(Submit(now_ms=machine.now_ms(), jobs=(wish.spec,)))

    def cancel(self, wish: Wish, *, at: Machine) -> None:
        """Somebody changes his mind, at any machine."""
        wish.is_cancel_wanted = True
        taken = [False]
        event = Cancel(now_ms=at.now_ms(), job=wish.spec.id)
        at.step(event, lambda: taken.__setitem__(0, True))
        self.until(lambda: taken[0], f"the cancel of {wish.spec.name} is taken")
        wish.is_cancel_taken = True

    def lose(self, machine: Machine) -> None:
        """It burns down."""
        self.world.faults.lose(machine)

    def lose_disk(self, machine: Machine, *, away_us: int) -> None:
        """It comes back with nothing but its key."""
        self.world.faults.lose_disk(machine, away_us)

    def crash(self, machine: Machine, *, away_us: int = 0) -> None:
        """Its agent dies and is started again, from what is on disk; its keeper goes on."""
        if away_us:
            self.world.faults.crash(machine, "its agent crashes", away_us)
        else:
            machine.crash()
            machine.start()

    def force(self, wish: Wish) -> None:
        """Somebody says that an at-most-once job goes on without its voters."""
        home = self.world.people.says_stuck(wish)
        if home is None:
            raise Violation(f"{wish.spec.name} does not say that it is stuck")
        self.world.people.force(wish, home)

    def drain(self, machine: Machine, *, is_on: bool = True, is_now: bool = False) -> None:
        """Its owner wants it to be left, or no longer."""
        machine.step(Drain(now_ms=machine.now_ms(), is_on=is_on, is_now=is_now))

    def restart(self, machine: Machine, *, away_us: int) -> None:
        """As told before."""
        self.world.faults.restart(machine, away_us)

    def part(self, left: Sequence[Machine], right: Sequence[Machine]) -> Callable[[], None]:
        """Nothing gets through any more; call the result to heal."""
        ways = between([one.number for one in left], [one.number for one in right])
        return self._block(ways, f"parted: {list(left)} | {list(right)}")

    def deafen(self, deaf: Sequence[Machine], others: Sequence[Machine]) -> Callable[[], None]:
        """Some hear nothing from the others any more, and are heard; call the result to heal."""
        ways = [(other.number, one.number) for one in deaf for other in others]
        return self._block(ways, f"one way: {list(deaf)} hear nothing from {list(others)}")

    def _block(self, ways: list[Way], what: str) -> Callable[[], None]:
        self.world.tell(what)
        self.world.network.block(ways)

        def heal() -> None:
            self.world.tell("joined again")
            self.world.network.unblock(ways)

        return heal

    def skip(self, long_ms: int) -> None:
        """So much time passes for everyone, in which nothing happens."""
        self.world.tell(f"{long_ms // 86_400_000} days pass")
        self.world.forgotten |= set(self.world.wishes)
        for machine in self.machines:
            machine.skip(long_ms)

    def pass_time(self, wait_us: int) -> None:
        """Let things happen."""
        self.world.pass_time(wait_us)

    def until(self, is_so: Callable[[], bool], what: str, *, within_us: int = _SOON_US) -> None:
        """Let things happen until something is so."""
        end_us = self.world.timeline.now_us + within_us
        while not is_so():
            if self.world.timeline.now_us >= end_us:
                raise Violation(f"not {what} within {within_us // 1_000} ms")
            self.pass_time(_STEP_US)

    def until_ended(self, *wishes: Wish, within_us: int) -> None:
        """Let things happen until everyone knows that these have succeeded or were cancelled."""
        wanted = {wish: "cancelled" if wish.is_cancel_wanted else "succeeded" for wish in wishes}
        end_us = self.world.timeline.now_us + within_us
        while wrong := [wish for wish in wishes if not self._is(wish, wanted[wish])]:
            if self.world.timeline.now_us >= end_us:
                told = {one.spec.name: states_of(self.world, one.spec.id) for one in wrong}
                is_one = all(len(set(states.values())) == 1 for states in told.values())
                how = "" if is_one else ", is seen differently"
                raise Violation(f"not ended within {within_us // 1_000} ms{how}: {told}")
            self.pass_time(4 * _STEP_US)

    def _is(self, wish: Wish, state: str) -> bool:
        return set(states_of(self.world, wish.spec.id).values()) == {state}

    # What is so

    def voters(self, wish: Wish) -> list[Machine]:
        """Who votes on it."""
        members = members_of(sets_of(self.world, wish))
        return [self.world.network.machines[one.node] for one in members]

    def is_taken(self, *wishes: Wish) -> bool:
        """Whether all of these were acknowledged with a copy elsewhere."""
        return all((wish.copies or 0) > 1 for wish in wishes)

    def runs_on(self, wish: Wish) -> list[Machine]:
        """Where a process of it runs."""
        return [
            machine
            for machine in self.machines
            for truth in machine.keeper.truths
            if truth.job == wish.spec.id
        ]

    def starts(self, wish: Wish) -> int:
        """How many processes it has had."""
        return self.world.starts.get((wish.spec.id, -1), 0)

    def holders(self, wish: Wish) -> list[Machine]:
        """On whose disk it is."""
        return [machine for machine in self.machines if machine.disk.has(wish.spec.id)]

    def copies(self, wish: Wish) -> int:
        """On how many."""
        return len(self.holders(wish))

    def thinks_dead(self, listener: Machine, other: Machine) -> bool:
        """Whether one has given the other up."""
        return (listener.number, other.number) in self.world.verdicts.dead

    def unfinished(self, wish: Wish, *, but: Machine) -> bool:
        """Whether somebody, apart from one, still thinks that it goes on."""
        states = states_of(self.world, wish.spec.id)
        return not {state for machine, state in states.items() if machine is not but} <= ENDED
