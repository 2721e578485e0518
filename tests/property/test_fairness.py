"""Does the line say what a plain sort says, whatever happened, and whenever one asks?

The reference keeps every charge in plain dictionaries and sorts all entries by the key from the
text; it knows neither groups nor lanes.
"""

from collections import Counter

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from distributed_grid.kernel.dominance import WHOLE_MICRO, dominant_micro
from distributed_grid.kernel.entry import Entry
from distributed_grid.kernel.fairness import Accounts, SavedAccounts
from distributed_grid.kernel.waiting import WaitingLine
from distributed_grid.model.ids import JobId
from distributed_grid.model.priority import Weights
from distributed_grid.model.resources import Request, Resources

TOTAL = Resources(cpu_milli=4_000, memory_bytes=1_000)
WEIGHTS = Weights(users={"ada": 2_000, "bob": 700}, projects={"vision": 3_000})
AGEING_MS, QUANTUM_MS, CREDIT_MS = 100, 10, 15

users = st.sampled_from(["ada", "bob", "cy", "dan"])
projects = st.sampled_from(["", "vision", "text"])
requests = st.sampled_from(
    [
        Request(cpu_milli=1_000),
        Request(cpu_milli=3_000),
        Request(cpu_milli=1_000, memory_bytes=900),
        Request(),
    ]
)


@st.composite
def entries(draw, number: int | None = None) -> Entry:
    """Few values of everything, so that ties and common groups abound."""
    name = draw(st.integers(0, 10**6)) if number is None else number
    return Entry(
        submitted_ms=draw(st.sampled_from([0, 1, 50, 99, 100, 101, 250, 1_000])),
        job=JobId(f"{draw(st.integers(0, 9))}-{name}"),
        rank=draw(st.sampled_from([0, 1, 2, 2, 2, 3])),
        is_shared=draw(st.booleans()),
        user=draw(users),
        project=draw(projects),
        request=draw(requests),
        booking=draw(st.sampled_from(["", "", "demo"])),
    )


class Books:
    """The accounts once more, in the plainest way."""

    def __init__(self) -> None:
        self.spent: Counter[tuple[str, ...]] = Counter()  # By (user) and (user, project).
        self.holds: Counter[tuple[str, ...]] = Counter()
        self.floors: Counter[tuple[str, ...]] = Counter()  # By (), and by (user).
        self.leases: dict[str, tuple[str, str, int, int, int]] = {}

    def use(self, name: tuple[str, ...]) -> int:
        weight = WEIGHTS.users if len(name) == 1 else WEIGHTS.projects
        return self.spent[name] * 1_000 // weight.get(name[-1], 1_000)

    def _rise(self, parent: tuple[str, ...]) -> None:
        uses = [self.use(n) for n, count in self.holds.items() if n[:-1] == parent and count]
        self.floors[parent] = max(self.floors[parent], min(uses, default=0))

    def joined(self, user: str, project: str) -> None:
        for name in ((user,), (user, project)):
            if not self.holds[name]:
                self._rise(name[:-1])
                least = self.floors[name[:-1]] - CREDIT_MS * WHOLE_MICRO
                while self.use(name) < least:
                    weights = WEIGHTS.users if len(name) == 1 else WEIGHTS.projects
                    weight = weights.get(name[-1], 1_000)
                    self.spent[name] += max(1, (least - self.use(name)) * weight // 1_000)
            self.holds[name] += 1

    def left(self, user: str, project: str) -> None:
        for name in ((user,), (user, project)):
            if self.holds[name] == 1:
                self._rise(name[:-1])
            self.holds[name] -= 1

    def pay(self, lease: str, ms: int) -> None:
        user, project, micro, begun_ms, paid_ms = self.leases[lease]
        for name in ((user,), (user, project)):
            self.spent[name] += micro * (ms - paid_ms)
        self.leases[lease] = (user, project, micro, begun_ms, ms)

    def begin(self, lease: str, entry: Entry, now_ms: int) -> None:
        self.joined(entry.user, entry.project)
        micro = dominant_micro(TOTAL, entry.request)
        self.leases[lease] = (entry.user, entry.project, micro, now_ms, 0)
        self.pay(lease, QUANTUM_MS)

    def end(self, lease: str, now_ms: int) -> None:
        user, project, _, begun_ms, _ = self.leases[lease]
        self.pay(lease, now_ms - begun_ms)
        del self.leases[lease]
        self.left(user, project)

    def tick(self, now_ms: int) -> None:
        for lease, (_, _, _, begun_ms, paid_ms) in list(self.leases.items()):
            self.pay(lease, max(paid_ms, now_ms - begun_ms))

    def key(self, entry: Entry, now_ms: int) -> tuple[object, ...]:
        """The key from the text."""
        rank = max(0, entry.rank - max(0, now_ms - entry.submitted_ms) // AGEING_MS)
        medium = (self.use((entry.user,)), self.use((entry.user, entry.project)))
        use = medium if rank == 2 else (0, 0)
        return (entry.is_shared, rank, *use, entry.submitted_ms, entry.job)

    def order(self, waiting: list[Entry], now_ms: int) -> list[Entry]:
        """Serve the first, charge a quantum, look again."""
        later = Books()
        later.spent, left, served = self.spent.copy(), list(waiting), []
        while left:
            first = min(left, key=lambda entry: later.key(entry, now_ms))
            left.remove(first)
            served.append(first)
            for name in ((first.user,), (first.user, first.project)):
                later.spent[name] += dominant_micro(TOTAL, first.request) * QUANTUM_MS
        return served

    def tops(self, waiting: list[Entry], now_ms: int) -> list[Entry]:
        heads: dict[object, Entry] = {}
        for entry in sorted(waiting):
            plain = msgspec.structs.replace(entry, submitted_ms=0, job=JobId(""))
            heads.setdefault(msgspec.json.encode(plain), entry)
        return sorted(heads.values(), key=lambda entry: self.key(entry, now_ms))


def new_accounts() -> Accounts:
    return Accounts(TOTAL, WEIGHTS, credit_ms=CREDIT_MS, quantum_ms=QUANTUM_MS)


class LineMachine(RuleBasedStateMachine):
    """Any story of coming, starting, ending, waiting and restarting."""

    @initialize()
    def start_empty(self) -> None:
        self.line, self.accounts = WaitingLine(ageing_ms=AGEING_MS), new_accounts()
        self.books = Books()
        self.waiting: dict[JobId, Entry] = {}
        self.now_ms = 1_000
        self.numbers = 0

    @rule(data=st.data(), count=st.integers(1, 4))
    def arrive(self, data: st.DataObject, count: int) -> None:
        for _ in range(count):
            self.numbers += 1
            entry = data.draw(entries(self.numbers))
            late_ms = data.draw(st.sampled_from([0, 0, self.now_ms - 50, self.now_ms]))
            entry = msgspec.structs.replace(entry, submitted_ms=entry.submitted_ms + late_ms)
            self.waiting[entry.job] = entry
            assert self.line.add(entry)
            assert not self.line.add(entry)
            self.accounts.joined(entry.user, entry.project)
            self.books.joined(entry.user, entry.project)

    @precondition(lambda self: self.waiting)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        entry = self.waiting.pop(data.draw(st.sampled_from(sorted(self.waiting))))
        assert self.line.remove(entry.job) == entry
        assert self.line.remove(entry.job) is None
        self.accounts.left(entry.user, entry.project)
        self.books.left(entry.user, entry.project)

    @precondition(lambda self: self.waiting)
    @rule(data=st.data(), is_array=st.booleans())
    def start(self, data: st.DataObject, is_array: bool) -> None:
        """Mostly the first; one that did not fit is passed over. An array goes on waiting."""
        tops = self.line.tops(self.now_ms, self.accounts)
        entry = tops[data.draw(st.sampled_from([0, 0, 0, len(tops) - 1]))]
        self.numbers += 1
        lease = f"lease{self.numbers}"
        for _ in range(2):  # The second time is no news.
            self.accounts.begin(lease, entry.user, entry.project, entry.request, self.now_ms)
        self.books.begin(lease, entry, self.now_ms)
        if not is_array:
            self.line.remove(entry.job)
            del self.waiting[entry.job]
            self.accounts.left(entry.user, entry.project)
            self.books.left(entry.user, entry.project)

    @precondition(lambda self: self.books.leases)
    @rule(data=st.data())
    def end(self, data: st.DataObject) -> None:
        lease = data.draw(st.sampled_from(sorted(self.books.leases)))
        self.books.end(lease, self.now_ms)
        for _ in range(2):
            self.accounts.end(lease, self.now_ms)

    @rule(passed_ms=st.sampled_from([1, 5, 49, 100, 300]), ticks=st.booleans())
    def time_passes(self, passed_ms: int, ticks: bool) -> None:
        self.now_ms += passed_ms
        if ticks:
            self.accounts.tick(self.now_ms)
            self.books.tick(self.now_ms)

    @rule()
    def restart(self) -> None:
        """What was used comes back; those who run and wait are told again, as on the first day."""
        saved = msgspec.json.decode(msgspec.json.encode(self.accounts.saved()), type=SavedAccounts)
        for parent in [(), *((user,) for user in ("ada", "bob", "cy", "dan"))]:
            self.books._rise(parent)
        self.books.holds.clear()
        self.line, self.accounts = WaitingLine(ageing_ms=AGEING_MS), new_accounts()
        self.accounts.restore(saved)
        for lease, (user, project, micro, begun_ms, _) in self.books.leases.items():
            request = Request(cpu_milli=micro * TOTAL.cpu_milli // WHOLE_MICRO)
            if dominant_micro(TOTAL, request) != micro:
                request = Request(memory_bytes=micro * TOTAL.memory_bytes // WHOLE_MICRO)
            self.accounts.begin(lease, user, project, request, begun_ms)
            self.books.joined(user, project)
        for entry in self.waiting.values():
            self.line.add(entry)
            self.accounts.joined(entry.user, entry.project)
            self.books.joined(entry.user, entry.project)

    @rule()
    def settings_change(self) -> None:
        """Other accounts than before: nothing that the line remembers of the old ones counts."""
        self.line.tops(self.now_ms, new_accounts())

    @invariant()
    def everything_adds_up(self) -> None:
        if not hasattr(self, "line"):
            return
        self.line.check()
        self.accounts.check()
        for name in self.books.holds:
            if len(name) == 1:
                assert self.accounts.user_use(*name) == self.books.use(name)
            else:
                assert self.accounts.project_use(*name) == self.books.use(name)

    @invariant()
    def the_order_is_that_of_the_text(self) -> None:
        if not hasattr(self, "line"):
            return
        waiting = list(self.waiting.values())
        tops = self.books.tops(waiting, self.now_ms)
        assert self.line.tops(self.now_ms, self.accounts) == tops
        firsts: dict[object, Entry] = {}
        for entry in tops:
            firsts.setdefault((entry.is_shared, entry.request, entry.booking), entry)
        found = self.line.first_of_each(self.now_ms, self.accounts)
        assert found == list(firsts.values())
        order = self.books.order(waiting, self.now_ms)
        assert list(self.line.order(self.now_ms, self.accounts)) == order
        assert set(self.line) == self.waiting.keys()
        assert len(self.line) == len(waiting)


TestLine = pytest.mark.rows("S3-77", "S3-108")(LineMachine.TestCase)


@pytest.mark.rows("S3-77")
@given(waiting=st.lists(entries(), max_size=30, unique_by=lambda entry: entry.job))
def test_the_forecast_is_what_then_happens(waiting):
    line, accounts = WaitingLine(ageing_ms=AGEING_MS), new_accounts()
    for entry in waiting:
        line.add(entry)
        accounts.joined(entry.user, entry.project)
    forecast = list(line.order(200, accounts))
    places = [line.position(entry.job, 200, accounts) for entry in forecast]
    served = []
    while len(line):
        first = line.tops(200, accounts)[0]
        line.remove(first.job)
        accounts.begin(first.job, first.user, first.project, first.request, 200)
        accounts.left(first.user, first.project)
        served.append(first)

    assert forecast == served
    assert places == list(range(1, len(waiting) + 1))


@given(waiting=st.lists(entries(), max_size=20, unique_by=lambda entry: entry.job), data=st.data())
def test_the_order_in_which_they_came_does_not_matter(waiting, data):
    one, other = WaitingLine(ageing_ms=AGEING_MS), WaitingLine(ageing_ms=AGEING_MS)
    for entry in waiting:
        one.add(entry)
    for entry in data.draw(st.permutations(waiting)):
        other.add(entry)
        other.tops(data.draw(st.sampled_from([0, 90, 400])), new_accounts())

    assert list(one.order(400, new_accounts())) == list(other.order(400, new_accounts()))


@given(
    old=entries(),
    others=st.lists(entries(), max_size=20, unique_by=lambda entry: entry.job),
    later_ms=st.sampled_from([0, 1, 100]),
)
def test_three_steps_of_ageing_put_a_job_before_all_that_come_later(old, others, later_ms):
    line, accounts = WaitingLine(ageing_ms=AGEING_MS), new_accounts()
    line.add(old)
    now_ms = old.submitted_ms + 3 * AGEING_MS + later_ms
    for number, other in enumerate(others):
        came_ms = old.submitted_ms + 1 + number
        late = msgspec.structs.replace(other, submitted_ms=came_ms, is_shared=old.is_shared)
        line.add(late)

    assert next(iter(line.order(now_ms, accounts))) == old
    assert line.tops(now_ms, accounts)[0] == old
