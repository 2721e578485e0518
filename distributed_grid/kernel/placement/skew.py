"""Whether work really spreads as the rank promises.

Lives here: counting who became responsible, and the share each could expect. Never here: doing
anything about it; `rank = "even"` is the cure.
"""

from bisect import bisect_left
from collections.abc import Sequence
from fractions import Fraction

import msgspec

from distributed_grid.kernel.placement.decision import Decision
from distributed_grid.kernel.placement.rank import Rank
from distributed_grid.model.ids import NodeId

MILLION = 1_000_000


class Share(msgspec.Struct, frozen=True, kw_only=True):
    """Of all decisions so far, in millionths: what a node got, and what it could expect."""

    observed_ppm: int
    expected_ppm: int


class SkewMonitor:
    """Counts decisions; the expected share is by rank alone, among the nodes that could."""

    def __init__(self) -> None:
        self.decisions = 0
        self._observed: dict[NodeId, int] = {}
        self._expected: dict[NodeId, Fraction] = {}

    def record(self, decision: Decision) -> None:
        """Count a decision that found a node."""
        if decision.responsible is None:
            return
        self.decisions += 1
        self._observed[decision.responsible] = self._observed.get(decision.responsible, 0) + 1
        nodes = [ranked.id for ranked in decision.ranked]
        for node, share in expected_shares(decision.rules.rank, nodes).items():
            self._expected[node] = self._expected.get(node, Fraction(0)) + share

    def shares(self) -> dict[NodeId, Share]:
        """The share of every node that was ever able, by id."""
        return {
            node: Share(
                observed_ppm=self._observed.get(node, 0) * MILLION // self.decisions,
                expected_ppm=int(self._expected[node] * MILLION / self.decisions),
            )
            for node in sorted(self._expected)
        }


def expected_shares(rank: Rank, nodes: Sequence[NodeId]) -> dict[NodeId, Fraction]:
    """The share of uniformly random job ids for which each node ranks first."""
    if rank == "even":
        return {node: Fraction(1, len(nodes)) for node in nodes}
    return _trie_shares(sorted(nodes))


def _trie_shares(nodes: list[NodeId]) -> dict[NodeId, Fraction]:
    """Under XOR a job id walks down the binary trie of the node ids: each fork halves the share."""
    numbers = [int(node, 16) for node in nodes]
    shares: dict[NodeId, Fraction] = {}
    todo = [(0, len(nodes), Fraction(1))]
    while todo:
        start, end, share = todo.pop()
        if end - start <= 1:
            shares.update((node, share) for node in nodes[start:end])
            continue
        # Sorted, so the first and the last differ in the bit where this subtree forks.
        fork = (numbers[start] ^ numbers[end - 1]).bit_length() - 1
        upper = (numbers[end - 1] >> fork) << fork
        middle = bisect_left(numbers, upper, start, end)
        todo += [(start, middle, share / 2), (middle, end, share / 2)]
    return shares
