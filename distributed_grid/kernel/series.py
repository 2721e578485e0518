"""Short jobs in a row: several attempts share one lease, one after the other.

Lives here: who stands behind whom in which lease, and how many may. Never here: the line of those
who have no lease (`waiting`), the indices of arrays (`chunks`).
Invariant: a lease is held exactly as long as somebody stands in its row.

Between the end of a process and the start of the next a slot idles: the end is reported, the next
grant made durable, the keeper told. For jobs of a millisecond that is most of the time. So while
jobs of a shape turn out short, the next of the same shape are lined up behind one that runs.
"""

from collections import OrderedDict
from typing import Final

import msgspec

from distributed_grid.kernel.chunks import smoothed_us
from distributed_grid.kernel.jobs import Job
from distributed_grid.model.resources import Request

ROW_US: Final = 20_000  # Hides the cost of asking; nobody expects to stand in a row for longer.
ROW_MAX: Final = 16  # As many as were seen to keep a slot busy; what was lined up is committed.
SHAPES_MAX: Final = 256  # Requests whose durations are remembered; the oldest are forgotten.
PATIENCE_MS: Final = 200  # Behind one that runs for longer nobody stays, and nobody lines up.


class Shape(msgspec.Struct, frozen=True):
    """Who may share a lease: jobs that ask for the same, on the same account."""

    request: Request
    user: str = ""
    project: str = ""
    priority: str = "medium"
    is_shared: bool = False
    booking: str = ""


def shape_of(job: Job) -> Shape | None:
    """What a job has in common with those with whom it may share a lease in turn; None: nobody."""
    spec = job.spec
    is_alone = spec.array is not None or spec.at_most_once
    if is_alone or spec.work is None or spec.work.image:
        return None
    return Shape(spec.request, spec.user, spec.project, spec.priority, spec.is_shared, spec.booking)


class Series:
    """The row of each lease that runs single jobs."""

    def __init__(self) -> None:
        self._rows: dict[str, list[str]] = {}  # Lease -> attempts; the first of them runs.
        self._since_ms: dict[str, int] = {}  # Lease -> when its first one became the first.
        self._shapes: dict[str, Shape] = {}  # Of the leases in which others may line up.
        self._leases: dict[Shape, dict[str, None]] = {}
        self._closed: set[str] = set()  # Leases that give way.
        self._mean_us: OrderedDict[Shape, int] = OrderedDict()

    def open(self, lease: str, attempt: str, shape: Shape | None, now_ms: int) -> None:
        """A lease begins with an attempt; without a shape nobody may line up in it."""
        self._rows[lease] = [attempt]
        self._since_ms[lease] = now_ms
        if shape is not None:
            self._shapes[lease] = shape
            self._leases.setdefault(shape, {})[lease] = None

    def line_up(self, lease: str, attempt: str) -> None:
        """Stand behind those who are in this lease."""
        self._rows[lease].append(attempt)

    def leave(self, lease: str, attempt: str, now_ms: int) -> bool:
        """An attempt is over; whether nobody is left in the lease."""
        row = self._rows[lease]
        if row[0] == attempt:
            self._since_ms[lease] = now_ms
        row.remove(attempt)
        if row:
            return False
        del self._rows[lease], self._since_ms[lease]
        self._closed.discard(lease)
        shape = self._shapes.pop(lease, None)
        if shape is not None:
            del self._leases[shape][lease]
            if not self._leases[shape]:
                del self._leases[shape]
        return True

    def took(self, shape: Shape, took_us: int) -> None:
        """A single job of this shape ran for so long."""
        self._mean_us[shape] = smoothed_us(self._mean_us.get(shape, 0), max(took_us, 1))
        self._mean_us.move_to_end(shape)
        if len(self._mean_us) > SHAPES_MAX:
            self._mean_us.popitem(last=False)

    def place(self, shape: Shape, now_ms: int) -> str | None:
        """The lease in which a job of this shape has its turn soonest; None: in none soon."""
        mean_us = self._mean_us.get(shape, ROW_US + 1)
        longest = min(ROW_US // mean_us, ROW_MAX)
        best, best_length = None, longest + 1  # With the one that runs.
        for lease in self._leases.get(shape, ()):
            length = len(self._rows[lease])
            is_quick = now_ms - self._since_ms[lease] <= PATIENCE_MS
            if length < best_length and is_quick and lease not in self._closed:
                best, best_length = lease, length
        return best

    def stuck(self, now_ms: int) -> list[str]:
        """Those who stand behind one that runs for longer than was expected."""
        found: list[str] = []
        for lease, row in self._rows.items():
            waited_ms = now_ms - self._since_ms[lease]
            if len(row) > 1 and waited_ms > PATIENCE_MS:
                self.took(self._shapes[lease], waited_ms * 1_000)
                found += row[1:]
        return found

    def row(self, lease: str) -> list[str]:
        """Those who stand in a lease; the first of them runs."""
        return self._rows[lease]

    def close(self, lease: str) -> None:
        """Nobody may line up there any more: it gives way."""
        self._closed.add(lease)

    def check(self, live: dict[str, set[str]]) -> None:
        """Re-derive what must be true of the leases and the attempts that live in them."""
        rows = {lease: set(row) for lease, row in self._rows.items()}
        assert rows == live, "a row is not those who live in its lease"
        assert set(self._since_ms) == set(self._rows) >= self._closed, "a row without a beginning"
        by_shape = {lease for leases in self._leases.values() for lease in leases}
        assert by_shape == set(self._shapes) <= set(self._rows), "a shape without a lease"
        for lease, row in self._rows.items():
            assert len(row) == 1 or lease in self._shapes, "a row where nobody may line up"
        assert len(self._mean_us) <= SHAPES_MAX, "remembers without bound"
