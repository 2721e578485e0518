"""What the other nodes have, as far as known here, in the shape in which placement looks at it.

Lives here: the nodes that lend, once with what is free and once with everything free. Never here:
whom to ask (`asking`), finding it out (`kernel.mesh`).
Invariant: both are as if they were made anew from the last view, but for what was taken since. A
view comes every moment, and of a thousand nodes most are as they were: so nothing is done before
somebody asks, and then only what has changed. How many jobs run somewhere may be five seconds old
where everything counts as free.
"""

from collections.abc import Callable
from operator import attrgetter
from typing import Final

import msgspec

from distributed_grid.kernel.across.company import among
from distributed_grid.kernel.across.nearness import likes_more
from distributed_grid.kernel.across.peers import NOBODY, Peer, Peers
from distributed_grid.kernel.placement import PLAIN_NODES_MAX, Rules, Snapshot, snapshot
from distributed_grid.model.ids import NodeId
from distributed_grid.model.job import JobSpec
from distributed_grid.model.node import NodeRecord

AMPLE_MS: Final = 5_000  # Whoever stands in a line where nothing is free stands there for a while.
_LASTING: Final = attrgetter(
    "name", "total", "node_class", "labels", "arch", "features", "power", "network",
    "price_micro_per_hour", "verification", "pretended",
)  # fmt: skip

KINDS_MAX: Final = 1_024  # Of jobs, of which is remembered whether any node could run them.

Records = dict[NodeId, NodeRecord]
Kind = tuple[object, ...]
Best = Callable[[JobSpec, Rules, int], list[NodeRecord]]


class Stock:
    """The nodes that lend."""

    def __init__(self) -> None:
        self._peers: Peers = NOBODY
        self._is_old = False  # There is a view that nobody has asked about yet.
        self._now_ms = 0
        self._lasting = 0  # Goes up whenever somebody comes or goes, or becomes another.
        self._lasting_of: Records = {}  # As of when that was last looked at.
        self._records: Records = {}  # As in the last view that somebody asked about.
        self._free = snapshot(())
        self._full: dict[Kind, int] = {}  # In which version nobody had room for such a job.
        self._taken: Records = {}  # As they count since something was taken, or somebody met.
        self._ample = snapshot(())
        self._ample_of: Records = {}  # What the nodes were when they were written there.
        self._ample_ms = 0
        self._is_ample_old = False

    def see(self, peers: Peers, now_ms: int) -> None:
        """The other nodes, as they are now."""
        self._peers, self._now_ms = peers, now_ms
        self._is_old = self._is_ample_old = True

    def has_lenders(self) -> bool:
        """Whether there is anybody to ask."""
        self._look()
        return bool(self._records)

    def seen(self) -> int:
        """The same number as before: whoever could never run something still cannot."""
        self._look()
        before, now = self._lasting_of, self._records
        if before is not now:
            self._lasting_of = now
            self._lasting += before.keys() != now.keys() or any(
                _LASTING(before[node]) != _LASTING(record)
                for node, record in now.items()
                if before[node] is not record
            )
        return self._lasting

    @property
    def free(self) -> Snapshot:
        """With what is free."""
        self._look()
        return self._free

    @property
    def ample(self) -> Snapshot:
        """With everything free."""
        self._look()
        if self._is_ample_old:
            self._is_ample_old = False
            self._renew_ample()
        return self._ample

    def with_room(self, job: JobSpec, rules: Rules, count: int) -> list[NodeRecord]:
        """The first so many that have room now; of the same kind, hundreds may ask in vain."""
        free, kind = self.free, kind_of(job)
        if self._full.get(kind) == free.version:
            return []
        found = free.best(job, rules, count)
        if not found and not rules.filters:  # Those may look at whatever they like.
            if len(self._full) >= KINDS_MAX:
                self._full = {}
            self._full[kind] = free.version
        return found

    def liked(
        self, job: JobSpec, rules: Rules, found: list[NodeRecord], out: set[NodeId]
    ) -> NodeRecord | None:
        """A node that a job likes more than those found: that it is full may be old news."""
        best = best_but(self.ample.best, job, rules, 1, out)
        if best and (not found or likes_more(job, best[0], found[0])):
            return best[0]
        return None

    def drained(self, job: JobSpec, rules: Rules) -> tuple[str, ...]:
        """The names of those that could run it, and are being drained."""
        peers = self._peers.values()
        return _able(job, rules, [one for one in peers if one.is_draining and one.is_alive])

    def dead(self, job: JobSpec, rules: Rules) -> tuple[str, ...]:
        """The names of those that could run it, and are dead."""
        return _able(job, rules, [one for one in self._peers.values() if not one.is_alive])

    def take(self, record: NodeRecord) -> None:
        """Something was asked of a node: it counts as gone until the node is seen again."""
        self.free.update(record)
        self._taken[record.id] = record

    def meet(self, node: NodeId, names: set[str]) -> None:
        """Somebody is known to run on a node that has not told it yet."""
        self._look()
        known = self._taken.get(node) or self._records.get(node)
        if known is not None and not names <= set(known.running):
            self.take(among(known, names))

    def _look(self) -> None:
        if not self._is_old:
            return
        self._is_old = False
        before = self._records
        self._records = now = {
            node: peer.record
            for node, peer in self._peers.items()
            if peer.record is not None and lends(peer)
        }
        taken, self._taken = self._taken, {}
        if _is_large(before) != _is_large(now):
            self._free, self._full = snapshot(now.values()), {}
            return
        for node in before.keys() - now.keys():
            self._free.remove(node)
        for node, record in now.items():
            if before.get(node) is not record or node in taken:
                self._free.update(record)

    def _renew_ample(self) -> None:
        before, now = self._ample_of, self._records
        if _is_large(before) != _is_large(now):
            self._ample = snapshot(map(_ample, now.values()))
            self._ample_of, self._ample_ms = dict(now), self._now_ms
            return
        is_due = self._now_ms - self._ample_ms >= AMPLE_MS
        if is_due:
            self._ample_ms = self._now_ms
        for node in before.keys() - now.keys():
            self._ample.remove(node)
            del before[node]
        for node, record in now.items():
            was = before.get(node)
            if was is not record and (was is None or is_due or _LASTING(was) != _LASTING(record)):
                self._ample.update(_ample(record))
                before[node] = record


def best_but(
    best: Best, job: JobSpec, rules: Rules, most: int, out: set[NodeId]
) -> list[NodeRecord]:
    """The first so many, without some."""
    return [one for one in best(job, rules, most + len(out)) if one.id not in out][:most]


def _able(job: JobSpec, rules: Rules, peers: list[Peer]) -> tuple[str, ...]:
    """Of those that lend nothing now, the names of those that could run it."""
    records = [_ample(one.record) for one in peers if one.record is not None and one.may_lend]
    if not records:
        return ()
    return tuple(sorted(one.name for one in snapshot(records).best(job, rules, len(records))))


def lends(peer: Peer | None) -> bool:
    """Whether a node may be asked at all."""
    return peer is not None and peer.is_alive and peer.may_lend and not peer.is_draining


def kind_of(job: JobSpec) -> Kind:
    """All that decides whether a node can run it; wishes only decide which is best."""
    where = (job.require, job.avoid, job.arch, job.needs, job.battery_safe, job.policy)
    return job.request, *where


def _is_large(records: Records) -> bool:
    return len(records) > PLAIN_NODES_MAX


def _ample(record: NodeRecord) -> NodeRecord:
    return msgspec.structs.replace(record, free=record.total)
