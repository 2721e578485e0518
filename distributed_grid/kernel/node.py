"""One node: composes the owner's side and the job's side behind one door.

Lives here: `Node.step(event) -> Ready`. Never here: I/O, clocks, dice; they come as arguments.
Invariant: after every step `check()` is silent (tests call it); what `Ready` saves was promised.
"""

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from distributed_grid.kernel.admitting import admit_all
from distributed_grid.kernel.coordinator import Coordinator
from distributed_grid.kernel.entry import AGEING_MS
from distributed_grid.kernel.host import Host
from distributed_grid.kernel.jobs import Attempt, Job
from distributed_grid.kernel.launching import Paths, run_message
from distributed_grid.kernel.ledger import Ledger
from distributed_grid.kernel.memory import Memory
from distributed_grid.kernel.ready import Ready
from distributed_grid.model.booking import Booking
from distributed_grid.model.ids import JobId
from distributed_grid.model.job import JobSpec
from distributed_grid.model.lease import Lease
from distributed_grid.model.lending import Sample, Terms
from distributed_grid.model.priority import Weights
from distributed_grid.wire.keeper import Acknowledge, Ended, Hello, Started


class Submit(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody wants these to run. All of them are taken, or none."""

    now_ms: int
    jobs: tuple[JobSpec, ...]


class Cancel(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody wants this to end."""

    now_ms: int
    job: JobId


class Reports(msgspec.Struct, frozen=True, kw_only=True):
    """What the keeper said, in its order."""

    now_ms: int
    reports: tuple[Started | Ended, ...]


class Met(msgspec.Struct, frozen=True, kw_only=True):
    """A keeper greets, and these are the reports that it repeats."""

    now_ms: int
    hello: Hello
    reports: tuple[Started | Ended, ...] = ()


class Tick(msgspec.Struct, frozen=True, kw_only=True):
    """Time passes."""

    now_ms: int


class Sampled(msgspec.Struct, frozen=True, kw_only=True):
    """The machine was measured, without what Grid's own jobs use."""

    now_ms: int
    sample: Sample


class Lend(msgspec.Struct, frozen=True, kw_only=True):
    """The owner's word on lending: new terms, a pause until a moment (0: for good), or its end."""

    now_ms: int
    terms: Terms | None = None
    pause_until_ms: int | None = None
    is_resumed: bool = False


class Book(msgspec.Struct, frozen=True, kw_only=True):
    """Keep resources for somebody."""

    now_ms: int
    booking: Booking


class Unbook(msgspec.Struct, frozen=True, kw_only=True):
    """Give a booking back."""

    now_ms: int
    name: str


NodeEvent = Submit | Cancel | Reports | Met | Tick | Sampled | Lend | Book | Unbook


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """What the owner decided about sharing."""

    terms: Terms = Terms()
    weights: Weights = Weights()
    ageing_ms: int = AGEING_MS


RULES: Final = Rules()


class Node:
    """The kernel of one node."""

    def __init__(
        self,
        *,
        name: str,
        ledger: Ledger,
        paths: Paths,
        new_lease_id: Callable[[], str],
        rules: Rules = RULES,
    ) -> None:
        self.ledger = ledger
        self.hello: Hello | None = None  # Nothing starts before a keeper has greeted.
        self.is_leaving = False  # Told to go: what waits stays for the next agent.
        self._paths = paths
        self._ready = Ready()
        self.host = Host(
            ledger,
            new_lease_id=new_lease_id,
            terms=rules.terms,
            weights=rules.weights,
            ageing_ms=rules.ageing_ms,
        )
        self.coordinator = Coordinator(self.host, node=name, launch=self._launch)
        self._memory = Memory(self.host)

    def restore(
        self,
        jobs: Iterable[Job],
        leases: dict[str, Lease],
        meta: Mapping[str, bytes] = MappingProxyType({}),
    ) -> None:
        """Begin where the store left off."""
        self._memory.restore(meta)
        self.coordinator.restore(jobs, leases)

    def step(self, event: NodeEvent) -> Ready:
        """Told what happened, answers what to do."""
        self._ready = ready = Ready()
        match event:
            case Submit(now_ms=now_ms, jobs=jobs):
                self._submit(jobs, now_ms, ready)
            case Cancel(now_ms=now_ms, job=job):
                self.coordinator.cancel(job, now_ms, ready)
            case Reports(now_ms=now_ms, reports=reports):
                self._report(reports, now_ms, ready)
                self.coordinator.take_back(now_ms, ready)
            case Met(now_ms=now_ms, hello=hello, reports=reports):
                self.hello = hello
                self._report(reports, now_ms, ready)
                self.coordinator.reconcile(set(hello.running), set(hello.queued), now_ms, ready)
                self.coordinator.giving_way.met(hello.suspended)
            case Sampled() | Lend() | Book() | Unbook():
                self._share(event, ready)
            case _:
                self._tick(event.now_ms, ready)
        if isinstance(event, Tick | Sampled | Lend):
            self.coordinator.giving_way.yield_to_owner(event.now_ms, ready)
        self.coordinator.keep_dates(event.now_ms, ready)
        if self.hello is not None and not self.is_leaving:
            self.coordinator.fill(event.now_ms, ready)
        return ready

    def _submit(self, jobs: tuple[JobSpec, ...], now_ms: int, ready: Ready) -> None:
        admit_all(self.coordinator, jobs, now_ms)
        for spec in jobs:
            self.coordinator.submit(spec, now_ms, ready)

    def _share(self, event: Sampled | Lend | Book | Unbook, ready: Ready) -> None:
        match event:
            case Sampled(now_ms=now_ms, sample=sample):
                self.host.lending.sampled(sample, now_ms)
            case Lend():
                self._lend(event, ready)
            case _:
                self._book(event, ready)

    def _lend(self, word: Lend, ready: Ready) -> None:
        lending = self.host.lending
        if word.terms is not None:
            lending.set_terms(word.terms)
        if word.pause_until_ms is not None:
            lending.pause(word.pause_until_ms)
        if word.is_resumed:
            lending.resume()
        self._memory.save_lending(ready)

    def _book(self, word: Book | Unbook, ready: Ready) -> None:
        if isinstance(word, Book):
            self.host.bookings.add(word.booking, word.now_ms)
        else:
            self.host.bookings.remove(word.name)
        self._memory.save_bookings(ready)

    def _tick(self, now_ms: int, ready: Ready) -> None:
        self.ledger.expire(now_ms)
        self.host.accounts.tick(now_ms)
        self.host.bookings.expire(now_ms)
        self.coordinator.take_back(now_ms, ready)
        self._memory.save_accounts(now_ms, ready)

    def _report(self, reports: tuple[Started | Ended, ...], now_ms: int, ready: Ready) -> None:
        for report in reports:
            if isinstance(report, Started):
                self.coordinator.started(report, ready)
            else:
                self.coordinator.ended(report, now_ms, ready)
        if reports:
            ready.tell.append(Acknowledge(upto=self.coordinator.acknowledged(reports[-1].number)))

    def _launch(self, job: Job, attempt: Attempt, lease: Lease) -> None:
        self._ready.tell.append(run_message(job, attempt, lease, self._paths))

    def check(self) -> None:
        """Re-derive what must be true."""
        self.ledger.check()
        self.coordinator.check()
