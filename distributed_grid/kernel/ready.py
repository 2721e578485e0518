"""What the kernel wants done after a step, in the order in which it must be done.

Lives here: effects as values. Never here: doing them (`agent`).
Invariant: what is to be saved is durable before anything is told to anyone; only questions and
offers of room, which rest on nothing that is saved and may be forgotten, do not wait for that. And
starts of a certain kind need wait only for earlier steps (`rests_on_earlier_steps`).
"""

from typing import Any, TypeGuard

import msgspec

from distributed_grid.kernel.jobs import Job
from distributed_grid.model.ids import JobId, NodeId
from distributed_grid.model.lease import Lease
from distributed_grid.wire.across import Start
from distributed_grid.wire.job_lane import JobMessage
from distributed_grid.wire.keeper import ToKeeper


class Happened(msgspec.Struct, frozen=True, kw_only=True):
    """Something worth telling watchers and logs: a fixed name and fields."""

    name: str
    at_ms: int
    job: JobId | None = None
    fields: dict[str, Any] = {}


class Ready(msgspec.Struct, kw_only=True):
    """The effects of one step."""

    life: int = 0  # Of the kernel's memory from which they come: see `Node.forget`.
    # At once: questions and offers of room to other nodes, in order for each.
    ask: list[tuple[NodeId, JobMessage]] = []
    # First, in one transaction: these jobs and leases are written, these leases forgotten.
    save_jobs: dict[JobId, Job] = {}  # In their newest state, also when a full disk delays it.
    drop_jobs: list[JobId] = []  # They have another home; unless they are written again.
    save_leases: list[Lease] = []
    drop_leases: list[str] = []
    # By name: bookings, accounts, the owner's word on lending, votes. None: forget it.
    save_meta: dict[str, bytes | None] = {}
    save_held: dict[JobId, bytes | None] = {}  # Records kept for other nodes. None: forget it.
    is_awaited: bool = False  # A submission elsewhere waits until this is durable.
    # Then, once that is durable: messages to the keeper, in order.
    tell: list[ToKeeper] = []
    # And to other nodes, in order for each; they may be lost, and are then said again.
    send: list[tuple[NodeId, JobMessage]] = []
    # And at last whoever waits for these jobs is woken, and the events are published.
    changed: dict[JobId, None] = {}
    happened: list[Happened] = []

    def touch(self, job: Job) -> None:
        """The job has changed: save it, and wake whoever waits for it."""
        self.save_jobs[job.spec.id] = job
        self.changed[job.spec.id] = None


def rests_on_earlier_steps(word: JobMessage) -> TypeGuard[Start]:
    """Whether it may leave while the step that says it is being written, if all before it are.

    A home that dies in that moment knows nothing of the attempt when it comes back: it starts the
    job anew, and ends what it is told of. For a job that may run twice that is no other than dying
    a moment earlier. Of an array or a gang the numbers of tries and ranks would be lost.
    """
    if not isinstance(word, Start):
        return False
    spec = word.spec
    return not spec.at_most_once and spec.array is None and spec.gang == 1
