"""What nodes say to each other about jobs that must never run twice at once, on the job lane.

Lives here: the register that voters keep of such a job, their votes, the leases they renew.
Never here: asking for room, starting, reporting, which all jobs share (`across`).
Invariant: everything may be said twice, and arrive late or never: an answer repeats the number of
its question, drawn by lot, so that nobody takes an answer to an earlier life for its own.
"""

from typing import Annotated, Final

import msgspec

from distributed_grid.model.across import Epoch, Fence
from distributed_grid.model.bounds import Body, Count, Lot, Word
from distributed_grid.model.ids import JobId, NodeId

RENEWALS_MAX: Final = 256  # In one message: some 50 kB, and more than a machine runs at once.

MEMBERS_MAX: Final = 16  # Voters of one set; there are at most five.
SETS_MAX: Final = 4


class Member(msgspec.Struct, frozen=True, order=True, array_like=True):
    """Who votes: a node with the store that it had then. A new store is somebody else."""

    node: NodeId
    store: Word


Members = Annotated[tuple[Member, ...], msgspec.Meta(max_length=MEMBERS_MAX)]
Sets = Annotated[
    tuple[Members, ...], msgspec.Meta(max_length=SETS_MAX)
]  # A majority of each is needed: one set, or old and next.


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """Who votes on a job, and which attempt may run."""

    version: Fence = Fence()  # Of the write.
    voters: Members = msgspec.field(default=(), name="guardians")  # As it was called.
    next: Members = ()  # While the set changes: those who will be.
    attempt: Fence = Fence()  # Under which the attempt runs: the write that named or adopted it.
    lease: Word = ""  # The attempt's id. Empty: none was named yet, or none may run any more.
    node: NodeId = NodeId("")  # That may run it.

    @property
    def sets(self) -> Sets:
        """Of each of these a majority is needed, for anything."""
        return (self.voters, self.next) if self.next else (self.voters,)


class Written(msgspec.Struct, frozen=True, kw_only=True):
    """What the register holds."""

    standing: Standing
    value: Body = b""  # A JobRecord.


# Writing


class Prepare(msgspec.Struct, frozen=True, kw_only=True, tag="vote-prepare"):
    """Promise me to obey no lower epoch, and tell me what you have accepted."""

    job: JobId
    epoch: Epoch
    ask: Lot
    sets: Sets  # As the asker knows them.
    is_forced: bool = False  # A person says so: whoever voted before need not be asked.


class Promised(msgspec.Struct, frozen=True, kw_only=True, tag="vote-promised"):
    """I do, durably."""

    job: JobId
    epoch: Epoch
    ask: Lot
    store: Word
    written: Written | None = None


class NotPromised(msgspec.Struct, frozen=True, kw_only=True, tag="vote-not-promised"):
    """I have promised as much to another, or have no vote on this."""

    job: JobId
    epoch: Epoch
    ask: Lot
    store: Word
    promised: Epoch
    written: Written | None = None


class Accept(msgspec.Struct, frozen=True, kw_only=True, tag="vote-accept"):
    """Keep this from now on."""

    job: JobId
    ask: Lot
    sets: Sets  # Whose majorities decide on it.
    written: Written
    is_forced: bool = False


class Accepted(msgspec.Struct, frozen=True, kw_only=True, tag="vote-accepted"):
    """I do, durably."""

    job: JobId
    ask: Lot
    version: Fence
    store: Word


class NotAccepted(msgspec.Struct, frozen=True, kw_only=True, tag="vote-not-accepted"):
    """I have promised not to."""

    job: JobId
    ask: Lot
    version: Fence
    store: Word
    promised: Epoch


# Leases


class Renewal(msgspec.Struct, frozen=True, array_like=True):
    """One attempt that wants to go on."""

    job: JobId
    lease: Word
    fence: Fence
    version: Fence  # Of the newest standing that its node has seen.


class RenewLeases(msgspec.Struct, frozen=True, kw_only=True, tag="vote-renew"):
    """All attempts here that you are a voter of."""

    life: Lot  # Of the asker: another at every start.
    sent_us: Count  # On the asker's clock, read before this was sent.
    renewals: Annotated[tuple[Renewal, ...], msgspec.Meta(max_length=RENEWALS_MAX)]
    # Attempts that nothing runs of any more: another may run at once.
    over: Annotated[tuple[Word, ...], msgspec.Meta(max_length=RENEWALS_MAX)] = ()


class LeasesRenewed(msgspec.Struct, frozen=True, kw_only=True, tag="vote-renewed"):
    """Those who may go on; and of whoever may not, or does not know it, the standing."""

    life: Lot
    sent_us: Count
    store: Word
    renewed: Annotated[tuple[Word, ...], msgspec.Meta(max_length=RENEWALS_MAX)] = ()
    standings: Annotated[
        tuple[tuple[Word, Standing], ...], msgspec.Meta(max_length=RENEWALS_MAX)
    ] = ()  # By lease.


# Stores


class Recollect(msgspec.Struct, frozen=True, kw_only=True, tag="vote-recollect"):
    """My store has made so many votes: remember that. Do you remember more?"""

    life: Lot
    store: Word
    count: Count
    tag: Word = ""  # To be told again with the count: nobody else could have made it.


class Recollected(msgspec.Struct, frozen=True, kw_only=True, tag="vote-recollected"):
    """The most that I remember, durably, of your store."""

    life: Lot
    store: Word
    count: Count
    by: Word  # The store of who answers.
    tag: Word = ""  # As it came with that count.


RegisterMessage = (
    Prepare | Promised | NotPromised | Accept | Accepted | NotAccepted
    | RenewLeases | LeasesRenewed | Recollect | Recollected
)  # fmt: skip
