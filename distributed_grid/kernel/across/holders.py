"""The home's side of copies: who holds which version of a job's record, and who is told next.

Lives here: the records of jobs that this node is home of, and their way to the guardians. Never
here: records of others (`shelf`), what becomes of a job when records meet (`meeting`).
Invariant: the record is written here before it is sent; one Copy is under way to each holder, and
the newest follows; nobody is told to drop a record before all on a full list have a newer one.
"""

from collections import deque
from collections.abc import Collection
from typing import Final

from distributed_grid.kernel.across.auditing import Audits
from distributed_grid.kernel.across.guardians import GUARDIANS, Choice, mended
from distributed_grid.kernel.across.own import NEVER, Own
from distributed_grid.kernel.across.record import JobRecord, has_ended
from distributed_grid.kernel.across.record_bytes import encode
from distributed_grid.kernel.across.record_writing import record_of
from distributed_grid.kernel.across.rights import is_keeper
from distributed_grid.kernel.across.shelf import LARGE_BYTES
from distributed_grid.kernel.across.verdicts import Verdicts
from distributed_grid.kernel.jobs import Job
from distributed_grid.kernel.ready import Ready
from distributed_grid.model.across import Fence
from distributed_grid.model.ids import JobId, NodeId
from distributed_grid.wire.across import Copied, Copy, Dispensable

AGAIN_MS: Final = 1_000  # Without an answer a Copy is repeated.
REFUSING_MS: Final = 10_000  # Whoever refused is not asked again before.
LOOK_MS: Final = 10_000  # Lists that are too short are looked at again, if nothing else happens.
MENDED_MAX: Final = 256  # Lists looked at in one tick: a dead node is on thousands of them.
ENDED_MAX: Final = 2_000  # Jobs that have ended while somebody who held a copy is away.


class Holders:
    """All jobs that this node is home of, as long as somebody lacks their last word."""

    def __init__(self, verdicts: Verdicts) -> None:
        self._verdicts = verdicts
        self.choice = Choice()
        self.own: dict[JobId, Own] = {}
        self.held_back: set[JobId] = set()  # In doubt whether they are still to run: not copied.
        self.retired: list[Own] = []  # Ended, and told to all: for whoever remembers them.
        self.audits = Audits()  # Whether those who answered still have it.
        self._ended: dict[JobId, None] = {}  # Not told to all yet; the oldest first.
        self._by_name: dict[NodeId, set[JobId]] = {}  # On the list, or outside.
        self._refusing: dict[NodeId, int] = {}  # Until when.
        self._restless: dict[JobId, None] = {}  # Their lists are to be looked at.
        self._short: set[JobId] = set()  # Lists with fewer live names than wanted.
        self._looked_ms = 0
        self._unanswered: deque[tuple[int, JobId, NodeId, Fence]] = deque()  # By when to repeat.

    # What is known

    def copies(self, job: JobId) -> int:
        """How many disks have it, this one included; of the dead nobody knows whether they do."""
        own = self.own.get(job)
        return 1 + sum(map(self._verdicts.sees, own.durable)) if own else 0

    def is_confirmed(self, own: Own, version: Fence, now_ms: int) -> bool:
        """Whether a disk besides this one has that version; alone, this one is enough."""
        return self._is_alone(own, now_ms) or any(has >= version for has in own.durable.values())

    def is_spread(self, own: Own, hosts: Collection[NodeId], now_ms: int) -> bool:
        """Whether the newest version is on such a disk that is not lost with those where it runs.

        Where there is no other, one of those will do.
        """
        others = [n for n in own.listed if n not in hosts and self._verdicts.sees(n)]
        is_there = not others or any(own.has(node) >= own.version for node in others)
        return is_there and self.is_confirmed(own, own.version, now_ms)

    def _is_alone(self, own: Own, now_ms: int) -> bool:
        """Whether nobody lives who could hold it; soon after a start that is not known yet."""
        return self.choice.is_empty and (not own.listed or self._verdicts.is_settled(now_ms))

    # Writing

    def changed(self, job: Job, now_ms: int, ready: Ready, base: JobRecord | None = None) -> Own:
        """The job is not as its holders know it: write it down, and tell them."""
        before, job.guardians = job.guardians, self._mended(job, now_ms)
        job.seq += 1
        own = self.own.get(job.spec.id)
        record = record_of(job, Fence(job.epoch, job.seq), own.record if own else base)
        if own is None:
            own = Own(job=job, record=record, body=b"", is_kept=base is not None)
            self.own[job.spec.id] = own
        own.job, own.record, own.body = job, record, encode(record)
        own.outside |= {*before, *own.listed} | ({*base.holders} if base else set())
        self._relist(own)
        self.audits.heard(job.spec.id, now_ms)
        ready.save_jobs[job.spec.id] = job
        if own.is_kept:
            ready.save_held[job.spec.id] = own.body
        self.send(own, now_ms, ready)
        self._settle(own, now_ms, ready)
        return own

    def restore(self, job: Job, record: JobRecord, *, is_kept: bool) -> Own:
        """A job of which nobody is known to hold anything; it is sent when it is looked at."""
        own = Own(job=job, record=record, body=encode(record), is_kept=is_kept)
        own.outside |= {*record.holders}
        self.own[job.spec.id] = own
        self._relist(own)
        self._restless[job.spec.id] = None
        self.audits.hurry(job.spec.id)
        return own

    def learn(self, own: Own, record: JobRecord) -> None:
        """The record knows more now than the job tells."""
        own.outside |= {*record.holders} - {*own.record.holders}
        own.record, own.body, own.is_kept = record, encode(record), True
        own.job.seq = max(own.job.seq, record.version.seq)
        self._relist(own)

    def release(self, job: JobId) -> None:
        """This node looks after it no longer."""
        own = self.own.pop(job)
        for node in own.names:
            self._unname(own, node)
        self._restless.pop(job, None)
        self._ended.pop(job, None)
        self._short.discard(job)
        self.audits.forget(job)
        self.held_back.discard(job)

    # Sending

    def send(self, own: Own, now_ms: int, ready: Ready) -> None:
        """To everybody who lacks what it should have, and has no Copy under way."""
        if own.id in self.held_back:
            return
        for node in (*own.listed, *sorted(own.outside)):
            is_due = node not in own.under_way and node not in own.refused
            if is_due and not own.is_told(node) and self._verdicts.sees(node):
                own.under_way[node] = own.version
                ready.send.append((node, Copy(record=own.body)))
                self._unanswered.append((now_ms + AGAIN_MS, own.id, node, own.version))

    def copied(self, own: Own, node: NodeId, version: Fence, now_ms: int, ready: Ready) -> None:
        """It is durable there."""
        if version <= own.dropped.get(node, NEVER):
            return  # Said before it was told to drop it.
        own.durable[node] = max(own.has(node), version)
        if version >= own.under_way.get(node, NEVER):
            own.under_way.pop(node, None)
        self._name(own, node)
        self.send(own, now_ms, ready)
        self._settle(own, now_ms, ready)

    def lacks(self, own: Own, node: NodeId, now_ms: int, ready: Ready) -> None:
        """It knows nothing of the job, whatever it said before."""
        own.durable.pop(node, None)
        own.under_way.pop(node, None)
        self.send(own, now_ms, ready)

    def refused(self, own: Own, node: NodeId, now_ms: int, ready: Ready) -> None:
        """It does not take it: somebody else has to."""
        self._refusing[node] = now_ms + REFUSING_MS
        own.under_way.pop(node, None)
        own.durable.pop(node, None)  # What it has is too old to count.
        own.refused.add(node)
        if node in own.listed:
            # Whoever stands behind it would wait for it in vain.
            own.job.guardians = tuple(name for name in own.listed if name != node)
            self.changed(own.job, now_ms, ready)

    def asked(self, own: Own, node: NodeId, mark: int, now_ms: int, ready: Ready) -> None:
        """Somebody who holds the record tells what it has, or asks whether we still know it."""
        ready.send.append((node, Copied(job=own.id, version=own.version, mark=mark)))
        own.dropped.pop(node, None)  # It has not heard of that, or has it again.
        self._name(own, node)
        self.send(own, now_ms, ready)

    # Time passes, nodes come and go

    def see(self, died: list[NodeId], came: list[NodeId], now_ms: int, ready: Ready) -> None:
        """The view has changed."""
        self.choice.see(self._verdicts.peers)
        for node in (*died, *came):
            for job in sorted(self._by_name.get(node, ())):
                own = self.own[job]
                own.under_way.pop(node, None)
                self._restless[job] = None
                if node in came:
                    own.durable.pop(node, None)  # It may have come back without its disk.
        if died or came:
            self._restless |= dict.fromkeys(sorted(self._short))
        self._mend_some(now_ms, ready)

    def tick(self, now_ms: int, ready: Ready) -> None:
        """Repeat what was not answered, and mend lists."""
        while self._unanswered and self._unanswered[0][0] <= now_ms:
            _, job, node, version = self._unanswered.popleft()
            own = self.own.get(job)
            if own is not None and own.under_way.get(node) == version:
                del own.under_way[node]
                self.send(own, now_ms, ready)
        for node in [node for node, until in self._refusing.items() if until <= now_ms]:
            del self._refusing[node]
            for job in sorted(self._by_name.get(node, ())):
                self.own[job].refused.discard(node)
                self._restless[job] = None
        if now_ms - self._looked_ms >= LOOK_MS:
            self._looked_ms = now_ms
            self._restless |= dict.fromkeys(sorted(self._short))
        self._mend_some(now_ms, ready)

    def _mend_some(self, now_ms: int, ready: Ready) -> None:
        for job in list(self._restless)[:MENDED_MAX]:
            del self._restless[job]
            own = self.own[job]
            if job not in self.held_back and self._mended(own.job, now_ms) != own.listed:
                self.changed(own.job, now_ms, ready)
            else:
                self._relist(own)
                self.send(own, now_ms, ready)
                self._settle(own, now_ms, ready)

    def _mended(self, job: Job, now_ms: int) -> tuple[NodeId, ...]:
        listed = tuple(node for node in job.guardians if node != self._verdicts.me)
        gone = {node for node in listed if self._verdicts.is_gone(node, now_ms)}
        if len(listed) >= GUARDIANS and not gone:
            return listed
        return mended(job.spec.id, listed, choice=self.choice, gone=gone, refusing=self._refusing)

    # Names

    def _relist(self, own: Own) -> None:
        """Take up the list as the job has it now."""
        listed = own.job.guardians
        if listed != own.listed:
            own.listed, own.listed_at = listed, own.version
        own.outside -= {*listed, self._verdicts.me}
        for node in own.names:
            self._by_name.setdefault(node, set()).add(own.id)
        if len(listed) < GUARDIANS or not all(self._verdicts.sees(node) for node in listed):
            self._short.add(own.id)
        else:
            self._short.discard(own.id)

    def _name(self, own: Own, node: NodeId) -> None:
        """It turns out to hold a copy."""
        if node not in own.listed:
            own.outside.add(node)
            self._by_name.setdefault(node, set()).add(own.id)

    def _unname(self, own: Own, node: NodeId) -> None:
        own.outside.discard(node)
        jobs = self._by_name[node]
        jobs.discard(own.id)
        if not jobs:
            del self._by_name[node]

    def _settle(self, own: Own, now_ms: int, ready: Ready) -> None:
        """Once enough hold it, others need not; once all know its end, it is only remembered."""
        if has_ended(own.record):
            self._ended[own.id] = None
            self.audits.forget(own.id)
            if self._is_told(own, now_ms):
                self._retire(own)
            elif len(self._ended) > ENDED_MAX:
                self._retire(self.own[next(iter(self._ended))])
            return
        # Of a short list all are too few: whoever else has it is its best next name.
        is_full = len(own.listed) >= GUARDIANS
        all_at = own.all_at() if own.outside and is_full else None
        if all_at is not None:
            for node in sorted(own.outside):
                if own.is_told(node) and self._verdicts.sees(node):
                    self._excuse(own, node, all_at, ready)

    def _excuse(self, own: Own, node: NodeId, version: Fence, ready: Ready) -> None:
        ready.send.append((node, Dispensable(job=own.id, version=version)))
        own.dropped[node] = version
        own.durable.pop(node, None)
        self._unname(own, node)

    def _is_told(self, own: Own, now_ms: int) -> bool:
        """Whether all members that may hold it know the end, and a disk besides ours if any."""
        is_heavy = own.job.is_foreign and len(own.body) > LARGE_BYTES  # Who comes back may ask.
        waits = any(node in self._verdicts.peers and not own.is_told(node) for node in own.names)
        # Alone, it is kept for those who may come: as long as nobody else knows it, it can be lost.
        is_only = self._is_alone(own, now_ms) if is_heavy else self._is_only(now_ms)
        is_safe = any(own.is_told(node) for node in own.names) or is_only
        return is_safe and (is_heavy or not waits)

    def _is_only(self, now_ms: int) -> bool:
        """Whether no other member could ever hold a copy, dead or alive."""
        peers = self._verdicts.peers.values()
        return self._verdicts.is_settled(now_ms) and not any(map(is_keeper, peers))

    def _retire(self, own: Own) -> None:
        self.release(own.id)
        self.retired.append(own)
