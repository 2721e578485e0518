"""What the homes of guests are told of them, until they have confirmed it.

Lives here: who is told of each guest, and when. Never here: letting guests in (`hosting`), finding
a home that is gone (`orphans`).
Invariant: an end is told until its home has confirmed it; a guest that runs, and that nobody has
asked after for a while, is told of again: a home that has given it up says so.
"""

from typing import Final

from distributed_grid.kernel.coordinator import Coordinator
from distributed_grid.kernel.jobs import Job
from distributed_grid.kernel.ready import Ready
from distributed_grid.model.across import Epoch
from distributed_grid.model.ids import JobId, NodeId
from distributed_grid.wire.across import REPORTS_MAX, Begun, Confirmed, Report
from distributed_grid.wire.keeper import Stop

AGAIN_MS: Final = 1_000  # A report that was not confirmed is told again.
UNASKED_MS: Final = 15_000  # Homes ask after what they wait for three times as often (`away`).


class Reporting:
    """The guests of one node of whom somebody is still to hear."""

    def __init__(self, coordinator: Coordinator) -> None:
        self._coordinator = coordinator
        self._homes: dict[JobId, NodeId] = {}  # Guest -> who wants to hear of it now.
        self._news: dict[JobId, int] = {}  # Guests with something to tell -> when, at the earliest.
        self._told_ms: dict[JobId, int] = {}  # Guests that run -> when that was last told.

    def guest(self, lease: str) -> Job | None:
        """What runs, or ran, here in a lease for another node."""
        found = self._coordinator.jobs.get(JobId(lease))
        return found if found is not None and found.is_guest else None

    def guests_of(self, job: JobId) -> list[Job]:
        """Those of whom somebody is still to hear, of one job."""
        return [one for one in self.untold() if one.spec.origin and one.spec.origin.job == job]

    def untold(self) -> list[Job]:
        """Those of whom somebody is still to hear: they run, or their end is not confirmed."""
        known = (self.guest(guest_id) for guest_id in self._homes)
        return [one for one in known if one is not None and (one.is_untold or not one.has_ended)]

    def home_of(self, guest: Job) -> NodeId:
        """Who is told of it, or was."""
        assert guest.spec.origin is not None, "a guest"
        return self._homes.get(guest.spec.id, guest.spec.origin.home)

    def is_told(self, peer: NodeId, guest: Job) -> bool:
        """Whether this node is the one that is told of it."""
        return self._homes.get(guest.spec.id) == peer

    def report_to(self, guest: Job, home: NodeId, epoch: Epoch | None = None) -> None:
        """Whoever speaks last of a guest, under the highest word, hears of it."""
        self._homes[guest.spec.id] = home
        if epoch is not None:
            guest.epoch = max(guest.epoch, epoch)

    def reported(self, guest: Job, at_ms: int = 0) -> None:
        """There is something to tell of a guest: it has begun or ended, or is asked after."""
        self._news[guest.spec.id] = at_ms

    def tell_again(self, guest: Job, now_ms: int) -> None:
        """All of it, to a home that may know nothing of it."""
        guest.confirmed = 0
        self.reported(guest, now_ms)

    def tell_first(self, job: JobId, peer: NodeId, now_ms: int, ready: Ready) -> bool:
        """Tell a home that asks for a new attempt of those it has here, should it not know them.

        Whether there are any.
        """
        untold = [one for one in self.guests_of(job) if self.is_told(peer, one)]
        for guest in untold:
            self.reported(guest, now_ms)
            self._tell(guest.spec.id, now_ms, ready)
        return bool(untold)

    def confirmed(self, peer: NodeId, word: Confirmed, ready: Ready) -> None:
        """So many ends are safe at home."""
        guest = self.guest(word.lease)
        if guest is None or not self.is_told(peer, guest):
            return
        if guest.confirmed < word.ends <= len(guest.ends):
            guest.confirmed = word.ends
            ready.save_jobs[guest.spec.id] = guest
        if guest.has_ended and guest.confirmed == len(guest.ends):
            self._forget(guest)

    def give_up(self, guest: Job, now_ms: int, ready: Ready) -> None:
        """Nobody knows its job any more: it ends, and if it has ended it is forgotten."""
        ready.touch(guest)
        if guest.has_ended:
            guest.confirmed = len(guest.ends)
            self._forget(guest)
            return
        guest.is_cancelled = True
        guest.tell(now_ms, "cancel asked", "nobody knows its job any more")
        ready.tell.append(Stop(attempt=guest.attempts[-1].id))

    def tick(self, now_ms: int) -> None:
        """Of what nobody has asked after for a while its home is told again."""
        for guest_id, told_ms in self._told_ms.items():
            if now_ms - told_ms >= UNASKED_MS:
                self._news.setdefault(guest_id, now_ms)

    def tell(self, now_ms: int, ready: Ready) -> None:
        """The latest news."""
        for guest_id, due_ms in list(self._news.items()):
            if due_ms <= now_ms:
                self._tell(guest_id, now_ms, ready)

    def _tell(self, guest_id: JobId, now_ms: int, ready: Ready) -> None:
        del self._news[guest_id]
        self._told_ms.pop(guest_id, None)
        guest = self._coordinator.jobs.get(guest_id)
        origin = guest.spec.origin if guest is not None else None
        if guest is None or origin is None:
            return
        home = self._homes.setdefault(guest_id, self.home_of(guest))
        left = guest.ends[guest.confirmed :][:REPORTS_MAX]
        attempt = guest.attempts[-1]
        if left:
            report = Report(
                job=origin.job,
                lease=attempt.lease,
                first=guest.confirmed,
                ends=tuple(left),
                resumed=attempt.resumed,
            )
            ready.send.append((home, report))
            self._news[guest_id] = now_ms + AGAIN_MS
        elif attempt.state == "running":
            begun = Begun(
                job=origin.job,
                lease=attempt.lease,
                pid=attempt.pid or 0,
                at_ms=attempt.started_ms or now_ms,
                resumed=attempt.resumed,
                suspended=attempt.suspended,
            )
            ready.send.append((home, begun))
            self._told_ms[guest_id] = now_ms

    def _forget(self, guest: Job) -> None:
        for some in (self._news, self._homes, self._told_ms):
            some.pop(guest.spec.id, None)
