"""Records meet: what a node makes of what another one knows of a job.

Lives here: holding, merging, abdicating, taking over. Never here: who is told what when
(`guarding`), what the job itself does then (whoever stands behind `Consequences`).
Invariant: a node obeys the highest epoch that it has seen of a job; nothing that a record knew is
lost when two become one, and its home learns it.
"""

from typing import Final, Protocol

import msgspec

from distributed_grid.kernel.across.auditing import Audits
from distributed_grid.kernel.across.errands import ERRAND_MS, Errands
from distributed_grid.kernel.across.holders import Holders
from distributed_grid.kernel.across.own import Own
from distributed_grid.kernel.across.record import JobRecord, has_ended, joined, state_of
from distributed_grid.kernel.across.record_bytes import encode, is_readable
from distributed_grid.kernel.across.record_jobs import summary
from distributed_grid.kernel.across.record_parts import standing_of
from distributed_grid.kernel.across.returning import Returning
from distributed_grid.kernel.across.rights import may_spread
from distributed_grid.kernel.across.shelf import LARGE_BYTES, Kept, Shelf
from distributed_grid.kernel.across.takeover import PATIENCE_MS, Takeovers
from distributed_grid.kernel.across.verdicts import Verdicts
from distributed_grid.kernel.ready import Happened, Ready
from distributed_grid.model.across import Epoch, Fence
from distributed_grid.model.ids import JobId, NodeId
from distributed_grid.wire.across import Copy

TAKEN_BYTES_MAX: Final = 64 << 20  # Of large jobs that were taken over: the next one waits.


class Consequences(Protocol):
    """What a node does when a job changes hands."""

    def taken_over(self, record: JobRecord, now_ms: int, ready: Ready) -> None:
        """This node may be the job's home from now on: make the job, and call `changed`.

        Without that the record stays as it is, and the question comes again.
        """
        ...

    def abdicated(self, record: JobRecord, now_ms: int, ready: Ready) -> None:
        """Another node is its home, under a higher epoch."""
        ...

    def merged(self, record: JobRecord, now_ms: int, ready: Ready) -> None:
        """Others knew more of a job of this node: this is all of it. Call `changed`."""
        ...

    def cleared(self, job: JobId, now_ms: int, ready: Ready) -> None:
        """After a start: a job of this node may go on."""
        ...


class Meeting:
    """All that this node knows of jobs and their homes."""

    def __init__(self, me: NodeId, consequences: Consequences) -> None:
        self.me = me
        self.consequences = consequences
        self.verdicts = Verdicts(me)
        self.holders = Holders(self.verdicts)
        self.shelf = Shelf()
        self.takeovers = Takeovers(self.shelf, self.verdicts)
        self.returning = Returning()
        self.audits = Audits()
        self.untracked: set[JobId] = set()
        self.unread: list[JobId] = []  # Records on disk that mean nothing to this version.
        self.errands = Errands()

    def is_cleared(self, job: JobId) -> bool:
        """Whether nobody is still to be asked about it."""
        return job not in self.returning.doubts and job not in self.untracked

    def resolve(self, job: JobId) -> None:
        """It is not in doubt any more."""
        self.returning.settle(job)
        self.untracked.discard(job)
        self.holders.held_back.discard(job)

    def find(self, job: JobId) -> JobRecord | None:
        """The record of a job, whoever is its home."""
        own = self.holders.own.get(job)
        return own.record if own else self.shelf.find(job)

    # Of jobs of others

    def keep(self, record: JobRecord, peer: NodeId, now_ms: int, ready: Ready) -> JobRecord:
        """Hold a record, joined with what is here; answers what is held now."""
        held = self.shelf.find(record.job)
        after = self._shelve(held, record, peer, now_ms, ready)
        if held is None or not has_ended(held) or after == held:
            return after
        # Whoever is its home: this node may have told that end before it abdicated, and a record
        # does not say who was home before.
        self._tell_of_result(held, after, now_ms, ready)
        if held.home == self.me:  # It was ours, and seemed over.
            if after.home == self.me:
                self.consequences.merged(after, now_ms, ready)
            else:
                self.consequences.abdicated(after, now_ms, ready)
        return after

    def _shelve(
        self, held: JobRecord | None, record: JobRecord, peer: NodeId, now_ms: int, ready: Ready
    ) -> JobRecord:
        job = record.job
        after = joined(held, record) if held else record
        is_from_other = after != held and peer != self.me
        self.shelf.put(after, now_ms, ready, sender=peer if is_from_other else None)
        self.returning.settle(job)  # Whoever speaks of it was not away.
        self.untracked.discard(job)
        if has_ended(after):
            self.takeovers.forget(job)
            self.audits.forget(job)
            self._spread(held, after, now_ms, ready)
        else:
            self._look_after(after, held, peer, now_ms)
        is_news = after != record if peer == after.home else held is not None and after != held
        if is_news:
            self._tell(after, after.home, now_ms, ready)
        elif after == record:
            self.errands.done(job, peer)
        return after

    def watch(self, job: JobId, now_ms: int, *, is_disowned: bool = False) -> None:
        """Its home is dead, or knows nothing of it: somebody else must look after it."""
        if self.is_cleared(job):
            self.takeovers.watch(job, now_ms, is_disowned=is_disowned)

    def _look_after(
        self, record: JobRecord, before: JobRecord | None, peer: NodeId, now_ms: int
    ) -> None:
        job = record.job
        if before is None or before.home != record.home or peer == record.home:
            self.takeovers.forget(job)
            self.audits.heard(job, now_ms)
        if record.home == self.me:
            self.watch(job, now_ms, is_disowned=True)
        elif not self.verdicts.sees(record.home):
            self.watch(job, now_ms)

    def take_over(self, kept: Kept, now_ms: int, ready: Ready) -> None:
        """The home is dead, and it is this node's turn."""
        job, known = kept.job, self.shelf.find(kept.job)
        if known is None or not is_readable(known):
            self.take_off(job)  # The disk has lost it, or has it of a newer version that was here.
            return
        if kept.size > LARGE_BYTES and self._taken_bytes() + kept.size > TAKEN_BYTES_MAX:
            self.watch(job, now_ms + PATIENCE_MS)
            return
        epoch = Epoch(known.version.epoch.counter + 1, self.me)
        record = msgspec.structs.replace(known, version=Fence(epoch, 0))
        self.consequences.taken_over(record, now_ms, ready)
        if job in self.shelf.unfinished:
            self.watch(job, now_ms + PATIENCE_MS)
            return
        fields = {"home": kept.home, "epoch": epoch.counter}
        ready.happened.append(Happened(name="job.taken_over", at_ms=now_ms, job=job, fields=fields))

    def _taken_bytes(self) -> int:
        """In memory, of large jobs that others had submitted."""
        taken = (own for own in self.holders.own.values() if own.job.is_foreign)
        return sum(len(own.body) for own in taken if len(own.body) > LARGE_BYTES)

    def take_off(self, job: JobId) -> None:
        """The record is held for its home no longer."""
        self.shelf.take(job)
        self.takeovers.forget(job)
        self.audits.forget(job)

    # Of jobs of this node

    def merge(self, own: Own, record: JobRecord, now_ms: int, ready: Ready) -> None:
        """Learn what another holder knows of a job of this node."""
        before, after = own.record, joined(own.record, record)
        if after == before:
            return
        self.holders.learn(own, after)
        self._tell_of_result(before, after, now_ms, ready)
        self.consequences.merged(after, now_ms, ready)
        if own.version == after.version:
            self.holders.changed(own.job, now_ms, ready)

    def abdicate(self, own: Own, record: JobRecord, now_ms: int, ready: Ready) -> None:
        """Another node has taken the job over; what this one knows of it goes there."""
        job = record.job
        if self._is_rooted_here(own, record):
            self._take_back(own, record, now_ms, ready)
            return
        self.holders.release(job)
        after = self._shelve(own.record, record, record.home, now_ms, ready)
        self._tell_of_result(own.record, after, now_ms, ready)
        own.job.epoch = after.version.epoch  # Whose it is now stands on this disk too.
        ready.save_jobs[job] = own.job
        fields = {"home": after.home}
        ready.happened.append(Happened(name="job.abdicated", at_ms=now_ms, job=job, fields=fields))
        self.consequences.abdicated(after, now_ms, ready)

    def _is_rooted_here(self, own: Own, record: JobRecord) -> bool:
        """Whether whoever took it over cannot run it: its files are here only."""
        is_over = has_ended(record) or own.job.has_ended or own.job.ending is not None
        return not is_over and standing_of(record.standing).rooted == self.me

    def _take_back(self, own: Own, record: JobRecord, now_ms: int, ready: Ready) -> None:
        """Be its home again, with what others have learnt of it meanwhile."""
        job = own.job
        self.resolve(record.job)
        self.holders.learn(own, joined(own.record, record))
        job.epoch, job.seq = Epoch(record.version.epoch.counter + 1, self.me), 0
        job.tell(now_ms, "back home", "its directory is here")
        fields = {"home": record.home, "epoch": job.epoch.counter}
        happened = Happened(name="job.taken_over", at_ms=now_ms, job=record.job, fields=fields)
        ready.happened.append(happened)
        self.consequences.merged(own.record, now_ms, ready)
        self.consequences.cleared(record.job, now_ms, ready)

    def shelve_retired(self, now_ms: int) -> None:
        """Jobs of this node that ended, and whose holders all know: remembered like any other."""
        for own in self.holders.retired:
            record = own.record if len(own.body) <= LARGE_BYTES else summary(own.record)
            self.shelf.put(record, now_ms, None)
        self.holders.retired.clear()

    def _tell_of_result(
        self, before: JobRecord, after: JobRecord, now_ms: int, ready: Ready
    ) -> None:
        was, state = state_of(before), state_of(after)
        if has_ended(before) and was != state:  # Failed is cancelled, or either has succeeded.
            fields = {"before": was, "state": state}
            happened = Happened(
                name="job.result_changed", at_ms=now_ms, job=after.job, fields=fields
            )
            ready.happened.append(happened)

    # What others must learn

    def _spread(self, held: JobRecord | None, after: JobRecord, now_ms: int, ready: Ready) -> None:
        """It has ended: see to it that all who may hold it hear of that, or of both ends.

        Its home does so too. But it may be gone for good before it has told those who are away now;
        and nobody takes over from it, for there is nothing left to do.
        """
        if held is not None and held.results == after.results:
            return
        is_contested = len(after.results) > 1
        for node in after.holders:
            if is_contested or not self.verdicts.sees(node):
                self._tell(after, node, now_ms, ready)

    def run_errands(self, now_ms: int, ready: Ready) -> None:
        """Tell others again what is known here, until they answer."""
        for job, node in self.errands.due(now_ms):
            record = self.shelf.find(job)
            if record is None:
                self.errands.done(job, node)
            else:
                self._tell(record, node, now_ms, ready)

    def _tell(self, record: JobRecord, node: NodeId, now_ms: int, ready: Ready) -> None:
        if node == self.me or not may_spread(self.me, record):
            self.errands.done(record.job, node)  # It only votes: the majority may not know it yet.
            return
        if not self.verdicts.sees(node):
            self.errands.wait(record.job, node)
            return
        self.errands.plan(record.job, node, now_ms + ERRAND_MS)
        if self.is_cleared(record.job):
            ready.send.append((node, Copy(record=encode(record))))
