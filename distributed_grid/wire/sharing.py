"""What clients and the agent say to each other about lending, borrowing, booking and the queue.

Lives here: requests, answers and the table of these routes. Never here: those of jobs (`api`).
"""

from typing import Literal

import msgspec

from distributed_grid.model.booking import Booking
from distributed_grid.model.ids import JobId
from distributed_grid.model.lending import Offer, Withheld
from distributed_grid.model.priority import Priority
from distributed_grid.wire.api import Nothing, Route


class AllocationView(msgspec.Struct, frozen=True, kw_only=True):
    """What a job has borrowed, one line for each kind."""

    request_id: JobId
    name: str
    kind: str  # gpu, memory, cpu, storage, or a custom kind.
    amount: int  # In the unit of the kind's offers: milli, or bytes.
    allocated_ms: int
    expires_ms: int | None = None  # None: when the job ends.
    devices: tuple[str, ...] = ()
    is_suspended: bool = False
    user: str = ""


class OwnerUse(msgspec.Struct, frozen=True, kw_only=True):
    """What the owner's own programs use, smoothed; None: nothing was measured yet."""

    at_ms: int
    cpu_used_milli: int  # Thousandths of all cores together.
    memory_used_milli: int
    gpu_used_milli: tuple[tuple[str, int], ...] = ()  # By device.
    idle_ms: int | None = None


class SharingStatus(msgspec.Struct, frozen=True, kw_only=True):
    """Lending on this node: what is offered, what is not and why, what is borrowed."""

    node: str
    is_enabled: bool
    state: Literal["open", "closed", "paused", "yielding"]
    mode: str
    policy: str
    offers: tuple[Offer, ...] = ()
    withheld: tuple[Withheld, ...] = ()
    allocations: tuple[AllocationView, ...] = ()
    bookings: tuple[Booking, ...] = ()
    owner: OwnerUse | None = None
    paused_until_ms: int | None = None
    not_joined: tuple[str, ...] = ()  # Nodes that the configuration names and that are not here.
    words: tuple[tuple[str, str], ...] = ()  # Set here, beside the configuration: key and value.


class ChangeOffers(msgspec.Struct, frozen=True, kw_only=True):
    """The owner's word: pause lending, go on, set one of its terms, or go back to the file's."""

    action: Literal["pause", "resume", "set", "reset"]
    for_ms: int = 0  # Of a pause; 0: until `resume`.
    # As in the file, below `resource_sharing`: thresholds.cpu_percent_max; or `preset`.
    key: str = ""
    value: str = ""


class QueueEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A waiting job with what decides its place."""

    position: int  # From 1.
    id: JobId
    name: str
    priority: Priority
    lifted: Priority  # After ageing; the same, if it has not waited long.
    user: str
    project: str
    share_milli: int  # Of the machine, by the dominant resource, over its weight: lower is first.
    waited_ms: int
    is_shared: bool = False
    waits: str = ""  # Why it does not run yet, if it is not only its place: start time, offers, …


class Queue(msgspec.Struct, frozen=True, kw_only=True):
    """The waiting jobs in the order of service."""

    entries: tuple[QueueEntry, ...]
    total: int


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
