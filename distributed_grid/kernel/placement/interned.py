"""A column of values that repeat between nodes: GPU sets, labels, classes.

Lives here: small ids for values, and tables that answer one question for every value at once.
Invariant: an id is used by at least one node, or is free to be used again; so a column holds at
most as many values as there are nodes, however often they change.
"""

from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable
from typing import Any

import numpy as np
from numpy.typing import NDArray

TABLES_MAX = 64  # Questions remembered for each column; the oldest is forgotten.


class Interned:
    """Values by node index, each value stored once."""

    def __init__(self, capacity: int) -> None:
        self.ids: NDArray[np.int32] = np.zeros(capacity, np.int32)
        self._values: list[Any] = []
        self._id_of: dict[Hashable, int] = {}
        self._uses: list[int] = []
        self._free: list[int] = []
        self._tables: OrderedDict[Hashable, tuple[Callable[[Any], int], NDArray[np.int64]]]
        self._tables = OrderedDict()
        self.table_hits = 0

    def set(self, index: int, value: Hashable) -> None:
        """Give a node that has none a value."""
        ident = self._id_of.get(value)
        if ident is None:
            ident = self._new_id(value)
        self._uses[ident] += 1
        self.ids[index] = ident

    def clear(self, index: int) -> None:
        """Take a node's value away."""
        ident = int(self.ids[index])
        self._uses[ident] -= 1
        if self._uses[ident] == 0:
            del self._id_of[self._values[ident]]
            self._values[ident] = None
            self._free.append(ident)

    def grow(self, capacity: int) -> None:
        """Make room for more nodes."""
        self.ids = np.resize(self.ids, capacity)

    def answer(
        self, question: Hashable, ask: Callable[[Any], int], count: int
    ) -> NDArray[np.int64]:
        """`ask(value)` for the first `count` nodes; asked once for each value, then remembered."""
        known = self._tables.get(question)
        if known is None:
            table = np.zeros(len(self._values), np.int64)
            for ident, uses in enumerate(self._uses):
                if uses:
                    table[ident] = ask(self._values[ident])
            self._tables[question] = (ask, table)
            if len(self._tables) > TABLES_MAX:
                self._tables.popitem(last=False)
        else:
            self.table_hits += 1
            self._tables.move_to_end(question)
            table = known[1]
        return table[self.ids[:count]]

    def _new_id(self, value: Hashable) -> int:
        if self._free:
            ident = self._free.pop()
            self._values[ident] = value
        else:
            ident = len(self._values)
            self._values.append(value)
            self._uses.append(0)
        self._id_of[value] = ident
        for question, (ask, table) in self._tables.items():
            if ident >= len(table):
                table = np.resize(table, max(2 * len(table), ident + 1))  # noqa: PLW2901
                self._tables[question] = (ask, table)
            table[ident] = ask(value)
        return ident

    def check(self, count: int) -> None:
        """Re-derive what must be true of the first `count` nodes, which are all there are."""
        uses = Counter(self.ids[:count].tolist())
        assert [uses[ident] for ident in range(len(self._uses))] == self._uses, "a use was lost"
        for value, ident in self._id_of.items():
            assert self._values[ident] == value, "a value and its id disagree"
            assert self._uses[ident] > 0, "an unused value was kept"
            for ask, table in self._tables.values():
                assert table[ident] == ask(value), "a remembered answer is old"
        assert len(self._id_of) + len(self._free) == len(self._values), "an id was lost"
