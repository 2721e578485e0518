"""Gangs that look for room: which nodes are asked for how many ranks, until all are kept.

Lives here: choosing nodes, asking, patience. Never here: what follows when all is kept (`gangs`),
what owners keep (`holds`).
Invariant: a gang asks for all of its ranks or for none. One that has waited for long keeps what it
has; before that it gives back what did not become whole in time, so that others may run meanwhile.
"""

from typing import Final

import msgspec

from distributed_grid.kernel.across.asking import Asking
from distributed_grid.kernel.across.peers import NOBODY, Peer, Peers
from distributed_grid.kernel.coordinator import Coordinator
from distributed_grid.kernel.jobs import Job
from distributed_grid.kernel.placement import snapshot
from distributed_grid.kernel.placement.filling import after_placing
from distributed_grid.kernel.ready import Ready
from distributed_grid.model.ids import JobId, NodeId
from distributed_grid.model.job import JobSpec
from distributed_grid.model.node import NodeRecord
from distributed_grid.model.priority import RANKS
from distributed_grid.model.resources import Resources
from distributed_grid.wire.gangs import Held, HeldLease, Hold, NotHeld, ReleaseHold, Revoked

AGAIN_MS: Final = 2_000  # What was not answered, or must be refreshed, is said again.
PATIENCE_MS: Final = 5_000  # A gang that has not got everything by then gives it back,
RETRY_MS: Final = 2_000  # and tries again a little later,
AGED_MS: Final = 60_000  # unless it has waited for so long: then it keeps what it has.
STUCK_MS: Final = 120_000  # But not for ever: without any progress it lets others go first.
REFUSED_MS: Final = 5_000  # Whoever said no is not asked again before.
LATE_MS: Final = 10_000  # Whoever could not keep all in time is asked for less until then.
HEAD_MAX: Final = 16  # Gangs of one node that gather at a time, the best first.


class Ask(msgspec.Struct):
    """What is asked of one node."""

    ranks: int
    asked_ms: int
    since_ms: int
    leases: tuple[HeldLease, ...] = ()

    @property
    def is_held(self) -> bool:
        """Whether all of it is kept."""
        return len(self.leases) == self.ranks

    def is_late(self, now_ms: int) -> bool:
        """Whether it should be kept by now."""
        return not self.is_held and now_ms - self.since_ms >= PATIENCE_MS


class Gathering(msgspec.Struct):
    """A gang that looks for room."""

    job: Job
    asks: dict[NodeId, Ask] = {}
    refused: dict[NodeId, int] = {}  # Until when it is not asked again.
    most: dict[NodeId, tuple[int, int]] = {}  # Until when, how many ranks are asked of it at most.
    why: dict[NodeId, tuple[str, ...]] = {}
    not_before_ms: int = 0
    count: int = 0  # The most that was kept for it at once since it began,
    rose_ms: int = 0  # and since when it was no more.


class Gatherer:
    """The gangs of one node that look for room."""

    def __init__(self, coordinator: Coordinator, asking: Asking, *, me: NodeId) -> None:
        self._coordinator, self._asking, self._me = coordinator, asking, me
        self._peers: Peers = NOBODY
        self._gathering: dict[JobId, Gathering] = {}
        self._over: list[tuple[NodeId, ReleaseHold]] = []
        self._number = 0

    def waits(self, job: Job) -> None:
        """A gang lacks nothing but room."""
        self._gathering.setdefault(job.spec.id, Gathering(job))

    def waits_no_more(self, job: JobId) -> None:
        """It wants nothing any more: what is kept for it is given back."""
        one = self._gathering.pop(job, None)
        if one is not None:
            self._give_up(one)

    def is_waiting(self, job: JobId) -> bool:
        """Whether it looks for room."""
        return job in self._gathering

    def obstacles(self, job: JobId) -> tuple[str, ...]:
        """What other nodes have for one that waits, and what they said."""
        one = self._gathering.get(job)
        if one is None:
            return ()
        said = {node: "; ".join(why) for node, why in one.why.items()}
        for node, ask in one.asks.items():
            said[node] = f"keeps {len(ask.leases)} of {ask.ranks} ranks"
        return tuple(f"{self.name_of(node)}: {word}" for node, word in sorted(said.items()))

    def could_run(self, spec: JobSpec) -> bool:
        """Whether all nodes together could ever run all of its ranks."""
        ample = [_ample(record) for record in self._records()]
        return self._place(spec, spec.gang, ample, {})[1] == 0

    def held(self, peer: NodeId, word: Held) -> bool:
        """A node keeps some of what was asked of it; False: nothing is, any more."""
        one = self._gathering.get(word.job)
        ask = one.asks.get(peer) if one is not None else None
        if one is not None and ask is not None and word.epoch == one.job.epoch:
            ask.leases = word.leases
            return True
        return False

    def revoked(self, peer: NodeId, word: Revoked) -> None:
        """A better gang has it now; this one waits there again."""
        one = self._gathering.get(word.job)
        if one is not None and peer in one.asks:
            one.asks[peer].leases = ()

    def not_held(self, peer: NodeId, word: NotHeld, now_ms: int) -> None:
        """Not there, or not any more."""
        one = self._gathering.get(word.job)
        if one is not None and one.asks.pop(peer, None) is not None:
            one.refused[peer] = now_ms + REFUSED_MS
            one.why[peer] = word.reasons

    def see(self, peers: Peers) -> None:
        """The other nodes, as they are now: what was asked of the dead is asked of others."""
        self._peers = peers
        for one in self._gathering.values():
            for node in [node for node in one.asks if not self._is_there(node)]:
                del one.asks[node]

    def gather(self, now_ms: int, ready: Ready) -> list[Gathering]:
        """The best of those who look for room ask for it; answers whoever has everything."""
        ready.send += self._over
        self._over = []
        best = sorted(self._gathering.values(), key=_order)[:HEAD_MAX]
        ripe = [one for one in best if now_ms >= one.not_before_ms]
        whole = [one for one in ripe if self._gather(one, now_ms, ready)]
        for one in whole:
            del self._gathering[one.job.spec.id]
        return whole

    def _gather(self, one: Gathering, now_ms: int, ready: Ready) -> bool:
        """Whether it has everything."""
        is_aged = now_ms - (one.job.ready_ms or 0) >= AGED_MS
        late = [node for node, ask in one.asks.items() if ask.is_late(now_ms)]
        if late and not is_aged:
            self._remember_late(one, late, now_ms)
            self._give_up(one)
            one.not_before_ms = now_ms + RETRY_MS
            return False
        if self._is_stuck(one, now_ms):
            self._give_up(one)  # What it waits for does not come: others have waited for it.
            one.not_before_ms = now_ms + AGED_MS
            return False
        if late:  # It keeps what it has, and looks elsewhere for the rest.
            self._remember_late(one, late, now_ms)
            self._shrink(one, late)
        missing = one.job.spec.gang - sum(ask.ranks for ask in one.asks.values())
        if missing > 0 and not self._ask_more(one, missing, now_ms, ready):
            self._give_up(one)  # Without these nothing comes of the others either.
            one.not_before_ms = now_ms + RETRY_MS
            return False
        for node, ask in one.asks.items():
            if now_ms - ask.asked_ms >= AGAIN_MS:
                self._hold(one, node, ask, now_ms, ready)
        return all(ask.is_held for ask in one.asks.values())

    def _is_stuck(self, one: Gathering, now_ms: int) -> bool:
        """Whether nothing more was kept for it for long."""
        count = sum(len(ask.leases) for ask in one.asks.values())
        if count > one.count or not one.asks:
            one.count, one.rose_ms = count, now_ms
        return now_ms - one.rose_ms >= STUCK_MS

    def _remember_late(self, one: Gathering, late: list[NodeId], now_ms: int) -> None:
        """A node that had no room for all will not have it at once."""
        one.most = {node: most for node, most in one.most.items() if most[0] > now_ms}
        for node in late:
            one.most[node] = (now_ms + LATE_MS, len(one.asks[node].leases))

    def _shrink(self, one: Gathering, late: list[NodeId]) -> None:
        for node in late:
            ask = one.asks[node]
            ask.ranks = len(ask.leases)
            ask.asked_ms = 0  # It is told at once that less will do.
            if not ask.ranks:
                self._let_go(one, node)

    def _ask_more(self, one: Gathering, missing: int, now_ms: int, ready: Ready) -> bool:
        """Choose nodes for the ranks that have none, all of them or none."""
        limits = {node: most for node, (until_ms, most) in one.most.items() if until_ms > now_ms}
        refused = {node: 0 for node, until_ms in one.refused.items() if until_ms > now_ms}
        counts = self._choose(one, missing, limits | refused)
        if counts is None:  # Whoever was late may be in time now.
            counts = self._choose(one, missing, refused)
        if counts is None:
            return False
        for node, count in counts.items():
            ask = one.asks.setdefault(node, Ask(0, now_ms, now_ms))
            ask.ranks += count
            ask.since_ms = now_ms
            self._hold(one, node, ask, now_ms, ready)
        return True

    def _choose(
        self, one: Gathering, missing: int, limits: dict[NodeId, int]
    ) -> dict[NodeId, int] | None:
        """Where there is room now, else where it may come; None: nowhere for all of them."""
        spec, records = one.job.spec, self._records()
        asked = {node: ask.ranks for node, ask in one.asks.items()}
        free = [record for record in records if record.id not in asked]
        counts, left = self._place(spec, missing, free, limits)
        if left:
            taken = asked | counts
            ample = [after_ranks(record, spec, taken.get(record.id, 0)) for record in records]
            rest = {node: most - taken.get(node, 0) for node, most in limits.items()}
            more, left = self._place(spec, left, ample, rest)
            for node, count in more.items():
                counts[node] = counts.get(node, 0) + count
        return None if left else counts

    def _place(
        self, spec: JobSpec, ranks: int, records: list[NodeRecord], limits: dict[NodeId, int]
    ) -> tuple[dict[NodeId, int], int]:
        """How many ranks go where, in the order in which nodes are chosen; how many nowhere."""
        counts: dict[NodeId, int] = {}
        spec, rules = self._asking.wished(spec), self._asking.rules_of(spec.policy)
        among = snapshot([record for record in records if limits.get(record.id, 1) > 0])
        for placed in range(ranks):
            best = among.best(spec, rules, 1) if len(among) else []
            if not best:
                return counts, ranks - placed
            chosen = best[0]
            counts[chosen.id] = counts.get(chosen.id, 0) + 1
            after = after_placing(spec, chosen)
            is_full = counts[chosen.id] == limits.get(chosen.id)
            among.update(msgspec.structs.replace(after, free=Resources()) if is_full else after)
        return counts, 0

    def _records(self) -> list[NodeRecord]:
        """The nodes that may be asked with what they lend now, this one among them."""
        records = [
            peer.record
            if peer.lent is None or peer.is_own
            else msgspec.structs.replace(peer.record, free=peer.lent)
            for peer in self._peers.values()
            if _lends(peer) and peer.record is not None
        ]
        own, host = self._asking.own, self._coordinator.host
        if own is not None and not host.is_draining:
            records.append(msgspec.structs.replace(own, id=self._me, free=host.ledger.free()))
        return records

    def _is_there(self, node: NodeId) -> bool:
        peer = self._peers.get(node)
        return node == self._me or (peer is not None and _lends(peer))

    def _hold(self, one: Gathering, node: NodeId, ask: Ask, now_ms: int, ready: Ready) -> None:
        ask.asked_ms = now_ms
        job = one.job
        word = Hold(
            job=job.spec.id,
            epoch=job.epoch,
            number=self.next_number(now_ms),
            spec=msgspec.structs.replace(job.spec, work=None),
            ranks=ask.ranks,
            since_ms=job.submitted_ms,
            waited_ms=max(0, now_ms - (job.ready_ms if job.ready_ms is not None else now_ms)),
        )
        ready.send.append((node, word))

    def _give_up(self, one: Gathering) -> None:
        for node in list(one.asks):
            self._let_go(one, node)

    def _let_go(self, one: Gathering, node: NodeId) -> None:
        del one.asks[node]
        number = self.next_number(self._number)
        word = ReleaseHold(job=one.job.spec.id, epoch=one.job.epoch, number=number)
        self._over.append((node, word))

    def name_of(self, node: NodeId) -> str:
        """As people call it."""
        peer = self._peers.get(node)
        return peer.name if peer is not None else self._coordinator.node

    def next_number(self, now_ms: int) -> int:
        """Also after a restart higher than all before: what is lower is ignored."""
        self._number = max(self._number + 1, now_ms)
        return self._number


def _lends(peer: Peer) -> bool:
    return peer.is_alive and peer.may_lend and not peer.is_draining


def _ample(record: NodeRecord) -> NodeRecord:
    return msgspec.structs.replace(record, free=record.total)


def after_ranks(record: NodeRecord, spec: JobSpec, ranks: int) -> NodeRecord:
    """What would be left of a node with so many ranks on it and nothing else."""
    record = _ample(record)
    for _ in range(ranks):
        if not record.free.fits(spec.request):
            break
        record = after_placing(spec, record)
    return record


def _order(one: Gathering) -> tuple[int, int, str]:
    spec = one.job.spec
    return RANKS[spec.priority], one.job.submitted_ms, spec.id
