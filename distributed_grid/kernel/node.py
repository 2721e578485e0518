"""One node: composes the owner's side and the job's side behind one door.

Lives here: `Node.step(event) -> Ready`. Never here: I/O, clocks, dice; they come as arguments.
Invariant: after every step `check()` is silent (tests call it); what `Ready` saves was promised.
"""

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from distributed_grid.kernel.accounts import Rank
from distributed_grid.kernel.across.asking import RULES as RULES_OF_PLACEMENT
from distributed_grid.kernel.across.asking import RulesOf
from distributed_grid.kernel.across.binding import bind
from distributed_grid.kernel.across.machine import Across
from distributed_grid.kernel.across.once import Senses
from distributed_grid.kernel.across.peers import Peers
from distributed_grid.kernel.across.register import PREFIX
from distributed_grid.kernel.across.rooting import give_up, know_files, mark
from distributed_grid.kernel.admitting import admit_all
from distributed_grid.kernel.calling_off import call_off
from distributed_grid.kernel.coordinator import Coordinator
from distributed_grid.kernel.elsewhere import Alone
from distributed_grid.kernel.entry import AGEING_MS
from distributed_grid.kernel.host import Host
from distributed_grid.kernel.jobs import Attempt, Job
from distributed_grid.kernel.launching import Paths, run_message
from distributed_grid.kernel.ledger import Ledger
from distributed_grid.kernel.lending import Words
from distributed_grid.kernel.memory import Memory
from distributed_grid.kernel.placement.power import PowerPolicy
from distributed_grid.kernel.ready import Ready
from distributed_grid.kernel.restarting import reconcile, restore
from distributed_grid.model.booking import Booking
from distributed_grid.model.ids import JobId, NodeId
from distributed_grid.model.job import JobSpec, Shipment
from distributed_grid.model.lease import Lease
from distributed_grid.model.lending import Sample, Terms
from distributed_grid.model.node import NodeRecord
from distributed_grid.model.priority import Weights
from distributed_grid.wire.across import Start
from distributed_grid.wire.job_lane import JobMessage
from distributed_grid.wire.keeper import Acknowledge, Ended, Hello, Run, Started


class Submit(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody wants these to run. All of them are taken, or none."""

    now_ms: int
    jobs: tuple[JobSpec, ...]
    abroad: frozenset[JobId] = frozenset()  # Those that they come after, and others look after.
    rooted: frozenset[JobId] = frozenset()  # Those with files in a directory that nobody named.


class Cancel(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody wants this to end."""

    now_ms: int
    job: JobId
    index: int | None = None  # Of an array of this node: only this one is to end.


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
    words: Words = ()  # All that these terms are made of, beside the configuration.
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


class View(msgspec.Struct, frozen=True, kw_only=True):
    """The other nodes, as they are seen now, and this one as it sees itself."""

    now_ms: int
    peers: Peers
    own: NodeRecord | None = None


class Drain(msgspec.Struct, frozen=True, kw_only=True):
    """The owner wants this node to be left: nothing new starts. Or that this is over."""

    now_ms: int
    is_on: bool = True
    is_now: bool = False  # What can be started again elsewhere does not stay until its end.


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """Another member says something about jobs; and what came with it, maybe of others."""

    now_ms: int
    peer: NodeId
    message: JobMessage
    more: tuple[tuple[NodeId, JobMessage], ...] = ()
    recalled: tuple[Job, ...] = ()  # What the disk has of jobs that are `forgotten` here.


class Requeue(msgspec.Struct, frozen=True, kw_only=True):
    """A person says that a job may run, though nobody knows what became of it."""

    now_ms: int
    job: JobId


class Noted(msgspec.Struct, frozen=True, kw_only=True):
    """Something for the story of a job: what became of its files."""

    now_ms: int
    job: JobId
    what: str
    detail: str = ""


class Bound(msgspec.Struct, frozen=True, kw_only=True):
    """The directory of a job cannot travel: it runs where it was submitted, or not at all."""

    now_ms: int
    job: JobId
    why: str


class Packed(msgspec.Struct, frozen=True, kw_only=True):
    """Files of these jobs, which nobody named: what they are, and whether others have them."""

    now_ms: int
    jobs: tuple[JobId, ...]
    ship: Shipment | None = None  # None: there are none, or they were not packed yet.
    are_only_here: bool = False


class Force(msgspec.Struct, frozen=True, kw_only=True):
    """A person says that an at-most-once job goes on without its voters: it may run twice."""

    now_ms: int
    job: JobId


class Beat(msgspec.Struct, frozen=True, kw_only=True):
    """A little time passes, in a mesh: what others have not answered is said again."""

    now_ms: int


NodeEvent = (
    Submit | Cancel | Reports | Met | Tick | Sampled | Lend | Book | Unbook | Drain | View | Told
    | Beat | Requeue | Noted | Bound | Packed | Force
)  # fmt: skip


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """What the owner decided about sharing."""

    terms: Terms = Terms()
    weights: Weights = Weights()
    ageing_ms: int = AGEING_MS
    power: PowerPolicy = PowerPolicy()  # What a battery and heat allow its own work here.


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
        self.hello: Hello | None = None  # Nothing starts before a keeper has greeted.
        self.is_leaving = False  # Told to go: what waits stays for the next agent.
        self.paths = paths
        self.power = rules.power
        self.life = 0  # Rises when everything is forgotten.
        self._new_lease_id, self._rules = new_lease_id, rules
        self._begin(name, ledger)

    def _begin(self, name: str, ledger: Ledger) -> None:
        """Know nothing but the machine and its owner's rules."""
        rules = self._rules
        self.ledger = ledger
        self._ready = Ready()
        self.host = Host(
            ledger,
            new_lease_id=self._new_lease_id,
            terms=rules.terms,
            weights=rules.weights,
            ageing_ms=rules.ageing_ms,
        )
        self.coordinator = Coordinator(self.host, node=name, launch=self._launch)
        self._memory = Memory(self.host)
        self._votes: dict[str, bytes] = {}  # What was saved of at-most-once jobs, by name.
        self.across: Across | None = None  # None: there are no other nodes.
        self._filled = (-1, -1)  # The state in which nobody more could start.

    def forget(self) -> None:
        """Know nothing any more, as at a start: what a step that broke off left is gone with it.

        Only what was told from outside, and no step changes, stays.
        """
        before = self.host
        self.life += 1
        self._begin(self.coordinator.node, Ledger(self.ledger.inventory))
        self.host.files_bytes_max = before.files_bytes_max
        self.host.lending = before.lending
        self.host.lending.forget_words(self._rules.terms)

    def join(
        self,
        me: NodeId,
        *,
        senses: Senses,
        rules_of: RulesOf = lambda _: RULES_OF_PLACEMENT,
    ) -> Across:
        """Be one of several nodes from now on; they are told by `View`."""
        self.across = Across(
            self.coordinator,
            me=me,
            rules_of=rules_of,
            senses=senses,
            saved=self._votes,
            power=self.power,
        )
        return self.across

    def newest(self, meta: Mapping[str, bytes | None]) -> dict[str, bytes | None]:
        """What is to be saved, as things stand now: a vote that was delayed undoes no later one."""
        return {
            name: self._votes.get(name) if name.startswith(PREFIX) else value
            for name, value in meta.items()
        }

    def sender_of(self, job: JobId) -> NodeId:
        """On whose account the record of another node's job is; empty: on nobody's."""
        kept = self.across.guarding.shelf.kept(job) if self.across is not None else None
        return kept.sender if kept is not None else NodeId("")

    def rank_of(self, sender: NodeId) -> Rank:
        """How much of this node a sender may take up."""
        known = self.across.peers.get(sender) if self.across is not None else None
        return known.rank if known is not None else "guest"

    def part(self, now_ms: int) -> Ready:
        """There are no other nodes any more: what ran there is lost, what waited for them not."""
        ready = Ready(life=self.life)
        if self.across is not None:
            waiting = [*self.across.asking.everyone(), *self.across.once.part(now_ms, ready)]
            self.across.away.lose_all(now_ms, ready)
            give_up(self.across, now_ms, ready)
            self.coordinator.elsewhere = Alone(self.coordinator.node)
            self.across = None
            for job in waiting:
                if job.ending is not None:
                    self.coordinator.close(job, now_ms, ready)
                elif not job.has_ended:
                    self.coordinator.queue(job, now_ms)
        return ready

    def restore(
        self,
        jobs: Iterable[Job],
        leases: dict[str, Lease],
        meta: Mapping[str, bytes] = MappingProxyType({}),
        *,
        held: Mapping[JobId, NodeId] = MappingProxyType({}),
        now_ms: int = 0,
        away_ms: int = 0,
    ) -> None:
        """Begin where the store left off."""
        self._memory.restore(meta)
        self._votes |= {name: body for name, body in meta.items() if name.startswith(PREFIX)}
        known = list(jobs)
        if self.across is not None:
            self.across.restore(known, held, now_ms=now_ms, away_ms=away_ms)
        restore(self.coordinator, known, leases)

    def step(self, event: NodeEvent) -> Ready:
        """Told what happened, answers what to do."""
        self._ready = ready = Ready(life=self.life)
        match event:
            case Submit():
                self._submit(event, ready)
            case Cancel():
                self._cancel(event, ready)
            case Reports(now_ms=now_ms, reports=reports):
                self._report(reports, now_ms, ready)
                self.coordinator.take_back(now_ms, ready)
            case Met():
                self._meet(event, ready)
            case Sampled() | Lend() | Book() | Unbook() | Drain():
                self._share(event, ready)
            case View() | Told() | Beat() | Requeue() | Bound() | Packed() | Noted() | Force():
                self._meet_others(event, ready)
            case _:
                self._tick(event.now_ms, ready)
        if isinstance(event, Tick | Sampled | Lend | Drain):
            self._give_way(event.now_ms, ready)
        self.coordinator.keep_dates(event.now_ms, ready)
        if self.hello is not None and not self.is_leaving:
            self._fill(event, ready)
            if self.across is not None:
                self.across.after(event.now_ms, ready)
        return ready

    def _meet(self, event: Met, ready: Ready) -> None:
        self.hello = hello = event.hello
        self._report(event.reports, event.now_ms, ready)
        reconcile(self.coordinator, hello, event.now_ms, ready)
        self.coordinator.giving_way.met(hello.suspended)
        if self.across is not None:
            self.across.once.met(hello.deadlines, event.now_ms, ready)

    def _fill(self, event: NodeEvent, ready: Ready) -> None:
        """Start what fits. What others say changes that seldom; what time does, every beat."""
        state = (self.ledger.version, self.host.line.version)
        if not isinstance(event, Told) or state != self._filled:
            self.coordinator.fill(event.now_ms, ready)
            self._filled = (self.ledger.version, self.host.line.version)

    def is_wanted(self, word: Run | Start) -> bool:
        """Whether what was decided to begin still is to: its job was not told to end meanwhile."""
        if isinstance(word, Run):
            found = self.coordinator.attempts.find(word.attempt)
            job = self.coordinator.jobs[found[0]] if found is not None else None
            return job is not None and not (job.is_stopping or job.has_ended)
        job = self.coordinator.jobs.get(word.job)
        return job is None or not (job.is_stopping or job.has_ended)

    def can_cancel(self, job: JobId) -> bool:
        """Whether a job can be ended by a word here: it is this node's, or its record is held."""
        is_held = self.across is not None and job in self.across.guarding.shelf.unfinished
        return is_held or job in self.coordinator.jobs

    def _cancel(self, word: Cancel, ready: Ready) -> None:
        job, now_ms = word.job, word.now_ms
        across = None if job in self.coordinator.jobs else self.across
        if word.index is not None:
            job_there = self.coordinator.jobs[job]
            call_off(self.coordinator, job_there, word.index, now_ms, ready)
        elif across is None or not across.cancel(job, now_ms, ready):
            self.coordinator.cancel(job, now_ms, ready)

    def _note(self, note: Noted, ready: Ready) -> None:
        job = self.coordinator.jobs.get(note.job)
        if job is not None:
            job.tell(note.now_ms, note.what, note.detail)
            ready.touch(job)

    def _meet_others(
        self, event: View | Told | Beat | Requeue | Bound | Packed | Noted | Force, ready: Ready
    ) -> None:
        if isinstance(event, Noted):
            self._note(event, ready)
        if self.across is None:
            return
        match event:
            case View(now_ms=now_ms, peers=peers, own=own):
                self.across.see(peers, own, now_ms, ready)
            case Told(now_ms=now_ms, peer=peer, message=message, more=more):
                self.across.guarding.recall(event.recalled, now_ms)
                for other, word in ((peer, message), *more):
                    self.across.told(other, word, now_ms, ready)
            case Beat(now_ms=now_ms):
                self.across.tick(now_ms, ready)
            case Requeue(now_ms=now_ms, job=job):
                self.across.guarding.requeue(job, now_ms, ready)
            case Force(now_ms=now_ms, job=job):
                self.across.once.force(job, now_ms, ready)
            case Bound() | Packed():
                self._know_files(self.across, event, ready)

    def _know_files(self, across: Across, word: Bound | Packed, ready: Ready) -> None:
        if isinstance(word, Bound):
            bind(across, word.job, word.why, word.now_ms, ready)
        else:
            know_files(across, word.jobs, word.ship, ready, are_only_here=word.are_only_here)

    @property
    def is_drained(self) -> bool:
        """Whether nothing runs here any more, and nothing will, and all that ended is known."""
        return self.host.is_draining and not self.ledger.leases and not self.guests_leaving

    @property
    def guests_leaving(self) -> int:
        """Guests that have ended here, and whose homes have not got all that they left behind."""
        untold = self.across.hosting.reporting.untold() if self.across is not None else ()
        return sum(guest.has_ended for guest in untold)

    def _drain(self, word: Drain, ready: Ready) -> None:
        self.host.is_draining, self.host.is_left_now = word.is_on, word.is_on and word.is_now
        self._memory.save_draining(ready)
        if self.across is not None:
            self.across.drain(word.now_ms, ready)

    def _submit(self, event: Submit, ready: Ready) -> None:
        across, jobs = self.across, event.jobs
        if across is not None:  # Said again, though it has another home by now: that is enough.
            jobs = tuple(spec for spec in jobs if not across.has(spec.id, ready))
        admit_all(self.coordinator, jobs, event.now_ms, event.abroad)
        for spec in jobs:
            self.coordinator.submit(spec, event.now_ms, ready)
        if across is not None and event.rooted:
            mark(across, event.rooted, ready)

    def _give_way(self, now_ms: int, ready: Ready) -> None:
        if self.across is not None:  # What can go on elsewhere is not suspended here.
            self.across.balancing.look(now_ms, ready)
        for job in self.coordinator.giving_way.yield_to_owner(now_ms, ready):
            if job.is_guest:
                self.coordinator.elsewhere.reported(job)

    def _share(self, event: Sampled | Lend | Book | Unbook | Drain, ready: Ready) -> None:
        match event:
            case Sampled(now_ms=now_ms, sample=sample):
                self.host.lending.sampled(sample, now_ms)
            case Lend():
                self._lend(event, ready)
            case Drain():
                self._drain(event, ready)
            case _:
                self._book(event, ready)

    def _lend(self, word: Lend, ready: Ready) -> None:
        lending = self.host.lending
        if word.terms is not None:
            lending.set_terms(word.terms)
            lending.words = word.words
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
        last = max((report.number for report in reports), default=0)
        if last:  # Else the keeper knows nothing of them.
            ready.tell.append(Acknowledge(upto=self.coordinator.acknowledged(last)))

    def _launch(self, job: Job, attempt: Attempt, lease: Lease) -> None:
        self._ready.tell.append(run_message(job, attempt, lease, self.paths))

    def check(self) -> None:
        """Re-derive what must be true."""
        self.ledger.check()
        self.coordinator.check()
        if self.across is not None:
            self.across.check()
