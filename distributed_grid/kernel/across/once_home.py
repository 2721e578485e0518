"""The home of at-most-once jobs: it rules their registers, and names attempts before they start.

Lives here: which jobs this node wants to rule, what it writes, whom it lets start, who votes. Never
here: votes (`register_*`), where a job runs (`asking`), its record (`guarding`).
Invariant: an attempt of such a job is started only when the register has let it, under a standing
that names it; only its owner's word, or this node's own, tells the register that one is over. A job
has ended when a majority knows how, and not before.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from distributed_grid.kernel.across.asking import Asking
from distributed_grid.kernel.across.away import Away
from distributed_grid.kernel.across.guarding import Guarding, read
from distributed_grid.kernel.across.once_owner import OnceOwner
from distributed_grid.kernel.across.own import Own
from distributed_grid.kernel.across.record_bytes import encode
from distributed_grid.kernel.across.record_writing import closing_record
from distributed_grid.kernel.across.register import Register
from distributed_grid.kernel.across.register_chair import Chair
from distributed_grid.kernel.across.register_effects import (
    Deposed,
    Effects,
    Outbid,
    Ruling,
    Stored,
)
from distributed_grid.kernel.across.register_sets import due_set, first_set, members_of
from distributed_grid.kernel.coordinator import Coordinator
from distributed_grid.kernel.jobs import Attempt, Job
from distributed_grid.kernel.ready import Happened, Ready
from distributed_grid.model.across import HERE, Epoch
from distributed_grid.model.ids import JobId, NodeId
from distributed_grid.model.node_class import Laptop
from distributed_grid.wire.across import Begun, Holding, Inquiry, NotTaken, Report
from distributed_grid.wire.keeper import HAVING_RUN
from distributed_grid.wire.register import Member, Standing, Written

AGAIN_US: Final = 1_000_000  # Who was deposed looks whether it is still the home, and asks again.
# Without a majority for so long: it is asked for anew, then people are told whose votes lack.
STUCK_US: Final = 5_000_000
GONE_MS: Final = 600_000  # Dead for so long: others vote instead.
# Whoever votes from now on may hold what the lost ones decided, and need not be there now to tell
# of it: a person's word is above that. Nobody bids so often while there is no majority.
LEAP: Final = 1_000
SETS_US: Final = 1_000_000  # Who votes is looked at so often.


class Step(NamedTuple):
    """What a step of the kernel is made with; what the register is to do is gathered in it."""

    now_us: int  # CLOCK_BOOTTIME.
    now_ms: int
    effects: Effects
    ready: Ready


class OnceHome:
    """The at-most-once jobs that this node is home of."""

    def __init__(
        self,
        coordinator: Coordinator,
        asking: Asking,
        away: Away,
        guarding: Guarding,
        *,
        register: Register,
        owner: OnceOwner,
        me: NodeId,
    ) -> None:
        self._coordinator = coordinator
        self._asking, self._away, self._guarding = asking, away, guarding
        self._writer, self._voter = register.writer, register.voter
        self._owner = owner
        self._me = me
        self.jobs: dict[JobId, None] = {}
        self.naming: dict[str, JobId] = {}  # By lease: attempts that were not let start yet.
        self._again_us: dict[JobId, int] = {}  # When to ask for promises again, at the earliest.
        self._asking_us: dict[JobId, int] = {}  # Since when they are asked for.
        self._looked_us: dict[JobId, int] = {}  # When the set is looked at again.
        self._written: dict[JobId, bytes] = {}  # The record that was last handed to the register.
        self._closing: dict[JobId, bytes] = {}  # The record with the end: it counts once stored.
        self.closed: list[Job] = []  # What has ended in this step, and what that has decided.

    # What is known

    def is_cleared(self, job_id: JobId) -> bool:
        """Whether a job may be placed: it is none of these, or this node rules its register."""
        job = self._coordinator.jobs.get(job_id)
        if job is None or job.is_guest or not job.spec.at_most_once:
            return True
        chair = self._writer.chair(job_id)
        return chair is not None and chair.is_ruling

    def lacks_votes(self, job_id: JobId) -> bool:
        """Whether its votes do not come."""
        return job_id in self._asking_us and not self.is_cleared(job_id)

    def everyone(self) -> list[Job]:
        """Those that wait for nothing but a place, or the right to have one."""
        found = (self._coordinator.jobs.get(job) for job in self.jobs)
        return [job for job in found if job and not job.has_ended and not job.live_attempts]

    def wanted(self) -> set[NodeId]:
        """Who should vote on one of them, or does."""
        choice = self._guarding.holders.choice
        found: set[NodeId] = set()
        for job_id in self.jobs:
            job = self._coordinator.jobs.get(job_id)
            count = job.spec.voters if job is not None else 0
            found |= {*choice.first(job_id, count, without=lambda _: False)}
        return found

    def _ranked(self, job: Job) -> list[Member]:
        """Who could vote, the best first: nodes that all can dial before laptops.

        Nobody whose disk is full: a vote is written down, and such a majority might never answer.
        """
        stores, choice = self._voter.stores, self._guarding.holders.choice
        first = choice.first(
            job.spec.id,
            job.spec.voters,
            without=lambda node: node not in stores or choice.is_full(node),
        )
        others = [Member(node, stores[node]) for node in first]
        own = self._asking.own
        is_laptop = own is not None and isinstance(own.node_class, Laptop)
        return [*others, self._voter.me] if is_laptop else [self._voter.me, *others]

    # Jobs come and go

    def own_up(self, job: Job) -> None:
        """A job of this node is about to be written down: who votes on it stands in it from then.

        What runs already runs without a lease. Nobody else hears of it before it has one.
        """
        if not job.spec.at_most_once or job.is_guest or job.has_ended:
            return
        self.jobs[job.spec.id] = None
        if job.votes is None:
            voters = first_set(self._voter.me, self._ranked(job), job.spec.voters)
            job.votes = Standing(voters=voters)
        if any(self._is_unleased(attempt) for attempt in job.live_attempts):
            self._guarding.holders.held_back.add(job.spec.id)

    def _is_unleased(self, attempt: Attempt) -> bool:
        is_bare = not attempt.until_boot_us and not attempt.awaits_votes
        return attempt.host == HERE and is_bare

    def is_leased(self, job_id: JobId, now_ms: int, ready: Ready) -> None:
        """What ran here without a lease has one now: others may know of it."""
        holders = self._guarding.holders
        own = holders.own.get(job_id)
        if own is not None and job_id in holders.held_back and self._guarding.is_cleared(job_id):
            holders.held_back.discard(job_id)
            holders.send(own, now_ms, ready)

    def touched(self, jobs: Iterable[Job]) -> list[JobId]:
        """Those of these that are of this kind."""
        found = [job.spec.id for job in jobs if job.spec.at_most_once and not job.is_guest]
        self.jobs |= dict.fromkeys(found)
        return found

    def _let_go(self, job_id: JobId) -> None:
        """It is over, or another's."""
        self._writer.drop(job_id)
        self.jobs.pop(job_id, None)
        for table in (self._again_us, self._asking_us, self._looked_us):
            table.pop(job_id, None)
        for bodies in (self._written, self._closing):
            bodies.pop(job_id, None)
        for lease in [one for one, of in self.naming.items() if of == job_id]:
            del self.naming[lease]

    # Looking after one

    def look(self, job_id: JobId, step: Step) -> None:
        """Rule its register; write down what has changed; name what is to start."""
        job, chair = self._coordinator.jobs.get(job_id), self._writer.chair(job_id)
        own = self._guarding.holders.own.get(job_id)
        is_ruling = chair is not None and chair.is_ruling
        if job is None or job.epoch.node not in ("", self._me) or (job.has_ended and not is_ruling):
            self._let_go(job_id)
        elif chair is None:
            self._pursue(job, step)
        elif not chair.is_ruling:
            self._insist(job, chair, step)
        elif chair.is_writing and step.now_us - chair.since_us >= STUCK_US:
            self._depose(job, step)  # There is no majority to rule with.
        elif chair.outbid_by is not None and self._may_bid(job, chair, step):
            self._bid_again(job, chair, chair.outbid_by, step)
        elif job.has_ended and (own is None or chair.written.value == own.body):
            self._let_go(job_id)
        else:
            self._watch_naming(job, chair, step)
            if own is not None:
                self._write(job, chair, self._body(job, own, chair, step), step)
                self._mend(job, chair, step)

    def _pursue(self, job: Job, step: Step) -> None:
        job_id, now_us = job.spec.id, step.now_us
        is_early = now_us < self._again_us.get(job_id, now_us)
        if self._writer.is_asking(job_id) or is_early or not self._guarding.is_cleared(job_id):
            self._complain(job, step)
            return
        self._asking_us.setdefault(job_id, now_us)
        seen = self._voter.promised(job_id)
        step.effects.add(self._writer.take_over(job_id, self._newest(job), now_us, seen=seen))

    def _insist(self, job: Job, chair: Chair, step: Step) -> None:
        """It was promised a majority, which has not taken its first write yet.

        Who has outbid it there may be gone by now; those who have not refused may be, too.
        """
        job_id = job.spec.id
        again_us = max(chair.since_us + AGAIN_US, self._again_us.get(job_id, 0))
        is_early = step.now_us < again_us or not self._guarding.is_cleared(job_id)
        if chair.outbid_by is None or is_early:
            self._complain(job, step)
        else:
            self._bid_again(job, chair, chair.outbid_by, step)

    def _may_bid(self, job: Job, chair: Chair, step: Step) -> bool:
        """Whether nothing is under way that another epoch would disturb."""
        job_id = job.spec.id
        is_early = step.now_us < self._again_us.get(job_id, step.now_us)
        is_busy = chair.is_writing or job_id in self.naming.values()
        return not (is_early or is_busy or job.ending or job.has_ended)

    def _bid_again(self, job: Job, chair: Chair, by: Epoch, step: Step) -> None:
        """One of its voters obeys another: it refuses all writes, until the epoch is higher.

        A majority is enough to go on, but with one more of them lost it would be none.
        """
        job_id = job.spec.id
        self._again_us[job_id] = step.now_us + AGAIN_US
        self._asking_us.setdefault(job_id, step.now_us)
        self._coordinator.leave(job_id)
        step.effects.add(self._writer.bid_above(by, chair, step.now_us))
        self.outdone(Outbid(job=job_id, by=by), step)

    def _complain(self, job: Job, step: Step) -> None:
        """Whoever looks at it is told whose votes it waits for."""
        job_id = job.spec.id
        since_us = self._asking_us.get(job_id, step.now_us)
        if step.now_us - since_us < STUCK_US or job.live_attempts:
            return
        word = f"stuck: needs {', '.join(self.missing(job_id))}"
        if job.reason != word:
            job.reason = word
            job.tell(step.now_ms, "stuck", word.removeprefix("stuck: "))
            step.ready.touch(job)
            self._guarding.changed(job, step.now_ms, step.ready)
            fields = {"needs": self.missing(job_id)}
            stuck = Happened(name="job.stuck", at_ms=step.now_ms, job=job_id, fields=fields)
            step.ready.happened.append(stuck)

    def missing(self, job_id: JobId) -> list[str]:
        """Whose votes a job lacks, by name: those first that are not there.

        Who is there and silent was restarted: it votes when the others have told what they know.
        """
        silent, sees = self._writer.missing(job_id), self._guarding.verdicts.sees
        gone = [self._guarding.name_of(node) for node in silent if not sees(node)]
        there = [self._guarding.name_of(node) for node in silent if sees(node)]
        if gone:
            there = [f"{name} (which waits for them)" for name in there]
        return [*gone, *there] or ["its voters"]

    def _newest(self, job: Job) -> Written:
        """What this node holds as a voter; else what its record says.

        A record is not signed: one that lies could name voters of its own in it. Whoever asks those
        of an older set is told of the newer one by them.
        """
        held = self._voter.written(job.spec.id)
        if held is not None:
            return held
        own = self._guarding.holders.own.get(job.spec.id)
        assert job.votes is not None, "written down with the record"
        return Written(standing=job.votes, value=own.body if own else b"")

    def _watch_naming(self, job: Job, chair: Chair, step: Step) -> None:
        live = {attempt.lease: attempt for attempt in job.live_attempts}
        for lease, job_id in list(self.naming.items()):
            # It was given up before anybody was told to start it.
            if job_id == job.spec.id and lease not in live:
                del self.naming[lease]
                chair.ended(lease, step.effects, has_run=False)
        standing = chair.written.standing
        attempt = live.get(standing.lease)
        if attempt is not None and attempt.host == HERE and attempt.state == "running":
            chair.runs(standing.lease, step.effects)

    def _write(self, job: Job, chair: Chair, body: bytes, step: Step) -> None:
        job_id, now_us = job.spec.id, step.now_us
        attempt = self._next(job, chair)
        if attempt is not None:
            self._written[job_id] = body
            if chair.may_adopt(attempt.lease):
                chair.adopt(attempt.host, attempt.lease, body, now_us, step.effects)
            else:
                self.naming[attempt.lease] = job_id
                chair.name(attempt.host or self._me, attempt.lease, body, now_us, step.effects)
        if self._written.get(job_id) != body:
            self._written[job_id] = body
            chair.store(body, now_us, step.effects)

    def _body(self, job: Job, own: Own, chair: Chair, step: Step) -> bytes:
        """What the register should hold: the end only when nothing can begin any more."""
        if job.ending and not chair.is_quiet:
            chair.close(step.now_us, step.effects)
        return self._with_end(job, own, step) if job.ending and chair.is_quiet else own.body

    def _with_end(self, job: Job, own: Own, step: Step) -> bytes:
        """The record with how it ended: nobody is told that before a majority has it."""
        body = self._closing.get(job.spec.id)
        if body is None:
            job.seq += 1
            step.ready.save_jobs[job.spec.id] = job
            body = self._closing[job.spec.id] = encode(closing_record(job, own.record))
        return body

    def _next(self, job: Job, chair: Chair) -> Attempt | None:
        """Which attempt is to be named: none while one that is named may still come to run.

        Two homes may each have found a place; of these the second waits for the end of the first.
        """
        live = job.live_attempts if job.ending is None else []
        if any(attempt.lease == chair.named for attempt in live):
            return None
        came_back = [one for one in live if one.host != HERE and one.state == "running"]
        if came_back and chair.may_adopt(came_back[0].lease):
            return came_back[0]
        return next((one for one in live if self._may_be_named(one)), None)

    def may_revive(self, job: Job, lease: str) -> bool:
        """Whether an attempt that was given up, and is said to run, may go on."""
        chair = self._writer.chair(job.spec.id) if job.spec.at_most_once else None
        return chair is None or lease == chair.named or chair.may_adopt(lease)

    def _may_be_named(self, attempt: Attempt) -> bool:
        """Whether it waits to be let start."""
        if attempt.host == HERE:
            return not attempt.until_boot_us and not self._owner.has(attempt.lease)
        starting = self._asking.starting.get(attempt.lease)
        return starting is not None and starting.standing is None

    def _mend(self, job: Job, chair: Chair, step: Step) -> None:
        """Let others vote for those who are gone, or more while there are too few."""
        job_id, standing = job.spec.id, chair.written.standing
        is_early = step.now_us < self._looked_us.get(job_id, step.now_us)
        if is_early or standing.next or job.has_ended:
            return
        self._looked_us[job_id] = step.now_us + SETS_US
        gone = {member for member in standing.voters if self._is_gone(member, step.now_ms)}
        due = due_set(standing.voters, self._ranked(job), gone, job.spec.voters)
        if due is not None:
            chair.change_set(due, step.now_us, step.effects)

    def _is_gone(self, member: Member, now_ms: int) -> bool:
        """Whether it never votes again, or has been dead for long."""
        voter = self._voter
        if member.node == self._me:
            return member != voter.me
        if voter.stores.get(member.node, member.store) != member.store:
            return True
        return self._guarding.dead_for(member.node, GONE_MS, now_ms)

    # What the register says

    def ruling(self, word: Ruling, step: Step) -> None:
        """This node may write: what the majority knew is known here now."""
        now_ms, ready = step.now_ms, step.ready
        self._asking_us.pop(word.job, None)
        self._written.pop(word.job, None)
        if word.written.value and read(word.written.value) is not None:
            known = Holding(job=word.job, record=word.written.value)
            self._guarding.told(self._me, known, now_ms, ready)
        job = self._coordinator.jobs.get(word.job)
        if job is not None:
            if job.reason.startswith("stuck: "):
                job.reason = ""
                ready.touch(job)
            lease = word.written.standing.lease
            if any(_has_told_its_end(one) for one in job.attempts if one.lease == lease):
                self.ended(word.job, lease, step.effects, has_run=True)
            self._guarding.clear(word.job, now_ms, ready)

    def stored(self, word: Stored, now_ms: int, ready: Ready) -> None:
        """A write is with a majority: who votes, and on what, is put into the record."""
        job, standing = self._coordinator.jobs.get(word.job), word.written.standing
        if job is not None and job.ending and word.written.value == self._closing.get(word.job):
            before, ready.changed = ready.changed, {}
            self._coordinator.close(job, now_ms, ready)
            self.closed += [ready.save_jobs[one] for one in ready.changed]
            ready.changed = before | ready.changed
            self._tell_voters(word, ready)
            self._let_go(word.job)
            return
        if (
            job is None
            or job.has_ended
            or job.votes is None
            or _essence(job.votes) == _essence(standing)
        ):
            return
        job.votes = standing
        ready.touch(job)
        self._guarding.changed(job, now_ms, ready)

    def _tell_voters(self, word: Stored, ready: Ready) -> None:
        """Who voted and holds no copy hears of the end now: before, it was no majority's."""
        own = self._guarding.holders.own.get(word.job)
        held_by = {self._me, *(own.listed if own is not None else ())}
        known = Holding(job=word.job, record=word.written.value)
        for member in members_of(word.written.standing.sets):
            if member.node not in held_by:
                ready.send.append((member.node, known))

    def outdone(self, word: Deposed | Outbid, step: Step) -> None:
        """Another wants the job too, and may have it: one of both is its home, by their records."""
        job = self._coordinator.jobs.get(word.job)
        if isinstance(word, Deposed) and job is not None:
            self._depose(job, step)
        if word.by.node != self._me:
            step.ready.send.append((word.by.node, Inquiry(jobs=(word.job,))))

    def _depose(self, job: Job, step: Step) -> None:
        job_id = job.spec.id
        self._writer.drop(job_id)
        self._again_us[job_id] = step.now_us + AGAIN_US
        self._coordinator.leave(job_id)
        for lease in [one for one, of in self.naming.items() if of == job_id]:
            del self.naming[lease]
        for attempt in job.live_attempts:
            if attempt.host != HERE and self._may_be_named(attempt):  # Named by now, or next.
                self._away.unsaid(attempt, "its voters obey another", step.now_ms, step.ready)
                self._guarding.changed(job, step.now_ms, step.ready)

    def may_start(self, job_id: JobId, standing: Standing, step: Step) -> bool:
        """Nothing older runs. True: it is to run here."""
        lease, job = standing.lease, self._coordinator.jobs.get(job_id)
        attempts = job.live_attempts if job is not None else []
        attempt = next((one for one in attempts if one.lease == lease), None)
        if attempt is None:
            return False  # It was given up: if it never started, the register is told so.
        self.naming.pop(lease, None)
        if attempt.host == HERE:
            return self._owner.may_begin(lease, job_id)
        self._asking.let(lease, standing, step.now_ms, step.ready)
        return False

    # What owners say

    def reported(self, word: Begun | Report | NotTaken, effects: Effects, *, has_run: bool) -> None:
        """An attempt runs, or is over, on its owner's word."""
        chair = self._writer.chair(word.job)
        if chair is None:
            return
        match word:
            case Begun(lease=lease):
                chair.runs(lease, effects)
            case NotTaken(lease=lease):
                self.naming.pop(lease, None)
                chair.ended(lease, effects, has_run=False)
            case Report(lease=lease, ends=ends) if ends and ends[-1].is_last:
                self.naming.pop(lease, None)
                chair.ended(lease, effects, has_run=has_run or ends[-1].how in HAVING_RUN)

    def ended(self, job_id: JobId, lease: str, effects: Effects, *, has_run: bool) -> None:
        """An attempt on this node is over."""
        chair = self._writer.chair(job_id)
        if chair is not None:
            chair.ended(lease, effects, has_run=has_run)

    # People

    def force(self, job_id: JobId, now_us: int) -> Effects:
        """Go on without the voters that are lost."""
        job = self._coordinator.jobs.get(job_id)
        if job is None or job.has_ended or job.votes is None or self.is_cleared(job_id):
            return Effects()
        voters = first_set(self._voter.me, self._ranked(job), job.spec.voters)
        newest = self._newest(job)
        known = max(self._voter.promised(job_id), newest.standing.version.epoch)
        seen = Epoch(known.counter + LEAP, self._me)
        return self._writer.force(job_id, voters, newest, now_us, seen=seen)


def _has_told_its_end(attempt: Attempt) -> bool:
    """Whether its owner said how it ran: what others think of it is called otherwise."""
    return attempt.state == "ended" and attempt.how in HAVING_RUN


def _essence(standing: Standing) -> tuple[object, ...]:
    """What others must know of it; not every write."""
    return members_of(standing.sets), standing.next, standing.attempt, standing.lease
