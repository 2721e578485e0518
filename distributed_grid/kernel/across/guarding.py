"""Copies of records: one node's part in keeping jobs alive that it is, or is not, the home of.

Lives here: the door: what others say, the view, the time. Never here: what follows when records
meet (`meeting`), hosts, leases, the ledger.
Invariant: what a node tells others that it has is on its disk before.
"""

from collections.abc import Iterable, Mapping
from zlib import crc32

import msgspec

from distributed_grid.kernel.accounts import TOO_MUCH
from distributed_grid.kernel.across.meeting import Consequences, Meeting
from distributed_grid.kernel.across.peers import Peer, Peers
from distributed_grid.kernel.across.record import JobRecord, has_ended
from distributed_grid.kernel.across.record_bytes import decode, encode, is_readable, may_join
from distributed_grid.kernel.across.record_writing import record_of
from distributed_grid.kernel.across.restoring import restore
from distributed_grid.kernel.across.returning import Outcome, inquire
from distributed_grid.kernel.across.rights import is_keeper, may_ask, may_tell
from distributed_grid.kernel.jobs import Job
from distributed_grid.kernel.ready import Happened, Ready
from distributed_grid.kernel.unusable import about
from distributed_grid.model.across import Epoch, Fence
from distributed_grid.model.ids import JobId, NodeId
from distributed_grid.wire.across import (
    INQUIRED_MAX,
    Copied,
    Copy,
    Dispensable,
    Holding,
    Inquiry,
    NotCopied,
)
from distributed_grid.wire.mesh import JUNK

GuardMessage = Copy | Copied | NotCopied | Inquiry | Holding | Dispensable


class Guarding:
    """The records that this node writes, and those that it holds for others."""

    def __init__(self, me: NodeId, consequences: Consequences) -> None:
        self.me = me
        self.is_disk_full = False  # Told from outside: nothing more is taken for others.
        self._meeting = meeting = Meeting(me, consequences)
        self.holders, self.shelf = meeting.holders, meeting.shelf
        self.verdicts, self._takeovers = meeting.verdicts, meeting.takeovers
        self._returning, self._audits = meeting.returning, meeting.audits

    def restore(
        self, jobs: Iterable[Job], held: Mapping[JobId, NodeId], *, now_ms: int, away_ms: int = 0
    ) -> None:
        """Begin with what the disk has, `away_ms` after the last step that was made with it.

        Of records it is said from whom each came; they are read by `shelf.read`.
        """
        restore(self._meeting, jobs, held, now_ms=now_ms, away_ms=away_ms)

    # What is known

    def copies(self, job: JobId) -> int:
        """How many disks hold the record as it was submitted, or later; this one included."""
        return self.holders.copies(job)

    def is_confirmed(self, job: JobId, version: Fence, now_ms: int) -> bool:
        """Whether that version is on one disk besides ours, or there is no other."""
        own = self.holders.own.get(job)
        if own is not None:
            return self.holders.is_confirmed(own, version, now_ms)
        kept = self.shelf.kept(job)  # All were told before it came there.
        return kept is not None and kept.version >= version

    def is_told(self, job: Job, now_ms: int) -> bool:
        """Whether a second disk, if there is any, has all that is known of a job of this node."""
        return self.is_confirmed(job.spec.id, Fence(job.epoch, job.seq), now_ms)

    def is_spread(self, job: Job, now_ms: int) -> bool:
        """The same of a disk that is not lost with those where it runs, if there is any."""
        own, hosts = self.holders.own.get(job.spec.id), {one.host for one in job.live_attempts}
        return own is None or self.holders.is_spread(own, hosts, now_ms)

    def is_cleared(self, job: JobId) -> bool:
        """Whether a job of this node may be placed."""
        return self._meeting.is_cleared(job)

    def is_untracked(self, job: JobId) -> bool:
        """Whether nobody knows any more what became of it while this node was away."""
        return job in self._meeting.untracked

    @property
    def is_in_doubt(self) -> bool:
        """Whether it is still open what became of jobs while this node was away for long."""
        doubts = self._returning.doubts.values()
        return bool(self._meeting.untracked) or any(doubt.must_be_known for doubt in doubts)

    @property
    def unread(self) -> tuple[JobId, ...]:
        """Records on disk that this version cannot read; they stay there."""
        return tuple(self._meeting.unread)

    def name_of(self, node: NodeId) -> str:
        """As people call it."""
        peer = self.verdicts.peers.get(node)
        return peer.name if peer is not None else node[:8]

    def dead_for(self, node: NodeId, long_ms: int, now_ms: int) -> bool:
        """Whether a node is dead for so long, or not a member any more."""
        since_ms = self.verdicts.gone_since_ms(node, now_ms)
        return since_ms is not None and now_ms - since_ms >= long_ms

    def find(self, job: JobId) -> JobRecord | None:
        """The record of a job, whoever is its home."""
        return self._meeting.find(job)

    # What this node wants

    def changed(self, job: Job, now_ms: int, ready: Ready) -> None:
        """A job of this node is not as its holders know it."""
        job_id = job.spec.id
        base = None if job_id in self.holders.own else self.shelf.find(job_id)
        is_ours = job.epoch.node in ("", self.me) and not job.is_guest
        if not is_ours or (base is not None and base.version.epoch > job.epoch):
            return  # Another node's, from the start or meanwhile.
        if base is not None:
            self._meeting.take_off(job_id)
        if job.has_ended:
            self._meeting.resolve(job_id)  # Its owner told how it ended: nobody need be asked.
        self.holders.changed(job, now_ms, ready, base)
        self._meeting.shelve_retired(now_ms)

    def cancel(self, job: JobId, now_ms: int, ready: Ready) -> bool:
        """Somebody wants a job of another node to end; its home learns it as soon as it can."""
        record = self.shelf.find(job) if job in self.shelf.unfinished else None
        if record is not None and not record.cancel:
            asked = msgspec.structs.replace(record, cancel=True)
            self._meeting.keep(asked, self.me, now_ms, ready)
        elif record is not None:
            self.shelf.save(job, ready)  # The answer waits until it is durable.
        return record is not None

    def clear(self, job: JobId, now_ms: int, ready: Ready) -> None:
        """Whoever votes on it lets this node place it."""
        if self.is_cleared(job):
            self._meeting.consequences.cleared(job, now_ms, ready)

    def insist(self, job: JobId, now_ms: int, ready: Ready) -> None:
        """A person says that it goes on here, whoever else may know more of it."""
        kept = self.shelf.unfinished.get(job)
        if kept is not None and not self.verdicts.sees(kept.home):
            self._meeting.resolve(job)
            self._meeting.take_over(kept, now_ms, ready)
        elif kept is None:
            self._meeting.resolve(job)

    def requeue(self, job: JobId, now_ms: int, ready: Ready) -> None:
        """A person says that it may run, though nobody knows what became of it."""
        if job not in self._meeting.untracked:
            return
        self._meeting.untracked.discard(job)
        self._go_on(job, "anew", now_ms, ready)

    # What happens

    def view(self, peers: Peers, now_ms: int, ready: Ready) -> None:
        """The other nodes, as they are seen now."""
        died, came = self.verdicts.see(peers, now_ms)
        for node in died:
            for job in self.shelf.of_home(node):
                self._meeting.watch(job, now_ms)
        for node in came:
            for job in self.shelf.of_home(node):
                self._audits.hurry(job)
            self._meeting.errands.came(node, now_ms)
        self.holders.see(died, came, now_ms, ready)
        self._meeting.shelve_retired(now_ms)

    def tick(self, now_ms: int, ready: Ready) -> None:
        """A little time passes."""
        self.verdicts.begin(now_ms)
        for job, outcome in self._returning.tick(now_ms, ready):
            if outcome == "untracked":
                self._meeting.untracked.add(job)
                ready.happened.append(Happened(name="job.untracked", at_ms=now_ms, job=job))
            else:
                self._go_on(job, outcome, now_ms, ready)
        for kept in self._takeovers.due(now_ms, ready):
            with about("record", kept.job):
                self._meeting.take_over(kept, now_ms, ready)
        self.holders.tick(now_ms, ready)
        self._audit(now_ms, ready)
        self._meeting.run_errands(now_ms, ready)
        self._meeting.shelve_retired(now_ms)
        self.shelf.tick(now_ms, ready)

    def _go_on(self, job: JobId, outcome: Outcome, now_ms: int, ready: Ready) -> None:
        own = self.holders.own.get(job)
        if own is None:
            self._meeting.watch(job, now_ms)  # Held for another: its turn may come now.
            return
        self.holders.held_back.discard(job)
        if outcome == "anew":
            own.job.epoch, own.job.seq = Epoch(own.version.epoch.counter + 1, self.me), 0
            self.holders.changed(own.job, now_ms, ready)
        self.holders.send(own, now_ms, ready)
        self._meeting.consequences.cleared(job, now_ms, ready)

    def _audit(self, now_ms: int, ready: Ready) -> None:
        asked = [
            *(
                (kept.home, job)
                for job in self._audits.due(now_ms)
                if (kept := self.shelf.unfinished.get(job)) is not None
            ),
            *(
                (node, job)
                for job in self.holders.audits.due(now_ms)
                for node in self.holders.own[job].listed
            ),
        ]
        questions: dict[NodeId, list[JobId]] = {}
        for node, job in asked:
            if self.verdicts.sees(node):
                questions.setdefault(node, []).append(job)
        inquire(questions, ready, is_short=True)

    def remember(self, record: JobRecord, now_ms: int, ready: Ready) -> None:
        """How a job ended of which this node holds no copy."""
        if not self._refusal(record):
            self.shelf.remember(record, now_ms, ready)

    def recall(self, jobs: Iterable[Job], now_ms: int) -> None:
        """Know again how jobs of this node ended that had left the memory, as the disk has them."""
        for job in jobs:
            epoch = job.epoch if job.epoch.node else Epoch(1, self.me)  # It joined a mesh later.
            is_ours = epoch.node == self.me and not job.is_guest
            if is_ours and job.has_ended and self.find(job.spec.id) is None:
                self.shelf.remember(record_of(job, Fence(epoch, job.seq)), now_ms, None)

    # What others say

    def hears(self, node: NodeId, record: JobRecord) -> bool:
        """Whether what this node knows of a job is listened to."""
        known = self.find(record.job)
        if known is not None and not (self._may_be_home(record, known) and may_join(record, known)):
            return False
        if node == self.me:
            return True  # What those who vote told it.
        return may_tell(self.verdicts.peers.get(node), record, known)

    def _may_be_home(self, record: JobRecord, known: JobRecord) -> bool:
        """Whether the job can be with whom it is said to be: nobody takes it from a stranger."""
        return record.home in (known.home, self.me) or self._peer(record.home) is not None

    def told(self, peer: NodeId, message: GuardMessage, now_ms: int, ready: Ready) -> None:
        """Another node says something about copies. What cannot be read is passed over."""
        match message:
            case Copy(record=body) | Holding(record=body) if body:
                record = read(body)
                if record is not None and self.hears(peer, record):
                    self._heard(peer, record, message, now_ms, ready)
                elif record is not None and isinstance(message, Copy):
                    self._refuse(peer, record, "it is not the sender's to give", ready)
            case Holding(job=job):
                self._knows_nothing(peer, job, now_ms, ready)
            case Copied():
                self._copied(peer, message, now_ms, ready)
            case NotCopied(job=job):
                self._not_copied(peer, job, now_ms, ready)
            case Inquiry(jobs=jobs, is_short=is_short):
                for job in jobs[:INQUIRED_MAX]:
                    self._inquired(peer, job, now_ms, ready, is_short=is_short)
            case Dispensable(job=job, version=version):
                self._dispensable(peer, job, version, ready)
        self._meeting.shelve_retired(now_ms)

    def _heard(
        self, peer: NodeId, record: JobRecord, word: Copy | Holding, now_ms: int, ready: Ready
    ) -> None:
        if isinstance(word, Copy):
            self._copy(peer, record, word, now_ms, ready)
        else:
            self._holding(peer, record, now_ms, ready)

    def _copy(self, peer: NodeId, record: JobRecord, word: Copy, now_ms: int, ready: Ready) -> None:
        job, own, mark = record.job, self.holders.own.get(record.job), crc32(word.record)
        if own is None:
            self._hold(peer, record, word, now_ms, ready)
        elif record.version.epoch > own.version.epoch:
            self._meeting.abdicate(own, record, now_ms, ready)
            ready.send.append((peer, Copied(job=job, version=record.version, mark=mark)))
        else:
            self._meeting.merge(own, record, now_ms, ready)
            if record.version.epoch < own.version.epoch or has_ended(own.record):
                ready.send.append((peer, Holding(job=job, record=own.body)))
            else:
                ready.save_jobs[job] = own.job  # Unchanged maybe; the answer waits for the disk.
                self.holders.asked(own, peer, mark, now_ms, ready)

    def _hold(self, peer: NodeId, record: JobRecord, word: Copy, now_ms: int, ready: Ready) -> None:
        """Keep a record for its home, and say so once it is durable."""
        job, sender, size = record.job, self._peer(peer), len(word.record)
        why = self._refusal(record)
        if not why and sender and not self.shelf.has_room(record, size, sender, now_ms, ready):
            why = f"{TOO_MUCH}: the records that this node keeps for one are bounded"
        if why:
            self._refuse(peer, record, why, ready)
            return
        after = self._meeting.keep(record, peer, now_ms, ready)
        # Whoever sends it does not know who is home, or waits for us to look after what is over.
        is_over = has_ended(after) and not has_ended(record)
        if is_over or record.version.epoch < after.version.epoch:
            ready.send.append((peer, Holding(job=job, record=encode(after))))
        else:
            mark = crc32(word.record)
            ready.send.append((peer, Copied(job=job, version=after.version, mark=mark)))
            # A second disk is waited for, not a third: the others sync it when they sync anyway.
            is_new = after.version.seq <= 1
            ready.is_awaited |= is_new and after.guardians[:1] == (self.me,)

    def _refuse(self, peer: NodeId, record: JobRecord, why: str, ready: Ready) -> None:
        ready.send.append((peer, NotCopied(job=record.job, version=record.version, why=why)))

    def _refusal(self, record: JobRecord) -> str:
        if self.is_disk_full:
            return "the disk is full"
        if self.shelf.kept(record.job) is not None:
            return ""
        if not record.is_summary and not is_readable(record):
            return "the specification cannot be read by this version"
        return ""

    def _copied(self, peer: NodeId, answer: Copied, now_ms: int, ready: Ready) -> None:
        job, own = answer.job, self.holders.own.get(answer.job)
        if own is None:
            self._copied_of_others(peer, answer, now_ms)
        elif peer not in own.names and not is_keeper(self._peer(peer)):
            pass  # It was not asked to, and may not hold any.
        elif answer.version.epoch > own.version.epoch:
            ready.send.append((peer, Inquiry(jobs=(job,))))  # Whose word is it, and what?
        else:
            self.holders.copied(own, peer, answer.version, now_ms, ready)

    def _copied_of_others(self, peer: NodeId, answer: Copied, now_ms: int) -> None:
        job, held = answer.job, self.shelf.find(answer.job)
        if held is None:
            return
        if answer.mark == crc32(encode(held)):
            self._meeting.errands.done(job, peer)  # It has all that is known here.
        self._takeovers.heard(job, peer, takes=True, now_ms=now_ms)
        if peer == held.home and not has_ended(held):
            self._takeovers.forget(job)
            self._audits.heard(job, now_ms)

    def _not_copied(self, peer: NodeId, job: JobId, now_ms: int, ready: Ready) -> None:
        own = self.holders.own.get(job)
        if own is not None:
            self.holders.refused(own, peer, now_ms, ready)
        else:
            self._takeovers.heard(job, peer, takes=False, now_ms=now_ms)
            self._meeting.errands.refused(job, peer, now_ms)

    def _inquired(
        self, peer: NodeId, job: JobId, now_ms: int, ready: Ready, *, is_short: bool
    ) -> None:
        if self._returning.is_unsure(job) or self.is_untracked(job):
            return  # Two that were away must not assure each other.
        record = self.find(job)
        if record is not None and not may_ask(self._peer(peer), record):
            ready.send.append((peer, Holding(job=job)))
            return
        own = self.holders.own.get(job)
        if own is not None and is_short and not has_ended(own.record):
            self.holders.asked(own, peer, 0, now_ms, ready)
            return
        kept = self.shelf.unfinished.get(job)
        if kept is not None and is_short and kept.home == peer:
            self.shelf.save(job, ready)  # The answer waits until it is durable.
            ready.send.append((peer, Copied(job=job, version=kept.version)))
            return
        ready.send.append((peer, Holding(job=job, record=encode(record) if record else b"")))

    def _holding(self, peer: NodeId, record: JobRecord, now_ms: int, ready: Ready) -> None:
        job, own = record.job, self.holders.own.get(record.job)
        self._returning.answered(job, peer, is_known=not has_ended(record))
        if own is None:
            held = self.shelf.find(job)
            if held is not None and held != record:
                self._meeting.keep(record, peer, now_ms, ready)
            elif held is not None:
                self._meeting.errands.done(job, peer)  # It knows all that we do.
            self._takeovers.heard(job, peer, takes=None, now_ms=now_ms)
        elif record.version.epoch > own.version.epoch:
            self._meeting.abdicate(own, record, now_ms, ready)
        else:
            self._meeting.merge(own, record, now_ms, ready)

    def _knows_nothing(self, peer: NodeId, job: JobId, now_ms: int, ready: Ready) -> None:
        self._returning.answered(job, peer, is_known=False)
        own, kept = self.holders.own.get(job), self.shelf.unfinished.get(job)
        if own is not None:
            self.holders.lacks(own, peer, now_ms, ready)
        elif kept is not None:
            if peer == kept.home:
                self._meeting.watch(job, now_ms, is_disowned=True)
            self._takeovers.heard(job, peer, takes=None, now_ms=now_ms)

    def _peer(self, node: NodeId) -> Peer | None:
        return Peer(id=node, name="") if node == self.me else self.verdicts.peers.get(node)

    def _dispensable(self, peer: NodeId, job: JobId, version: Fence, ready: Ready) -> None:
        kept = self.shelf.unfinished.get(job)
        if kept is None or peer != kept.home or version < kept.version:
            return
        if not self._meeting.errands.has(job, peer):  # Else it knows what its home may not.
            self._meeting.take_off(job)
            ready.save_held[job] = None


def read(body: bytes) -> JobRecord | None:
    """A record of others; None: this version cannot read it, or there is none."""
    try:
        return decode(body)
    except JUNK:
        return None
