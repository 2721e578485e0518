"""The owner's side of gangs: room is kept for several ranks, committed, and started on a word.

Lives here: what is kept for which gang, who takes it from whom, ranks that wait for their Go. Never
here: the coordinator's side (`gangs`), the order of those who wait (`kernel.waiting`).
Invariant: what is committed is never taken away. Of two gangs that want the same, the better one
(priority, time of submission, job id) takes from the other what is not committed yet, and the
other waits: so the best of all gangs waits for nobody but for work that ends.
"""

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Final

import msgspec

from distributed_grid.kernel.accounts import LIMITS, TOO_MUCH, ByteAccounts
from distributed_grid.kernel.across.guests import guest_spec, obstacles, size_of, with_slot
from distributed_grid.kernel.across.hosting import Hosting
from distributed_grid.kernel.across.peers import Peer
from distributed_grid.kernel.coordinator import Coordinator
from distributed_grid.kernel.entry import Entry
from distributed_grid.kernel.jobs import Job
from distributed_grid.kernel.ledger import Ledger
from distributed_grid.kernel.ready import Ready
from distributed_grid.model.across import Epoch, Origin
from distributed_grid.model.ids import JobId, NodeId
from distributed_grid.model.job import JobSpec
from distributed_grid.model.lease import Lease
from distributed_grid.model.priority import RANKS
from distributed_grid.model.resources import Resources
from distributed_grid.wire.across import Halt, NotTaken, Poll, Start, Taken
from distributed_grid.wire.gangs import (
    CommitHold,
    Committed,
    Go,
    Held,
    HeldLease,
    Hold,
    NotHeld,
    ReleaseHold,
    Revoked,
)
from distributed_grid.wire.keeper import untold_end

KEPT_MS: Final = 10_000  # What nobody refreshes is given back; its home does so each two seconds.
VICTIMS_MAX: Final = 256  # Leases that are given up for one rank.
LOOKED_MAX: Final = 1_024  # Leases that are looked at in one step, for whichever ranks.
ORPHAN_MS: Final = 60_000  # A committed rank of which nobody has spoken for so long never starts.

Order = tuple[int, int, str]  # Class, time of submission, job: the lowest is the best.
FIRST: Final[Order] = (-1, 0, "")  # The owner's own work.


class Kept(msgspec.Struct, kw_only=True):
    """What one gang wants here, and has."""

    home: NodeId
    job: JobId
    epoch: Epoch
    spec: JobSpec  # As a guest of this node.
    may_evict: bool  # Of its own home, or a borrower's.
    want: int
    order: Order
    since_ms: int
    until_ms: int
    leases: list[Lease] = []
    size: int = 0  # As it is accounted.
    told: int = -1  # Of how many leases its home was told last; -1: it asked, and was not answered.

    @property
    def entry(self) -> Entry:
        """As the line sees it; it stands there until it has everything."""
        return Entry(
            submitted_ms=self.since_ms,
            job=_name(self.job, self.home),
            rank=RANKS[self.spec.priority],
            is_shared=self.spec.is_shared,
            may_evict=self.may_evict,
            user=self.spec.user,
            project=self.spec.project,
            request=self.spec.request,
        )


class Holds:
    """What one node keeps for gangs."""

    def __init__(self, coordinator: Coordinator, hosting: Hosting, *, me: NodeId) -> None:
        self._coordinator, self._hosting, self._me = coordinator, hosting, me
        self._host = coordinator.host
        self._kept: dict[JobId, Kept] = {}  # By the name of their entry.
        self._accounts = ByteAccounts(LIMITS["gangs"])
        self.leases: dict[str, JobId] = {}  # Kept and not committed, by lease.
        self._looked = 0  # At so many leases, in this step,
        self._looked_at = FIRST  # and which gang was the last for whom.
        self._heard_ms: dict[str, int] = {}  # By lease of a rank that waits for its Go.
        self.meeting: Callable[[], tuple[str, int]] = lambda: ("", 0)  # An address, a free port.

    # What coordinators say

    def told(
        self, peer: Peer, message: Hold | ReleaseHold | CommitHold | Go, now_ms: int, ready: Ready
    ) -> None:
        """A coordinator says something about a gang."""
        match message:
            case Hold():
                self.hold(peer, message, now_ms, ready)
            case ReleaseHold():
                self.release(peer.id, message, now_ms)
            case CommitHold():
                self.commit(peer, message, now_ms, ready)
            case _:
                self.go(message, ready)

    def is_about(self, peer: Peer, message: Start | Halt | Poll, now_ms: int, ready: Ready) -> bool:
        """Whether it is about a rank that does not run yet; then it is heard here."""
        match message:
            case Start():
                return self.start(peer, message, now_ms, ready)
            case Halt():
                return self.halt(peer.id, message, now_ms, ready)
            case _:
                return self.poll(peer.id, message, now_ms, ready)

    def hold(self, peer: Peer, word: Hold, now_ms: int, ready: Ready) -> None:
        """A gang wants room for some of its ranks."""
        if not self._hosting.obeys(peer.id, word, now_ms):
            return
        spec, name = self._guest(word.spec, peer), _name(word.job, peer.id)
        reasons = obstacles(self._host, spec)
        kept, size = self._kept.get(name), size_of(word.spec)
        more = size - (kept.size if kept is not None else 0)
        if not self._accounts.has_room(peer.id, peer.rank, more):
            reasons = (f"{TOO_MUCH}: as many gangs as may wait here for one node do",)
        if reasons:
            self._forget(name, now_ms)
            ready.send.append((peer.id, _no(word.job, word.epoch, reasons)))
            return
        if kept is None:
            kept = self._kept[name] = Kept(
                home=peer.id,
                job=word.job,
                epoch=word.epoch,
                spec=spec,
                may_evict=spec.is_shared or peer.id == self._me,
                want=word.ranks,
                order=(RANKS[spec.priority], word.since_ms, word.job),
                since_ms=now_ms - word.waited_ms,
                until_ms=0,
            )
        self._accounts.add(peer.id, more)
        kept.size = size
        kept.epoch, kept.want = word.epoch, word.ranks
        kept.until_ms, kept.told = now_ms + KEPT_MS, -1
        for lease in kept.leases[kept.want :]:
            self._give_back(kept, lease, now_ms)
        if len(kept.leases) < kept.want:
            self._host.enter(kept.entry)
        else:
            self._host.leave(name)

    def release(self, peer: NodeId, word: ReleaseHold, now_ms: int) -> None:
        """A gang wants nothing here any more."""
        if self._hosting.obeys(peer, word, now_ms):
            self._forget(_name(word.job, peer), now_ms)

    def commit(self, peer: Peer, word: CommitHold, now_ms: int, ready: Ready) -> None:
        """Keep it for good: from now on these are attempts that wait for their Go."""
        if not self._hosting.obeys(peer.id, word, now_ms):
            return
        if not all(self._waiting_rank(lease) for lease, _ in word.ranks):
            name = _name(word.job, peer.id)
            kept = self._kept.get(name)
            mine = {lease.id: lease for lease in kept.leases} if kept else {}
            is_ours = kept is not None and kept.epoch == word.epoch
            if kept is None or not is_ours or {lease for lease, _ in word.ranks} != mine.keys():
                ready.send.append((peer.id, _no(word.job, word.epoch, ("it is not kept here",))))
                return
            del self._kept[name]
            self._accounts.add(kept.home, -kept.size)
            self._host.leave(name)
            for lease, rank in word.ranks:
                del self.leases[lease]
                self._enter(kept, mine[lease], _origin(peer.id, word, lease, rank), now_ms, ready)
        for lease, _ in word.ranks:
            self._heard_ms[lease] = now_ms
        address, port = self.meeting()
        answer = Committed(
            job=word.job, epoch=word.epoch, attempt=word.attempt, address=address, port=port
        )
        ready.send.append((peer.id, answer))

    def _enter(self, kept: Kept, lease: Lease, origin: Origin, now_ms: int, ready: Ready) -> None:
        spec = msgspec.structs.replace(kept.spec, id=JobId(lease.id), origin=origin)
        guest = Job(spec=spec, submitted_ms=now_ms, epoch=kept.epoch)
        guest.tell(now_ms, "submitted", f"rank {origin.rank} of {origin.ranks}, by {spec.user}")
        coordinator = self._coordinator
        coordinator.jobs[spec.id] = guest
        coordinator.unfinished += 1
        attempt = coordinator.begin(guest, lease, now_ms)
        attempt.is_held, attempt.rank = True, origin.rank
        coordinator.series.open(lease.id, attempt.id, None, now_ms)
        self._hosting.reporting.report_to(guest, origin.home, kept.epoch)
        ready.save_leases.append(lease)
        ready.touch(guest)

    def start(self, peer: Peer, word: Start, now_ms: int, ready: Ready) -> bool:
        """What a rank runs, and with whom; it waits for its Go. False: it is none of those."""
        guest = self._waiting_rank(word.lease)
        if guest is None or word.epoch < guest.epoch:
            return False
        if guest.spec.request != with_slot(word.spec.request):
            why = "it asks for something else than was kept"
            ready.send.append((peer.id, NotTaken(job=word.job, lease=word.lease, why=why)))
            return True
        spec = guest_spec(word.spec, peer, start=word)
        # Whose it is does not change with its home: what it holds is on that account.
        guest.spec = msgspec.structs.replace(
            spec, user=guest.spec.user, is_shared=guest.spec.is_shared
        )
        guest.epoch = word.epoch
        self._hosting.reporting.report_to(guest, peer.id, word.epoch)
        self._heard_ms[word.lease] = now_ms
        ready.touch(guest)
        ready.send.append((peer.id, Taken(job=word.job, lease=word.lease)))
        return True

    def go(self, word: Go, ready: Ready) -> None:
        """All ranks are ready: this one runs."""
        guest = self._waiting_rank(word.lease)
        if guest is None or guest.spec.work is None or word.epoch < guest.epoch:
            return
        attempt = guest.attempts[-1]
        attempt.is_held = False
        self._heard_ms.pop(word.lease, None)
        ready.touch(guest)
        self._coordinator.launch(guest, attempt, self._host.ledger.leases[word.lease])

    def halt(self, peer: NodeId, word: Halt, now_ms: int, ready: Ready) -> bool:
        """A rank is not to run after all. False: it runs, or is none of those."""
        guest = self._waiting_rank(word.lease)
        if guest is None or word.epoch < guest.epoch:
            return False
        self._hosting.reporting.report_to(guest, peer, word.epoch)
        guest.is_cancelled = True
        self._end(word.lease, word.why, now_ms, ready)
        return True

    def poll(self, peer: NodeId, word: Poll, now_ms: int, ready: Ready) -> bool:
        """Somebody asks after a rank that does not run yet. False: it is none of those."""
        if word.lease in self.leases:
            return True  # It is about to be committed, or to be given back.
        guest = self._waiting_rank(word.lease)
        if guest is None or word.epoch < guest.epoch:
            return False
        self._hosting.reporting.report_to(guest, peer, word.epoch)
        if word.has_begun:  # It ran, and the disk is from before: nobody will say Start again.
            self._end(word.lease, "its machine has forgotten that it ran", now_ms, ready)
            return True
        self._heard_ms[word.lease] = now_ms
        if guest.spec.work is not None:
            ready.send.append((peer, Taken(job=word.job, lease=word.lease)))
        return True

    # What this node has

    def is_kept(self, entry: Entry) -> bool:
        """Whether an entry in the line is that of a gang."""
        return entry.job in self._kept

    def asked(self, entry: JobId) -> JobSpec | None:
        """Of a gang of which a rank waits here: what it is."""
        kept = self._kept.get(entry)
        return kept.spec if kept is not None else None

    def granted(self, entry: Entry, lease: Lease, now_ms: int) -> None:
        """Room for one rank more."""
        self._keep(self._kept[entry.job], lease, now_ms)

    def answer(self, now_ms: int, ready: Ready) -> None:
        """After what is free was handed out: the better take from the worse, and all are told."""
        self._looked = 0
        short = [one for one in self._kept.values() if len(one.leases) < one.want]
        # The best first; but if all that a step has was spent on some, the others have their turn.
        short.sort(key=lambda one: (one.order <= self._looked_at, one.order))
        self._looked_at = FIRST
        for kept in short:
            while len(kept.leases) < kept.want and self._wound(kept, now_ms, ready):
                pass
            if self._looked >= LOOKED_MAX:
                self._looked_at = kept.order
                break
        first = self._host.first(now_ms) if self.leases else None
        if first is not None and not first.is_shared and first.job not in self._kept:
            for other, lease in self._victims(first, FIRST, now_ms):
                self._revoke(other, lease, now_ms, ready)
        for kept in self._kept.values():
            if len(kept.leases) != kept.told:
                kept.told = len(kept.leases)
                leases = tuple(_told(lease) for lease in kept.leases)
                ready.send.append((kept.home, Held(job=kept.job, epoch=kept.epoch, leases=leases)))

    def tick(self, now_ms: int, ready: Ready) -> None:
        """What nobody wants any more ends."""
        for name, kept in list(self._kept.items()):
            if kept.until_ms <= now_ms:
                self._forget(name, now_ms)
        for _, attempt in list(self._coordinator.attempts.here.values()):
            if attempt.is_held:
                heard_ms = self._heard_ms.setdefault(attempt.lease, now_ms)
                if now_ms - heard_ms >= ORPHAN_MS:
                    self._end(attempt.lease, "nobody has spoken of it for long", now_ms, ready)

    def turn_away(self, why: str, now_ms: int, ready: Ready) -> None:
        """Nobody gets anything here any more."""
        for name, kept in list(self._kept.items()):
            self._forget(name, now_ms)
            ready.send.append((kept.home, _no(kept.job, kept.epoch, (why,))))

    def forget_home(self, home: NodeId, now_ms: int) -> None:
        """A coordinator is dead: whoever takes over asks anew."""
        for name, kept in list(self._kept.items()):
            if kept.home == home:
                self._forget(name, now_ms)

    # Small things

    def _guest(self, spec: JobSpec, peer: Peer) -> JobSpec:
        """As a guest; on its own home a job is what it was, its owner's or a borrower's."""
        guest = guest_spec(spec, peer)
        if peer.id != self._me:
            return guest
        return msgspec.structs.replace(guest, user=spec.user, is_shared=spec.is_shared)

    def _waiting_rank(self, lease: str) -> Job | None:
        guest = self._coordinator.jobs.get(JobId(lease))
        is_rank = guest is not None and guest.is_guest and not guest.has_ended
        return guest if guest and is_rank and guest.attempts[-1].is_held else None

    def _end(self, lease: str, why: str, now_ms: int, ready: Ready) -> None:
        self._heard_ms.pop(lease, None)
        end = untold_end(lease, "stopped", now_ms, note=why)
        self._coordinator.ended(end, now_ms, ready)

    def _keep(self, kept: Kept, lease: Lease, now_ms: int) -> None:
        kept.leases.append(lease)
        self.leases[lease.id] = kept.job
        spec = msgspec.structs.replace(kept.spec, id=JobId(lease.id))
        self._host.hold(Job(spec=spec, submitted_ms=now_ms), lease.id, now_ms)
        if len(kept.leases) == kept.want:
            self._host.leave(_name(kept.job, kept.home))

    def _wound(self, kept: Kept, now_ms: int, ready: Ready) -> bool:
        """Take room for one rank from gangs that are worse; whether there is one more."""
        victims = self._victims(kept.entry, kept.order, now_ms)
        for other, lease in victims:
            self._revoke(other, lease, now_ms, ready)
        got = self._host.try_reserve(kept.entry, now_ms) if victims else None
        if not isinstance(got, Lease):
            return False
        self._keep(kept, got, now_ms)
        return True

    def _victims(self, entry: Entry, order: Order, now_ms: int) -> list[tuple[Kept, Lease]]:
        """The least that must be taken from worse gangs so that one rank fits; none: in vain."""
        # By the order alone, whosever it is: else two homes could wait for each other.
        worse = [other for other in self._kept.values() if other.leases and other.order > order]
        if not worse:
            return []
        worse.sort(key=lambda one: one.order, reverse=True)
        host, trial = self._host, self._host.ledger.copy()
        borrowed, borrowers = host.borrowed, {*host.borrowers}
        chosen: list[tuple[Kept, Lease]] = []
        for other, lease in islice(_of_each(worse), VICTIMS_MAX):
            chosen.append((other, lease))
            self._looked += 1
            borrowed -= lease.resources if lease.id in borrowers else Resources()
            trial.release(lease.id)
            if self._would_fit(entry, trial, borrowed, now_ms):
                return chosen
        return []

    def _would_fit(self, entry: Entry, trial: Ledger, borrowed: Resources, now_ms: int) -> bool:
        among = None
        if entry.is_shared:
            lending = self._host.lending
            admission = lending.admits(entry.request, trial.free(), borrowed, now_ms)
            if admission.reasons:
                return False
            among = admission.devices
        got = trial.reserve("on trial", entry.job, "", entry.request, now_ms, among=among)
        return isinstance(got, Lease)

    def _revoke(self, kept: Kept, lease: Lease, now_ms: int, ready: Ready) -> None:
        self._give_back(kept, lease, now_ms)
        if kept.told == kept.want:
            kept.told = len(kept.leases)
            ready.send.append((kept.home, Revoked(job=kept.job, epoch=kept.epoch)))
        self._host.enter(kept.entry)

    def _give_back(self, kept: Kept, lease: Lease, now_ms: int) -> None:
        kept.leases.remove(lease)
        del self.leases[lease.id]
        self._host.release(lease.id, now_ms)

    def _forget(self, name: JobId, now_ms: int) -> None:
        kept = self._kept.pop(name, None)
        if kept is not None:
            self._accounts.add(kept.home, -kept.size)
            self._host.leave(name)
            for lease in list(kept.leases):
                self._give_back(kept, lease, now_ms)

    def check(self) -> None:
        """Re-derive what must be true."""
        self._accounts.check((kept.home, kept.size) for kept in self._kept.values())
        line = set(self._host.line)
        held = {lease.id for kept in self._kept.values() for lease in kept.leases}
        assert held == self.leases.keys(), "a lease that is kept for nobody"
        for name, kept in self._kept.items():
            assert len(kept.leases) <= kept.want, "more is kept than was wanted"
            is_short = len(kept.leases) < kept.want
            assert is_short == (name in line), "a gang that is short does not wait, or reverse"
        strangers = {name for name in line if name.startswith(_PREFIX)} - self._kept.keys()
        assert not strangers, "an entry in the line for no gang"


_PREFIX: Final = "^"  # No id begins with it, nor does an entry of another kind.


def _name(job: JobId, home: NodeId) -> JobId:
    return JobId(f"{_PREFIX}{job}{_PREFIX}{home}")


def _of_each(some: list[Kept]) -> Iterator[tuple[Kept, Lease]]:
    """What is kept for them, the last first."""
    return ((kept, lease) for kept in some for lease in reversed(kept.leases))


def _no(job: JobId, epoch: Epoch, reasons: tuple[str, ...]) -> NotHeld:
    return NotHeld(job=job, epoch=epoch, reasons=reasons)


def _told(lease: Lease) -> HeldLease:
    gpus = tuple(gpu.device for gpu in lease.resources.gpus)
    return HeldLease(lease.id, tuple(core for core, _ in lease.cores), gpus)


def _origin(home: NodeId, word: CommitHold, lease: str, rank: int) -> Origin:
    return Origin(
        home=home,
        job=word.job,
        epoch=word.epoch,
        attempt=lease,
        number=word.attempt,
        rank=rank,
        ranks=word.world,
    )
