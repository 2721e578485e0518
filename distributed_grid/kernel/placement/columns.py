"""A snapshot of many nodes as numpy columns, changed in place as records change.

Lives here: the view of all nodes at once, and finding the best few of them without touching a
Python object for the rest. Below some 64 nodes `plain` is faster.
Invariant: row i of every column is about the i-th node; a tie is never decided here but by the
exact key of `rank`.
"""

from collections.abc import Hashable, Iterable
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from distributed_grid.kernel.placement import rank
from distributed_grid.kernel.placement.checks import checks
from distributed_grid.kernel.placement.decision import Snapshot, filter_verdicts, score_parts
from distributed_grid.kernel.placement.interned import Interned
from distributed_grid.kernel.placement.rules import Rules
from distributed_grid.kernel.placement.view import (
    NUMBERS,
    TRUTHS,
    OneNode,
    View,
    numbers_of,
    truths_of,
)
from distributed_grid.model.gpus import GpuRequest
from distributed_grid.model.ids import JobId, NodeId
from distributed_grid.model.job import JobSpec
from distributed_grid.model.node import NodeRecord

CAPACITY_MIN = 128

_INTERNED = (
    "gpus_free", "custom_free", "node_class", "labels", "running", "arch", "features",
)  # fmt: skip
# All that is not a number, or decides what is not.
_LASTING = attrgetter(
    "name", "free.gpus", "free.custom", "node_class", "labels", "running", "arch", "features",
    "power.on_battery", "network.reachability", "verification",
)  # fmt: skip


class Columns(View, Snapshot):
    """Many nodes; every word of `View` is an array over them."""

    def __init__(self, records: Iterable[NodeRecord] = ()) -> None:
        self._nodes: list[NodeRecord] = []
        self._row: dict[NodeId, int] = {}
        self._named: dict[str, dict[NodeId, None]] = {}  # A name may be that of several.
        self._capacity = CAPACITY_MIN
        self._numbers = np.zeros((len(NUMBERS), CAPACITY_MIN), np.int64)
        self._truths = np.zeros((len(TRUTHS), CAPACITY_MIN), np.bool_)
        self._ids = np.zeros((4, CAPACITY_MIN), np.uint64)
        self._words = {name: Interned(CAPACITY_MIN) for name in _INTERNED}
        for record in records:
            self._write(record)
        self._slice()

    # Changing

    def update(self, record: NodeRecord) -> None:
        """Add a node, or replace what is known of it."""
        count = len(self._nodes)
        self._write(record)
        if len(self._nodes) != count:
            self._slice()

    def _write(self, record: NodeRecord) -> None:
        self.version += 1
        row = self._row.get(record.id)
        if row is None:
            row = self._append(record)
        else:
            before, self._nodes[row] = self._nodes[row], record
            if _LASTING(before) == _LASTING(record):  # Only numbers have changed, as mostly.
                self._numbers[:, row] = numbers_of(record)
                return
            for column in self._words.values():
                column.clear(row)
            self._forget_name(before)
        self._named.setdefault(record.name, {})[record.id] = None
        self._numbers[:, row] = numbers_of(record)
        self._truths[:, row] = truths_of(record)
        for column, value in zip(self._words.values(), _words_of(record), strict=True):
            column.set(row, value)

    def remove(self, node: NodeId) -> None:
        """Forget a node; unknown ones are forgotten already."""
        row = self._row.pop(node, None)
        if row is None:
            return
        last = len(self._nodes) - 1
        self._forget_name(self._nodes[row])
        for column in self._words.values():
            column.clear(row)
            column.ids[row] = column.ids[last]
        for array in (self._numbers, self._truths, self._ids):
            array[:, row] = array[:, last]
        moved = self._nodes.pop()
        if row != last:
            self._nodes[row] = moved
            self._row[moved.id] = row
        self._slice()
        self.version += 1

    def _append(self, record: NodeRecord) -> int:
        row = len(self._nodes)
        if row == self._capacity:
            self._grow(2 * self._capacity)
        self._nodes.append(record)
        self._row[record.id] = row
        self._ids[:, row] = rank.words_of(int(record.id, 16))
        return row

    def _forget_name(self, record: NodeRecord) -> None:
        alike = self._named[record.name]
        del alike[record.id]
        if not alike:
            del self._named[record.name]

    def _grow(self, capacity: int) -> None:
        self._numbers = _wider(self._numbers, capacity)
        self._truths = _wider(self._truths, capacity)
        self._ids = _wider(self._ids, capacity)
        for column in self._words.values():
            column.grow(capacity)
        self._capacity = capacity

    def _slice(self) -> None:
        """Point the words of the view at the rows in use."""
        count = len(self._nodes)
        for index, name in enumerate(NUMBERS):
            setattr(self, name, self._numbers[index, :count])
        for index, name in enumerate(TRUTHS):
            setattr(self, name, self._truths[index, :count])

    # Deciding

    def best(self, job: JobSpec, rules: Rules, count: int) -> list[NodeRecord]:
        """The first `count` of the nodes that can take the job, in order."""
        rows, scores = self._candidates(job, rules)
        if len(rows) > count:
            worst = np.partition(scores, count - 1)[count - 1]
            close = scores <= worst
            rows, scores = rows[close], scores[close]
        if len(rows) > count:
            close = self._close_by_rank(job, rules, rows, scores, count)
            rows, scores = rows[close], scores[close]
        return self._ordered(job, rules, rows, scores)[:count]

    def eligible(self, job: JobSpec, rules: Rules) -> list[NodeRecord]:
        """All nodes that can take the job, in order."""
        return self._ordered(job, rules, *self._candidates(job, rules))

    def _candidates(self, job: JobSpec, rules: Rules) -> tuple[NDArray[np.intp], NDArray[np.int64]]:
        """The rows that pass every check, with their scores."""
        # The first check is a fresh array; the others are folded into it.
        first_check, *other_checks = checks(job, rules, self)
        fits = first_check.holds
        for check in other_checks:
            fits = fits & check.holds
        rows = fits.nonzero()[0]
        if rules.filters:
            kept = [r for r in rows if not filter_verdicts(job, rules, self._nodes[r])]
            rows = np.array(kept, np.intp)
        if rules.policy is not None and not rules.policy.on_columns:
            return rows, self._own_scores(job, rules, rows)
        parts = list(score_parts(job, rules, self, None).values())
        scores: NDArray[np.int64] = parts[0]
        for part in parts[1:]:
            scores = scores + part
        return rows, scores[rows]

    def _own_scores(self, job: JobSpec, rules: Rules, rows: NDArray[np.intp]) -> NDArray[np.int64]:
        nodes = [self._nodes[row] for row in rows]
        scores = [sum(score_parts(job, rules, OneNode(n), n).values()) for n in nodes]
        return np.array(scores, np.int64)

    def _close_by_rank(
        self,
        job: JobSpec,
        rules: Rules,
        rows: NDArray[np.intp],
        scores: NDArray[np.int64],
        count: int,
    ) -> NDArray[np.bool_]:
        """Of rows with the best scores, those whose rank can still matter."""
        first = self._first_words(rules.rank, job.id, rows)
        # Only the worst of these scores is shared by more nodes than are wanted; the better ones
        # are in, whatever their rank.
        first[scores < scores.max()] = 0
        close: NDArray[np.bool_] = first <= np.partition(first, count - 1)[count - 1]
        return close

    def _first_words(
        self, kind: rank.Rank, job: JobId, rows: NDArray[np.intp]
    ) -> NDArray[np.uint64]:
        """The first 64 bits of the rank keys of these rows."""
        wanted = rank.words_of(int(job, 16))
        if kind == "xor":
            first: NDArray[np.uint64] = self._ids[0][rows] ^ np.uint64(wanted[0])
            return first
        x0, x1, x2, x3 = (self._ids[i][rows] ^ np.uint64(wanted[i]) for i in range(4))
        x2 += _finalise(x3)
        x1 += _finalise(x2)
        x0 += _finalise(x1)
        return _finalise(x0)

    def _ordered(
        self, job: JobSpec, rules: Rules, rows: NDArray[np.intp], scores: NDArray[np.int64]
    ) -> list[NodeRecord]:
        """These rows in order: score, then the exact key, then the id."""
        nodes = [self._nodes[row] for row in rows]
        plain = scores.tolist()
        if len(set(plain)) == len(plain):  # No tie: the keys, which cost most, are not needed.
            return [nodes[index] for _, index in sorted((s, i) for i, s in enumerate(plain))]
        order = [
            (score, rank.rank_key(rules.rank, job.id, node.id), node.id, index)
            for index, (score, node) in enumerate(zip(plain, nodes, strict=True))
        ]
        return [nodes[index] for _, _, _, index in sorted(order)]

    # The words of the view that are not columns

    def gpu_free(self, request: GpuRequest) -> NDArray[np.int64]:
        return self._ask("gpus_free", request, request.available_milli)

    def custom_free(self, kind: str) -> NDArray[np.int64]:
        return self._ask("custom_free", kind, lambda amounts: dict(amounts).get(kind, 0))

    def in_class(self, classes: tuple[str, ...]) -> Any:
        return self._ask("node_class", classes, lambda name: name in classes) > 0

    def has_label(self, key: str, value: str) -> Any:
        return self._ask("labels", (key, value), lambda pairs: (key, value) in pairs) > 0

    def is_named(self, names: tuple[str, ...]) -> Any:
        # Names hardly repeat: a table of answers would be as long as the fleet, for each question.
        is_so = np.zeros(len(self._nodes), np.bool_)
        meant = (node for name in names for node in (NodeId(name), *self._named.get(name, ())))
        is_so[[self._row[node] for node in meant if node in self._row]] = True
        return is_so

    def runs(self, jobs: tuple[str, ...]) -> Any:
        wanted = frozenset(jobs)
        return self._ask("running", jobs, lambda running: not wanted.isdisjoint(running)) > 0

    def has_arch(self, arch: str) -> Any:
        return self._ask("arch", arch, lambda has: has == arch) > 0

    def has_feature(self, feature: str) -> Any:
        return self._ask("features", feature, lambda has: feature in has) > 0

    def maximum(self, left: Any, right: Any) -> Any:
        return np.maximum(left, right)

    def minimum(self, left: Any, right: Any) -> Any:
        return np.minimum(left, right)

    def where(self, truth: Any, then: Any, otherwise: Any) -> Any:
        return np.where(truth, then, otherwise)

    def _ask(self, column: str, question: Hashable, ask: Any) -> NDArray[np.int64]:
        return self._words[column].answer(question, ask, len(self._nodes))

    # Reading

    def records(self) -> list[NodeRecord]:
        """Every node, sorted by id."""
        return sorted(self._nodes, key=lambda node: node.id)

    def __len__(self) -> int:
        return len(self._nodes)

    def bytes_used(self) -> int:
        """What the columns themselves take, without the records."""
        words = sum(column.ids.nbytes for column in self._words.values())
        return self._numbers.nbytes + self._truths.nbytes + self._ids.nbytes + words

    def check(self) -> None:
        """Re-derive what must be true."""
        assert len(self._row) == len(self._nodes), "a node has no row, or two"
        for row, node in enumerate(self._nodes):
            assert self._row[node.id] == row, "a node and its row disagree"
            assert node.id in self._named[node.name], "a name was lost"
            assert self._numbers[:, row].tolist() == numbers_of(node), "a column is old"
            assert self._truths[:, row].tolist() == truths_of(node), "a column is old"
            assert tuple(self._ids[:, row].tolist()) == rank.words_of(int(node.id, 16)), (
                "a wrong id"
            )
        assert sum(map(len, self._named.values())) == len(self._nodes), "an old name was kept"
        for column in self._words.values():
            column.check(len(self._nodes))


def _words_of(record: NodeRecord) -> tuple[Hashable, ...]:
    """The values of a node that repeat between nodes, in the order of _INTERNED."""
    return (
        record.free.gpus, record.free.custom, record.node_class.name,
        frozenset(record.labels.items()), record.running, record.arch, record.features,
    )  # fmt: skip


def _finalise(word: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """`rank.finalise` on arrays; uint64 wraps as the rule wants."""
    z = word + np.uint64(rank.GAMMA)
    z ^= z >> np.uint64(rank.SHIFTS[0])
    z *= np.uint64(rank.MULTIPLIERS[0])
    z ^= z >> np.uint64(rank.SHIFTS[1])
    z *= np.uint64(rank.MULTIPLIERS[1])
    z ^= z >> np.uint64(rank.SHIFTS[2])
    return z


def _wider(array: NDArray[Any], capacity: int) -> NDArray[Any]:
    wide = np.zeros((array.shape[0], capacity), array.dtype)
    wide[:, : array.shape[1]] = array
    return wide
