"""What the register of an at-most-once job wants done after a step, and what has happened.

Lives here: effects and happenings as values. Never here: doing them.
Invariant: what is to be saved is durable before anything is sent, and both come before what has
happened is acted on.
"""

from typing import Final

import msgspec

from distributed_grid.model.across import Epoch, Fence
from distributed_grid.model.ids import JobId, NodeId
from distributed_grid.wire.register import Member, RegisterMessage, Standing, Written

TTL_US: Final = 10_000_000  # Of a lease.
# An executor's own clock may be slow by 2 %, and it is looked at each 100 ms: 3 % stay.
LEASE_US: Final = TTL_US * 95 // 100
# A coordinator's own clock may be fast by 2 %.
WAIT_US: Final = TTL_US * 102 // 100
RENEW_US: Final = 2_500_000  # Three tries in the time of a lease.
AGAIN_US: Final = 300_000  # What was not answered is said again: a few round trips over a sea.


class Ruling(msgspec.Struct, frozen=True, kw_only=True):
    """This node is the job's coordinator: a majority has promised, and taken its first write."""

    job: JobId
    epoch: Epoch
    written: Written


class Stored(msgspec.Struct, frozen=True, kw_only=True):
    """A write is durable with a majority."""

    job: JobId
    written: Written


class MayStart(msgspec.Struct, frozen=True, kw_only=True):
    """The named attempt may be started: nothing older can still run. Or again: its new fence."""

    job: JobId
    standing: Standing


class Outbid(msgspec.Struct, frozen=True, kw_only=True):
    """Another asked with a higher epoch; this node goes on with a higher one yet, unless told."""

    job: JobId
    by: Epoch


class Deposed(msgspec.Struct, frozen=True, kw_only=True):
    """A majority obeys another: this node is not the coordinator any more."""

    job: JobId
    by: Epoch


class MayRun(msgspec.Struct, frozen=True, kw_only=True):
    """A majority has renewed the lease: the process may start, and must end by then."""

    job: JobId
    lease: str
    fence: Fence
    until_boot_us: int


class Extend(msgspec.Struct, frozen=True, kw_only=True):
    """The process may run until then: tell the keeper."""

    lease: str
    until_boot_us: int


class Lapsed(msgspec.Struct, frozen=True, kw_only=True):
    """The lease of a running attempt has ended; the keeper ends the process by itself."""

    job: JobId
    lease: str


class GaveUp(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt that has not started never will."""

    job: JobId
    lease: str


class NewStore(msgspec.Struct, frozen=True, kw_only=True):
    """The votes of this node count from nought: its disk was new, or older than its word."""

    member: Member


Happening = (
    Ruling | Stored | MayStart | Outbid | Deposed | MayRun | Extend | Lapsed | GaveUp | NewStore
)


class Effects(msgspec.Struct):
    """Of one step. A message to this node itself is delivered like any other."""

    save: dict[str, bytes | None] = {}  # None: forget it.
    send: list[tuple[NodeId, RegisterMessage]] = []
    happened: list[Happening] = []

    def add(self, *parts: "Effects") -> "Effects":
        """These as well; answers the whole."""
        for part in parts:
            self.save |= part.save
            self.send += part.send
            self.happened += part.happened
        return self
