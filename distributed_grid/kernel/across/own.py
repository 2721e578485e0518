"""A job that this node is home of, and where its record is.

Lives here: who holds which version, and who lacks what. Never here: sending (`holders`).
Invariant: whoever may hold a copy is on the list, or outside of it until it was allowed to drop it.
"""

import msgspec

from distributed_grid.kernel.across.record import JobRecord, has_ended
from distributed_grid.kernel.jobs import Job
from distributed_grid.model.across import Fence
from distributed_grid.model.ids import JobId, NodeId

NEVER = Fence()  # Lower than every version.


class Own(msgspec.Struct, kw_only=True):
    """The newest record, and what others have of it."""

    job: Job
    record: JobRecord
    body: bytes
    is_kept: bool = False  # It knows more than the job tells: the record itself is on disk too.
    listed: tuple[NodeId, ...] = ()  # The guardians, as they were indexed last.
    listed_at: Fence = NEVER  # The write that brought the list as it is.
    outside: set[NodeId] = set()  # Not on the list, or no longer, and may hold a copy.
    durable: dict[NodeId, Fence] = {}  # Who answered for which version.
    under_way: dict[NodeId, Fence] = {}
    refused: set[NodeId] = set()  # Not taken there now; asked again later.
    dropped: dict[NodeId, Fence] = {}  # Who was told to drop up to which: older answers are void.

    @property
    def id(self) -> JobId:
        """Of the job."""
        return self.job.spec.id

    @property
    def version(self) -> Fence:
        """Of the newest record."""
        return self.record.version

    @property
    def names(self) -> set[NodeId]:
        """Everybody who may hold a copy."""
        return {*self.listed, *self.outside}

    def has(self, node: NodeId) -> Fence:
        """The version that a node answered for; it may have more."""
        return self.durable.get(node, NEVER)

    def is_told(self, node: NodeId) -> bool:
        """Whether it has what it should: all, or, off the list, whose word counts now."""
        if node in self.listed or has_ended(self.record):
            return self.has(node) >= self.version
        return self.has(node).epoch >= self.version.epoch

    def all_at(self) -> Fence | None:
        """The highest version, with this list, that all on it hold; None: there is none.

        A majority would do for the record not to be lost. But then there would be fewer copies for
        a while than whoever submitted the job was told.
        """
        me = self.record.home  # A vote may have put this node itself on the list.
        held = [self.version if node == me else self.has(node) for node in self.listed]
        lowest = min(held, default=NEVER)
        return lowest if held and lowest >= self.listed_at else None
