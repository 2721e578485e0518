"""What coordinators and owners say to each other about gangs: several leases, all or none.

Lives here: the messages before a gang's ranks are started; after that they are attempts as any
other (`across`). Never here: what follows from them (`kernel.across`).
Invariant: everything may be said again, and lost; numbers rise, and lower ones are ignored.
"""

from typing import Annotated, Final

import msgspec

from distributed_grid.model.across import Epoch, Rank, Ranks
from distributed_grid.model.bounds import (
    GANG_MAX,
    Cores,
    Count,
    Devices,
    Moment,
    Port,
    Sentences,
    Word,
)
from distributed_grid.model.ids import JobId
from distributed_grid.model.job import JobSpec

ADDRESS_CHARACTERS_MAX: Final = 256  # A host name, or an address of any kind.

Address = Annotated[str, msgspec.Meta(max_length=ADDRESS_CHARACTERS_MAX)]


class HeldLease(msgspec.Struct, frozen=True, array_like=True):
    """Room for one rank."""

    lease: Word
    cores: Cores = ()
    gpus: Devices = ()


class Hold(msgspec.Struct, frozen=True, kw_only=True, tag="hold"):
    """Keep room for so many ranks of this job, until told otherwise. Again: it is refreshed."""

    job: JobId
    epoch: Epoch
    number: Count
    spec: JobSpec  # Without its work.
    ranks: Ranks
    since_ms: Moment  # When it was submitted: of two gangs of one priority the earlier comes first.
    waited_ms: Moment = 0


class Held(msgspec.Struct, frozen=True, kw_only=True, tag="held"):
    """This is kept so far. A better gang may take it away until it is committed."""

    job: JobId
    epoch: Epoch
    leases: Annotated[tuple[HeldLease, ...], msgspec.Meta(max_length=GANG_MAX)]


class NotHeld(msgspec.Struct, frozen=True, kw_only=True, tag="not-held"):
    """It is not, or not any more."""

    job: JobId
    epoch: Epoch
    reasons: Sentences


class Revoked(msgspec.Struct, frozen=True, kw_only=True, tag="revoked"):
    """A better gang took what was kept; this one waits here again."""

    job: JobId
    epoch: Epoch


class CommitHold(msgspec.Struct, frozen=True, kw_only=True, tag="commit-hold"):
    """Keep these leases for good, on disk: they are attempts now, which are not started yet."""

    job: JobId
    epoch: Epoch
    number: Count
    attempt: Count  # One number for all ranks.
    world: Ranks
    ranks: Annotated[
        tuple[tuple[Word, Rank], ...], msgspec.Meta(max_length=GANG_MAX)
    ]  # Lease, rank.


class Committed(msgspec.Struct, frozen=True, kw_only=True, tag="committed"):
    """They are on disk. The ranks could meet here, should the first of them be one of these."""

    job: JobId
    epoch: Epoch
    attempt: Count
    address: Address = ""  # Where others reach this node; empty: by its name.
    port: Port = 0  # One that was free; 0: none is known.


class ReleaseHold(msgspec.Struct, frozen=True, kw_only=True, tag="release-hold"):
    """Nothing of what was kept and not committed is wanted any more."""

    job: JobId
    epoch: Epoch
    number: Count


class Go(msgspec.Struct, frozen=True, kw_only=True, tag="go"):
    """All ranks are ready: let this one run."""

    job: JobId
    epoch: Epoch
    lease: Word


GangMessage = Hold | Held | NotHeld | Revoked | CommitHold | Committed | ReleaseHold | Go
