"""The coordinator's side: jobs that wait here ask for room elsewhere, and start where it is given.

Lives here: whom to ask, grants, Starts until they are answered. Never here: what became of attempts
that run (`away`), who gets what on this node (`kernel.host`).
Invariant: one grant is used at a time for what one attempt needs; a Start is repeated until it is
answered or its node is dead; nobody is left with an entry that is no longer wanted.
"""

from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from distributed_grid.kernel.across import company
from distributed_grid.kernel.across.entries import Asked, worst
from distributed_grid.kernel.across.guests import DRAINED, LENDS_NOTHING, barred
from distributed_grid.kernel.across.hands import begin_elsewhere
from distributed_grid.kernel.across.nearness import Files, is_picky, wished
from distributed_grid.kernel.across.peers import NOBODY, Peer, Peers
from distributed_grid.kernel.across.stock import KINDS_MAX, Kind, Stock, best_but, kind_of, lends
from distributed_grid.kernel.across.travelling import offered, travelling
from distributed_grid.kernel.across.wish import GivenBack, Wish, leases_of
from distributed_grid.kernel.coordinator import Coordinator
from distributed_grid.kernel.elsewhere import Place
from distributed_grid.kernel.jobs import Attempt, Job
from distributed_grid.kernel.obstacles import LEND
from distributed_grid.kernel.placement import Rules, snapshot
from distributed_grid.kernel.placement.decision import reasons
from distributed_grid.kernel.placement.filling import after_placing
from distributed_grid.kernel.ready import Ready
from distributed_grid.kernel.resuming import saved_by
from distributed_grid.model.across import HERE
from distributed_grid.model.ids import JobId, NodeId
from distributed_grid.model.job import NOWHERE, JobSpec
from distributed_grid.model.node import NodeRecord
from distributed_grid.model.priority import RANKS
from distributed_grid.wire.across import Granted, NotGranted, Reserve, Start, Waiting, Withdrawn
from distributed_grid.wire.register import Standing

WAITLISTS: Final = 2  # At a time, the own line included: the second choice is most of the gain.
WAITLISTS_FIRST: Final = 16  # For urgent and high.
HEAD_MAX: Final = 64  # Of those who wait, so many look around at once; the others wait behind them.
REFRESH_MS: Final = 10_000  # An entry elsewhere lives for 30 s unless it is refreshed.
REFUSED_MS: Final = 5_000  # Whoever said no is not asked again before.
LOOK_MS: Final = 1_000  # Whoever stands in as many lines as it may looks for a better one so often,
EXCHANGE_MS: Final = 10_000  # and changes lines at most so often,
LEFT_MS: Final = 30_000  # and does not go back to one that it left.
HEARD_MS: Final = 1_000  # Who comes back tells meanwhile what became of the attempt it had.
CONTENT_MS: Final = 1_000  # Whoever would like one place best goes elsewhere after so long.
START_MS: Final = 500  # A Start that was not answered is said again.
# Of this node: then its own work had better go elsewhere (`shuns`), but it may stay.
_WEAK: Final = ("battery_percent", "temperature_centi")
RULES: Final = Rules()

RulesOf = Callable[[str], Rules]


class Starting(msgspec.Struct):
    """A Start that was not answered yet."""

    host: NodeId
    job: Job
    attempt: Attempt
    said_ms: int
    standing: Standing | None = None  # Of an at-most-once job: not said before there is one.


class Asking:
    """Everything that this node's jobs want of others."""

    def __init__(self, coordinator: Coordinator, *, me: NodeId, rules_of: RulesOf) -> None:
        self._coordinator = coordinator
        self._me = me
        self.rules_of = rules_of  # How nodes are chosen, by the name of a policy.
        self._peers: Peers = NOBODY
        self._own: NodeRecord | None = None
        self._stock = Stock()
        self.files = Files()  # Who has those of this node's jobs.
        self._wishes: tuple[dict[JobId, Wish], ...] = tuple({} for _ in RANKS)
        self.starting: dict[str, Starting] = {}  # By lease.
        self._given_back = GivenBack()
        self._over: list[tuple[NodeId, Withdrawn]] = []
        self._number = 0
        self.shuns: Callable[[JobSpec], bool] = lambda _: False  # Not here, if elsewhere will do.
        self._possible: dict[Kind, bool] = {}  # Whether some node could ever run such a job.
        self._possible_at = 0  # In which state of the others that was so.
        self._is_stale = True  # Something has changed since everyone was last asked.

    def see(self, peers: Peers, own: NodeRecord | None, now_ms: int) -> None:
        """The other nodes, as they are now."""
        self._peers, self._own = peers, own
        self._stock.see(peers, now_ms)
        for line in self._wishes:
            for wish in line.values():
                if wish.asked:  # Only the first of those who wait have asked anybody.
                    wish.asked = {n: one for n, one in wish.asked.items() if lends(peers.get(n))}
        self._is_stale = True

    @property
    def own(self) -> NodeRecord | None:
        """This node, as it tells of itself."""
        return self._own

    def line_up(self, now_ms: int) -> None:
        """Whoever may wait here after all does; who may not any more does not."""
        host = self._coordinator.host
        for line in self._wishes:
            for job_id, wish in line.items():
                is_here = job_id in host.line
                if is_here != (self.waits_here(wish.job.spec) or self._is_content_here(wish)):
                    if is_here:
                        host.leave(job_id)
                    else:
                        host.wait(wish.job, now_ms)

    def may_run_here(self, spec: JobSpec) -> bool:
        """Whether this node is one of those that the job allows, and runs such jobs."""
        if self._coordinator.host.ledger.could_ever(spec.request) is not None:
            return False
        if barred(self._coordinator, spec.id):
            return False
        is_free = (spec.require, spec.avoid, spec.arch, spec.needs) == (NOWHERE, NOWHERE, "", ())
        if is_free and spec.battery_safe:
            return True
        own = self._here(spec)
        if own is None:
            return False  # Not before this node knows what it is itself.
        ample = msgspec.structs.replace(own, free=own.total)
        return all(
            one.kind == "capacity" or one.what in _WEAK
            for one in reasons(spec, self.rules_of(""), ample)
        )

    def _here(self, spec: JobSpec) -> NodeRecord | None:
        """This node, with who runs on it now if that matters to the job."""
        if self._own is None or not company.is_social(spec):
            return self._own
        return company.among(self._own, company.names_here(self._coordinator, spec.id))

    def _meet(self, spec: JobSpec) -> None:
        """This node's jobs run elsewhere before those nodes have told so."""
        if company.is_social(spec):
            for node, names in company.names_elsewhere(self._coordinator, spec.id).items():
                self._stock.meet(node, names)

    def could_run(self, spec: JobSpec) -> bool:
        """Whether some other node could ever run it."""
        spec = spec.lasting
        key = kind_of(spec)
        if self._possible_at != self._stock.seen():
            self._possible, self._possible_at = {}, self._stock.seen()
        known = self._possible.get(key)
        if known is None:
            if len(self._possible) >= KINDS_MAX:
                self._possible = {}
            known = bool(self._stock.ample.best(spec, self.rules_of(spec.policy), 1))
            self._possible[key] = known
        return known

    def drained(self, spec: JobSpec) -> tuple[str, ...]:
        """The names of other nodes that could run it, and are being drained."""
        return self._stock.drained(spec.lasting, self.rules_of(spec.policy))

    def dead(self, spec: JobSpec) -> tuple[str, ...]:
        """The names of other nodes that could run it, and are dead."""
        return self._stock.dead(spec.lasting, self.rules_of(spec.policy))

    def has_room(self, spec: JobSpec, out: set[NodeId] | None = None) -> bool:
        """Whether some other node, but for these, could run it now, as far as known here."""
        self._meet(spec)
        rules = self.rules_of(spec.policy)
        return bool(best_but(self._stock.with_room, spec, rules, 1, out or set()))

    def waits_here(self, spec: JobSpec) -> bool:
        """Whether it waits in the line of this node too."""
        if not self.may_run_here(spec) or (self.shuns(spec) and self.could_run(spec)):
            return False
        return not self._suits_another(spec)

    def _suits_another(self, spec: JobSpec) -> bool:
        """Whether it has wishes about its place, and another node with room answers them better."""
        own, spec = self._here(spec), self.wished(spec)
        if own is None or not is_picky(spec):
            return False
        self._meet(spec)
        rules = self.rules_of(spec.policy)
        wish = self.wish(spec.id)
        refused = set(wish.refused) if wish is not None else set()
        is_content = spec.array is not None or (wish is not None and wish.is_content)
        if not is_content and self._stock.liked(spec, rules, [own], refused) is not None:
            return True  # It rather waits a moment, also for one that seems full.
        best = best_but(self._stock.with_room, spec, rules, 1, refused)
        if not best:
            return False
        free = self._coordinator.host.ledger.free()
        both = (best[0], msgspec.structs.replace(own, free=free))
        return snapshot(both).best(spec, rules, 1) == [best[0]]

    def wished(self, spec: JobSpec) -> JobSpec:
        """What it would like, as this node understands it: words about distance are its home's."""
        if not spec.locality:
            return spec
        job = self._coordinator.jobs.get(spec.id)
        began = {one.host for one in job.attempts if one.started_ms is not None} if job else set()
        return wished(spec, self._own, {*self.files.at(spec), *began} - {HERE})

    # Waiting

    def waits(self, job: Job) -> None:
        """A job lacks nothing but room."""
        line = self._wishes[RANKS[job.spec.priority]]
        if job.spec.id not in line and not job.is_guest:
            line[job.spec.id] = Wish(job, self._given_back)
            self._is_stale = True

    def waits_no_more(self, job: JobId) -> None:
        """Whoever was asked is told so."""
        wish = next((line.pop(job) for line in self._wishes if job in line), None)
        if wish is None:
            return
        for node, asked in wish.asked.items():
            word = Withdrawn(job=job, epoch=wish.job.epoch, number=asked.number)
            self._over.append((node, word))
        self._is_stale = True  # Somebody moves up to the head.

    def wish(self, job: JobId) -> Wish | None:
        """What is known of one that waits."""
        return next((line[job] for line in self._wishes if job in line), None)

    def be_patient(self, job: JobId, until_ms: int) -> None:
        """Ask nobody for it before: an attempt that was given up may have come back."""
        wish = self.wish(job)
        if wish is not None:
            wish.patient_ms = until_ms
            self._is_stale = True

    def slots(self, spec: JobSpec) -> int:
        """How many leases for it the others have room for, as far as known."""
        found = self._stock.with_room(spec, self.rules_of(spec.policy), WAITLISTS_FIRST)
        return sum(one.free.cpu_milli // max(spec.request.cpu_milli, 1) for one in found)

    def obstacles(self, job: JobId) -> tuple[str, ...]:
        """What was said to one that waits, by node."""
        wish = self.wish(job)
        if wish is None:
            return ()
        said = {
            node: "; ".join(self._with_remedy(node, why))
            for node, why in wish.why.items()
            if node in self._peers and self._peers[node].is_alive
        }
        for node, asked in wish.asked.items():
            if asked.position or node not in said:  # Until it answers, what it said before holds.
                said[node] = str(asked)
        return tuple(f"{self._name(node)}: {word}" for node, word in sorted(said.items()))

    def _with_remedy(self, node: NodeId, why: tuple[str, ...]) -> tuple[str, ...]:
        name = self._name(node)
        if DRAINED in why:
            return (*why, f"grid undrain {name}")
        return (*why, f"on {name}: {LEND}") if LENDS_NOTHING in why else why

    def _name(self, node: NodeId) -> str:
        return self._peers[node].name if node in self._peers else node[:8]

    def everyone(self) -> Iterator[Job]:
        """All who look for room, the most important first."""
        return (wish.job for line in self._wishes for wish in line.values())

    def ask(self, now_ms: int, ready: Ready) -> None:
        """The first of those who wait look around, if anything has changed or an entry ages."""
        ready.send += self._over
        self._over = []
        if not self._is_stale or not any(self._wishes) or not self._stock.has_lenders():
            return
        self._is_stale = False
        left = HEAD_MAX
        for rank, line in enumerate(self._wishes):
            for wish in line.values():
                if left == 0:
                    return
                left -= 1
                self._look_around(wish, rank, now_ms, ready)

    def tick(self, now_ms: int, ready: Ready) -> None:
        """What was said is said again."""
        self._is_stale = True
        for lease, starting in self.starting.items():
            if now_ms - starting.said_ms >= START_MS:
                self._say_start(lease, starting, now_ms, ready)

    def _look_around(self, wish: Wish, rank: int, now_ms: int, ready: Ready) -> None:
        spec = self.wished(wish.job.spec)
        wish.since_ms = now_ms if wish.since_ms is None else wish.since_ms
        self._refresh(wish, now_ms, ready)
        if wish.is_cleared_by() or now_ms < wish.patient_ms:
            return
        is_first = rank <= RANKS["high"] or spec.array is not None
        most = WAITLISTS_FIRST if is_first else WAITLISTS
        is_easy = self._is_easy(wish, now_ms)
        if not is_easy:
            most = 1
        elif wish.is_content:
            most += 1  # The place that it liked may still come to it.
        most -= len(wish.asked) + (spec.id in self._coordinator.host.line)
        if most <= 0:
            if spec.array is None:
                self._exchange(wish, now_ms, ready)
            return
        self._meet(spec)
        rules = self.rules_of(spec.policy)
        out = wish.not_now(now_ms)
        found = best_but(self._stock.with_room, spec, rules, most, out)
        if not is_easy and (liked := self._stock.liked(spec, rules, found, out)) is not None:
            self._reserve(wish, liked.id, now_ms, ready)
            return
        for record in found:
            self._reserve(wish, record.id, now_ms, ready)
            self._take_from(record, spec)
        if not wish.asked:  # In a line; of a node without room nothing can be taken.
            for record in best_but(self._stock.ample.best, spec, rules, 1, out):
                self._reserve(wish, record.id, now_ms, ready)

    def _refresh(self, wish: Wish, now_ms: int, ready: Ready) -> None:
        """Stay in the lines in which it stands."""
        for node, asked in wish.asked.items():
            may_clear = asked.position is not None and self._may_clear(wish, node)
            if now_ms - asked.at_ms >= REFRESH_MS or may_clear != asked.may_clear:
                asked.may_clear = may_clear
                self._reserve(wish, node, now_ms, ready)

    def _may_clear(self, wish: Wish, node: NodeId) -> bool:
        """Whether others give way for it there: it stands in no other line, and both are ours."""
        spec = wish.job.spec
        is_only = wish.asked.keys() == {node} and spec.id not in self._coordinator.host.line
        return is_only and spec.array is None and self._peers[node].is_own

    def _is_easy(self, wish: Wish, now_ms: int) -> bool:
        """Whether any line will do: a job with a wish for its place waits a moment for that one."""
        job = wish.job
        if not self._is_choosy(job.spec):
            return True
        since_ms = job.ready_ms if job.ready_ms is not None else now_ms
        wish.is_content |= now_ms - since_ms >= CONTENT_MS
        line = self._coordinator.host.line
        if self._is_content_here(wish) and job.spec.id not in line:
            self._coordinator.host.wait(job, now_ms)
        return wish.is_content

    def _is_choosy(self, spec: JobSpec) -> bool:
        """Whether it has a wish for its place; those of an array may be in many at once."""
        return spec.array is None and is_picky(self.wished(spec))

    def _is_content_here(self, wish: Wish) -> bool:
        """Whether it waits here too, though another node would be better."""
        spec = wish.job.spec
        return wish.is_content and self.may_run_here(spec) and not self.shuns(spec)

    def _exchange(self, wish: Wish, now_ms: int, ready: Ready) -> None:
        """A node has room now, and this job stands in lines elsewhere: leave the worst of them."""
        spec, last = self.wished(wish.job.spec), worst(wish.asked)
        if last is None or now_ms < wish.settled_ms:
            return
        wish.settled_ms = now_ms + LOOK_MS
        self._meet(spec)
        out = wish.not_now(now_ms)
        found = best_but(self._stock.with_room, spec, self.rules_of(spec.policy), 1, out)
        if not found:
            return
        wish.settled_ms = now_ms + EXCHANGE_MS
        wish.refused[last] = now_ms + LEFT_MS
        left = wish.asked.pop(last)
        word = Withdrawn(job=spec.id, epoch=wish.job.epoch, number=left.number)
        ready.send.append((last, word))
        self._reserve(wish, found[0].id, now_ms, ready)
        self._take_from(found[0], spec)

    def _take_from(self, record: NodeRecord, spec: JobSpec) -> None:
        """What was asked for, where there is room, is gone until the node says otherwise."""
        if spec.array is None:
            self._stock.take(after_placing(spec, record))

    def _reserve(self, wish: Wish, node: NodeId, now_ms: int, ready: Ready) -> None:
        job = wish.job
        number = self._next(now_ms)
        asked = wish.asked.setdefault(node, Asked(number, now_ms))
        asked.number, asked.at_ms = number, now_ms
        since_ms = job.ready_ms if job.ready_ms is not None else now_ms
        word = Reserve(
            job=job.spec.id,
            epoch=job.epoch,
            number=number,
            spec=offered(msgspec.structs.replace(job.spec, work=None)),
            waited_ms=max(0, now_ms - since_ms),
            leases=leases_of(job.spec, self._peers[node].record),
            may_clear=asked.may_clear,
        )
        ready.ask.append((node, word))

    def _next(self, now_ms: int) -> int:
        """Also after a restart higher than all before: what is lower is ignored."""
        self._number = max(self._number + 1, now_ms)
        return self._number

    # Answers

    def told(
        self, peer: Peer, word: Granted | Waiting | NotGranted, now_ms: int, ready: Ready
    ) -> None:
        """An owner answers, or offers what nobody asked for."""
        match word:
            case Granted():
                self.granted(peer, word, now_ms, ready)
            case Waiting():
                self.waiting(peer.id, word)
            case _:
                self.not_granted(peer.id, word, now_ms)

    def granted(self, peer: Peer, word: Granted, now_ms: int, ready: Ready) -> None:
        """There is room: the job starts there, if it still wants to."""
        wish = self.wish(word.job)
        if word.lease in self.starting or (wish is not None and wish.has_had(word.lease)):
            return  # Heard twice.
        is_wanted = (
            wish is not None
            and peer.id not in wish.unready(now_ms)
            and self._is_wanted(wish, peer, is_asked=bool(word.number) and peer.id in wish.asked)
        )
        if wish is not None and word.number and not is_wanted:
            wish.asked.pop(peer.id, None)  # It is told so below.
            wish.refused[peer.id] = now_ms + REFUSED_MS
        if wish is None or not is_wanted or word.epoch != wish.job.epoch:
            number = max(word.number, self._next(now_ms))
            refusal = Withdrawn(job=word.job, epoch=word.epoch, number=number)
            ready.send.append((peer.id, refusal))
            return
        if wish.job.spec.array is None:
            wish.asked.pop(peer.id, None)  # Its entry there was used.
        place = Place(
            host=peer.id,
            name=peer.name,
            lease=word.lease,
            cores=word.cores,
            gpus=word.gpus,
            slots=word.slots,
        )
        attempt = begin_elsewhere(self._coordinator, wish.job, place, now_ms, ready)
        starting = Starting(peer.id, wish.job, attempt, now_ms)
        self.starting[word.lease] = starting
        self._say_start(word.lease, starting, now_ms, ready)

    def _is_wanted(self, wish: Wish, peer: Peer, *, is_asked: bool) -> bool:
        """Whether a node that has room is one of those that the job allows."""
        spec = wish.job.spec
        is_awaited = spec.array is None and spec.id in self._coordinator.host.awaited
        if is_awaited or wish.is_cleared_by(peer.id):
            return False  # Others would have given way in vain.
        if is_asked and not company.is_social(spec):
            return True
        if peer.record is None or not peer.may_lend:
            return False
        names = company.names_elsewhere(self._coordinator, spec.id).get(peer.id, set())
        if is_asked:  # It was asked because it fits; who runs there may be others by now.
            return names.isdisjoint(spec.avoid.jobs)
        ample = msgspec.structs.replace(company.among(peer.record, names), free=peer.record.total)
        return not reasons(spec, self.rules_of(spec.policy), ample)

    def waiting(self, peer: NodeId, word: Waiting) -> None:
        """It stands in a line there."""
        wish = self.wish(word.job)
        if wish is not None and peer in wish.asked:
            wish.asked[peer].position, wish.asked[peer].why = word.position, word.why
            wish.asked[peer].is_clearing = word.is_clearing
            if not wish.is_content and self._is_choosy(wish.job.spec):
                wish.is_content = self._is_stale = True  # The place that it liked is full.

    def not_granted(self, peer: NodeId, word: NotGranted, now_ms: int) -> None:
        """Not there."""
        wish = self.wish(word.job)
        if wish is not None and wish.asked.pop(peer, None) is not None:
            wish.refused[peer] = now_ms + REFUSED_MS
            wish.why[peer] = word.reasons
            self._is_stale = True

    def gave_back(self, peer: NodeId, job: JobId, now_ms: int) -> None:
        """It had a lease there, and did not begin: as idle as that node is, it would again."""
        self._given_back.note(job, peer, now_ms + REFUSED_MS, now_ms)

    def answered(self, lease: str) -> Starting | None:
        """A Start was taken or not."""
        return self.starting.pop(lease, None)

    def let(self, lease: str, standing: Standing, now_ms: int, ready: Ready) -> None:
        """Its voters let an attempt start."""
        starting = self.starting.get(lease)
        if starting is not None:
            starting.standing = standing
            self._say_start(lease, starting, now_ms, ready)

    def _say_start(self, lease: str, starting: Starting, now_ms: int, ready: Ready) -> None:
        job, attempt = starting.job, starting.attempt
        if job.spec.at_most_once and starting.standing is None:
            return  # Its voters have not let it start yet.
        starting.said_ms = now_ms
        word = Start(
            job=job.spec.id,
            epoch=job.epoch,
            number=self._next(now_ms),
            lease=lease,
            spec=offered(travelling(job.spec)),
            attempt=attempt.number if job.progress is None else attempt.tries + 1,
            indices=attempt.indices,
            standing=starting.standing,
            saved=saved_by(job),
            holders=job.guardians,
        )
        ready.send.append((starting.host, word))
