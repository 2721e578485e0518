"""Entries of this node's jobs in the lines of others.

Lives here: what is known of one, in words too. Never here: whom to ask (`asking`), the line itself
(`kernel.waiting`).
"""

from collections.abc import Mapping

import msgspec

from distributed_grid.model.ids import NodeId


class Asked(msgspec.Struct):
    """An entry in another node's line."""

    number: int
    at_ms: int
    position: int | None = None
    why: str = ""  # What keeps it there, as that node said.
    may_clear: bool = False  # Others were to give way for it there,
    is_clearing: bool = False  # and do.

    def __str__(self) -> str:
        if not self.position:
            return "asked"
        return f"position {self.position}, waits for {self.why or 'its turn'}"


def worst(entries: Mapping[NodeId, Asked]) -> NodeId | None:
    """The line in which a job stands last, of those that have told; None: none has."""
    told = [(one.position, node) for node, one in entries.items() if one.position is not None]
    return max(told)[1] if told else None
