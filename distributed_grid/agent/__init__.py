"""The agent: waits for the world, steps the kernel, carries out what it says. Decides nothing.

Lives here: the loop, and `Operations`, what others (`web`) may ask of it. It sees the Protocols of
the seams only, never their products.
"""

from collections.abc import AsyncIterator
from typing import Protocol

from distributed_grid.model.booking import Booking
from distributed_grid.model.ids import JobId
from distributed_grid.model.job import JobSpec
from distributed_grid.wire.across_api import (
    BringOutputs,
    DrainView,
    MeshSnapshot,
    OutputPlace,
    Outputs,
    OutputsBrought,
    Pack,
    Packed,
    Safety,
    SharingEverywhere,
)
from distributed_grid.wire.api import (
    Event,
    EventPlace,
    Explanation,
    Jobs,
    JobView,
    NodeStatus,
    Submitted,
)
from distributed_grid.wire.cache import CacheStatus, Cleared
from distributed_grid.wire.maps import (
    FeedMap,
    MapNews,
    OpenMap,
    TakeCalls,
    TakenCalls,
    ValueHere,
    WantValue,
)
from distributed_grid.wire.mesh_api import (
    Join,
    Joined,
    Leave,
    MakeTicket,
    Nodes,
    NodeView,
    Parted,
    Rename,
    TicketMade,
    Tickets,
    TicketView,
)
from distributed_grid.wire.sharing import ChangeOffers, Queue, SharingStatus


class MapOperations(Protocol):
    """What clients and workers of maps can ask."""

    async def open(self, wanted: OpenMap) -> None:
        """Begin a map, or bring more workers to it."""
        ...

    async def feed(self, map_id: str, fed: FeedMap) -> MapNews:
        """Take calls; answers when there are outcomes, or the time is over."""
        ...

    async def take(self, map_id: str, wanted: TakeCalls) -> TakenCalls:
        """Take outcomes; answers with calls, or with nothing when the time is over."""
        ...

    async def value(self, map_id: str, wanted: WantValue) -> ValueHere:
        """Where a large value is, for a worker here. Raises NotFound."""
        ...

    def hold(self, map_id: str) -> AsyncIterator[bytes]:
        """Says nothing, for as long as the map lives."""
        ...

    async def close(self, map_id: str) -> None:
        """End a map and its workers."""
        ...


class MeshOperations(Protocol):
    """What clients can ask about the mesh. Nodes are named as jobs are: id, name or prefix."""

    async def nodes(self) -> Nodes:
        """Everyone this node knows of, itself first; alone: only itself."""
        ...

    async def make_ticket(self, wanted: MakeTicket) -> TicketMade:
        """Let somebody in; durable when it returns. Founds the mesh if there is none."""
        ...

    async def tickets(self) -> Tickets:
        """The tickets that this node issued."""
        ...

    async def revoke_ticket(self, ticket_id: str) -> TicketView:
        """Void a ticket; again: the same answer. Raises NotFound."""
        ...

    async def join(self, wanted: Join) -> Joined:
        """Redeem a ticket. Raises BadTicket, MeshUnreachable, MeshRefused."""
        ...

    async def leave(self, wanted: Leave) -> Parted:
        """Say goodbye, and forget the mesh. Raises NotInMesh, or NotPermitted unless forced."""
        ...

    async def kick(self, word: str) -> NodeView:
        """Revoke a node, for good. Raises NotInMesh, NotFound, Ambiguous, NotPermitted."""
        ...

    async def rename(self, wanted: Rename) -> NodeView:
        """Call this node something else, here and in the mesh."""
        ...


class AcrossOperations(Protocol):
    """What clients can ask about jobs and nodes across the mesh.

    The agent's own answer for what it knows itself, and raise NotFound for the rest; `anywhere`
    finds who knows. A job is its own if it looks after it or keeps a copy of its record.
    """

    async def requeue(self, word: str) -> JobView:
        """Run a job that is untracked; again: no change."""
        ...

    async def rerun(self, word: str, *, new: JobId, only_failed: bool) -> JobView:
        """Submit a job that has ended once more, under a new id; again: no change."""
        ...

    async def cancel_index(self, word: str, *, index: int) -> JobView:
        """The array, one index of which is cancelled or being cancelled."""
        ...

    async def force(self, word: str) -> JobView:
        """Go on with an at-most-once job whose voters are lost, at the risk that it runs twice."""
        ...

    async def output(self, word: str, *, index: int) -> OutputPlace:
        """Where the output of a job is, of an array that of one index."""
        ...

    async def outputs(self, word: str) -> Outputs:
        """The files a job left behind. Raises NotFound if there are none, or not yet."""
        ...

    async def bring_outputs(self, word: str, wanted: BringOutputs) -> OutputsBrought:
        """Put them into a directory of this machine."""
        ...

    async def hand_out(self, found: Outputs, wanted: BringOutputs) -> OutputsBrought:
        """The same, of what some node has."""
        ...

    async def safe(self, word: str, *, timeout_ms: int) -> Safety:
        """Once the job is on a second machine, or has ended; as it is when the time is over."""
        ...

    async def drain(self, node: str, *, timeout_ms: int, now: bool = False) -> DrainView:
        """Give this node's work away and take no more; durable. Waits until it is empty."""
        ...

    async def undrain(self, node: str) -> DrainView:
        """Take work again."""
        ...

    async def snapshot(self) -> MeshSnapshot:
        """The nodes as placement sees them from here."""
        ...

    async def pack(self, wanted: Pack) -> Packed:
        """Take files of this machine as they are now; raises for what may not travel."""
        ...

    async def status_of(self, node: str) -> NodeStatus:
        """A node, by id, name or prefix."""
        ...

    async def sharing_of(self, node: str) -> SharingStatus:
        """What a node offers, what it does not and why, what is borrowed of it."""
        ...

    async def sharing_everywhere(self) -> SharingEverywhere:
        """The same of every node that is there, this one first."""
        ...

    async def queue_of(self, node: str, *, limit: int) -> Queue:
        """The jobs that wait on a node, in the order of service."""
        ...


class CacheOperations(Protocol):
    """What clients can ask about the cache of files."""

    async def status(self) -> CacheStatus:
        """What it holds, and how often that helped."""
        ...

    async def clear(self) -> Cleared:
        """Remove what no job needs."""
        ...


class Operations(Protocol):
    """Everything a client can ask of an agent. Errors are GridErrors; nothing else is raised."""

    @property
    def maps(self) -> MapOperations:
        """Maps of Python functions."""
        ...

    @property
    def mesh(self) -> MeshOperations:
        """The other machines."""
        ...

    @property
    def across(self) -> AcrossOperations:
        """Jobs and nodes across the mesh."""
        ...

    @property
    def cache(self) -> CacheOperations:
        """The files that travelled with jobs."""
        ...

    async def submit(self, jobs: tuple[JobSpec, ...]) -> Submitted:
        """Take jobs; returns when they are durable."""
        ...

    async def jobs(self, *, state: str, name: str, user: str, limit: int, before_ms: int) -> Jobs:
        """A page of jobs, newest first; empty text and 0 mean any."""
        ...

    async def job(self, word: str) -> JobView:
        """A job by id, exact name, prefix of 4 or more, `id:` or `name:`."""
        ...

    async def wait(self, word: str, *, timeout_ms: int) -> JobView:
        """The job once it has ended, or as it is when the time is over."""
        ...

    async def wait_many(self, words: tuple[str, ...], *, timeout_ms: int) -> Jobs:
        """Those of the jobs that have ended: all, or as many as the time allows."""
        ...

    async def cancel(self, word: str) -> JobView:
        """The job, cancelled or being cancelled."""
        ...

    async def explain(self, word: str) -> Explanation:
        """Why it is where it is."""
        ...

    def logs(
        self, word: str, *, stream: str, index: int, follow: bool, offset: int, attempt: int = 0
    ) -> AsyncIterator[bytes]:
        """Output as it was written, or of one attempt; with `follow` until the job has ended."""
        ...

    async def status(self) -> NodeStatus:
        """This node."""
        ...

    async def sharing(self) -> SharingStatus:
        """What is offered, what is not and why, what is borrowed and booked."""
        ...

    async def change_offers(self, change: ChangeOffers) -> SharingStatus:
        """The owner's word; returns what it made of the offers."""
        ...

    async def book(self, booking: Booking) -> None:
        """Keep resources; returns when that is durable, raises for a conflict."""
        ...

    async def cancel_booking(self, name: str) -> None:
        """Give a booking back; raises NotFound."""
        ...

    async def queue(self, *, limit: int) -> Queue:
        """The waiting jobs in the order of service."""
        ...

    def events(self, *, after: EventPlace, follow: bool = True) -> AsyncIterator[Event]:
        """Events after this one; with `follow` also those to come."""
        ...

    async def down(self, *, stop_jobs: bool) -> None:
        """Stop, in a moment."""
        ...

    def metrics(self) -> bytes:
        """For Prometheus."""
        ...
