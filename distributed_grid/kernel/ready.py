"""What the kernel wants done after a step, in the order in which it must be done.

Lives here: effects as values. Never here: doing them (`agent`).
Invariant: what is to be saved is durable before anything is told to anyone.
"""

from typing import Any

import msgspec

from distributed_grid.kernel.jobs import Job
from distributed_grid.model.ids import JobId
from distributed_grid.model.lease import Lease
from distributed_grid.wire.keeper import ToKeeper


class Happened(msgspec.Struct, frozen=True, kw_only=True):
    """Something worth telling watchers and logs: a fixed name and fields."""

    name: str
    at_ms: int
    job: JobId | None = None
    fields: dict[str, Any] = {}


class Ready(msgspec.Struct, kw_only=True):
    """The effects of one step."""

    # First, in one transaction: these jobs and leases are written, these leases forgotten.
    save_jobs: dict[JobId, Job] = {}  # In their newest state, also when a full disk delays it.
    save_leases: list[Lease] = []
    drop_leases: list[str] = []
    save_meta: dict[str, bytes] = {}  # Bookings, accounts, the owner's word on lending: by name.
    # Then, once that is durable: messages to the keeper, in order.
    tell: list[ToKeeper] = []
    # And at last whoever waits for these jobs is woken, and the events are published.
    changed: dict[JobId, None] = {}
    happened: list[Happened] = []

    def touch(self, job: Job) -> None:
        """The job has changed: save it, and wake whoever waits for it."""
        self.save_jobs[job.spec.id] = job
        self.changed[job.spec.id] = None
