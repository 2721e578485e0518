"""At-most-once jobs on one node: the register joined to jobs, leases, records and the keeper.

Lives here: what the register wants done, in the order of a step; what others say to it; which votes
are still needed. Never here: its rules (`register`), what a home wants of it (`once_home`), what
runs here under it (`once_owner`).
Invariant: what is saved is durable before anything is told that rests on it, also when it was saved
by an earlier step; nobody votes on a job of which it knows that it is over.
"""

from collections import deque
from collections.abc import Callable, Mapping, MutableMapping
from typing import Final, NamedTuple

from distributed_grid.kernel.across.asking import Asking
from distributed_grid.kernel.across.away import Away
from distributed_grid.kernel.across.guarding import Guarding, read
from distributed_grid.kernel.across.hands import replace, settle
from distributed_grid.kernel.across.once_home import OnceHome, Step
from distributed_grid.kernel.across.once_owner import OnceOwner
from distributed_grid.kernel.across.peers import NOBODY, Peers, turned
from distributed_grid.kernel.across.record import JobRecord, has_ended
from distributed_grid.kernel.across.record_bytes import encode
from distributed_grid.kernel.across.register import PREFIX, Register
from distributed_grid.kernel.across.register_effects import (
    Deposed,
    Effects,
    Extend,
    GaveUp,
    Happening,
    MayRun,
    MayStart,
    Outbid,
    Ruling,
    Stored,
)
from distributed_grid.kernel.across.register_sets import members_of
from distributed_grid.kernel.across.register_voter import FLOORS, JOB, REMEMBERED, STORE, Chance
from distributed_grid.kernel.across.returning import inquire
from distributed_grid.kernel.coordinator import Coordinator
from distributed_grid.kernel.jobs import Attempt, Job
from distributed_grid.kernel.ready import Ready
from distributed_grid.kernel.unusable import about
from distributed_grid.model.across import Epoch
from distributed_grid.model.ids import JobId, NodeId
from distributed_grid.wire.across import Begun, Holding, NotTaken, Report, Start
from distributed_grid.wire.keeper import Deadline
from distributed_grid.wire.register import (
    Accept,
    Accepted,
    LeasesRenewed,
    Prepare,
    Promised,
    Recollect,
    Recollected,
    RegisterMessage,
)

TIDY_US: Final = 1_000_000  # Votes on jobs that are over are looked for so often.
ASK_US: Final = 60_000_000  # Who has a vote on a job and no copy asks what became of it so often.
MEET_US: Final = 5_000_000  # Who has not told the name of its store is asked again.
LEFT: Final = "this machine has left those that vote on it: it is theirs now"
MET_MAX: Final = 32  # In a larger mesh only those are asked that may have to vote.


class Senses(NamedTuple):
    """What a kernel is given from outside: a clock that goes on in sleep, and dice."""

    boot_us: Callable[[], int] | None  # CLOCK_BOOTTIME; None: the clock of the events.
    chance: Chance


def _rests_on(node: NodeId, message: RegisterMessage) -> tuple[str, ...]:
    """What must be saved before it is said; if an earlier step does that, it waits for it."""
    match message:
        case Promised(job=job) | Accepted(job=job):
            return (STORE, JOB + job)
        case Recollected():
            return (REMEMBERED + node,)
        case Recollect():
            return (STORE, FLOORS)
        case LeasesRenewed():
            return (STORE,)
        case _:
            return ()  # Questions: whoever asks remembers nothing of them.


class Once:
    """One node's part in jobs that never run twice at once."""

    def __init__(
        self,
        coordinator: Coordinator,
        asking: Asking,
        away: Away,
        guarding: Guarding,
        *,
        me: NodeId,
        senses: Senses,
        saved: MutableMapping[str, bytes],
    ) -> None:
        self._me, self._senses, self._saved = me, senses, saved
        self._coordinator, self._guarding = coordinator, guarding
        self._peers: Peers = NOBODY
        self.register = Register(me, senses.chance)
        self.owner = OnceOwner(coordinator)
        self.home = OnceHome(
            coordinator, asking, away, guarding, register=self.register, owner=self.owner, me=me
        )
        self._is_met = False
        self._tidied_us = 0
        self._met_us: dict[NodeId, int] = {}
        self._asked_us: dict[JobId, int] = {}  # When others were asked last for a job voted on.

    @property
    def is_busy(self) -> bool:
        """Whether something waits for the clock."""
        return bool(self.home.jobs) or self.owner.is_busy

    def obstacles(self, job: JobId) -> tuple[str, ...]:
        """Whose votes a job waits for, in words."""
        if not self.home.lacks_votes(job):
            return ()
        return (f"needs the votes of {', '.join(self.home.missing(job))}",)

    # What happens

    def met(self, deadlines: Mapping[str, int], now_ms: int, ready: Ready) -> None:
        """A keeper greets; these attempts it runs, until then."""
        self._is_met = True
        self.owner.met(deadlines)
        with about("meta", PREFIX):  # All of them: a disk without votes is known to be new.
            started = self.register.start(dict(self._saved), deadlines, self._now_us(now_ms))
        self._do(started, now_ms, ready)

    def before(self, now_ms: int, ready: Ready) -> None:
        """Before anything of this step is written down: what waits for votes in vain ends."""
        self.begin(now_ms, ready)
        self.owner.sweep(self.home.naming, now_ms, ready)

    def begin(self, now_ms: int, ready: Ready) -> None:
        """Who joins others while its keeper runs begins without leases: none were given yet."""
        if not self._is_met:
            self.met({}, now_ms, ready)

    def see(self, peers: Peers, now_ms: int, ready: Ready) -> None:
        """The other nodes, as they are now."""
        _, came = turned(self._peers, peers)
        self._peers = peers
        for node in came:
            self.register.writer.hurry(node)
        self._meet(now_ms, ready)

    def hear(self, peer: NodeId, message: RegisterMessage, now_ms: int, ready: Ready) -> None:
        """Another node votes, asks for a vote, or to have a lease renewed."""
        if not self._is_met or self._is_over(peer, message, ready):
            return
        self._do(self.register.hear(peer, message, self._now_us(now_ms)), now_ms, ready)

    def tick(self, now_ms: int, ready: Ready) -> None:
        """Each 100 ms while it is busy: timers stop in a sleep, this clock does not."""
        now_us = self._now_us(now_ms)
        self.begin(now_ms, ready)
        self._do(self.register.tick(now_us), now_ms, ready)
        self._look(list(self.home.jobs), now_ms, ready)
        if now_us - self._tidied_us >= TIDY_US:
            self._tidied_us = now_us
            self._tidy(now_ms, ready)
            self._meet(now_ms, ready)

    def after(self, now_ms: int, ready: Ready) -> None:
        """When everything of this step is in the records: name what is to start, write it down."""
        touched = self.home.touched(ready.save_jobs.values())
        if touched or self.owner.is_busy:
            self._look(touched, now_ms, ready)

    def force(self, job: JobId, now_ms: int, ready: Ready) -> None:
        """A person says that it goes on without its voters."""
        self._guarding.insist(job, now_ms, ready)
        self._do(self.home.force(job, self._now_us(now_ms)), now_ms, ready)

    def part(self, now_ms: int, ready: Ready) -> list[Job]:
        """There are no others any more: what waited for votes waits for room only.

        But not what others vote on: they go on with it, and it would run there and here.
        """
        self.owner.sweep((), now_ms, ready)
        for job in [self._coordinator.jobs.get(one) for one in self.home.jobs]:
            heirs = self._heirs(job) if job is not None and not job.ending else []
            if job is not None and heirs and not job.has_ended:
                for attempt in job.live_attempts:
                    replace(self._coordinator, job, attempt, now_ms, ready)
                settle(self._coordinator, job, "lost", now_ms, ready, reason=LEFT)
                # No end of the job's own: should this node come back, it tells nobody of it.
                job.epoch = Epoch(job.epoch.counter, heirs[0])
        return self.home.everyone()

    def _heirs(self, job: Job) -> list[NodeId]:
        """Who else has a vote on it."""
        members = members_of(job.votes.sets) if job.votes is not None else ()
        return [member.node for member in members if member.node != self._me]

    # Of homes and owners

    def holds_back(self, job: Job, attempt: Attempt) -> bool:
        """Whether an attempt on this node waits for votes."""
        if job.spec.at_most_once:
            self.owner.hold(attempt)
        return job.spec.at_most_once

    def started(self, word: Start, now_ms: int, ready: Ready) -> None:
        """A home wants an attempt to run here."""
        standing = word.standing
        if standing is not None and self.owner.may_begin(word.lease, word.job):
            effects = self.register.leases.begin(word.job, standing, self._now_us(now_ms))
            self._do(effects, now_ms, ready)

    def reported(
        self, word: Begun | Report | NotTaken, now_ms: int, ready: Ready, *, has_run: bool
    ) -> None:
        """An owner tells of an attempt; before, it was seen to run or not."""
        effects = Effects()
        self.home.reported(word, effects, has_run=has_run)
        self._do(effects, now_ms, ready)

    # Doing

    def _now_us(self, now_ms: int) -> int:
        return self._senses.boot_us() if self._senses.boot_us is not None else now_ms * 1_000

    def _do(self, effects: Effects, now_ms: int, ready: Ready) -> None:
        """What the register wants, and what follows from that, one after the other."""
        steps = deque([effects])
        while steps:
            steps += self._carry_out(steps.popleft(), now_ms, ready)

    def _carry_out(self, effects: Effects, now_ms: int, ready: Ready) -> list[Effects]:
        following: list[Effects] = []
        for name, body in effects.save.items():
            self._saved.pop(name, None)
            if body is not None:
                self._saved[name] = body
            ready.save_meta[name] = body
        for node, message in effects.send:
            if node == self._me:
                following.append(self.register.hear(node, message, self._now_us(now_ms)))
                continue
            for name in _rests_on(node, message):
                ready.save_meta.setdefault(name, self._saved.get(name))
            ready.send.append((node, message))
        following += [self._follow(one, now_ms, ready) for one in effects.happened]
        return following

    def _follow(self, happening: Happening, now_ms: int, ready: Ready) -> Effects:
        now_us = self._now_us(now_ms)
        step = Step(now_us, now_ms, Effects(), ready)
        match happening:
            case Ruling():
                self.home.ruling(happening, step)
            case Stored():
                self.home.stored(happening, now_ms, ready)
            case Deposed() | Outbid():
                self.home.outdone(happening, step)
            case MayStart(job=job, standing=standing):
                if self.home.may_start(job, standing, step):
                    return self.register.leases.begin(job, standing, now_us)
            case MayRun():
                if not self.owner.may_run(happening, ready):
                    return self.register.leases.over(happening.lease, now_us)
                self.home.is_leased(happening.job, now_ms, ready)
            case Extend(lease=lease, until_boot_us=until_us):
                ready.tell.append(Deadline(attempt=lease, until_boot_us=until_us))
            case GaveUp(lease=lease):
                self.owner.give_up(lease, "its votes did not come", now_ms, ready)
            case _:
                pass  # Lapsed: the keeper knows. NewStore: nothing to do.
        return step.effects

    def _look(self, jobs: list[JobId], now_ms: int, ready: Ready) -> None:
        """After what is and what should be: both sides, then what one must tell the other."""
        effects = Effects()
        step = Step(self._now_us(now_ms), now_ms, effects, ready)
        for job, lease, has_run in self.owner.over():
            effects.add(self.register.leases.over(lease, step.now_us))
            self.home.ended(job, lease, effects, has_run=has_run)
        for job in jobs:
            self.home.look(job, step)
        self._do(effects, now_ms, ready)

    # Others

    def _meet(self, now_ms: int, ready: Ready) -> None:
        """Whoever may have to vote is asked for the name of its store."""
        if not self._is_met:
            return
        now_us, voter = self._now_us(now_ms), self.register.voter
        # Of whom nothing is known yet, not even its version is.
        live = [node for node, peer in self._peers.items() if peer.is_alive and peer.record]
        wanted = set(live) if len(live) <= MET_MAX else self.home.wanted() & set(live)
        for node in sorted(wanted - voter.stores.keys()):
            if now_us - self._met_us.get(node, -MEET_US) >= MEET_US:
                self._met_us[node] = now_us
                self._do(voter.meet(node, now_us), now_ms, ready)
        self._met_us = {node: at for node, at in self._met_us.items() if node in wanted}

    def _is_over(self, peer: NodeId, message: RegisterMessage, ready: Ready) -> bool:
        """Whether somebody asks for a vote on a job that is known to be over: it is told so."""
        if not isinstance(message, Prepare | Accept):
            return False
        told = read(message.written.value) if isinstance(message, Accept) else None
        record = self._guarding.find(message.job)
        is_end = told is not None and has_ended(told)  # No end yet: one vote is no majority.
        if is_end or record is None or not has_ended(record):
            return False
        ready.send.append((peer, Holding(job=message.job, record=encode(record))))
        return True

    def learn(self, record: JobRecord, now_ms: int, ready: Ready) -> None:
        """Somebody knows a job: if it is over, and this node only votes on it, it knows so now."""
        is_news = has_ended(record) and self._guarding.find(record.job) is None
        if is_news and self.register.voter.has(record.job):
            self._guarding.remember(record, now_ms, ready)

    def _tidy(self, now_ms: int, ready: Ready) -> None:
        """Votes on jobs that are over are forgotten: their end is remembered instead.

        Who voted and holds no copy may have been away when the end was told: it asks, now and then.
        """
        voter, now_us = self.register.voter, self._now_us(now_ms)
        asked_us, self._asked_us = self._asked_us, {}
        questions: dict[NodeId, list[JobId]] = {}
        for job in voter.jobs:
            record = self._guarding.find(job)
            if record is not None and has_ended(record) and job not in self.home.jobs:
                self._do(voter.forget(job), now_ms, ready)
            elif record is None:
                since_us = self._asked_us[job] = asked_us.get(job, now_us)
                others = [node for node in voter.company(job) if self._guarding.verdicts.sees(node)]
                if others and now_us - since_us >= ASK_US:
                    self._asked_us[job] = now_us
                    turn = now_us // ASK_US % len(others)
                    questions.setdefault(others[turn], []).append(job)
        inquire(questions, ready)
