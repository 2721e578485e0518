"""The records that this node holds for others, and what it remembers of jobs that have ended.

Lives here: records, summaries, on whose account they are, their age. Never here: whose turn it is
to look after a job (`takeover`), limits (`kernel.accounts`).
Invariant: what is here was handed to the disk in the same step; an unfinished record leaves only
by `take`: its home has said that it is dispensable, or this node becomes the home. What is large is
in memory only until the disk has it, and is read from there when somebody wants the whole of it.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

import msgspec

from distributed_grid.kernel.accounts import LIMITS, ByteAccounts
from distributed_grid.kernel.across.peers import Peer
from distributed_grid.kernel.across.record import JobRecord, has_ended
from distributed_grid.kernel.across.record_bytes import decode, encode
from distributed_grid.kernel.across.record_jobs import summary
from distributed_grid.kernel.across.record_parts import standing_of
from distributed_grid.kernel.ready import Ready
from distributed_grid.model.across import Fence
from distributed_grid.model.ids import JobId, NodeId
from distributed_grid.wire.mesh import JUNK

LARGE_BYTES: Final = 8 << 10  # A longer record is on disk only.
BLOCK_BYTES: Final = 1 << 10  # Records are accounted in such steps, with what stands around them.
END_BYTES: Final = 4 << 10  # More than is left: how a job ended is heard at any rate.
RECLAIMED_MAX: Final = 256  # Of what is over, for one new record.
SUMMARIES_MAX: Final = 100_000  # The oldest go first; a few hundred bytes each.
ENDED_MAX: Final = 2_000  # Ended, and still whole: as many as a coordinator remembers.
ENDED_MS: Final = 3_600_000  # For an hour the whole story can be read anywhere.
GRACE_MS: Final = 7 * 86_400_000  # Whoever is away for longer trusts nothing it remembers.
SUMMARY_MS: Final = 2 * GRACE_MS

ReadHeld = Callable[[JobId], bytes | None]  # The record of a job as the disk has it.


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """A record, and what is asked of it most often."""

    job: JobId
    home: NodeId  # Who looks after the job.
    guardians: tuple[NodeId, ...]
    version: Fence
    name: str
    user: str
    submitted_ms: int
    sender: NodeId  # On whose account it is.
    size: int
    here: JobRecord | None
    body: bytes  # Of a summary, instead. Neither: the disk has it, or will have it in a moment.


class Shelf:
    """Records by job."""

    def __init__(self) -> None:
        self.read: ReadHeld = lambda _: None  # Told from outside.
        self.unfinished: dict[JobId, Kept] = {}
        self.accounts = ByteAccounts(LIMITS["records"])
        self._memory = ByteAccounts(LIMITS["in memory"])
        self._unsaved: dict[JobId, bytes] = {}  # On the way to the disk, and nowhere else.
        self._ended: dict[JobId, tuple[int, Kept]] = {}  # In the order of their end, as seen.
        self._summaries: dict[JobId, tuple[int, Kept]] = {}  # By when the job ended.
        self._whole_of: dict[NodeId, dict[JobId, None]] = {}  # Those that ended, by sender,
        self._summaries_of: dict[NodeId, dict[JobId, None]] = {}  # and the summaries.
        self._by_home: dict[NodeId, set[JobId]] = {}

    def kept(self, job: JobId) -> Kept | None:
        """What is known of a job here, in a few words."""
        if job in self.unfinished:
            return self.unfinished[job]
        found = self._ended.get(job) or self._summaries.get(job)
        return found[1] if found else None

    def find(self, job: JobId) -> JobRecord | None:
        """All that is known of a job here; nothing, if the disk has lost it."""
        kept = self.kept(job)
        if kept is None:
            return None
        if kept.here is not None:
            return kept.here
        body = kept.body or self._unsaved.get(job) or self.read(job)
        try:
            return decode(body) if body else None
        except JUNK:
            return None

    def whole(self) -> Iterator[Kept]:
        """All that are more than a summary: of jobs that go on, and that ended lately."""
        yield from self.unfinished.values()
        yield from (kept for _, kept in self._ended.values())

    def of_home(self, home: NodeId) -> list[JobId]:
        """The unfinished jobs that a node looks after."""
        return sorted(self._by_home.get(home, ()))

    # Room

    def has_room(
        self, record: JobRecord, size: int, sender: Peer, now_ms: int, ready: Ready
    ) -> bool:
        """Whether a record is taken from this sender; what is over makes room for it."""
        before, size, who = self.kept(record.job), _size(size), sender.id
        if before is not None and before.sender == who:
            is_end = has_ended(record) and record.job in self.unfinished
            size -= before.size + is_end * END_BYTES
        for _ in range(RECLAIMED_MAX):
            if self.accounts.has_room(who, sender.rank, size):
                return True
            is_own = self.accounts[who] + size > self.accounts.most(sender.rank)
            whole = self._whole_of.get(who, {}) if is_own else self._ended
            summaries = self._summaries_of.get(who, {}) if is_own else self._summaries
            if whole:
                self._sum_up(next(iter(whole)), now_ms, ready)
            elif summaries:
                self.forget(next(iter(summaries)), ready)
            else:
                break
        return False

    def put(
        self,
        record: JobRecord,
        now_ms: int,
        ready: Ready | None,
        *,
        sender: NodeId | None = None,
        is_on_disk: bool = False,
    ) -> None:
        """Keep this instead of what was kept of the job; without a step nothing is written."""
        job, body = record.job, encode(record)
        before = self._remove(job)
        if sender is None:
            sender = before.sender if before is not None else record.home
        size, standing = _size(len(body)), standing_of(record.standing)
        is_small = len(body) <= LARGE_BYTES and self._memory.has_room(sender, "own", size)
        is_here = is_small or (ready is None and not is_on_disk)
        if ready is not None:
            ready.save_held[job] = body
            if not is_here:
                self._unsaved[job] = body
        kept = Kept(
            job=job, home=record.home, guardians=standing.guardians, version=record.version,
            name=standing.name, user=standing.user, submitted_ms=standing.submitted_ms,
            sender=sender, size=size,
            here=record if is_here and not record.is_summary else None,
            body=body if is_here and record.is_summary else b"",
        )  # fmt: skip
        self.accounts.add(sender, size)
        self._memory.add(sender, size if is_here else 0)
        if record.is_summary:
            self._summaries[job] = (min(standing.ended_ms or now_ms, now_ms), kept)
            self._summaries_of.setdefault(sender, {})[job] = None
        elif has_ended(record):
            self._ended[job] = (now_ms, kept)
            self._whole_of.setdefault(sender, {})[job] = None
        else:
            self.unfinished[job] = kept
            self._by_home.setdefault(record.home, set()).add(job)

    def save(self, job: JobId, ready: Ready) -> bool:
        """Have it written in this step, if it may not have been; whether there is any."""
        kept = self.kept(job)
        body = self._unsaved.get(job) or (kept and (kept.body or (kept.here and encode(kept.here))))
        if body:
            ready.save_held[job] = body
        return kept is not None

    def saved(self, records: Mapping[JobId, bytes | None]) -> None:
        """These are on disk."""
        for job, body in records.items():
            if body is not None and self._unsaved.get(job) == body:
                del self._unsaved[job]

    def remember(self, record: JobRecord, now_ms: int, ready: Ready | None) -> None:
        """Keep the summary of a job that has ended."""
        self.put(summary(record), now_ms, ready)

    def forget(self, job: JobId, ready: Ready) -> None:
        """It has been over for so long that nobody will ask."""
        self.take(job)
        ready.save_held[job] = None

    def take(self, job: JobId) -> None:
        """This node becomes its home: the record is no longer held for another."""
        self._remove(job)

    def tick(self, now_ms: int, ready: Ready) -> None:
        """What has ended becomes a summary after a while, and is forgotten at last."""
        while self._ended:
            job, (since_ms, _) = next(iter(self._ended.items()))
            if now_ms - since_ms < ENDED_MS and len(self._ended) <= ENDED_MAX:
                break
            self._sum_up(job, now_ms, ready)
        while self._summaries:
            job, (ended_ms, _) = next(iter(self._summaries.items()))
            if now_ms - ended_ms <= SUMMARY_MS and len(self._summaries) <= SUMMARIES_MAX:
                break
            self.forget(job, ready)

    def _sum_up(self, job: JobId, now_ms: int, ready: Ready) -> None:
        record = self.find(job)
        if record is not None:
            self.remember(record, now_ms, ready)
        else:  # The disk has lost it.
            self.forget(job, ready)

    def _remove(self, job: JobId) -> Kept | None:
        kept = self.kept(job)
        if kept is None:
            return None
        is_here = kept.here is not None or kept.body
        self.accounts.add(kept.sender, -kept.size)
        self._memory.add(kept.sender, -kept.size if is_here else 0)
        self._unsaved.pop(job, None)
        self._ended.pop(job, None)
        self._summaries.pop(job, None)
        self.unfinished.pop(job, None)
        for jobs_of in (self._whole_of, self._summaries_of):
            jobs_of.get(kept.sender, {}).pop(job, None)
        jobs = self._by_home.get(kept.home, set())
        jobs.discard(job)
        if not jobs:
            self._by_home.pop(kept.home, None)
        return kept

    def check(self) -> None:
        """Re-derive what must be true."""
        past = (*self._ended.values(), *self._summaries.values())
        every = [*self.unfinished.values(), *(kept for _, kept in past)]
        self.accounts.check((kept.sender, kept.size) for kept in every)
        in_memory = [kept for kept in every if kept.here is not None or kept.body]
        self._memory.check((kept.sender, kept.size) for kept in in_memory)


def _size(length: int) -> int:
    """As it is accounted."""
    return (length // BLOCK_BYTES + 1) * BLOCK_BYTES
