"""Two live machines under one key: noticed by who comes back after somebody else had come.

Lives here: what each key was last seen as. Never here: what to do about it (`machine`).
Invariant: a machine that only starts again is no clone; its former start never comes back.
"""

from collections import deque
from typing import Final

from distributed_grid.model.ids import NodeId

STARTS_KEPT: Final = 8  # Of each key: a clone alternates between two.


class Clones:
    """The starts of every key."""

    def __init__(self) -> None:
        self._current: dict[NodeId, tuple[str, str]] = {}
        self._generation: dict[NodeId, int] = {}  # Under which the current one spoke.
        self._former: dict[NodeId, deque[tuple[str, str]]] = {}

    def rumour(self, node: NodeId, machine: str, nonce: str, generation: int) -> bool:
        """Gossip tells of a start. It may be late, so only one on another machine counts.

        A machine that lost its disk begins with low generations: what is said of its former starts
        can come after it was met itself, and would look as if that had come back.
        """
        current = self._current.get(node)
        is_old = generation <= self._generation.get(node, 0)
        if current is not None and (current[0] == machine or is_old):
            return False
        return self.meet(node, machine, nonce, generation)

    def meet(self, node: NodeId, machine: str, nonce: str, generation: int = 0) -> bool:
        """A start of this key speaks; whether another one has spoken since it last did."""
        start = (machine, nonce)
        self._generation[node] = max(generation, self._generation.get(node, 0))
        current = self._current.get(node)
        if current == start:
            return False
        former = self._former.get(node, ())
        is_back = start in former
        if current is not None:
            self._former.setdefault(node, deque(maxlen=STARTS_KEPT)).append(current)
        self._current[node] = start
        return is_back

    def other(self, node: NodeId) -> tuple[str, str]:
        """Machine and nonce of the start that spoke before the current one."""
        return self._former[node][-1]

    def forget(self, node: NodeId) -> None:
        """It is gone."""
        self._current.pop(node, None)
        self._generation.pop(node, None)
        self._former.pop(node, None)
