"""The owner's side: others' jobs wait here, are granted leases, and run as guests.

Lives here: waitlist entries, grants that wait for their Start, halts. Never here: what homes are
told (`reporting`), who gets what is free (`kernel.host`), processes (`edges.runner`).
Invariant: a lease is started in at most once, within its time, by the coordinator with the
highest epoch that was seen of the job.
"""

from typing import Final

import msgspec

from distributed_grid.kernel.accounts import LIMITS, TOO_MUCH, ByteAccounts
from distributed_grid.kernel.across.company import is_social, names_here, unfit
from distributed_grid.kernel.across.guests import (
    PREFIX,
    entry_name,
    entry_of,
    guest_spec,
    obstacles,
    size_of,
    too_much,
    with_slot,
)
from distributed_grid.kernel.across.hands import take_guest
from distributed_grid.kernel.across.peers import Peer
from distributed_grid.kernel.across.reporting import Reporting
from distributed_grid.kernel.coordinator import Coordinator
from distributed_grid.kernel.entry import Entry
from distributed_grid.kernel.jobs import Job
from distributed_grid.kernel.ledger import RESERVATION_TTL_MS
from distributed_grid.kernel.obstacles import obstacle, survey_of
from distributed_grid.kernel.offers import Survey
from distributed_grid.kernel.ready import Ready
from distributed_grid.model.across import Epoch
from distributed_grid.model.ids import JobId, NodeId
from distributed_grid.model.job import JobSpec
from distributed_grid.model.lease import Lease
from distributed_grid.wire.across import (
    Granted,
    Halt,
    NotGranted,
    NotTaken,
    Poll,
    Reserve,
    Start,
    Taken,
    Waiting,
    Withdrawn,
)
from distributed_grid.wire.gangs import CommitHold, Hold, ReleaseHold
from distributed_grid.wire.keeper import Stop

ENTRY_MS: Final = 30_000  # An entry that nobody refreshes is forgotten.
REMEMBERED_MS: Final = 60_000  # The highest epoch and number of a job, after the last word on it.
SEEN_MAX: Final = 10_000  # Jobs of one node whose last word is remembered.
# For a Start that is voted on first: a lease of 10.2 s may have to end, some writes come before.
VOTED_MS: Final = 20_000
POSITIONS_MAX: Final = 64  # In a longer line nobody counts: whoever asks is told its length.


Numbered = Reserve | Withdrawn | Start | Hold | ReleaseHold | CommitHold


class Wait(msgspec.Struct, kw_only=True):
    """One who waits here for another node."""

    home: NodeId
    job: JobId
    epoch: Epoch
    number: int
    spec: JobSpec
    asked: JobSpec  # As its coordinator wrote it: what it wants of any other node.
    leases: int
    until_ms: int
    may_evict: bool = False
    size: int = 0  # As it is accounted.


class Offer(msgspec.Struct, kw_only=True):
    """A lease that waits for its Start."""

    home: NodeId
    job: JobId
    epoch: Epoch
    number: int
    guest: Job  # Without its work.
    lease: Lease
    until_ms: int


class Seen(msgspec.Struct, kw_only=True):
    """The highest word of one node on a job."""

    epoch: Epoch
    number: int
    at_ms: int


class Hosting:
    """The guests of one node, and those who want to be."""

    def __init__(self, coordinator: Coordinator) -> None:
        self._coordinator = coordinator
        self._host = coordinator.host
        self._waits: dict[JobId, Wait] = {}  # By the name of their entry.
        self._accounts = ByteAccounts(LIMITS["entries"])
        self._unanswered: dict[JobId, None] = {}  # Of them: who asked, and was told nothing yet.
        self._clearing: set[JobId] = set()  # For whom others give way, and whose home knows it.
        self.is_disk_full = False  # Told from outside: nothing can be written down.
        self.offered: dict[str, Offer] = {}  # By lease.
        self._seen: dict[NodeId, dict[JobId, Seen]] = {}  # Nobody outbids another by a number.
        self.reporting = Reporting(coordinator)

    # What coordinators say

    def reserve(self, peer: Peer, asked: Reserve, now_ms: int, ready: Ready) -> None:
        """Somebody wants room here."""
        if not self.obeys(peer.id, asked, now_ms):
            return
        name = entry_name(asked.job, peer.id)
        spec = guest_spec(asked.spec, peer)
        reasons = obstacles(self._host, spec) or self._unwritable()
        if is_social(asked.spec):
            reasons = reasons or unfit(asked.spec, names_here(self._coordinator, asked.job))
        before, size = self._waits.get(name), size_of(asked.spec)
        more = size - (before.size if before is not None else 0)
        if not self._accounts.has_room(peer.id, peer.rank, more):
            reasons = (f"{TOO_MUCH}: as many as may wait here for one node do",)
        if reasons:
            self._forget_wait(name)
            refusal = NotGranted(
                job=asked.job, epoch=asked.epoch, number=asked.number, reasons=reasons
            )
            ready.ask.append((peer.id, refusal))
            return
        entry = entry_of(name, spec, now_ms - asked.waited_ms, may_clear=asked.may_clear)
        is_other = before is not None and before.may_evict != entry.may_evict
        if is_other and name not in self._host.awaited:
            self._host.leave(name)  # To come back with other rights.
        self._accounts.add(peer.id, more)
        self._waits[name] = Wait(
            home=peer.id, job=asked.job, epoch=asked.epoch, number=asked.number, spec=spec,
            asked=asked.spec, leases=asked.leases, until_ms=now_ms + ENTRY_MS,
            may_evict=entry.may_evict, size=size,
        )  # fmt: skip
        self._has_news(self._waits[name], now_ms, ready)
        self._unanswered[name] = None
        self._host.enter(entry)

    def _unwritable(self) -> tuple[str, ...]:
        """Why nothing can begin here: what begins is written down first."""
        return ("the disk is full",) if self.is_disk_full else ()

    def withdrawn(self, peer: NodeId, word: Withdrawn, now_ms: int) -> None:
        """The coordinator wants nothing more."""
        if not self.obeys(peer, word, now_ms):
            return
        self._forget_wait(entry_name(word.job, peer))
        for lease, offer in list(self.offered.items()):
            if (offer.job, offer.home) == (word.job, peer) and offer.number <= word.number:
                self._take_back(lease, now_ms)

    def start(self, peer: Peer, word: Start, now_ms: int, ready: Ready) -> None:
        """Run an attempt in a lease that was granted."""
        running = self._coordinator.jobs.get(JobId(word.lease))
        if running is not None and running.is_guest:  # Said again: the answer was lost.
            if not self._is_old(peer.id, word):
                self.reporting.report_to(running, peer.id)
                ready.send.append((peer.id, Taken(job=word.job, lease=word.lease)))
            return
        offer = self.offered.get(word.lease)
        is_obeyed = self.obeys(peer.id, word, now_ms)
        is_as_granted = offer is None or offer.guest.spec.request == with_slot(word.spec.request)
        # Maybe packed only after it was granted; and the disk may be full only since then.
        unable = too_much(self._host, word.spec) or self._unwritable()
        if unable or offer is None or offer.home != peer.id or not is_obeyed or not is_as_granted:
            why = "a higher epoch was seen" if offer is not None else "no such lease, or it is over"
            why = why if is_as_granted else "it asks for something else than was granted"
            why = unable[0] if unable else why
            if offer is not None and offer.home == peer.id:
                # Else the same Start, said again, could use it.
                self._take_back(word.lease, now_ms)
            ready.send.append((peer.id, NotTaken(job=word.job, lease=word.lease, why=why)))
            return
        del self.offered[word.lease]
        job = offer.guest
        spec = guest_spec(word.spec, peer, start=word)
        # Its home may be known by its name only now: what it holds stays on the account of before.
        job.spec = msgspec.structs.replace(spec, user=job.spec.user, is_shared=job.spec.is_shared)
        job.epoch = word.epoch
        self.reporting.report_to(job, peer.id)
        take_guest(self._coordinator, job, offer.lease, now_ms, ready)
        ready.send.append((peer.id, Taken(job=word.job, lease=word.lease)))

    def halt(self, peer: NodeId, word: Halt, now_ms: int, ready: Ready) -> None:
        """End an attempt, unless a higher word stands."""
        if self._is_old(peer, word):
            return
        guest = self.reporting.guest(word.lease)
        if guest is None:
            self._deny(peer, word, now_ms, ready)
            return
        self.reporting.report_to(guest, peer)
        if guest.has_ended:
            self.reporting.tell_again(guest, now_ms)  # Whoever halts it has not heard of its end.
        elif not guest.is_cancelled:
            guest.is_cancelled = True
            guest.tell(now_ms, "cancel asked", word.why)
            ready.touch(guest)
            ready.tell.append(Stop(attempt=word.lease, grace_ms=word.grace_ms))

    def poll(self, peer: NodeId, word: Poll, now_ms: int, ready: Ready) -> None:
        """A coordinator asks what became of an attempt; it is told from now on."""
        if self._is_old(peer, word):
            return
        self._heard(peer, word.job, word.epoch, 0, now_ms)
        guest = self.reporting.guest(word.lease)
        if guest is None:
            self._deny(peer, word, now_ms, ready)
            return
        is_known = self.reporting.is_told(peer, guest) and guest.epoch >= word.epoch
        self.reporting.reported(guest, now_ms)
        if not is_known or guest.confirmed:
            self.reporting.report_to(guest, peer, word.epoch)
            guest.confirmed = 0  # It may know nothing of what its predecessor knew.
            ready.touch(guest)
        if not is_known or (guest.attempts[-1].state == "granted" and not guest.ends):
            ready.send.append((peer, Taken(job=word.job, lease=word.lease)))

    def _deny(self, peer: NodeId, word: Halt | Poll, now_ms: int, ready: Ready) -> None:
        """There is no such guest; but what runs here under this name may be this node's own.

        Then the job has another home by now, and this one has not heard of it. It will: until then
        it says nothing, as "unknown" would mean that nothing runs. So with what is just being
        stopped, because nobody here knows it.
        """
        attempts = self._coordinator.attempts
        if word.lease in attempts.here or word.lease in attempts.strays:
            return
        offer = self.offered.get(word.lease)
        if offer is not None and offer.home != peer:
            return  # Nothing is lost by waiting: it is over in a few seconds.
        if offer is not None:
            self._take_back(word.lease, now_ms)  # Else a late Start could still use it.
        ready.send.append((peer, NotTaken(job=word.job, lease=word.lease, why="unknown here")))

    # What the coordinator of this node wants

    def is_wait(self, entry: Entry) -> bool:
        """Whether an entry in the line is that of another node."""
        return entry.job in self._waits

    def asked(self, entry: JobId) -> JobSpec | None:
        """Of another node's job that waits here: what it is."""
        waits = self._waits.get(entry)
        return waits.spec if waits is not None else None

    def granted(self, entry: Entry, lease: Lease, now_ms: int, ready: Ready) -> None:
        """Room for one who waits here: its coordinator has a few seconds to use it."""
        waits = self._waits[entry.job]
        self.offer(waits, lease, now_ms, ready)
        if waits.asked.array is None:  # An array stays in the line until it has handed out all.
            waits.leases -= 1
        self._unanswered.pop(entry.job, None)
        if waits.leases <= 0:
            self._forget_wait(entry.job)

    def offer(self, waits: Wait, lease: Lease, now_ms: int, ready: Ready) -> None:
        """A lease for another node's job, whether it was asked for or not."""
        guest = Job(
            spec=msgspec.structs.replace(waits.spec, id=JobId(lease.id)), submitted_ms=now_ms
        )
        guest.tell(now_ms, "submitted", f"by {waits.spec.user}")
        self.offered[lease.id] = Offer(
            home=waits.home,
            job=waits.job,
            epoch=waits.epoch,
            number=waits.number,
            guest=guest,
            lease=lease,
            until_ms=now_ms + (VOTED_MS if waits.asked.at_most_once else RESERVATION_TTL_MS),
        )
        self._host.hold(guest, lease.id, now_ms)
        word = Granted(
            job=waits.job,
            epoch=waits.epoch,
            number=waits.number,
            lease=lease.id,
            cores=tuple(core for core, _ in lease.cores),
            gpus=tuple(gpu.device for gpu in lease.resources.gpus),
            slots=self._slots(waits.spec),
        )
        # At once: an offer is not written down, and whoever comes with a forgotten one is told so.
        line = ready.send if self._has_news(waits, now_ms, ready) else ready.ask
        line.append((waits.home, word))

    def _has_news(self, waits: Wait, now_ms: int, ready: Ready) -> bool:
        """Whether an attempt is here that its home may think is lost: then it hears of that first.

        Of an array it has many at a time, and a gang begins as a whole.
        """
        is_single = waits.asked.array is None and waits.asked.gang == 1
        return is_single and self.reporting.tell_first(waits.job, waits.home, now_ms, ready)

    # Time

    def answer(self, now_ms: int, ready: Ready) -> None:
        """After what is free was handed out: positions for those who asked, and the latest news."""
        clearing = self._host.awaited & self._waits.keys()
        turned = (clearing ^ self._clearing) & self._waits.keys()
        unanswered, self._clearing = self._unanswered | dict.fromkeys(turned), clearing
        self._unanswered = {}
        survey = survey_of(self._host, now_ms) if unanswered else Survey()
        for name in unanswered:
            waits = self._waits[name]
            place = self._position(name, now_ms)
            word = Waiting(
                job=waits.job,
                epoch=waits.epoch,
                number=waits.number,
                position=place,
                why=self._why(name, survey, now_ms, is_first=place == 1),
                is_clearing=name in clearing,
            )
            ready.ask.append((waits.home, word))
        self.reporting.tell(now_ms, ready)

    def tick(self, now_ms: int) -> None:
        """What nobody wants any more ends."""
        self.reporting.tick(now_ms)
        for name, waits in list(self._waits.items()):
            if waits.until_ms <= now_ms:
                self._forget_wait(name)
        for lease, offer in list(self.offered.items()):
            if offer.until_ms <= now_ms:
                self._take_back(lease, now_ms)
        for node, jobs in list(self._seen.items()):
            for job, seen in list(jobs.items()):
                if seen.at_ms + REMEMBERED_MS > now_ms:
                    break  # In the order in which they were heard last.
                del jobs[job]
            if not jobs:
                del self._seen[node]

    def forget_home(self, home: NodeId, now_ms: int) -> None:
        """A coordinator is dead: whoever takes over asks anew."""
        for name, waits in list(self._waits.items()):
            if waits.home == home:
                self._forget_wait(name)
        for lease, offer in list(self.offered.items()):
            if offer.home == home:
                self._take_back(lease, now_ms)

    def turn_away(self, why: str, now_ms: int, ready: Ready) -> None:
        """Nobody gets anything here any more: those who wait look elsewhere at once."""
        for name, waits in list(self._waits.items()):
            self._forget_wait(name)
            word = NotGranted(
                job=waits.job,
                epoch=waits.epoch,
                number=waits.number,
                reasons=(why,),
            )
            ready.send.append((waits.home, word))
        for lease in list(self.offered):
            self._take_back(lease, now_ms)

    def waiting(self) -> list[tuple[NodeId, JobId, Epoch, JobSpec]]:
        """Those of others who wait here, for whoever has room."""
        return [(waits.home, waits.job, waits.epoch, waits.asked) for waits in self._waits.values()]

    # Small things

    def _is_old(self, peer: NodeId, word: Start | Halt | Poll) -> bool:
        """Whether a higher epoch was heard: from this node, or of this attempt."""
        seen, guest = self._seen.get(peer, {}).get(word.job), self.reporting.guest(word.lease)
        heard = (seen.epoch if seen else Epoch(), guest.epoch if guest else Epoch())
        return word.epoch < max(heard)

    def obeys(self, peer: NodeId, word: Numbered, now_ms: int) -> bool:
        """Whether this node said nothing higher on this job; this counts from now on."""
        return self._heard(peer, word.job, word.epoch, word.number, now_ms)

    def _heard(self, peer: NodeId, job: JobId, epoch: Epoch, number: int, now_ms: int) -> bool:
        jobs = self._seen.setdefault(peer, {})
        seen = jobs.get(job)
        if seen is not None and (epoch, number) < (seen.epoch, seen.number):
            return False
        jobs.pop(job, None)
        jobs[job] = Seen(epoch=epoch, number=number, at_ms=now_ms)
        if len(jobs) > SEEN_MAX:
            del jobs[next(iter(jobs))]
        return True

    def _forget_wait(self, name: JobId) -> None:
        self._unanswered.pop(name, None)
        if (gone := self._waits.pop(name, None)) is not None:
            self._accounts.add(gone.home, -gone.size)
            self._host.leave(name)

    def _take_back(self, lease: str, now_ms: int) -> None:
        del self.offered[lease]
        self._host.release(lease, now_ms)

    def _position(self, name: JobId, now_ms: int) -> int:
        line = self._host.line
        if len(line) > POSITIONS_MAX:
            return len(line)
        return line.position(name, now_ms, self._host.accounts) or 1

    def _why(self, name: JobId, survey: Survey, now_ms: int, *, is_first: bool) -> str:
        """What one waits for; behind others that is their turn, unless nobody is lent anything."""
        entry = entry_of(name, self._waits[name].spec, now_ms)
        found = obstacle(self._host, entry, now_ms, survey)
        if found.command:
            return f"{found.waits}; on {self._coordinator.node}: {found.command}"
        return found.waits if is_first else "others ahead of it"

    def _slots(self, spec: JobSpec) -> int:
        total = self._host.ledger.total
        return max(1, total.cpu_milli // max(spec.request.cpu_milli, 1))

    def check(self) -> None:
        """Re-derive what must be true."""
        line = set(self._host.line)
        assert set(self._waits) <= line, "somebody waits who is not in the line"
        strangers = {name for name in line if name.startswith(PREFIX)} - set(self._waits)
        assert not strangers, "an entry in the line for nobody"
        self._accounts.check((waits.home, waits.size) for waits in self._waits.values())
        assert set(self.offered) <= set(self._host.ledger.leases), "an offer without a lease"
