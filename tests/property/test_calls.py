"""Whatever workers do, in any order: every call gets exactly one outcome."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from distributed_grid.kernel.calls import Calls
from distributed_grid.wire.maps import MapCall, MapFunction, MapOutcome

WORKERS = st.integers(0, 3)


class MapMachine(RuleBasedStateMachine):
    """Workers that take, finish, lose answers, give back, leave and die; a client that reads."""

    @initialize(retries=st.integers(0, 2), chunk=st.sampled_from([0, 0, 3]))
    def begin(self, retries: int, chunk: int) -> None:
        self.queue = Calls()
        self.retries = retries
        self.queue.begin(MapFunction(number=1, data=b"f", retries=retries, chunk=chunk))
        self.added = 0
        self.heard: list[int] = []
        self.names = {slot: f"{slot}" for slot in range(4)}
        self.has: dict[int, list[MapCall]] = {slot: [] for slot in range(4)}
        self.deaths: dict[int, int] = {}
        self.generation = 0

    @rule(count=st.integers(1, 12), again=st.booleans())
    def add(self, count: int, again: bool) -> None:
        calls = tuple(MapCall(n, b"c") for n in range(self.added, self.added + count))
        self.added += count
        self.queue.add(calls)
        if again:
            self.queue.add(calls)

    @rule(slot=WORKERS, most=st.integers(1, 8), is_lost=st.booleans())
    def take(self, slot: int, most: int, is_lost: bool) -> None:
        if self.has[slot]:
            return
        given = self.queue.take(self.names[slot], most)
        assert len(given) == len({call.number for call in given})
        self.has[slot] = [] if is_lost else list(given)

    @rule(slot=WORKERS, count=st.integers(1, 4))
    def finish(self, slot: int, count: int) -> None:
        done, self.has[slot] = self.has[slot][:count], self.has[slot][count:]
        self.queue.finish(tuple(MapOutcome(call.number, "returned", b"r") for call in done))

    @rule(slot=WORKERS)
    def give_back(self, slot: int) -> None:
        back, self.has[slot] = self.has[slot][1:], self.has[slot][:1]
        self.queue.give_back(self.names[slot], tuple(call.number for call in back))

    @rule(slot=WORKERS)
    def die(self, slot: int) -> None:
        self.queue.take(self.names[slot], 1) if not self.has[slot] else None
        for number in self.queue._held.get(self.names[slot], {}):
            self.deaths[number] = self.deaths.get(number, 0) + 1
        self.queue.died(self.names[slot], "gone")
        self.replace(slot)

    @rule(slot=WORKERS)
    def leave(self, slot: int) -> None:
        self.queue.left(self.names[slot])
        self.replace(slot)

    @rule(stranger=st.integers(0, 40))
    def hear_of_an_old_worker(self, stranger: int) -> None:
        self.queue.finish((MapOutcome(stranger, "returned", b"old"),))

    @precondition(lambda self: hasattr(self, "queue"))
    @rule()
    def read(self) -> None:
        for outcome in self.queue.outcomes(after=len(self.heard)):
            if outcome.how == "died":
                assert self.deaths[outcome.number] == self.retries + 1
            self.heard.append(outcome.number)

    def replace(self, slot: int) -> None:
        self.generation += 1
        self.names[slot] = f"{slot}.{self.generation}"
        self.has[slot] = []

    @invariant()
    def nothing_is_wrong(self) -> None:
        if hasattr(self, "queue"):
            self.queue.check()
            assert not self.queue.failure
            assert len(self.heard) == len(set(self.heard)), "two outcomes of one call"

    def teardown(self) -> None:
        """Left to itself, one good worker brings every call to its outcome."""
        if not hasattr(self, "queue"):
            return
        for slot in range(4):
            self.queue.left(self.names[slot])
        while given := self.queue.take("last", 5):
            self.queue.finish(tuple(MapOutcome(call.number, "returned", b"") for call in given))
            self.read()
        self.read()
        self.queue.check()

        assert sorted(self.heard) == list(range(self.added))


TestMapMachine = MapMachine.TestCase
TestMapMachine.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
