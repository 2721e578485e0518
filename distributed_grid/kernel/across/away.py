"""Attempts of this node's jobs that run elsewhere: reports, deaths, and those who come back.

Lives here: what follows when an owner says something, or dies. Never here: finding a place
(`asking`), a job's life (`kernel.coordinator`).
Invariant: an end counts once, however often it is told; of two attempts at one job the older stays,
unless one has succeeded; an end is confirmed when it is saved, never before.
"""

from collections import OrderedDict
from collections.abc import Callable
from typing import Final

import msgspec

from distributed_grid.kernel.across.asking import HEARD_MS, Asking
from distributed_grid.kernel.across.hands import replace, revive
from distributed_grid.kernel.across.peers import NOBODY, Peer, Peers
from distributed_grid.kernel.coordinator import Coordinator
from distributed_grid.kernel.jobs import Attempt, Job
from distributed_grid.kernel.ready import Ready
from distributed_grid.kernel.resuming import begins
from distributed_grid.model.across import Fence
from distributed_grid.model.ids import JobId, NodeId
from distributed_grid.wire.across import (
    Begun,
    Confirmed,
    Halt,
    NotTaken,
    Poll,
    Report,
    Taken,
)
from distributed_grid.wire.keeper import Ended, How, Started, untold_end

POLL_MS: Final = 5_000  # A quiet attempt is asked after: its report may have been lost with a link.
MISSING_MS: Final = 10_000  # After a start: who has not been seen by then is not there.
FAR_MS: Final = 1 << 62
LOST_MAX: Final = 10_000  # Attempts on dead nodes that are remembered, in case they come back.
HALTS_MAX: Final = 10_000  # Attempts that are none of any job any more, and did not say they ended.


IsSafe = Callable[[JobId, Fence, int], bool]


class Away:
    """The attempts of this node's jobs on others."""

    def __init__(self, coordinator: Coordinator, asking: Asking, *, me: NodeId) -> None:
        self._coordinator = coordinator
        self._me = me
        self.peers: Peers = NOBODY
        self._since_ms = FAR_MS  # Since when others are looked at.
        self._asking = asking
        self._polled_ms: dict[str, int] = {}  # By lease, when its owner was last asked.
        self._lost: OrderedDict[str, tuple[NodeId, JobId]] = OrderedDict()  # By lease.
        # By lease: whom to tell that its ends are safe, once the version that has them is.
        self._confirming: dict[str, tuple[NodeId, Confirmed, Fence | None]] = {}
        self._halting: dict[str, tuple[NodeId, Halt, int]] = {}  # Until its end is reported.
        # Told from outside: whether those who vote on a job would let a lost attempt go on.
        self.may_revive: Callable[[Job, str], bool] = lambda _job, _lease: True

    # What owners say

    def taken(self, word: Taken) -> None:
        """It runs there, or will at once."""
        self._asking.answered(word.lease)

    def not_taken(self, peer: NodeId, word: NotTaken, now_ms: int, ready: Ready) -> None:
        """It does not run there: it never did, or nobody there remembers."""
        starting = self._asking.answered(word.lease)
        self._halting.pop(word.lease, None)
        attempt = self._attempt(peer, word.lease)
        if attempt is None:
            self._asking.be_patient(word.job, now_ms)  # It is lost for good: others are asked.
            return
        never = attempt.state == "granted" and starting is not None
        how: How = "stopped" if never else "lost"
        self._end(attempt, how, word.why if never else "its node does not know it", now_ms, ready)

    def unsaid(self, attempt: Attempt, why: str, now_ms: int, ready: Ready) -> None:
        """Its Start is not sent after all: it never was, and the offer there lapses by itself."""
        self._asking.answered(attempt.lease)
        self._end(attempt, "stopped", why, now_ms, ready)

    def begun(self, peer: Peer, word: Begun, now_ms: int, ready: Ready) -> None:
        """A process runs."""
        self._asking.answered(word.lease)
        self._polled_ms[word.lease] = now_ms
        job = self._coordinator.jobs[word.job]
        is_over = word.lease in self._halting  # Told to end: it may not have heard that yet.
        is_over = is_over or not self.may_revive(job, word.lease)
        if self._attempt(peer.id, word.lease) is None and (
            is_over or not self._revive(peer, word.job, word.lease, now_ms, ready)
        ):
            self._send_away(peer.id, word.job, word.lease, ready)
            return
        started = Started(
            number=0, attempt=word.lease, pid=word.pid, at_ms=word.at_ms, resumed=word.resumed
        )
        self._coordinator.started(started, ready, is_away=True)
        self._asking.files.came(job.spec, peer.id)
        attempt = self._attempt(peer.id, word.lease)
        if attempt is not None and bool(attempt.suspended) != bool(word.suspended):
            what, why = (
                ("suspended", f"{word.suspended}, on ") if word.suspended else ("resumed", "on ")
            )
            job.tell(now_ms, what, f"{why}{peer.name}")
            ready.touch(job)
            attempt.suspended = word.suspended

    def reported(self, peer: Peer, word: Report, now_ms: int, ready: Ready) -> None:
        """Something has ended. It is told until this is saved."""
        self._asking.answered(word.lease)
        self._polled_ms[word.lease] = now_ms
        job = self._coordinator.jobs[word.job]  # Of others nobody reports to here (`machine`).
        attempt = self._attempt(peer.id, word.lease)
        if attempt is None and self._is_whole(word):
            if self._counts(job, word.ends[-1]):
                self._revive(peer, word.job, word.lease, now_ms, ready)
                attempt = self._attempt(peer.id, word.lease)
            elif word.lease in self._lost and not job.has_ended:
                said = f"an attempt on {peer.name} that was given up has ended: {_told(word)}"
                job.tell(now_ms, "of no account", said)
        if attempt is not None:
            known = attempt.ended_indices if attempt.indices else 0
            if word.first > known or not _is_of(attempt, word):
                return  # Some are missing; they come again from the first.
            if word.resumed:  # Else its first word, that it begins, was lost or never said.
                begins(job, attempt, word.resumed, now_ms)
            never = attempt.state == "granted" and self._is_whole(word)
            for end in word.ends:
                self._coordinator.ended(_of(end, word.lease), now_ms, ready, is_away=True)
            if never and attempt.how == "stopped":  # Its votes did not come, say.
                self._asking.gave_back(peer.id, word.job, now_ms)
        if word.ends and word.ends[-1].is_last:
            self._halting.pop(word.lease, None)
            self._polled_ms.pop(word.lease, None)
            self._lost.pop(word.lease, None)
            self._asking.be_patient(word.job, now_ms)  # Nothing more will be heard of it.
        ready.touch(job)
        confirmed = Confirmed(job=word.job, lease=word.lease, ends=word.first + len(word.ends))
        self._confirming[word.lease] = (peer.id, confirmed, None)

    def confirm(self, is_safe: IsSafe, now_ms: int, ready: Ready) -> None:
        """Owners may forget what is on this disk and on one more."""
        for lease, (peer, word, version) in list(self._confirming.items()):
            job = self._coordinator.jobs.get(word.job)
            if job is not None and job.ending is not None:
                continue  # Its voters do not know it yet: whoever takes over must be able to ask.
            wanted = version
            if wanted is None:  # The version that this very step writes.
                wanted = Fence(job.epoch, job.seq) if job is not None else Fence()
                self._confirming[lease] = (peer, word, wanted)
            if is_safe(word.job, wanted, now_ms):
                del self._confirming[lease]
                ready.send.append((peer, word))

    # What this node wants

    def halt(self, job: Job, attempt: Attempt, ready: Ready) -> None:
        """End an attempt; said until its end is reported."""
        grace_ms = job.spec.work.grace_ms if job.spec.work else 0
        word = Halt(
            job=job.spec.id,
            epoch=job.epoch,
            lease=attempt.lease,
            grace_ms=grace_ms,
        )
        self._halting[attempt.lease] = (attempt.host, word, 0)
        ready.send.append((attempt.host, word))

    def let_go(self, job: JobId) -> None:
        """It has another home, which decides about its attempts from now on."""
        for lease, starting in list(self._asking.starting.items()):
            if starting.job.spec.id == job:
                self._asking.answered(lease)
        for lease, (_, halt, _) in list(self._halting.items()):
            if halt.job == job:
                del self._halting[lease]
        for lease, (_, confirmed, _) in list(self._confirming.items()):
            if confirmed.job == job:
                del self._confirming[lease]  # Its owner tells the other home.
        for lease, (_, lost) in list(self._lost.items()):
            if lost == job:
                del self._lost[lease]

    # Time and death

    def died(self, peer: Peer, now_ms: int, ready: Ready) -> None:
        """A node is dead in our view: what it ran for us is lost, until it comes back."""
        if peer.id in self.peers and not self._is_gone(peer.id, now_ms):
            return  # It said that it comes back; if it does not, `miss` notices.
        for attempt in self._attempts_on(peer.id):
            self._lose(peer, attempt, now_ms, ready)

    def _lose(self, peer: Peer, attempt: Attempt, now_ms: int, ready: Ready) -> None:
        job_id, _ = self._coordinator.attempts.away[attempt.id]
        self._asking.answered(attempt.lease)
        self._polled_ms.pop(attempt.lease, None)
        self._halting.pop(attempt.lease, None)
        self._remember(attempt.lease, peer.id, job_id)
        self._end(attempt, "lost", f"{peer.name} is dead", now_ms, ready)

    def _remember(self, lease: str, host: NodeId, job_id: JobId) -> None:
        """It may still run, and is asked for when its node comes back."""
        self._lost[lease] = (host, job_id)
        while len(self._lost) > LOST_MAX:
            self._lost.popitem(last=False)

    def see(self, peers: Peers, now_ms: int) -> None:
        """The other nodes, as they are now."""
        self.peers = peers
        self._since_ms = min(self._since_ms, now_ms)

    def _is_gone(self, host: NodeId, now_ms: int) -> bool:
        """Dead in our view; or not seen at all, unless that is because we have just started."""
        peer = self.peers.get(host)
        if host == self._me:
            return False
        if peer is None:
            return now_ms - self._since_ms >= MISSING_MS
        return not peer.is_alive and peer.restarting_until_ms <= now_ms

    def miss(self, now_ms: int, ready: Ready) -> None:
        """Attempts on nodes that are not there: they left, or died while nobody here looked."""
        away = list(self._coordinator.attempts.away.values())
        for _, attempt in away:
            if self._is_gone(attempt.host, now_ms):
                name = attempt.node or attempt.host[:8]
                self._lose(Peer(id=attempt.host, name=name), attempt, now_ms, ready)

    def lose_all(self, now_ms: int, ready: Ready) -> None:
        """There are no other nodes any more."""
        for _, attempt in list(self._coordinator.attempts.away.values()):
            self._lose(Peer(id=attempt.host, name=attempt.node), attempt, now_ms, ready)

    def came_back(self, peer: Peer, now_ms: int, ready: Ready) -> None:
        """It lives: what it ran for us may still run."""
        for lease, (host, job_id) in list(self._lost.items()):
            if host == peer.id:
                self._asking.be_patient(job_id, now_ms + HEARD_MS)
                self.ask_after(host, job_id, lease, now_ms, ready)

    def restored(self, now_ms: int, ready: Ready) -> None:
        """After a start or a takeover: ask after everything that may run elsewhere."""
        for job in self._coordinator.jobs.values():
            for attempt in job.live_attempts:
                if attempt.host:
                    self.ask_after(attempt.host, job.spec.id, attempt.lease, now_ms, ready)

    def tick(self, now_ms: int, ready: Ready) -> None:
        """Ask after those of whom nothing was heard for a while; say again what was not done."""
        self._halt_again(now_ms, ready)
        self.miss(now_ms, ready)
        away = self._coordinator.attempts.away
        if len(self._polled_ms) > len(away):
            self._polled_ms = {lease: at for lease, at in self._polled_ms.items() if lease in away}
        for job_id, attempt in list(away.values()):
            asked_ms = self._polled_ms.setdefault(attempt.lease, now_ms)
            if now_ms - asked_ms >= POLL_MS and attempt.lease not in self._asking.starting:
                self.ask_after(attempt.host, job_id, attempt.lease, now_ms, ready)

    def _halt_again(self, now_ms: int, ready: Ready) -> None:
        """Until they answer, or their node is given up: when that comes back they are asked for."""
        for lease, (host, word, said_ms) in list(self._halting.items()):
            if now_ms - said_ms < POLL_MS:
                continue
            if self._is_gone(host, now_ms):
                del self._halting[lease]
                self._remember(lease, host, word.job)
            else:
                # In the job's present epoch: it may have risen since, and an owner that has heard
                # of that by a Poll obeys no lower one.
                job = self._coordinator.jobs.get(word.job)
                epoch = job.epoch if job is not None else word.epoch
                again = msgspec.structs.replace(word, epoch=epoch)
                self._halting[lease] = (host, again, now_ms)
                ready.send.append((host, again))
        if len(self._halting) > HALTS_MAX:
            away = self._coordinator.attempts.away
            for lease in [one for one in self._halting if one not in away][:-HALTS_MAX]:
                del self._halting[lease]

    # Small things

    def ask_after(self, host: NodeId, job_id: JobId, lease: str, now_ms: int, ready: Ready) -> None:
        """What became of an attempt? Its owner reports to this node from now on."""
        job = self._coordinator.jobs.get(job_id)
        if job is None:
            self._lost.pop(lease, None)
            return
        peer = self.peers.get(host)
        attempt = self._attempt(host, lease)
        if attempt is not None and self._is_gone(host, now_ms):
            self._lose(peer or Peer(id=host, name=host[:8]), attempt, now_ms, ready)
            return
        self._polled_ms[lease] = now_ms
        has_begun = attempt is not None and attempt.state == "running"
        word = Poll(job=job_id, epoch=job.epoch, lease=lease, has_begun=has_begun)
        ready.send.append((host, word))

    def _is_whole(self, word: Report) -> bool:
        """Whether it tells all that became of an attempt."""
        return word.first == 0 and bool(word.ends) and word.ends[-1].is_last

    def _counts(self, job: Job, end: Ended) -> bool:
        """Whether the end of an attempt that was given up counts, however late it comes.

        That it succeeded always does. Any other end is none for an attempt that took its place:
        what it failed of may be what cut it off.
        """
        if end.how == "exited" and end.code == 0:
            return True
        return not job.live_attempts and end.how not in ("lost", "stopped")

    def _revive(self, peer: Peer, job_id: JobId, lease: str, now_ms: int, ready: Ready) -> bool:
        """An attempt that was given up lives: it is older than what replaced it, and stays."""
        job = self._coordinator.jobs[job_id]
        if job.has_ended or job.is_stopping or job.spec.array is not None:
            return False
        if job.ending is not None:
            return False  # Another attempt has decided it.
        if job.spec.gang > 1:
            return False  # The other ranks were stopped for it.
        lost = next(
            (one for one in job.attempts if one.lease == lease and one.host == peer.id), None
        )
        if lost is None or lost.state != "lost":
            return False
        for newer in job.live_attempts:
            if (newer.epoch, newer.number) < (lost.epoch, lost.number):
                return False
        for newer in job.live_attempts:
            replace(self._coordinator, job, newer, now_ms, ready)
        self._lost.pop(lease, None)
        revive(self._coordinator, job, lost, now_ms, ready)
        return True

    def _send_away(self, peer: NodeId, job_id: JobId, lease: str, ready: Ready) -> None:
        """Nobody waits for this attempt: another has taken its place, or the job is over."""
        job = self._coordinator.jobs[job_id]
        word = Halt(job=job_id, epoch=job.epoch, lease=lease, why="twice")
        self._halting[lease] = (peer, word, 0)
        ready.send.append((peer, word))

    def _attempt(self, peer: NodeId, lease: str) -> Attempt | None:
        found = self._coordinator.attempts.away.get(lease)
        return found[1] if found is not None and found[1].host == peer else None

    def _attempts_on(self, host: NodeId) -> list[Attempt]:
        return [
            one for _, one in list(self._coordinator.attempts.away.values()) if one.host == host
        ]

    def _end(self, attempt: Attempt, how: How, note: str, now_ms: int, ready: Ready) -> None:
        began_ms = attempt.started_ms or now_ms
        end = untold_end(attempt.id, how, now_ms, note=note, started_ms=began_ms)
        self._coordinator.ended(end, now_ms, ready, is_away=True)


def _is_of(attempt: Attempt, word: Report) -> bool:
    """Whether it tells only of indices that the attempt was given."""
    return all(end.index in attempt.indices for end in word.ends if end.index >= 0)


def _told(word: Report) -> str:
    """How it ended, in words."""
    end = word.ends[-1]
    return end.note or (f"exit code {end.code}" if end.how == "exited" else end.how)


def _of(end: Ended, lease: str) -> Ended:
    """The same, whatever the owner calls the attempt."""
    return msgspec.structs.replace(end, attempt=lease)
