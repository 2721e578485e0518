"""One node: composes the owner's side and the job's side behind one door.

Lives here: `Node.step(event) -> Ready`. Never here: I/O, clocks, dice; they come as arguments.
Invariant: after every step `check()` is silent (tests call it); what `Ready` saves was promised.
"""

from collections.abc import Callable, Iterable

import msgspec

from distributed_grid.kernel.coordinator import Coordinator
from distributed_grid.kernel.host import Host
from distributed_grid.kernel.jobs import Attempt, Job
from distributed_grid.kernel.launching import Paths, run_message
from distributed_grid.kernel.ledger import Ledger
from distributed_grid.kernel.ready import Ready
from distributed_grid.model.ids import JobId
from distributed_grid.model.job import JobSpec
from distributed_grid.model.lease import Lease
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


NodeEvent = Submit | Cancel | Reports | Met | Tick


class Node:
    """The kernel of one node."""

    def __init__(
        self, *, name: str, ledger: Ledger, paths: Paths, new_lease_id: Callable[[], str]
    ) -> None:
        self.ledger = ledger
        self.hello: Hello | None = None  # Nothing starts before a keeper has greeted.
        self.is_leaving = False  # Told to go: what waits stays for the next agent.
        self._paths = paths
        self._ready = Ready()
        host = Host(ledger, new_lease_id=new_lease_id)
        self.coordinator = Coordinator(host, node=name, launch=self._launch)

    def restore(self, jobs: Iterable[Job], leases: dict[str, Lease]) -> None:
        """Begin where the store left off."""
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
            case _:
                self.ledger.expire(event.now_ms)
                self.coordinator.take_back(event.now_ms, ready)
        if self.hello is not None and not self.is_leaving:
            self.coordinator.fill(event.now_ms, ready)
        return ready

    def _submit(self, jobs: tuple[JobSpec, ...], now_ms: int, ready: Ready) -> None:
        self.coordinator.admit_all(jobs)
        for spec in jobs:
            self.coordinator.submit(spec, now_ms, ready)

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
