"""What clients ask about lending, booking and the queue, carried to the kernel and back.

Lives here: one method for each operation, and looking at the owner's machine now and then. Never
here: deciding anything (`kernel.lending`, `kernel.bookings`), measuring (`edges.probe`).
Invariant: an answer is given when what it says is durable.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Collection
from typing import Final, NamedTuple

import msgspec

from distributed_grid.agent.pace import Rest
from distributed_grid.edges.store import StoreError
from distributed_grid.errors import BadInput, BadValue
from distributed_grid.kernel.jobs import Job
from distributed_grid.kernel.lending import Words
from distributed_grid.kernel.node import Book, Lend, Node, NodeEvent, Sampled, Unbook
from distributed_grid.kernel.queueing import queue
from distributed_grid.kernel.sharing_views import sharing_status
from distributed_grid.model.across import HERE
from distributed_grid.model.booking import Booking
from distributed_grid.model.lending import Sample, Terms
from distributed_grid.wire.api import JobView
from distributed_grid.wire.sharing import ChangeOffers, Queue, SharingStatus

LOOK_S: Final = 1.0  # Whether it is time to measure; the owner's interval is 10 s or more.
PRESET: Final = "preset"  # The key that stands for several.
AGAIN_MS: Final = 5_000  # Where nothing could be measured, it is tried again after this.
FIRST_LOOK_S: Final = 2.0  # So long a question waits for the first one after a start.

# At a moment, with the GPUs of Grid's jobs; None: this machine cannot be measured.
Measure = Callable[[int, Collection[str]], Sample | None]
Step = Callable[[NodeEvent], Awaitable[None]]


def never_measured(at_ms: int, held: Collection[str]) -> None:
    """Measures nothing: then nothing is lent."""
    del at_ms, held


def no_terms(terms: Terms, words: Words) -> Terms:
    """Knows no terms."""
    del terms
    raise BadValue(words[-1][0], expected="a term of lending", remedy="This agent has none")


class Surroundings(NamedTuple):
    """What the composition root plugs in."""

    measure: Measure = never_measured
    with_terms: Callable[[Terms, Words], Terms] = no_terms
    used_by: Callable[[int], tuple[int, int]] = lambda _: (0, 0)  # Of processes below one.
    not_joined: tuple[str, ...] = ()  # Machines that the configuration names.


NOWHERE: Final = Surroundings()


class Sharing:
    """Answers for one node; `step` carries an event out and returns when it is durable."""

    def __init__(
        self,
        node: Node,
        *,
        name: str,
        clock_ms: Callable[[], int],
        step: Step,
        around: Surroundings = NOWHERE,
    ) -> None:
        self._node, self._name, self._clock_ms = node, name, clock_ms
        self._step, self._around = step, around
        self._has_looked = asyncio.Event()
        self.rest: Rest = asyncio.sleep  # Between two looks.
        self._configured = node.host.lending.terms

    def restored(self) -> None:
        """The node remembers what its owner has set; what contradicts its file now is forgotten."""
        lending = self._node.host.lending
        while lending.words:
            try:
                lending.set_terms(self._around.with_terms(self._configured, lending.words))
            except BadInput:
                lending.words = lending.words[:-1]
            else:
                break

    async def first_status(self) -> SharingStatus:
        """The status, after a start only once the machine was looked at."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(FIRST_LOOK_S):
                await self._has_looked.wait()
        return self.status()

    def status(self) -> SharingStatus:
        """What is offered, what is not and why, what is borrowed and booked."""
        return sharing_status(
            self._node.coordinator,
            node=self._name,
            not_joined=self._around.not_joined,
            now_ms=self._clock_ms(),
        )

    async def watched(self, job: Job, view: JobView) -> JobView:
        """A job with what its processes have used and hold by now, as far as they run here."""
        found = list(view.attempts)
        for place, attempt in enumerate(job.attempts):
            if attempt.state == "running" and attempt.host == HERE and attempt.pid:
                cpu_us, memory = await asyncio.to_thread(self._around.used_by, attempt.pid)
                found[place] = msgspec.structs.replace(
                    found[place], user_us=cpu_us, memory_bytes_peak=memory
                )
        return msgspec.structs.replace(view, attempts=tuple(found))

    def queue(self, *, limit: int) -> Queue:
        """The waiting jobs in the order of service."""
        return queue(self._node.coordinator, limit=limit, now_ms=self._clock_ms())

    async def change(self, word: ChangeOffers) -> SharingStatus:
        """Pause, resume, set or reset."""
        now_ms = self._clock_ms()
        match word.action:
            case "pause":
                if word.for_ms < 0:
                    raise BadValue(word.for_ms, expected="a span of 0 or more", remedy="Check it")
                until_ms = now_ms + word.for_ms if word.for_ms else 0
                event = Lend(now_ms=now_ms, pause_until_ms=until_ms)
            case "resume":
                event = Lend(now_ms=now_ms, is_resumed=True)
            case "reset":
                event = Lend(now_ms=now_ms, terms=self._configured, is_resumed=True)
            case "set":
                # A preset is a new beginning; another value for a key replaces the one before.
                is_new = word.key == PRESET
                before = () if is_new else self._node.host.lending.words
                words = tuple(one for one in before if one[0] != word.key)
                words = (*words, (word.key, word.value))
                terms = self._around.with_terms(self._configured, words)
                event = Lend(now_ms=now_ms, terms=terms, words=words, is_resumed=is_new)
        await self._step(event)
        return self.status()

    async def book(self, booking: Booking) -> None:
        """Keep resources."""
        await self._step(Book(now_ms=self._clock_ms(), booking=booking))

    async def unbook(self, name: str) -> None:
        """Give a booking back."""
        await self._step(Unbook(now_ms=self._clock_ms(), name=name))

    async def look_after_owner(self) -> None:
        """For ever: measure the machine when it is time to, at once to begin with."""
        looked_ms: int | None = None
        while True:
            now_ms = self._clock_ms()
            if looked_ms is None or (self._is_due(now_ms) and now_ms - looked_ms >= AGAIN_MS):
                looked_ms = now_ms
                # In a thread: a driver may take its time.
                sample = await asyncio.to_thread(self._around.measure, now_ms, self._held())
                if sample is not None:
                    await self._told(sample)
                self._has_looked.set()
            await self.rest(LOOK_S)

    async def _told(self, sample: Sample) -> None:
        with contextlib.suppress(StoreError):  # A full disk is somebody else's trouble.
            await self._step(Sampled(now_ms=self._clock_ms(), sample=sample))

    def _is_due(self, now_ms: int) -> bool:
        host = self._node.host
        return now_ms >= host.lending.next_look_ms(is_lent=bool(host.borrowers))

    def _held(self) -> set[str]:
        """The GPUs of Grid's jobs: what they do is not the owner's doing."""
        leases = self._node.ledger.leases.values()
        return {gpu.device for lease in leases for gpu in lease.resources.gpus}
