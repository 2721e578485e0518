"""One machine, its owner, its borrowers, its faults: the real kernel in virtual time.

Lives here: the timeline, the agent's crashes, what checkers are told. Never here: what is right
(`checkers`), the numbers of a run (`moods`).
Invariant: everything follows from the mood; nothing asks a clock, and no order comes from a hash.

A crash forgets all that was not saved. It comes before the save, between the save and the telling,
or after both; the keeper goes on meanwhile, and repeats itself to the next agent.
"""

import heapq
import itertools
import random
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from distributed_grid.errors import GridError
from distributed_grid.kernel.launching import Paths
from distributed_grid.kernel.ledger import Ledger
from distributed_grid.kernel.node import (
    Book,
    Cancel,
    Lend,
    Met,
    Node,
    NodeEvent,
    Reports,
    Rules,
    Sampled,
    Submit,
    Tick,
)
from distributed_grid.kernel.ready import Ready
from distributed_grid.model.booking import Booking
from distributed_grid.model.ids import JobId
from distributed_grid.model.job import JobSpec
from distributed_grid.model.lending import Sample
from distributed_grid.sim.arrivals import Arrival, Life, arrivals_of, bookings_of
from distributed_grid.sim.desk import Desk
from distributed_grid.sim.keeper import Keeper
from distributed_grid.sim.moods import MINUTE_MS, Mood
from distributed_grid.sim.store import Store

START_MS: Final = MINUTE_MS  # Not 0, which means "never" in many places.
TICK_MS: Final = 5_000  # The agent's own is a second; here most of them would find nothing to do.
_DOWN_MS: Final = (0, 1_000, 8_000, 40_000)  # How long an agent is away after a crash, at most.
_AGAIN_MS: Final = 1_000  # A client whose agent is away asks again.
_PATHS: Final = Paths(output_root="/out", scratch_root="/scratch", checkpoint_root="/saved")


class Violation(Exception):
    """A rule was broken; a bug of the kernel, or of the rule."""


class Checker:
    """Looks at the whole world after every step of the kernel."""

    def stepped(self, world: "World", node: Node, event: NodeEvent, ready: Ready) -> None:
        """The kernel was told something, and what it answered was saved and told."""

    def crashed(self, world: "World") -> None:
        """The agent has forgotten what was not saved."""

    def ended(self, world: "World", node: Node) -> None:
        """Everything has drained."""


class World:
    """A run under way."""

    def __init__(self, mood: Mood, checkers: Sequence[Checker] = ()) -> None:
        self.mood = mood
        self.checkers = checkers
        self.now_ms = START_MS
        self.calm_ms = START_MS + mood.span_ms  # From then on nothing comes and nothing fails.
        self.trace: list[str] = []
        self._rng = random.Random(f"{mood.seed}/world")
        self.arrivals = {one.spec.id: one for one in arrivals_of(mood, START_MS)}
        self.keeper = Keeper(random.Random(f"{mood.seed}/keeper"), self.life)
        self.store = Store()
        self.desk = Desk(mood.machine, random.Random(f"{mood.seed}/desk"))
        self.paused = False
        self.sampler_works = True
        self.heard: Sample | None = None  # The last that this agent was told.
        self.node: Node | None = None
        self.refused: set[JobId] = set()
        self.booked: list[Booking] = []  # Those that were acknowledged.
        self._timeline: list[tuple[int, int, Callable[[], None]]] = []
        self._entries = itertools.count()
        self._lease_ids = (f"lease-{number:05d}" for number in itertools.count())
        self._plan()
        self._restart()

    def life(self, job: JobId) -> Life:
        """How long it takes, and how it ends."""
        return self.arrivals[job].life

    def spec(self, job: JobId) -> JobSpec:
        """What was asked for."""
        return self.arrivals[job].spec

    @property
    def is_calm(self) -> bool:
        """Whether the faults are over."""
        return self.now_ms >= self.calm_ms

    @property
    def is_done(self) -> bool:
        """Whether every job that came was refused, or has ended for the store."""
        ended = sum(state not in ("waiting", "running") for state in self.store.states.values())
        return ended + len(self.refused) == len(self.arrivals)

    # Time

    def at(self, at_ms: int, what: Callable[[], None]) -> None:
        """Let something happen at a moment."""
        heapq.heappush(self._timeline, (max(at_ms, self.now_ms), next(self._entries), what))

    def run(self) -> None:
        """Until everything has drained, or the time for that is over."""
        until_ms = None
        while not (self.is_calm and self.is_done and not self.keeper.journal):
            if self.is_calm and until_ms is None:
                until_ms = self.now_ms + self._drain_ms()
            if until_ms is not None and self.now_ms > until_ms:
                left = [job for job, state in self.store.states.items() if state in _UNFINISHED]
                names = ", ".join(self.spec(job).name for job in left)
                raise Violation(f"not drained by {until_ms}: {names}")
            self._advance()
        assert self.node is not None, "a calm agent runs"
        for checker in self.checkers:
            checker.ended(self, self.node)

    def _advance(self) -> None:
        due_ms = self.keeper.next_ms()
        next_ms = self._timeline[0][0]
        if due_ms is not None and due_ms <= next_ms:
            self.now_ms = max(due_ms, self.now_ms)
            self.keeper.pass_to(self.now_ms)
            self.at(self.now_ms + self._rng.randint(0, 20), self._deliver)
            return
        self.now_ms, _, what = heapq.heappop(self._timeline)
        what()

    def _drain_ms(self) -> int:
        """Everything one after the other, as often as it may be tried; and every wait there is."""
        work_ms = 0
        for arrival in self.arrivals.values():
            spec = arrival.spec
            if self.store.states.get(spec.id, "waiting") in _UNFINISHED:
                count = len(spec.array.indices) if spec.array else 1
                work_ms += (arrival.life.takes_ms + 1_000) * count * (1 + spec.retries)
        terms = self.mood.terms
        loans = 1 + (self.mood.span_ms // terms.allocation_ms_max if terms.allocation_ms_max else 0)
        return min(2 * work_ms * loans, 4 * 60 * MINUTE_MS) + 20 * MINUTE_MS

    # What happens

    def _plan(self) -> None:
        mood = self.mood
        for arrival in self.arrivals.values():
            self.at(arrival.at_ms, partial(self.submit, arrival))
            if arrival.cancel_ms:
                self.at(arrival.cancel_ms, partial(self._cancel, arrival))
        for booking in bookings_of(mood, START_MS):
            self.at(START_MS, partial(self._book, booking))
        self.at(START_MS, self._tick)
        self.at(START_MS, self._look)
        self.at(self.calm_ms, self._calm_down)
        self._every(mood.keeper_dies_every_ms, self._keeper_dies)
        self._every(mood.owner_comes_every_ms, self._owner_comes)
        self._every(mood.owner_pauses_every_ms, self._owner_pauses)
        self._every(mood.sampler_dies_every_ms, self._sampler_dies)

    def _every(self, mean_ms: int, what: Callable[[], None]) -> None:
        """Again and again, until it is calm."""
        if not mean_ms:
            return
        at_ms = START_MS
        while (at_ms := at_ms + self._rng.randint(1, 2 * mean_ms)) < self.calm_ms:
            self.at(at_ms, what)

    def submit(self, arrival: Arrival) -> None:
        """Ask until an answer comes; the same again changes nothing."""
        spec = arrival.spec
        self.arrivals[spec.id] = arrival
        try:
            was_answered = self.step(Submit(now_ms=self.now_ms, jobs=(spec,)))
        except GridError as refusal:
            self.tell(f"refused {spec.name}: {refusal}")
            self.refused.add(spec.id)
            return
        if not was_answered:
            self.at(self.now_ms + _AGAIN_MS, partial(self.submit, arrival))

    def _cancel(self, arrival: Arrival) -> None:
        job = arrival.spec.id
        if job in self.refused:
            return
        is_known = self.node is not None and job in self.node.coordinator.jobs
        if not is_known or not self.step(Cancel(now_ms=self.now_ms, job=job)):
            self.at(self.now_ms + _AGAIN_MS, partial(self._cancel, arrival))

    def _book(self, booking: Booking) -> None:
        try:
            if self.step(Book(now_ms=self.now_ms, booking=booking)):
                self.booked.append(booking)
            else:
                self.at(self.now_ms + _AGAIN_MS, partial(self._book, booking))
        except GridError as refusal:
            self.tell(f"refused {booking.name}: {refusal}")

    def _tick(self) -> None:
        self.step(Tick(now_ms=self.now_ms))
        self.at(self.now_ms + TICK_MS, self._tick)

    def _look(self) -> None:
        """The sampler measures, as often as the kernel wants."""
        node = self.node
        if node is None or not self.sampler_works:
            self.at(self.now_ms + TICK_MS, self._look)
            return
        sample = self.desk.measured(self.now_ms)
        self.heard = sample
        self.step(Sampled(now_ms=self.now_ms, sample=sample))
        next_ms = node.host.lending.next_look_ms(is_lent=bool(node.host.borrowers))
        self.at(max(next_ms, self.now_ms + 1_000), self._look)

    def _deliver(self) -> None:
        """The agent hears what it has not heard yet."""
        news = tuple(one for one in self.keeper.journal if one.number > self.keeper.told)
        if self.node is not None and news:
            self.keeper.told = news[-1].number
            self.step(Reports(now_ms=self.now_ms, reports=news))

    # Faults, and the owner

    def _keeper_dies(self) -> None:
        self.tell("the keeper dies")
        self.keeper.die(self.now_ms)
        if self.node is not None:
            self._meet()

    def _owner_comes(self) -> None:
        self.desk.come(self.now_ms)
        self.tell(f"the owner comes, {self.desk.cpu_milli} of a thousand")
        self.at(self.now_ms + self._rng.randint(5_000, 90_000), self._owner_goes)

    def _owner_goes(self) -> None:
        self.tell("the owner goes")
        self.desk.go(self.now_ms)

    def _owner_pauses(self) -> None:
        self._lend(is_paused=True)
        again_ms = self.now_ms + self._rng.randint(5_000, 60_000)
        self.at(again_ms, partial(self._lend, is_paused=False))

    def _lend(self, *, is_paused: bool) -> None:
        word = Lend(
            now_ms=self.now_ms,
            pause_until_ms=0 if is_paused else None,
            is_resumed=not is_paused,
        )
        self.paused = is_paused
        if not self.step(word):
            self.at(self.now_ms + _AGAIN_MS, partial(self._lend, is_paused=is_paused))

    def _sampler_dies(self) -> None:
        self.sampler_works = False
        self.at(self.now_ms + self._rng.randint(10_000, 150_000), self._sampler_works)

    def _sampler_works(self) -> None:
        self.sampler_works = True

    def _calm_down(self) -> None:
        self.tell("calm")
        self.sampler_works = True
        self.desk.go(self.now_ms)
        self._lend(is_paused=False)

    # The agent

    def step(self, event: NodeEvent) -> bool:
        """Tell the kernel, save, tell on; whether whoever asked got an answer."""
        node = self.node
        if node is None:
            return False
        dies = ""
        # Cancelling is rare, and what it leads to is told once only.
        crash_milli = self.mood.crash_milli * (8 if isinstance(event, Cancel) else 1)
        if not self.is_calm and self._rng.randrange(1_000) < crash_milli:
            dies = self._rng.choice(("before", "between", "after"))
        ready = node.step(event)
        if dies == "before":
            self._crash()
            return False
        self.store.save(ready)
        self._narrate(event, ready)
        if dies == "between":
            self._crash()
            return False
        for message in ready.tell:
            self.keeper.hear(message, self.now_ms)
        for checker in self.checkers:
            checker.stepped(self, node, event, ready)
        if self.keeper.journal and self.keeper.journal[-1].number > self.keeper.told:
            self.at(self.now_ms + self._rng.randint(0, 20), self._deliver)
        if dies == "after":
            self._crash()
        return True

    def _crash(self) -> None:
        self.tell("the agent dies")
        self.node = None
        self.heard = None
        for checker in self.checkers:
            checker.crashed(self)
        self.at(self.now_ms + self._rng.randint(0, self._rng.choice(_DOWN_MS)), self._restart)

    def _restart(self) -> None:
        mood = self.mood
        self.node = Node(
            name="here",
            ledger=Ledger(mood.machine),
            paths=_PATHS,
            new_lease_id=lambda: next(self._lease_ids),
            rules=Rules(terms=mood.terms, weights=mood.weights, ageing_ms=mood.ageing_ms),
        )
        self.store.restore(self.node)
        self._meet()

    def _meet(self) -> None:
        reports = tuple(self.keeper.journal)
        if reports:
            self.keeper.told = reports[-1].number
        self.step(Met(now_ms=self.now_ms, hello=self.keeper.hello(), reports=reports))

    # The story

    def tell(self, what: str) -> None:
        """Add a line to the trace."""
        self.trace.append(f"{self.now_ms:>8} {what}")

    def _narrate(self, event: NodeEvent, ready: Ready) -> None:
        told = [f"{type(one).__name__} {getattr(one, 'attempt', '')}".strip() for one in ready.tell]
        happened = [
            f"{one.name} {self.spec(one.job).name if one.job else ''}" for one in ready.happened
        ]
        if told or happened:
            self.tell(f"{type(event).__name__}: {'; '.join(happened + told)}")


_UNFINISHED: Final = frozenset({"waiting", "running"})
