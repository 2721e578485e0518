"""What the coordinator wants of the other nodes, and what it is when there are none.

Lives here: the seam between a job's life and `kernel.across`. Never here: any of both.
"""

from collections.abc import Container
from typing import Protocol

import msgspec

from distributed_grid.kernel.entry import Entry
from distributed_grid.kernel.jobs import Attempt, Job
from distributed_grid.kernel.ready import Ready
from distributed_grid.model.ids import JobId, NodeId
from distributed_grid.model.job import JobSpec
from distributed_grid.model.lease import Lease
from distributed_grid.wire.keeper import Ended


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """What another node grants: a lease in its ledger."""

    host: NodeId
    name: str
    lease: str
    cores: tuple[int, ...] = ()
    gpus: tuple[str, ...] = ()
    slots: int = 1  # How many such leases could run side by side.


class Elsewhere(Protocol):
    """The other nodes."""

    offered: Container[str]  # Leases that another node may still start something in.

    def may_run_here(self, spec: JobSpec) -> bool:
        """Whether this node is one of those that the job allows."""
        ...

    def waits_here(self, spec: JobSpec) -> bool:
        """Whether it waits for room here too: it may run here, and had not better run elsewhere."""
        ...

    def could_run(self, spec: JobSpec) -> bool:
        """Whether some other node could ever run it."""
        ...

    def drained(self, spec: JobSpec) -> tuple[str, ...]:
        """The other nodes that could run it once they are no longer drained, by name."""
        ...

    def dead(self, spec: JobSpec) -> tuple[str, ...]:
        """The other nodes that could run it if they were not dead, by name."""
        ...

    def waits(self, job: Job) -> None:
        """A job lacks nothing but room, here or there."""
        ...

    def waits_no_more(self, job: JobId) -> None:
        """It has what it wants, or wants nothing any more."""
        ...

    def is_cleared(self, job: JobId) -> bool:
        """Whether it may be placed: after a start others are asked first."""
        ...

    def is_waiting(self, job: JobId) -> bool:
        """Whether it still looks for room elsewhere."""
        ...

    def slots(self, spec: JobSpec) -> int:
        """How many leases for it other nodes have room for, as far as known."""
        ...

    def obstacles(self, job: JobId) -> tuple[str, ...]:
        """What other nodes said to one that looks for room, in a few words each."""
        ...

    def lacks(self, job: Job) -> str:
        """What a job needs that only a node has which is not there, in words; empty: nothing."""
        ...

    def halt(self, job: Job, attempt: Attempt, ready: Ready) -> None:
        """End an attempt that runs elsewhere."""
        ...

    def granted(self, entry: Entry, lease: Lease, now_ms: int, ready: Ready) -> bool:
        """A lease for one who waits here for another node; False: it is none of those."""
        ...

    def asked(self, entry: JobId) -> JobSpec | None:
        """The job of another node that waits here under this name."""
        ...

    def reported(self, job: Job) -> None:
        """Something of a guest has begun or ended: its home wants to know."""
        ...

    def holds_back(self, job: Job, attempt: Attempt) -> bool:
        """Whether an attempt on this node is not started yet: others vote on it first."""
        ...

    def holds_end(self, job: Job) -> bool:
        """Whether the end of a job counts only when others have it; then it is closed."""
        ...

    def rank_ended(self, job: Job, attempt: Attempt, report: Ended, ready: Ready) -> Ended | None:
        """A rank of a gang is over; what ended the attempt, once all of its ranks are."""
        ...


class Alone:
    """No other nodes."""

    offered: Container[str] = frozenset()

    def __init__(self, name: str = "") -> None:
        self._name = name

    def may_run_here(self, spec: JobSpec) -> bool:
        """There is no other place, unless one was named; gangs are for those who are several."""
        is_named = not spec.require.nodes or self._name in spec.require.nodes
        return spec.gang == 1 and is_named and self._name not in spec.avoid.nodes

    def waits_here(self, spec: JobSpec) -> bool:
        """There is no other place."""
        return self.may_run_here(spec)

    def could_run(self, spec: JobSpec) -> bool:  # noqa: ARG002
        """There is no other place."""
        return False

    def drained(self, spec: JobSpec) -> tuple[str, ...]:  # noqa: ARG002
        """There is no other place."""
        return ()

    dead = drained

    def waits(self, job: Job) -> None:
        """For room here."""

    def waits_no_more(self, job: JobId) -> None:
        """Nobody was asked."""

    def is_cleared(self, job: JobId) -> bool:  # noqa: ARG002
        """There is nobody to ask."""
        return True

    def is_waiting(self, job: JobId) -> bool:  # noqa: ARG002
        """Nobody was asked."""
        return False

    def slots(self, spec: JobSpec) -> int:  # noqa: ARG002
        """There is no other place."""
        return 0

    def obstacles(self, job: JobId) -> tuple[str, ...]:  # noqa: ARG002
        """Nobody was asked."""
        return ()

    def lacks(self, job: Job) -> str:  # noqa: ARG002
        """What is not here is nowhere."""
        return ""

    def halt(self, job: Job, attempt: Attempt, ready: Ready) -> None:
        """Nothing runs elsewhere that could be reached."""

    def granted(self, entry: Entry, lease: Lease, now_ms: int, ready: Ready) -> bool:  # noqa: ARG002
        """Nobody waits for others."""
        return False

    def asked(self, entry: JobId) -> JobSpec | None:  # noqa: ARG002
        """There are no others who could wait here."""
        return None

    def reported(self, job: Job) -> None:
        """There are no guests."""

    def holds_back(self, job: Job, attempt: Attempt) -> bool:  # noqa: ARG002
        """Nobody votes."""
        return False

    def holds_end(self, job: Job) -> bool:  # noqa: ARG002
        """Nobody votes."""
        return False

    def rank_ended(self, job: Job, attempt: Attempt, report: Ended, ready: Ready) -> Ended | None:  # noqa: ARG002
        """Ranks run on several nodes: when those are gone, the first that is lost decides."""
        return None if job.live_attempts else report
