"""Which node should run a job: filter, score, rank. Pure, in integers, the same for everyone.

Lives here: `place`, and the choice between a few nodes in plain Python and many in columns.
Invariant: a decision is a function of the *set* of nodes, the job and the rules.

The words a newcomer needs, in reading order: `checks` (who can), `policies` and `wishes` (who
should), `rank` (who comes first among equals), `decision` (the answer).
"""

from collections.abc import Iterable

from distributed_grid.errors import BadValue
from distributed_grid.kernel.placement.decision import (
    Decision,
    Ranked,
    Reason,
    Refusal,
    Snapshot,
    Standing,
)
from distributed_grid.kernel.placement.plain import PlainSnapshot
from distributed_grid.kernel.placement.power import PowerPolicy
from distributed_grid.kernel.placement.rules import Policy, Rules
from distributed_grid.model.job import JobSpec
from distributed_grid.model.node import NodeRecord

__all__ = [
    "Decision",
    "Policy",
    "PowerPolicy",
    "Ranked",
    "Reason",
    "Refusal",
    "Rules",
    "Snapshot",
    "Standing",
    "place",
    "snapshot",
]

PLAIN_NODES_MAX = 64  # Measured: about here arrays overtake plain Python; numpy costs 15 MB.


def place(
    job: JobSpec, nodes: Iterable[NodeRecord] | Snapshot, rules: Rules | None = None
) -> Decision:
    """Decide where a job goes. Nodes may come in any order; a snapshot is decided on as it is."""
    held = nodes if isinstance(nodes, Snapshot) else snapshot(nodes)
    return Decision(job, rules or Rules(), held)


def snapshot(nodes: Iterable[NodeRecord]) -> Snapshot:
    """The nodes in the shape that suits their number."""
    records = list(nodes)
    if len({record.id for record in records}) != len(records):
        raise BadValue("nodes", expected="every node once", remedy="Remove the duplicate ids")
    if len(records) <= PLAIN_NODES_MAX:
        return PlainSnapshot(records)
    # Not at the top: a small mesh never pays for numpy.
    from distributed_grid.kernel.placement.columns import Columns

    return Columns(records)
