"""A snapshot of a few nodes, in plain Python: below some 64 nodes faster than arrays, and light.

Lives here: the snapshot of a small mesh. For large ones: `columns`.
"""

from collections.abc import Iterable

from distributed_grid.kernel.placement.checks import checks
from distributed_grid.kernel.placement.decision import Snapshot, filter_verdicts, score_parts
from distributed_grid.kernel.placement.rank import rank_key
from distributed_grid.kernel.placement.rules import Rules
from distributed_grid.kernel.placement.view import OneNode
from distributed_grid.model.ids import NodeId
from distributed_grid.model.job import JobSpec
from distributed_grid.model.node import NodeRecord


class PlainSnapshot(Snapshot):
    """Nodes by id, each with its view made once."""

    def __init__(self, records: Iterable[NodeRecord] = ()) -> None:
        self._views: dict[NodeId, OneNode] = {}
        for record in records:
            self.update(record)

    def update(self, record: NodeRecord) -> None:
        """Add a node, or replace what is known of it."""
        self._views[record.id] = OneNode(record)
        self.version += 1

    def remove(self, node: NodeId) -> None:
        """Forget a node; unknown ones are forgotten already."""
        if self._views.pop(node, None):
            self.version += 1

    def best(self, job: JobSpec, rules: Rules, count: int) -> list[NodeRecord]:
        """The first `count` of the nodes that can take the job, in order."""
        return self.eligible(job, rules)[:count]

    def eligible(self, job: JobSpec, rules: Rules) -> list[NodeRecord]:
        """All nodes that can take the job, in order."""
        order = []
        for view in self._views.values():
            node = view.record
            if not all(check.holds for check in checks(job, rules, view)):
                continue
            if rules.filters and filter_verdicts(job, rules, node):
                continue
            score = sum(score_parts(job, rules, view, node).values())
            order.append((score, rank_key(rules.rank, job.id, node.id), node.id))
        return [self._views[node].record for _, _, node in sorted(order)]

    def records(self) -> list[NodeRecord]:
        """Every node, sorted by id."""
        return [self._views[node].record for node in sorted(self._views)]

    def __len__(self) -> int:
        return len(self._views)
