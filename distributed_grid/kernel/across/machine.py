"""Jobs across machines, composed: one node's part in asking, hosting and keeping copies.

Lives here: who is told what, and in which order after a step. Never here: the rules themselves.
Invariant: without other nodes nothing of this does anything.
"""

from collections.abc import Container, Iterable, Mapping, MutableMapping
from typing import Final

from distributed_grid.kernel.across.abroad import Abroad
from distributed_grid.kernel.across.asking import RULES, Asking, RulesOf
from distributed_grid.kernel.across.away import Away
from distributed_grid.kernel.across.balancing import POWER, Balancing
from distributed_grid.kernel.across.gangs import Gangs
from distributed_grid.kernel.across.guarding import Guarding, read
from distributed_grid.kernel.across.guests import DRAINED, barred
from distributed_grid.kernel.across.handover import Handover
from distributed_grid.kernel.across.holds import Holds
from distributed_grid.kernel.across.hosting import Hosting
from distributed_grid.kernel.across.once import Once, Senses
from distributed_grid.kernel.across.orphans import Orphans
from distributed_grid.kernel.across.peers import NOBODY, Peer, Peers, turned
from distributed_grid.kernel.across.record_bytes import encode
from distributed_grid.kernel.across.rights import may_ask
from distributed_grid.kernel.across.rooting import (
    complain,
    is_rootable,
    is_stranded,
    why_stranded,
)
from distributed_grid.kernel.across.shares import Shares
from distributed_grid.kernel.across.speakers import Speakers
from distributed_grid.kernel.across.stealing import Stealing
from distributed_grid.kernel.coordinator import Coordinator
from distributed_grid.kernel.entry import Entry
from distributed_grid.kernel.jobs import Attempt, Job
from distributed_grid.kernel.placement.power import PowerPolicy
from distributed_grid.kernel.ready import Ready
from distributed_grid.model.across import Epoch
from distributed_grid.model.ids import JobId, NodeId
from distributed_grid.model.job import JobSpec
from distributed_grid.model.lease import Lease
from distributed_grid.model.node import NodeRecord
from distributed_grid.wire.across import (
    INQUIRED_MAX,
    Begun,
    Confirmed,
    Copied,
    Copy,
    Dispensable,
    Granted,
    Halt,
    Holding,
    Idle,
    Inquiry,
    Line,
    NotCopied,
    NotGranted,
    NotTaken,
    Poll,
    Report,
    Reserve,
    Start,
    Taken,
    Waiting,
    Withdrawn,
)
from distributed_grid.wire.gangs import (
    CommitHold,
    Committed,
    Go,
    Held,
    Hold,
    NotHeld,
    ReleaseHold,
    Revoked,
)
from distributed_grid.wire.job_lane import JobMessage
from distributed_grid.wire.keeper import Ended

ROUNDS_MAX: Final = 8  # Of what this node says to itself in one step: asked, told, confirmed.


class Across:
    """This node among the others; stands where the coordinator expects `Elsewhere`."""

    def __init__(
        self,
        coordinator: Coordinator,
        *,
        me: NodeId,
        rules_of: RulesOf = lambda _: RULES,
        senses: Senses,
        saved: MutableMapping[str, bytes] | None = None,
        power: PowerPolicy = POWER,
    ) -> None:
        self.me = me
        self.peers: Peers = NOBODY
        self.coordinator = coordinator
        self.hosting = Hosting(coordinator)
        self.asking = Asking(coordinator, me=me, rules_of=rules_of)
        self.away = Away(coordinator, self.asking, me=me)
        self.balancing = Balancing(coordinator, self.asking, power=power)
        self.stealing = Stealing(coordinator.host, self.asking, self.hosting, me=me)
        self.shares = Shares(coordinator.host)
        self.handover = Handover(coordinator, self.away, me=me, changed=self._changed)
        self.guarding = Guarding(me, self.handover)
        self.orphans = Orphans(self.hosting.reporting, self.guarding.verdicts, self.guarding.find)
        self.speakers = Speakers(coordinator, self.guarding, self.hosting, self.orphans)
        self.abroad = Abroad(coordinator, self.guarding)
        votes = saved if saved is not None else {}
        self.once = Once(
            coordinator, self.asking, self.away, self.guarding, me=me, senses=senses, saved=votes
        )
        self.away.may_revive = self.once.home.may_revive
        self.gangs = Gangs(coordinator, self.asking, me=me, changed=self._changed)
        self.holds = Holds(coordinator, self.hosting, me=me)
        self.offered: Container[str] = _Either(self.hosting.offered, self.holds.leases)
        coordinator.elsewhere = self
        self._has_looked = False  # At others, since it began.
        self._is_new = True
        self.has_files = False  # Told from outside: jobs have directories, which can be packed.
        for job_id in list(coordinator.host.line):
            self.asking.waits(coordinator.jobs[job_id])

    def restore(
        self, jobs: Iterable[Job], held: Mapping[JobId, NodeId], *, now_ms: int, away_ms: int = 0
    ) -> None:
        """Begin with what the disk has; nothing is placed before its holders were asked."""
        self.guarding.restore(jobs, held, now_ms=now_ms, away_ms=away_ms)

    def find_disk(self, *, is_full: bool) -> None:
        """Whether anything can be written: else nothing is taken, nothing kept for others."""
        self.guarding.is_disk_full = self.hosting.is_disk_full = is_full

    @property
    def is_disk_full(self) -> bool:
        """Whether nothing could be written when that was looked at last."""
        return self.hosting.is_disk_full

    def copies(self, job: JobId) -> int:
        """How many disks hold a job, this one included."""
        return self.guarding.copies(job)

    def has(self, job: JobId, ready: Ready) -> bool:
        """Whether a job that is not this node's own is known here, and will be after a crash."""
        is_ours = job in self.coordinator.jobs
        record = None if is_ours else self.guarding.find(job)
        if record is not None:
            is_saved = self.guarding.shelf.save(job, ready)
            more: dict[JobId, bytes | None] = {} if is_saved else {job: encode(record)}
            ready.save_held = more | ready.save_held
        return record is not None or (job in self.handover.given and not is_ours)

    def cancel(self, job: JobId, now_ms: int, ready: Ready) -> bool:
        """Somebody wants a job of another node to end; False: no record of it is held here."""
        return self.guarding.cancel(job, now_ms, ready)

    def _changed(self, job: Job, now_ms: int, ready: Ready) -> None:
        self.guarding.changed(job, now_ms, ready)

    # What the coordinator wants

    def may_run_here(self, spec: JobSpec) -> bool:
        """Whether this node is one of those that the job allows."""
        return spec.gang == 1 and self.asking.may_run_here(spec)

    def waits_here(self, spec: JobSpec) -> bool:
        """Whether it waits for room here too."""
        return spec.gang == 1 and self.asking.waits_here(spec)

    def could_run(self, spec: JobSpec) -> bool:
        """Whether some other node could ever run it."""
        gatherer = self.gangs.gatherer
        return gatherer.could_run(spec) if spec.gang > 1 else self.asking.could_run(spec)

    def drained(self, spec: JobSpec) -> tuple[str, ...]:
        """The other nodes that could run it once they are no longer drained, by name."""
        return self.asking.drained(spec) if spec.gang == 1 else ()

    def dead(self, spec: JobSpec) -> tuple[str, ...]:
        """The other nodes that could run it if they were not dead, by name."""
        return self.asking.dead(spec) if spec.gang == 1 else ()

    def waits(self, job: Job) -> None:
        """A job lacks nothing but room."""
        if job.spec.gang > 1:
            self.gangs.gatherer.waits(job)
        else:
            self.asking.waits(job)

    def waits_no_more(self, job: JobId) -> None:
        """It has what it wants, or wants nothing any more."""
        self.asking.waits_no_more(job)
        self.gangs.gatherer.waits_no_more(job)

    def is_cleared(self, job: JobId) -> bool:
        """Whether it may be placed: others are asked first, and its files are to be had."""
        return (
            self.guarding.is_cleared(job)
            and self.once.home.is_cleared(job)
            and not self._is_stranded(job)
        )

    def _is_stranded(self, job_id: JobId) -> bool:
        job = self.coordinator.jobs.get(job_id)
        return job is not None and is_stranded(job, self.me)

    def lacks(self, job: Job) -> str:
        """Of one whose files are only on another node: what it waits for, in words."""
        return why_stranded(self.guarding.name_of(job.rooted)) if is_stranded(job, self.me) else ""

    def is_waiting(self, job: JobId) -> bool:
        """Whether it still looks for room elsewhere."""
        return self.asking.wish(job) is not None or self.gangs.gatherer.is_waiting(job)

    def slots(self, spec: JobSpec) -> int:
        """How many leases for it other nodes have room for, as far as known."""
        return self.asking.slots(spec)

    def obstacles(self, job: JobId) -> tuple[str, ...]:
        """What nodes said to one that looks for room; this one too, if it is not its own job."""
        said = self.asking.obstacles(job) or self.gangs.gatherer.obstacles(job)
        why = "; ".join(barred(self.coordinator, job))
        here = (f"{self.coordinator.node} took it over from others: {why}",) if why else ()
        return (*here, *(said or self.once.obstacles(job)))

    def halt(self, job: Job, attempt: Attempt, ready: Ready) -> None:
        """End an attempt that runs elsewhere."""
        self.away.halt(job, attempt, ready)

    def granted(self, entry: Entry, lease: Lease, now_ms: int, ready: Ready) -> bool:
        """A lease for one who waits here for another node."""
        if self.holds.is_kept(entry):
            self.holds.granted(entry, lease, now_ms)
            return True
        if not self.hosting.is_wait(entry):
            return False
        self.hosting.granted(entry, lease, now_ms, ready)
        return True

    def asked(self, entry: JobId) -> JobSpec | None:
        """The job of another node that waits here under this name."""
        return self.hosting.asked(entry) or self.holds.asked(entry)

    def holds_back(self, job: Job, attempt: Attempt) -> bool:
        """Whether an attempt on this node waits for votes."""
        return self.once.holds_back(job, attempt)

    def holds_end(self, job: Job) -> bool:
        """Whether its end counts only when a majority of its voters has it."""
        return job.spec.at_most_once and not job.is_guest

    def reported(self, job: Job) -> None:
        """Something of a guest has begun or ended."""
        self.hosting.reporting.reported(job)

    def rank_ended(self, job: Job, attempt: Attempt, report: Ended, ready: Ready) -> Ended | None:
        """A rank of a gang is over."""
        return self.gangs.rank_ended(job, attempt, report, ready)

    # What happens

    def see(self, peers: Peers, own: NodeRecord | None, now_ms: int, ready: Ready) -> None:
        """The other nodes as they are now: who died, who came back, what is free."""
        before, self.peers = self.peers, peers
        self.asking.see(peers, own, now_ms)
        self.away.see(peers, now_ms)
        self.asking.line_up(now_ms)
        self.stealing.see(peers)
        self.gangs.gatherer.see(peers)
        if own is not None:
            self.shares.see(peers, own.name)
        self.guarding.view(peers, now_ms, ready)
        self.once.see(peers, now_ms, ready)
        if not self._has_looked:
            self._has_looked = True
            self.away.restored(now_ms, ready)
        died, came = turned(before, peers)
        for node in died:
            self.hosting.forget_home(node, now_ms)
            self.holds.forget_home(node, now_ms)
            self.away.died(before[node], now_ms, ready)
        for node in came:
            self.away.came_back(peers[node], now_ms, ready)

    def forgotten(self, peer: NodeId, message: JobMessage) -> tuple[JobId, ...]:
        """What it is about that nobody here remembers: the disk may know jobs that ended long ago.

        Else it would be news, or the home would deny its own job, and others would run it again.
        """
        match message:
            case Inquiry(jobs=jobs):
                named = jobs[:INQUIRED_MAX]
            case Begun(job=job) | Report(job=job):
                named = (job,)
            case Copy(record=body) if body.find(self.me.encode()) < body.find(peer.encode()):
                # A record begins with its home: most come from there, and are not read twice.
                record = read(body)
                named = (record.job,) if record is not None and record.home == self.me else ()
            case _:
                return ()
        return tuple(job for job in named if self.guarding.find(job) is None)

    def told(self, node: NodeId, message: JobMessage, now_ms: int, ready: Ready) -> None:
        """Another member says something about jobs."""
        peer = self._speaker(node)
        if peer is None:
            return  # Nobody that this node knows: what it wants it says again.
        if self.speakers.may_say(peer, message, now_ms, ready):
            self._hear(peer, message, now_ms, ready)

    def _hear(self, peer: Peer, message: JobMessage, now_ms: int, ready: Ready) -> None:
        node = peer.id
        match message:
            case Reserve() | Withdrawn() | Start() | Halt() | Poll() | Confirmed():
                self._of_homes(peer, message, now_ms, ready)
            case Granted() | Waiting() | NotGranted():
                self.asking.told(peer, message, now_ms, ready)
            case Taken() | NotTaken() | Begun() | Report():
                self._of_owners(peer, message, now_ms, ready)
            case Idle():
                self.stealing.idle(peer, message, now_ms, ready)
            case Line():
                self.stealing.line(node, message, now_ms, ready)
            case Hold() | ReleaseHold() | CommitHold() | Go():
                self.holds.told(peer, message, now_ms, ready)
            case Held() | NotHeld() | Revoked() | Committed():
                self.gangs.told(node, message, now_ms, ready)
            case Copy() | Copied() | NotCopied() | Inquiry() | Dispensable():
                self.guarding.told(node, message, now_ms, ready)
            case Holding():
                self._of_holders(node, message, now_ms, ready)
            case _:
                self.once.hear(node, message, now_ms, ready)

    def _speaker(self, node: NodeId) -> Peer | None:
        """Who says something: a member as it is known here, or this node itself."""
        return (
            Peer(id=node, name=self.coordinator.node) if node == self.me else self.peers.get(node)
        )

    def _of_holders(self, node: NodeId, message: Holding, now_ms: int, ready: Ready) -> None:
        record = read(message.record) if message.record else None
        if record is None:
            self.guarding.told(node, message, now_ms, ready)
            self.abroad.unknown(message.job, node)
            self.orphans.disowned(message.job, node, now_ms)
        elif self.guarding.hears(node, record):
            self.abroad.learn(record, now_ms, ready)
            self.once.learn(record, now_ms, ready)
            self.guarding.told(node, message, now_ms, ready)
            self.orphans.found(record, node, now_ms)
        elif record.home != node:
            self.orphans.disowned(record.job, node, now_ms)  # Whoever is: it says that it is not.

    def _of_homes(
        self,
        peer: Peer,
        message: Reserve | Withdrawn | Start | Halt | Poll | Confirmed,
        now_ms: int,
        ready: Ready,
    ) -> None:
        match message:
            case Reserve():
                self.hosting.reserve(peer, message, now_ms, ready)
            case Withdrawn():
                self.hosting.withdrawn(peer.id, message, now_ms)
            case Start() | Halt() | Poll() if self.holds.is_about(peer, message, now_ms, ready):
                pass  # Of a rank that does not run yet.
            case Start():
                self.hosting.start(peer, message, now_ms, ready)
                self.once.started(message, now_ms, ready)
            case Halt():
                self.hosting.halt(peer.id, message, now_ms, ready)
            case Poll():
                self.hosting.poll(peer.id, message, now_ms, ready)
            case _:
                self.hosting.reporting.confirmed(peer.id, message, ready)

    def _of_owners(
        self,
        peer: Peer,
        message: Taken | NotTaken | Begun | Report,
        now_ms: int,
        ready: Ready,
    ) -> None:
        # Of nobody else the register is told: what it takes to be over may be replaced at once.
        is_its_own = self.speakers.host_of(message.job, message.lease) == peer.id
        found = self.coordinator.attempts.away.get(message.lease)
        has_run = found is not None and found[1].state == "running"
        match message:
            case Taken():
                self.away.taken(message)
                self.gangs.taken(peer.id, message, now_ms, ready)
            case NotTaken():
                self.away.not_taken(peer.id, message, now_ms, ready)
            case Begun() | Report() if self._is_not_ours(peer, message, ready):
                pass
            case Begun():
                self.away.begun(peer, message, now_ms, ready)
            case _:
                self.away.reported(peer, message, now_ms, ready)
        if is_its_own and not isinstance(message, Taken):
            self.once.reported(message, now_ms, ready, has_run=has_run)

    def _is_not_ours(self, peer: Peer, message: Begun | Report, ready: Ready) -> bool:
        """Whether somebody reports to the wrong home; it is told which is the right one."""
        if message.job in self.coordinator.jobs:
            return False
        record = self.guarding.find(message.job)
        if record is not None and record.home == self.me and isinstance(message, Report):
            ends = message.first + len(message.ends)  # Over for so long that it left the memory.
            answer = Confirmed(job=message.job, lease=message.lease, ends=ends)
            ready.send.append((peer.id, answer))
        else:
            body = encode(record) if record is not None and may_ask(peer, record) else b""
            ready.send.append((peer.id, Holding(job=message.job, record=body)))
        return True

    def tick(self, now_ms: int, ready: Ready) -> None:
        """Before what is free is handed out."""
        self.hosting.tick(now_ms)
        self.orphans.tick(now_ms, ready)
        self.shares.tick(now_ms)
        self.asking.tick(now_ms, ready)
        self.away.tick(now_ms, ready)
        self.holds.tick(now_ms, ready)
        self.gangs.tick(now_ms, ready)
        self.guarding.tick(now_ms, ready)
        self.once.tick(now_ms, ready)
        self.abroad.tick(self.peers, now_ms, ready)

    def drain(self, now_ms: int, ready: Ready) -> None:
        """The owner wants this node to be left, or no longer."""
        if self.coordinator.host.is_draining:
            self.hosting.turn_away(DRAINED, now_ms, ready)
            self.holds.turn_away(DRAINED, now_ms, ready)

    def after(self, now_ms: int, ready: Ready) -> None:
        """When what is free has been handed out: ask others for the rest, and answer them."""
        self.once.before(now_ms, ready)
        self._own_up(ready)
        self.asking.ask(now_ms, ready)
        self.gangs.gather(now_ms, ready)
        self.hosting.answer(now_ms, ready)
        self.holds.answer(now_ms, ready)
        self.stealing.tick(now_ms, ready)
        self._hear_ourselves(now_ms, ready)  # Before: what follows from it is copied too.
        complain(self, now_ms, ready)
        self._copy(now_ms, ready)
        self.once.home.closed.clear()
        self.once.after(now_ms, ready)
        for job in self.once.home.closed:  # This node's own vote was enough.
            self.guarding.changed(job, now_ms, ready)
        self.away.confirm(self.guarding.is_confirmed, now_ms, ready)
        self.gangs.free(self.guarding.is_confirmed, now_ms, ready)
        self._hear_ourselves(now_ms, ready)

    def _own_up(self, ready: Ready) -> None:
        """New jobs, and those of before there were others, are under this node's word."""
        jobs = list(ready.save_jobs.values())
        if self._is_new:
            self._is_new = False
            others = [job for job in self.coordinator.jobs.values() if not job.has_ended]
            for job in others:
                if self.has_files and not job.epoch.node and is_rootable(job.spec):
                    job.rooted = self.me
                elif not job.is_guest and job.epoch.node == self.me and not self._is_written(job):
                    # Of a mesh that was left: whoever took it over there says so when it is told.
                    ready.save_jobs[job.spec.id] = job
            jobs += others
        for job in jobs:
            if not job.is_guest and not job.epoch.node:
                job.epoch, job.certified_by = Epoch(1, self.me), self.coordinator.node
                ready.save_jobs[job.spec.id] = job
            self.once.home.own_up(job)

    def _is_written(self, job: Job) -> bool:
        """Whether its record is known here, from this start on or from another home."""
        return self.guarding.find(job.spec.id) is not None

    def _copy(self, now_ms: int, ready: Ready) -> None:
        """What has changed of this node's jobs is written down for their holders."""
        for job in list(ready.save_jobs.values()):
            if not job.is_guest:
                self.guarding.changed(job, now_ms, ready)

    def _hear_ourselves(self, now_ms: int, ready: Ready) -> None:
        """After a takeover this node may be home and owner of one attempt: it is told as others."""
        for _ in range(ROUNDS_MAX):
            own = [word for node, word in (*ready.ask, *ready.send) if node == self.me]
            if not own:
                return
            ready.ask = [(node, word) for node, word in ready.ask if node != self.me]
            ready.send = [(node, word) for node, word in ready.send if node != self.me]
            for message in own:
                self.told(self.me, message, now_ms, ready)

    def check(self) -> None:
        """Re-derive what must be true."""
        self.hosting.check()
        self.guarding.shelf.check()
        self.once.register.voter.check()
        self.holds.check()


class _Either:
    """What is in one of two."""

    def __init__(self, *some: Container[str]) -> None:
        self._some = some

    def __contains__(self, one: object) -> bool:
        return any(one in some for some in self._some)
