"""The operations that are about this node alone, in a mesh or not.

Lives here: passing them on to the agent. Never here: those that other nodes may have to answer
(`anywhere`).
"""

from collections.abc import AsyncIterator

from distributed_grid.agent import CacheOperations, MapOperations, MeshOperations, Operations
from distributed_grid.model.booking import Booking
from distributed_grid.model.job import JobSpec
from distributed_grid.wire.api import Event, EventPlace, NodeStatus, Submitted
from distributed_grid.wire.sharing import ChangeOffers, Queue, SharingStatus


class OwnOnly:
    """Half of `Operations`: the agent's own."""

    def __init__(self, own: Operations) -> None:
        self._own = own

    @property
    def maps(self) -> MapOperations:
        """Maps of Python functions."""
        return self._own.maps

    @property
    def mesh(self) -> MeshOperations:
        """The other machines."""
        return self._own.mesh

    @property
    def cache(self) -> CacheOperations:
        """The files that travelled with jobs."""
        return self._own.cache

    async def submit(self, jobs: tuple[JobSpec, ...]) -> Submitted:
        """Take jobs."""
        return await self._own.submit(jobs)

    async def status(self) -> NodeStatus:
        """This node."""
        return await self._own.status()

    async def sharing(self) -> SharingStatus:
        """What this node offers."""
        return await self._own.sharing()

    async def change_offers(self, change: ChangeOffers) -> SharingStatus:
        """The owner's word."""
        return await self._own.change_offers(change)

    async def book(self, booking: Booking) -> None:
        """Keep resources here."""
        await self._own.book(booking)

    async def cancel_booking(self, name: str) -> None:
        """Give a booking back."""
        await self._own.cancel_booking(name)

    async def queue(self, *, limit: int) -> Queue:
        """Those that wait here."""
        return await self._own.queue(limit=limit)

    def events(self, *, after: EventPlace, follow: bool = True) -> AsyncIterator[Event]:
        """What happens here."""
        return self._own.events(after=after, follow=follow)

    async def down(self, *, stop_jobs: bool) -> None:
        """Stop this agent."""
        await self._own.down(stop_jobs=stop_jobs)

    def metrics(self) -> bytes:
        """For Prometheus."""
        return self._own.metrics()
