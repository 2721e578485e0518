"""The nodes that a new job names: beginnings of ids become ids, before anything looks at them.

Lives here: what the words of `require` and `avoid` mean among the members that are known. Never
here: whether such a node will do (`kernel.placement`).
Invariant: a name stays a name, so that the job means whoever has it later; a job that is said again
means what it meant then.
"""

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from distributed_grid.errors import NotFound
from distributed_grid.kernel.finding import node_among
from distributed_grid.kernel.node import Node
from distributed_grid.model.ids import ID_DIGITS, NodeId
from distributed_grid.model.job import NOWHERE, JobSpec, Where


class Meant(NamedTuple):
    """Jobs as they are meant, and the words for nodes that nobody here knows."""

    jobs: tuple[JobSpec, ...]
    wanted: tuple[str, ...] = ()  # The kernel refuses these, if they are all that a job wants.
    avoided: tuple[str, ...] = ()

    def check(self) -> None:
        """Whoever avoids nobody has mistyped somebody. Raises NotFound."""
        for word in self.avoided:
            error = NotFound("node", word)
            error.remedy = "See grid nodes. To avoid one that is yet to join: --wait-for-capacity"
            raise error


def meant(jobs: tuple[JobSpec, ...], node: Node) -> Meant:
    """What these jobs mean, as the mesh is seen now. Raises Ambiguous."""
    across = node.across
    if across is None or not any(spec.require.nodes or spec.avoid.nodes for spec in jobs):
        return Meant(jobs)
    known = {across.me: node.coordinator.node}
    known |= {peer.id: peer.name for peer in across.peers.values()}
    names = frozenset(known.values())
    found: list[JobSpec] = []
    wanted, avoided = set[str](), set[str]()
    for spec in jobs:
        before = node.coordinator.jobs.get(spec.id)
        then = before.spec if before is not None else None
        reading = _Reading(known, names)
        require = reading.where(spec.require, then.require if then else NOWHERE)
        strange = len(reading.strange)
        avoid = reading.where(spec.avoid, then.avoid if then else NOWHERE)
        found.append(msgspec.structs.replace(spec, require=require, avoid=avoid))
        if then is None and not spec.wait_for_capacity:
            wanted.update(reading.strange[:strange])
            avoided.update(reading.strange[strange:])
    return Meant(tuple(found), tuple(sorted(wanted)), tuple(sorted(avoided)))


class _Reading:
    """Reads the words of one job."""

    def __init__(self, known: Mapping[NodeId, str], names: frozenset[str]) -> None:
        self._known, self._names = known, names
        self.strange: list[str] = []

    def where(self, told: Where, then: Where) -> Where:
        if not told.nodes:
            return told
        nodes = tuple(dict.fromkeys(self._node(word, then.nodes) for word in told.nodes))
        return msgspec.structs.replace(told, nodes=nodes)

    def _node(self, word: str, then: tuple[str, ...]) -> str:
        if word in self._names or word in then or len(word) == ID_DIGITS:
            return word  # A whole id may be of somebody who has left.
        found = node_among(word, {NodeId(one): "" for one in then if len(one) == ID_DIGITS})
        found = found or node_among(word, self._known)
        if found is None:
            self.strange.append(word)
        return found or word
