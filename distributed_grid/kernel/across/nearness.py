"""Where a job would like to run, by what its home knows: near its files, or near its home.

Lives here: `--locality` as a preference, which of two places it likes more, and which nodes have
which files. Never here: sending files (`agent.shipping`), the order of places (`kernel.placement`).
Invariant: a wish that no node can meet is none: nobody waits for it.
"""

from collections.abc import Collection, Iterable
from typing import Final

import msgspec

from distributed_grid.kernel.placement.view import OneNode
from distributed_grid.kernel.placement.wishes import unmet
from distributed_grid.model.ids import NodeId
from distributed_grid.model.job import NOWHERE, JobSpec
from distributed_grid.model.node import NodeRecord

MANIFESTS_MAX: Final = 1_024  # Of which is remembered who has them; the oldest make room.
NODES_MAX: Final = 64  # That have one of them; who needs a place finds one among so many.


class Files:
    """Which nodes began something with which files, and so have them."""

    def __init__(self) -> None:
        self._nodes: dict[str, dict[NodeId, None]] = {}  # By manifest.

    def came(self, spec: JobSpec, node: NodeId) -> None:
        """A process of this job runs there: what it needs is there."""
        if spec.ship is None:
            return
        nodes = self._nodes.pop(spec.ship.manifest, {})
        nodes.pop(node, None)
        nodes[node] = None
        self._nodes[spec.ship.manifest] = nodes  # The newest last.
        if len(nodes) > NODES_MAX:
            del nodes[next(iter(nodes))]
        if len(self._nodes) > MANIFESTS_MAX:
            del self._nodes[next(iter(self._nodes))]

    def at(self, spec: JobSpec) -> Iterable[NodeId]:
        """The nodes that have the files of a job, as far as known."""
        return self._nodes.get(spec.ship.manifest, ()) if spec.ship is not None else ()


def wished(spec: JobSpec, own: NodeRecord | None, having: Collection[NodeId]) -> JobSpec:
    """The specification, with its locality as a preference."""
    if own is None:
        return spec
    if spec.locality == "data":  # Its home has them, always.
        nodes = (*spec.prefer.nodes, own.id, *sorted(having))
        where = msgspec.structs.replace(spec.prefer, nodes=nodes)
        return msgspec.structs.replace(spec, prefer=where)
    value = own.labels.get(spec.locality)
    if value is None:
        return spec  # Its home does not say where it stands.
    labels = tuple(sorted({*spec.prefer.labels, (spec.locality, value)}))
    return msgspec.structs.replace(spec, prefer=msgspec.structs.replace(spec.prefer, labels=labels))


def is_picky(spec: JobSpec) -> bool:
    """Whether it has a wish for its place."""
    return (spec.policy, spec.prefer, spec.avoid_if_possible) != ("", NOWHERE, NOWHERE)


def likes_more(spec: JobSpec, one: NodeRecord, other: NodeRecord) -> bool:
    """Whether one place meets more of what was wished than the other, whatever is free there."""
    return bool(unmet(spec, OneNode(one)) < unmet(spec, OneNode(other)))
