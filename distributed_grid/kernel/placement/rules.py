"""Everything besides job and nodes that a decision depends on, in one frozen object.

Lives here: limits, and the shapes of people's own policies and filters. Never here: looking
names up (`registry`).
"""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from distributed_grid.errors import BadValue
from distributed_grid.kernel.placement.power import PowerPolicy
from distributed_grid.kernel.placement.rank import RANKS, Rank
from distributed_grid.kernel.placement.view import Number, View
from distributed_grid.model.job import JobSpec
from distributed_grid.model.node import NodeRecord

CLUSTER_SIZE_MAX = 1_000_000  # More than any fleet; a typing error is smaller than this.


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """How nodes that fit are ordered: score parts, each a non-negative integer, lower is better."""

    name: str
    parts: Callable[[JobSpec, View], dict[str, Number]]
    on_columns: bool = True  # False: `parts` is somebody's own and wants one node at a time.


# Somebody's own filter: None if the node is fine, else the reason in a sentence.
Filter = Callable[[JobSpec, NodeRecord], str | None]


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """How to decide. The defaults are those of the seeds."""

    policy: Policy | None = None  # None: by rank alone.
    rank: Rank = "even"
    cluster_size: int = 3  # Three lose one and still have a majority.
    age_ms_max: int = 60_000  # A node speaks at least every few seconds; this is far more.
    last_known: bool = False  # Cut off from the others: use old records, and mark them.
    power: PowerPolicy = PowerPolicy()
    filters: Mapping[str, Any] = {}  # Name -> Filter; applied after our own, in order of name.

    def __post_init__(self) -> None:
        if self.rank not in RANKS:
            raise BadValue(
                self.rank, expected=f"a rank of {' or '.join(RANKS)}", remedy="even is the default"
            )
        if not 1 <= self.cluster_size <= CLUSTER_SIZE_MAX:
            raise BadValue(
                self.cluster_size,
                expected=f"a cluster of 1 to {CLUSTER_SIZE_MAX} nodes",
                remedy="3 is the default",
            )
