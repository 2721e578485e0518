"""The answer: who is responsible, who else, in which order, and why not the others.

Lives here: the value that `place` returns. Responsible node and cluster are there at once; the
whole order, its score parts and the refusals are worked out when somebody reads them.
Invariant: everything in a decision is about one state of the snapshot; if that has moved on,
reading raises instead of mixing two states.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import cached_property
from typing import Any, Literal

import msgspec

from distributed_grid.errors import BrokenPlugin, shown
from distributed_grid.kernel.placement.checks import Kind, checks
from distributed_grid.kernel.placement.rank import rank_key, rank_key_text
from distributed_grid.kernel.placement.rules import Rules
from distributed_grid.kernel.placement.view import Number, OneNode, View
from distributed_grid.kernel.placement.wishes import WISH_UNIT, wishes
from distributed_grid.model.ids import NodeId
from distributed_grid.model.job import JobSpec
from distributed_grid.model.node import NodeRecord

Standing = Literal["responsible", "member", "neither"]


class Reason(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that speaks against a node. Amounts are in the unit that `what` names."""

    what: str
    wanted: Any
    has: Any
    kind: Kind


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """A node that cannot take the job, with every reason."""

    id: NodeId
    name: str
    reasons: tuple[Reason, ...]


class Ranked(msgspec.Struct, frozen=True, kw_only=True):
    """A node that can take the job: its score is the sum of the parts; the lowest is first."""

    id: NodeId
    name: str
    score: int
    parts: dict[str, int]
    rank_key: str
    is_stale: bool = False  # Older than the limit, and used because we are cut off.


class Snapshot(ABC):
    """The nodes that a decision is about, in whatever shape finds the best of them fastest."""

    version: int = 0  # Goes up with every change.

    @abstractmethod
    def update(self, record: NodeRecord) -> None:
        """Add a node, or replace what is known of it."""

    @abstractmethod
    def remove(self, node: NodeId) -> None:
        """Forget a node; unknown ones are forgotten already."""

    @abstractmethod
    def best(self, job: JobSpec, rules: Rules, count: int) -> list[NodeRecord]:
        """The first `count` of the nodes that can take the job, in order."""

    @abstractmethod
    def eligible(self, job: JobSpec, rules: Rules) -> list[NodeRecord]:
        """All nodes that can take the job, in order."""

    @abstractmethod
    def records(self) -> list[NodeRecord]:
        """Every node, sorted by id."""

    @abstractmethod
    def __len__(self) -> int: ...


class Decision:
    """Where a job goes, on one snapshot, under one set of rules."""

    def __init__(self, job: JobSpec, rules: Rules, snapshot: Snapshot) -> None:
        self.job = job
        self.rules = rules
        self._snapshot = snapshot
        self._version = snapshot.version
        self._members = snapshot.best(job, rules, rules.cluster_size)

    @property
    def responsible(self) -> NodeId | None:
        """The node that should run it; None if nothing fits."""
        return self._members[0].id if self._members else None

    @property
    def best(self) -> NodeRecord | None:
        """The record of the responsible node."""
        return self._members[0] if self._members else None

    @property
    def cluster(self) -> tuple[NodeId, ...]:
        """The responsible node and the next in order, up to the cluster size."""
        return tuple(node.id for node in self._members)

    def standing(self, node: NodeId) -> Standing:
        """What a node is in this decision; each can tell on its own, without asking anyone."""
        if node not in self.cluster:
            return "neither"
        return "responsible" if node == self.responsible else "member"

    @cached_property
    def ranked(self) -> list[Ranked]:
        """Every node that can take the job, best first."""
        nodes = self._pinned().eligible(self.job, self.rules)
        return [self._ranked(node) for node in nodes]

    @cached_property
    def refused(self) -> list[Refusal]:
        """Every node that cannot, in order of id, each with all its reasons."""
        found = ((node, reasons(self.job, self.rules, node)) for node in self._pinned().records())
        return [Refusal(id=node.id, name=node.name, reasons=why) for node, why in found if why]

    def _ranked(self, node: NodeRecord) -> Ranked:
        parts = score_parts(self.job, self.rules, OneNode(node), node)
        return Ranked(
            id=node.id,
            name=node.name,
            score=sum(parts.values()),
            parts=parts,
            rank_key=rank_key_text(rank_key(self.rules.rank, self.job.id, node.id)),
            is_stale=node.age_ms > self.rules.age_ms_max,
        )

    def _pinned(self) -> Snapshot:
        assert self._snapshot.version == self._version, "the snapshot has moved on; decide again"
        return self._snapshot


def reasons(job: JobSpec, rules: Rules, node: NodeRecord) -> tuple[Reason, ...]:
    """Everything that speaks against one node; empty if it can take the job."""
    found = [
        Reason(what=check.what, wanted=check.wanted, has=has, kind=kind)
        for check in checks(job, rules, OneNode(node))
        if not check.holds
        for kind, has in [check.deficit(node)]
    ]
    found += [
        Reason(what=f"filter.{name}", wanted=None, has=why, kind="policy")
        for name, why in filter_verdicts(job, rules, node)
    ]
    return tuple(found)


def filter_verdicts(job: JobSpec, rules: Rules, node: NodeRecord) -> list[tuple[str, str]]:
    """What people's own filters say against a node."""
    verdicts = []
    for name in sorted(rules.filters):
        try:
            why = rules.filters[name](job, node)
        except Exception as error:  # Anything may be wrong in code that is not ours.
            raise BrokenPlugin("filter", name, why=repr(error)) from error
        if why is not None and not isinstance(why, str):
            raise BrokenPlugin(
                "filter", name, why=f"it returned {shown(why)}, not None or a sentence"
            )
        if why is not None:
            verdicts.append((name, why))
    return verdicts


def score_parts(
    job: JobSpec, rules: Rules, view: View, node: NodeRecord | None
) -> dict[str, Number]:
    """The parts of a node's score, or of all nodes' scores where the view is of many."""
    parts = wishes(job, rules, view)
    policy = rules.policy
    if policy is None:
        return parts
    if policy.on_columns:
        return policy.parts(job, view) | parts
    assert node is not None, "somebody's own policy looks at one node at a time"
    try:
        own = policy.parts(job, node)  # type: ignore[arg-type]  # Own policies take the record.
    except Exception as error:  # Anything may be wrong in code that is not ours.
        raise BrokenPlugin("policy", policy.name, why=repr(error)) from error
    return _checked(policy.name, own, taken=parts) | parts


def _checked(name: str, own: Any, *, taken: Mapping[str, Number]) -> dict[str, int]:
    """The parts of somebody's own policy, or what is wrong with them."""
    parts = {name: own} if isinstance(own, int) else own
    if not isinstance(parts, dict) or not all(
        isinstance(key, str) and isinstance(part, int) and not isinstance(part, bool) and part >= 0
        for key, part in parts.items()
    ):
        why = f"it returned {shown(own)}, not an int of 0 or more or a dict of those"
        raise BrokenPlugin("policy", name, why=why)
    if sum(parts.values()) >= WISH_UNIT:
        why = f"it returned {shown(own)}, a sum of more than {WISH_UNIT - 1:,}"
        raise BrokenPlugin("policy", name, why=why)
    for key in parts.keys() & taken.keys():
        raise BrokenPlugin(
            "policy", name, why=f"its part {key!r} has the name of one of Grid's own"
        )
    return parts
