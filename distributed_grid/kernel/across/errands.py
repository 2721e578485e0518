"""What other nodes must learn from this one: told again and again until they answer.

Lives here: whom to tell of which job, and when. Never here: what is told (`meeting`).
Invariant: an errand leaves only when it is done, or when too many wait for one node that is away.
"""

from itertools import islice
from typing import Final

from distributed_grid.model.ids import JobId, NodeId

ERRAND_MS: Final = 1_000  # Without an answer it is told again.
REFUSED_MS: Final = 10_000  # Somebody whose disk is full is left alone for a while.
ERRANDS_MAX: Final = 256  # In one tick: after a start there may be thousands.
AWAY_MAX: Final = 2_000  # For one node that is away; the oldest go first.


class Errands:
    """Pairs of job and node, those that were told longest ago first."""

    def __init__(self) -> None:
        self._due: dict[tuple[JobId, NodeId], int] = {}
        self._away: dict[NodeId, dict[JobId, None]] = {}

    def has(self, job: JobId, node: NodeId) -> bool:
        """Whether a node must still learn something of a job from us."""
        return (job, node) in self._due or job in self._away.get(node, ())

    def plan(self, job: JobId, node: NodeId, at_ms: int) -> None:
        """A node must learn what is known here."""
        self.done(job, node)
        self._due[job, node] = at_ms

    def done(self, job: JobId, node: NodeId) -> None:
        """It knows."""
        self._due.pop((job, node), None)
        self._away.get(node, {}).pop(job, None)

    def refused(self, job: JobId, node: NodeId, now_ms: int) -> None:
        """It does not take it now."""
        if (job, node) in self._due:
            self.plan(job, node, now_ms + REFUSED_MS)

    def wait(self, job: JobId, node: NodeId) -> None:
        """It is away: tell it when it comes."""
        self.done(job, node)
        waiting = self._away.setdefault(node, {})
        waiting[job] = None
        if len(waiting) > AWAY_MAX:
            del waiting[next(iter(waiting))]

    def came(self, node: NodeId, now_ms: int) -> None:
        """It is there again."""
        for job in self._away.pop(node, ()):
            self._due[job, node] = now_ms

    def due(self, now_ms: int) -> list[tuple[JobId, NodeId]]:
        """Whom to tell now."""
        late = (pair for pair, due_ms in self._due.items() if due_ms <= now_ms)
        return list(islice(late, ERRANDS_MAX))
