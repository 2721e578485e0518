"""What nodes say to each other about jobs, on the job lane.

Lives here: owners and coordinators (asking, granting, starting, reporting), holders of copies
(copying, taking over). Never here: votes on at-most-once jobs (`register`), questions of people
that are passed on (`questions`), files (`artifacts`).
Invariant: everything may be said twice, and arrive late or never: what a home asks of an owner
carries its epoch, mostly with a number, and whoever knows a higher one ignores it; about a lease,
the lease's name is enough.
"""

from typing import Annotated, Final, Literal

import msgspec

from distributed_grid.model.across import Epoch, Fence, Nodes, Peers, Rank, Ranks, SavedStates
from distributed_grid.model.bounds import (
    COUNT_MAX,
    LEASES_MAX,
    SPEC_BYTES_MAX,
    Bytes,
    Cores,
    Count,
    Devices,
    Indices,
    Milli,
    Moment,
    Name,
    Pid,
    Place,
    Sentence,
    Sentences,
    Span,
    Word,
)
from distributed_grid.model.ids import JobId, NodeId
from distributed_grid.model.job import JobSpec
from distributed_grid.wire.keeper import Ended
from distributed_grid.wire.register import Standing

INQUIRED_MAX: Final = 256  # Jobs in one question after them.
REPORTS_MAX: Final = 256  # In one message: as many as a chunk has indices.
STOLEN_MAX: Final = 8  # Waiting jobs that an idle node is told of at once.


LINE_MAX: Final = 1_024  # That is read of a line.
INQUIRIES_MAX: Final = 100_000  # That are read of a question.
Record = Annotated[bytes, msgspec.Meta(max_length=SPEC_BYTES_MAX)]
Mark = Annotated[int, msgspec.Meta(ge=0, lt=2**32)]

# Owners


class Reserve(msgspec.Struct, frozen=True, kw_only=True, tag="reserve"):
    """May this job have its resources at your place? Again: the entry is kept, and refreshed."""

    job: JobId
    epoch: Epoch
    number: Count  # Of the coordinator's requests for this job; rises.
    spec: JobSpec  # Without its work: what it needs, whose it is, how important.
    waited_ms: Moment = 0  # How long it waits already, anywhere: waiting lifts it.
    leases: Annotated[int, msgspec.Meta(ge=1, le=COUNT_MAX)] = (
        1  # Of an array: how many it could use there.
    )
    may_clear: bool = False  # It has no other hope: what was lent to others may give way for it.

    def __post_init__(self) -> None:
        """Whoever knows no limit asks for as many as there are thousandths of a core."""
        if self.leases > LEASES_MAX:
            msgspec.structs.force_setattr(self, "leases", LEASES_MAX)


class Granted(msgspec.Struct, frozen=True, kw_only=True, tag="granted"):
    """Yes: this lease is yours if you start something in it soon: five seconds, if voted on 20."""

    job: JobId
    epoch: Epoch
    number: Count  # Of the request; 0: nobody asked, the sender is idle and stole it.
    lease: Word  # 128 random bits; used by one Start.
    cores: Cores = ()
    gpus: Devices = ()
    slots: Count = 1  # How many such leases the owner could run side by side.


class Waiting(msgspec.Struct, frozen=True, kw_only=True, tag="waiting"):
    """Not now; it stands in the line here, and is forgotten after 30 s unless asked again."""

    job: JobId
    epoch: Epoch
    number: Count
    position: Count
    why: Sentence = ""  # What keeps the first of the line there, in a few words.
    is_clearing: bool = False  # Others give way for it: it had better start nowhere else.


class NotGranted(msgspec.Struct, frozen=True, kw_only=True, tag="not-granted"):
    """No: it would not fit, or the owner does not lend."""

    job: JobId
    epoch: Epoch
    number: Count
    reasons: Sentences


class Start(msgspec.Struct, frozen=True, kw_only=True, tag="start"):
    """Run this attempt in the lease that you granted. Repeated until it is answered."""

    job: JobId
    epoch: Epoch
    number: Count
    lease: Word  # And the attempt's id from now on.
    spec: JobSpec  # Whole, with its work.
    attempt: Count  # Its number: GRID_ATTEMPT.
    indices: Indices = ()
    rank: Rank = 0
    ranks: Ranks = 1  # More than one: it waits for its Go.
    peers: Peers = ()
    rendezvous: Name = ""
    # Of an at-most-once job: what its voters hold. It runs once they have renewed its lease.
    standing: Standing | None = None
    saved: SavedStates = ()  # States of its job, the newest first: it goes on from one.
    holders: Nodes = ()  # Who may look after the job next: they are obeyed, too.


class Taken(msgspec.Struct, frozen=True, kw_only=True, tag="taken"):
    """The attempt is durable here, and runs or will at once."""

    job: JobId
    lease: Word


class NotTaken(msgspec.Struct, frozen=True, kw_only=True, tag="not-taken"):
    """No such lease: unknown, used, expired, or of a lower epoch. Nothing runs."""

    job: JobId
    lease: Word
    why: Sentence


class Withdrawn(msgspec.Struct, frozen=True, kw_only=True, tag="withdrawn"):
    """The coordinator wants nothing more of its requests up to this number; leases go back."""

    job: JobId
    epoch: Epoch
    number: Count


class Halt(msgspec.Struct, frozen=True, kw_only=True, tag="halt"):
    """End an attempt.

    Neither this nor Poll has a number: they are about a lease, which is used once. Whoever says
    NotTaken of it has taken it back, so no Start, however late, finds it any more; and whoever is
    told of a lease that has ended takes no notice.
    """

    job: JobId
    epoch: Epoch
    lease: Word
    grace_ms: Span = 10_000
    why: Literal["cancelled", "twice"] = "cancelled"  # twice: another one counts.


class Begun(msgspec.Struct, frozen=True, kw_only=True, tag="begun"):
    """A process of the attempt runs."""

    job: JobId
    lease: Word
    pid: Pid
    at_ms: Moment
    resumed: Sentence = ""  # With which state it began, in words. Empty: none came.
    # Why it stands still now; empty: it does not. Said whenever it changes.
    suspended: Sentence = ""


class Report(msgspec.Struct, frozen=True, kw_only=True, tag="report"):
    """All that ended of an attempt so far, from the first on; kept until it is confirmed."""

    job: JobId
    lease: Word
    first: Place  # How many ends came before these, and were confirmed.
    ends: Annotated[
        tuple[Ended, ...], msgspec.Meta(max_length=REPORTS_MAX)
    ]  # As the keeper told them; of a chunk one for each index.
    resumed: Sentence = ""  # As in Begun, of one that ended before that was told.


class Confirmed(msgspec.Struct, frozen=True, kw_only=True, tag="confirmed"):
    """So many ends of the attempt are durable at the coordinator and at one holder more."""

    job: JobId
    lease: Word
    ends: Count


class Poll(msgspec.Struct, frozen=True, kw_only=True, tag="poll"):
    """What became of this attempt? Asked after a restart or a takeover; report to me from now on.

    Answered by Begun, by Report, by Taken if it has not begun, or by NotTaken.
    """

    job: JobId
    epoch: Epoch
    lease: Word
    has_begun: bool = False  # As far as its home knows.


# Stealing


class Idle(msgspec.Struct, frozen=True, kw_only=True, tag="idle"):
    """There is room here: who waits at your place?"""

    cpu_milli: Milli
    memory_bytes: Bytes


Waits = tuple[NodeId, JobId, Epoch, JobSpec]


class Line(msgspec.Struct, frozen=True, kw_only=True, tag="line"):
    """The first who wait here and would fit, each with its coordinator."""

    waiting: Annotated[tuple[Waits, ...], msgspec.Meta(max_length=LINE_MAX)]  # At most STOLEN_MAX.


# Holders


class Copy(msgspec.Struct, frozen=True, kw_only=True, tag="copy"):
    """Keep this record."""

    record: Record  # A JobRecord; what a holder does not understand of it, it keeps.


class Copied(msgspec.Struct, frozen=True, kw_only=True, tag="copied"):
    """It is durable here; or a later one already was."""

    job: JobId
    version: Fence
    mark: Mark = 0  # Of the Copy that this answers: the CRC-32 of its bytes. 0: of an Inquiry.


class NotCopied(msgspec.Struct, frozen=True, kw_only=True, tag="not-copied"):
    """It is not: the disk is full, or there are too many already."""

    job: JobId
    version: Fence
    why: Sentence


class Inquiry(msgspec.Struct, frozen=True, kw_only=True, tag="inquiry"):
    """Do you hold a record of this job? Asked by a restarted coordinator, and by whoever doubts."""

    jobs: Annotated[
        tuple[JobId, ...], msgspec.Meta(max_length=INQUIRIES_MAX)
    ]  # At most INQUIRED_MAX; of more, only so many are answered.
    is_short: bool = False  # Only whether the other still has them: Copied will do.


class Holding(msgspec.Struct, frozen=True, kw_only=True, tag="holding"):
    """The answer for one job; empty: I do not know it."""

    job: JobId
    record: Record = b""


class Dispensable(msgspec.Struct, frozen=True, kw_only=True, tag="dispensable"):
    """All on a newer, full list without you hold the record durably: yours may go."""

    job: JobId
    version: Fence


AcrossMessage = (
    Reserve | Granted | Waiting | NotGranted | Start | Taken | NotTaken | Withdrawn | Halt | Begun
    | Report | Confirmed | Poll | Idle | Line | Copy | Copied | NotCopied | Inquiry | Holding
    | Dispensable
)  # fmt: skip
