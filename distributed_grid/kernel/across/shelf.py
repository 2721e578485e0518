"""The records that this node holds for others, and what it remembers of jobs that have ended.

Lives here: records, summaries, their limits and their age. Never here: whose turn it is to look
after a job (`takeover`).
Invariant: what is here was handed to the disk in the same step; an unfinished record leaves only
by `take`: its home has said that it is dispensable, or this node becomes the home.
"""

from collections.abc import Iterator
from typing import Final

import msgspec

from distributed_grid.kernel.across.record import JobRecord, has_ended
from distributed_grid.kernel.across.record_bytes import decode, encode
from distributed_grid.kernel.across.record_jobs import summary
from distributed_grid.kernel.across.record_parts import standing_of
from distributed_grid.kernel.ready import Ready
from distributed_grid.model.ids import JobId, NodeId

RECORDS_MAX: Final = 100_000  # A kilobyte or two each: some 200 MB at the worst.
SUMMARIES_MAX: Final = 100_000  # The oldest go first; a few hundred bytes each.
ENDED_MAX: Final = 2_000  # Ended, and still whole: as many as a coordinator remembers.
ENDED_MS: Final = 3_600_000  # For an hour the whole story can be read anywhere.
GRACE_MS: Final = 7 * 86_400_000  # Whoever is away for longer trusts nothing it remembers.
SUMMARY_MS: Final = 2 * GRACE_MS


class Kept(msgspec.Struct, frozen=True):
    """A record, and what is asked of it most often."""

    record: JobRecord
    guardians: tuple[NodeId, ...]

    @property
    def home(self) -> NodeId:
        """Who looks after the job."""
        return self.record.home


class Shelf:
    """Records by job."""

    def __init__(self) -> None:
        self.unfinished: dict[JobId, Kept] = {}
        self._ended: dict[JobId, tuple[int, JobRecord]] = {}  # In the order of their end, as seen.
        self._summaries: dict[JobId, tuple[int, bytes]] = {}  # By when the job ended.
        self._by_home: dict[NodeId, set[JobId]] = {}

    def find(self, job: JobId) -> JobRecord | None:
        """What is known of a job here."""
        if job in self.unfinished:
            return self.unfinished[job].record
        if job in self._ended:
            return self._ended[job][1]
        found = self._summaries.get(job)
        return decode(found[1]) if found else None

    def whole(self) -> Iterator[JobRecord]:
        """All that are more than a summary: of jobs that go on, and that ended lately."""
        yield from (kept.record for kept in self.unfinished.values())
        yield from (record for _, record in self._ended.values())

    def of_home(self, home: NodeId) -> list[JobId]:
        """The unfinished jobs that a node looks after."""
        return sorted(self._by_home.get(home, ()))

    @property
    def is_full(self) -> bool:
        """Whether no record of another job is taken."""
        return len(self.unfinished) >= RECORDS_MAX

    def put(self, record: JobRecord, now_ms: int, ready: Ready | None) -> None:
        """Keep this instead of what was kept of the job; without a step: it is on disk already."""
        job = record.job
        self._remove(job)
        if ready is not None:
            ready.save_held[job] = encode(record)
        if record.is_summary:
            self._summaries[job] = (_ended_ms(record, now_ms), encode(record))
        elif has_ended(record):
            self._ended[job] = (now_ms, record)
        else:
            self.unfinished[job] = Kept(record, record.guardians)
            self._by_home.setdefault(record.home, set()).add(job)

    def remember(self, record: JobRecord, now_ms: int, ready: Ready | None) -> None:
        """Keep the summary of a job that has ended."""
        self.put(summary(record), now_ms, ready)

    def forget(self, job: JobId, ready: Ready) -> None:
        """It has been over for so long that nobody will ask."""
        self._remove(job)
        ready.save_held[job] = None

    def take(self, job: JobId) -> JobRecord | None:
        """This node becomes its home: the record is no longer held for another."""
        record = self.find(job)
        self._remove(job)
        return record

    def tick(self, now_ms: int, ready: Ready) -> None:
        """What has ended becomes a summary after a while, and is forgotten at last."""
        while self._ended:
            job, (since_ms, record) = next(iter(self._ended.items()))
            if now_ms - since_ms < ENDED_MS and len(self._ended) <= ENDED_MAX:
                break
            self.remember(record, now_ms, ready)
        while self._summaries:
            job, (ended_ms, _) = next(iter(self._summaries.items()))
            if now_ms - ended_ms <= SUMMARY_MS and len(self._summaries) <= SUMMARIES_MAX:
                break
            self.forget(job, ready)

    def _remove(self, job: JobId) -> None:
        self._ended.pop(job, None)
        self._summaries.pop(job, None)
        kept = self.unfinished.pop(job, None)
        if kept is not None:
            jobs = self._by_home[kept.home]
            jobs.discard(job)
            if not jobs:
                del self._by_home[kept.home]


def _ended_ms(record: JobRecord, now_ms: int) -> int:
    """When it ended by its home's clock, or now if that is ahead of ours."""
    return min(standing_of(record.standing).ended_ms or now_ms, now_ms)
