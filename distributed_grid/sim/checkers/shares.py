"""What users with medium work waiting get follows their weights.

Lives here: the stated error. While all of them have work waiting, what two have used, each over its
weight, differs by no more than two jobs of the longest kind, each over the smaller weight. Nobody
who is always there has a credit; whoever was away begins with no more than ten minutes of it.
"""

from collections import Counter

from distributed_grid.kernel.node import Node, NodeEvent
from distributed_grid.kernel.ready import Ready
from distributed_grid.sim.arrivals import LONGEST_MS
from distributed_grid.sim.moods import USERS
from distributed_grid.sim.world import Checker, Violation, World

JOBS_APART = 2


class SharesFollowWeights(Checker):
    """In a world of nothing but backlogs."""

    def __init__(self) -> None:
        self._used: Counter[str] = Counter()  # Cores times milliseconds.
        self._last_ms = 0

    def stepped(self, world: World, node: Node, event: NodeEvent, ready: Ready) -> None:
        """Add up what each has held, as long as everybody waits."""
        if not world.mood.is_backlogged:
            return
        past_ms, self._last_ms = world.now_ms - self._last_ms, world.now_ms
        waiting = {world.spec(job).user for job in node.host.line}
        if waiting != set(USERS):
            return
        for lease in node.ledger.leases.values():
            self._used[world.spec(lease.job).user] += past_ms
        weights = world.mood.weights
        least = min(weights.user(user) for user in USERS)
        parts = {user: self._used[user] * 1_000 // weights.user(user) for user in USERS}
        error_ms = JOBS_APART * LONGEST_MS * 1_000 // least
        high, low = max(parts, key=lambda u: parts[u]), min(parts, key=lambda u: parts[u])
        if parts[high] - parts[low] > error_ms:
            raise Violation(
                f"{high} has used {parts[high]}, {low} {parts[low]}: apart by more than {error_ms}"
            )
