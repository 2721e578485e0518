"""What clients and the agent say to each other about lending, borrowing, booking and the queue.

Lives here: requests, answers and the table of these routes. Never here: those of jobs (`api`).
"""

from typing import Literal

import msgspec

from distributed_grid.model.booking import Booking
from distributed_grid.model.bounds import (
    Bytes,
    Count,
    Lot,
    Moment,
    Most,
    Name,
    Signed,
    Span,
    Story,
)
from distributed_grid.model.ids import JobId
from distributed_grid.model.lending import Offer, Withheld
from distributed_grid.model.priority import Priority
from distributed_grid.wire.api import Nothing, Route


class AllocationView(msgspec.Struct, frozen=True, kw_only=True):
    """What a job has borrowed, one line for each kind."""

    request_id: JobId
    name: Name
    kind: Name  # gpu, memory, cpu, storage, or a custom kind.
    amount: Bytes  # In the unit of the kind's offers: milli, or bytes.
    allocated_ms: Moment
    expires_ms: Moment | None = None  # None: when the job ends.
    devices: Most[Name] = ()
    is_suspended: bool = False
    user: Name = ""


class OwnerUse(msgspec.Struct, frozen=True, kw_only=True):
    """What the owner's own programs use, smoothed; None: nothing was measured yet."""

    at_ms: Moment
    cpu_used_milli: Count  # Thousandths of all cores together.
    memory_used_milli: Count
    gpu_used_milli: Most[tuple[Name, Count]] = ()  # By device.
    idle_ms: Signed | None = None


class SharingStatus(msgspec.Struct, frozen=True, kw_only=True):
    """Lending on this node: what is offered, what is not and why, what is borrowed."""

    node: Name
    is_enabled: bool
    state: Literal["open", "closed", "paused", "yielding"]
    mode: Name
    policy: Name
    offers: Most[Offer] = ()
    withheld: Most[Withheld] = ()
    allocations: Most[AllocationView] = ()
    bookings: Most[Booking] = ()
    owner: OwnerUse | None = None
    paused_until_ms: Moment | None = None
    not_joined: Most[Name] = ()  # Nodes that the configuration names and that are not here.
    words: Most[tuple[Name, Name]] = ()  # Set here, beside the configuration: key and value.


class ChangeOffers(msgspec.Struct, frozen=True, kw_only=True):
    """The owner's word: pause lending, go on, set one of its terms, or go back to the file's."""

    action: Literal["pause", "resume", "set", "reset"]
    for_ms: Span = 0  # Of a pause; 0: until `resume`.
    # As in the file, below `resource_sharing`: thresholds.cpu_percent_max; or `preset`.
    key: Name = ""
    value: Story = ""


class QueueEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A waiting job with what decides its place."""

    position: Count  # From 1.
    id: JobId
    name: Name
    priority: Priority
    lifted: Priority  # After ageing; the same, if it has not waited long.
    user: Name
    project: Name
    share_milli: Lot  # Of the machine, by the dominant resource, over its weight: lower is first.
    waited_ms: Signed
    is_shared: bool = False
    waits: Story = ""  # Why it does not run yet, if it is not only its place: start time, offers, …


class Queue(msgspec.Struct, frozen=True, kw_only=True):
    """The waiting jobs in the order of service."""

    entries: Most[QueueEntry]
    total: Count


SHARING_ROUTES: tuple[Route, ...] = (
    Route("sharing", "GET", "/v1/sharing", Nothing, SharingStatus,
          "What is offered, what is not and why, what is borrowed"),
    Route("change_offers", "POST", "/v1/sharing", ChangeOffers, SharingStatus,
          "Pause lending, go on, set one of its terms, or go back to the file's"),
    Route("book", "POST", "/v1/bookings", Booking, Nothing, "Keep resources for a stretch of time"),
    Route("cancel_booking", "POST", "/v1/bookings/{name}/cancel", Nothing, Nothing,
          "Give a booking back"),
    Route("queue", "GET", "/v1/queue", Nothing, Queue, "The waiting jobs in the order of service",
          ("limit",)),
)  # fmt: skip
