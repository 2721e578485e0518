"""The coordinator's side of gangs: all ranks or none, in one attempt, and all begin together.

Lives here: gathering room on several nodes, committing it, `go`, what one rank's end means for the
others. Never here: what owners keep (`holds`), ranks once they run (`away`).
Invariant: `go` is written before any rank is started, and no process runs before every rank is
taken. Of a job one attempt lives at most: the next begins when all ranks of the last are over.

Hold all in parallel, commit all, write `go`, start all, and when all are taken let them run.
Whoever takes over, or starts again, continues if it finds `go`, and else gives everything back.
"""

from collections.abc import Callable
from typing import Final

import msgspec

from distributed_grid.kernel.across.asking import Asking
from distributed_grid.kernel.across.gathering import Gatherer, Gathering
from distributed_grid.kernel.across.travelling import travelling
from distributed_grid.kernel.coordinator import Coordinator
from distributed_grid.kernel.endings import in_words
from distributed_grid.kernel.jobs import Attempt, Job
from distributed_grid.kernel.ready import Ready
from distributed_grid.model.across import Fence, GangGo
from distributed_grid.model.ids import JobId, NodeId
from distributed_grid.wire.across import Start, Taken
from distributed_grid.wire.gangs import (
    CommitHold,
    Committed,
    Go,
    Held,
    NotHeld,
    ReleaseHold,
    Revoked,
)
from distributed_grid.wire.keeper import Ended, untold_end

SOON_MS: Final = 500  # What was not answered is said again: others keep their room for it.

Changed = Callable[[Job, int, Ready], None]
IsSafe = Callable[[JobId, Fence, int], bool]


class Going(msgspec.Struct):
    """A gang whose ranks are attempts: being committed, started, or running."""

    job: Job
    said_ms: int
    meeting: dict[NodeId, tuple[str, int]] = {}  # Who has committed, and where ranks could meet.
    version: Fence | None = None  # The write that has `go`; None: not written yet.
    is_free: bool = False  # That write is on a second disk: they may be started.
    taken: set[str] = set()  # Leases.


class Gangs:
    """The gangs of one node."""

    def __init__(
        self, coordinator: Coordinator, asking: Asking, *, me: NodeId, changed: Changed
    ) -> None:
        self._coordinator = coordinator
        self._changed = changed
        self.gatherer = Gatherer(coordinator, asking, me=me)
        self._going: dict[JobId, Going] = {}

    def gather(self, now_ms: int, ready: Ready) -> None:
        """Those who have all the room they need commit it."""
        for one in self.gatherer.gather(now_ms, ready):
            self._commit(one, now_ms, ready)

    def rank_ended(self, job: Job, attempt: Attempt, report: Ended, ready: Ready) -> Ended | None:
        """A rank is over; what that means for the attempt, once all of them are."""
        live = job.live_attempts
        is_bad = report.how != "exited" or report.code != 0
        if is_bad and job.gang_end is None:
            why = report.note or in_words(report)
            note = f"rank {attempt.rank} on {attempt.node}: {why}"
            job.gang_end = msgspec.structs.replace(report, note=note)
            for other in live:
                self._coordinator.elsewhere.halt(job, other, ready)
        if live:
            return None
        decided = job.gang_end or report
        job.gang_end = job.gang_go = None
        self._going.pop(job.spec.id, None)
        return decided

    # What owners say

    def told(
        self,
        node: NodeId,
        message: Held | NotHeld | Revoked | Committed,
        now_ms: int,
        ready: Ready,
    ) -> None:
        """An owner says something about a gang of this node."""
        match message:
            case Held():
                self.held(node, message, now_ms, ready)
            case NotHeld():
                self.not_held(node, message, now_ms, ready)
            case Revoked():
                self.gatherer.revoked(node, message)
            case _:
                self.committed(node, message, now_ms, ready)

    def held(self, peer: NodeId, word: Held, now_ms: int, ready: Ready) -> None:
        """A node keeps some of what was asked of it."""
        if not self.gatherer.held(peer, word) and word.job not in self._going:
            number = self.gatherer.next_number(now_ms)
            refusal = ReleaseHold(job=word.job, epoch=word.epoch, number=number)
            ready.send.append((peer, refusal))

    def not_held(self, peer: NodeId, word: NotHeld, now_ms: int, ready: Ready) -> None:
        """Not there, or not any more."""
        self.gatherer.not_held(peer, word, now_ms)
        going = self._going.get(word.job)
        if going is not None and going.job.gang_go is None:
            for attempt in going.job.live_attempts:
                if attempt.host == peer:
                    self._end(attempt, "; ".join(word.reasons), now_ms, ready)

    def committed(self, peer: NodeId, word: Committed, now_ms: int, ready: Ready) -> None:
        """A node has its ranks on disk; when all have, they may go."""
        going = self._going.get(word.job)
        if going is None or going.job.gang_go is not None or going.job.gang_end is not None:
            return
        job, live = going.job, going.job.live_attempts
        if (word.epoch, word.attempt) != (job.epoch, _number(live)):
            return
        going.meeting[peer] = (word.address, word.port)
        is_whole = len(live) == job.spec.gang  # Else a rank has ended meanwhile: none goes.
        if not is_whole or not {attempt.host for attempt in live} <= going.meeting.keys():
            return
        ranks = sorted(live, key=lambda attempt: attempt.rank)
        peers = tuple(going.meeting[one.host][0] or one.node for one in ranks)
        port = going.meeting[ranks[0].host][1]
        job.gang_go = GangGo(
            epoch=ranks[0].epoch,
            number=ranks[0].number,
            rendezvous=_meeting(peers[0], port),
            peers=peers,
        )
        job.tell(now_ms, "go", f"attempt {ranks[0].number}, {len(live)} ranks")
        ready.touch(job)
        self._changed(job, now_ms, ready)
        going.version = Fence(job.epoch, job.seq)

    def taken(self, peer: NodeId, word: Taken, now_ms: int, ready: Ready) -> None:
        """A rank has all it needs; when every one has, they run."""
        found = self._coordinator.attempts.find(word.lease, is_away=True)
        going = self._going.get(found[0]) if found is not None else None
        if found is None or going is None or not going.is_free or found[1].host != peer:
            return
        going.taken.add(word.lease)
        self._say(going, now_ms, ready, is_news=True)

    # Time

    def tick(self, now_ms: int, ready: Ready) -> None:
        """What was said is said again; gangs of before a start, or of another home, go on."""
        for job_id, attempt in list(self._coordinator.attempts.away.values()):
            job = self._coordinator.jobs[job_id]
            if job.spec.gang > 1 and job_id not in self._going:
                self._take_up(job, attempt, now_ms, ready)
        for job_id, going in list(self._going.items()):
            is_ours = self._coordinator.jobs.get(job_id) is going.job
            if not is_ours or going.job.has_ended:
                del self._going[job_id]  # Another home decides, or has decided.
            elif now_ms - going.said_ms >= SOON_MS:
                self._say(going, now_ms, ready)

    def free(self, is_safe: IsSafe, now_ms: int, ready: Ready) -> None:
        """Those of whom `go` is on a second disk are started."""
        for going in self._going.values():
            version = None if going.is_free else going.version
            if version is not None and is_safe(going.job.spec.id, version, now_ms):
                going.is_free = True
                self._say(going, now_ms, ready)

    # Going

    def _commit(self, one: Gathering, now_ms: int, ready: Ready) -> None:
        """Every rank has its room: they are one attempt from now on."""
        job = one.job
        job.attempts_made += 1
        job.gang_go = job.gang_end = None
        held = [(node, lease) for node, ask in one.asks.items() for lease in ask.leases]
        names = []
        for rank, (node, lease) in enumerate(held):
            attempt = Attempt(
                number=job.attempts_made,
                lease=lease.lease,
                host=node,
                epoch=job.epoch,
                node=self.gatherer.name_of(node),
                granted_ms=now_ms,
                cores=lease.cores,
                gpus=lease.gpus,
                rank=rank,
            )
            job.attempts.append(attempt)
            self._coordinator.attempts.add(job.spec.id, attempt)
            names.append(attempt.node)
        job.keep_few_attempts()
        told = ", ".join(dict.fromkeys(names))
        job.tell(now_ms, "granted", f"attempt {job.attempts_made}, {len(held)} ranks on {told}")
        self._coordinator.wait_no_more(job.spec.id)
        ready.touch(job)
        self._going[job.spec.id] = going = Going(job, now_ms)
        self._say(going, now_ms, ready)

    def _say(self, going: Going, now_ms: int, ready: Ready, *, is_news: bool = False) -> None:
        """Whatever is to be done next, to those who have not done it."""
        job, live = going.job, going.job.live_attempts
        if job.gang_end is not None or job.is_stopping:
            return  # Those that live are being ended.
        waiting = [attempt for attempt in live if attempt.state == "granted"]
        is_ready = going.taken >= {attempt.lease for attempt in waiting}
        if is_news and not is_ready:
            return
        going.said_ms = now_ms
        if job.gang_go is None:
            self._say_commit(going, live, now_ms, ready)
        elif going.is_free and is_ready:
            for attempt in waiting:
                word = Go(job=job.spec.id, epoch=job.epoch, lease=attempt.lease)
                ready.send.append((attempt.host, word))
        elif going.is_free:
            for attempt in waiting:
                if attempt.lease not in going.taken:
                    self._say_start(job, attempt, now_ms, ready)

    def _say_commit(self, going: Going, live: list[Attempt], now_ms: int, ready: Ready) -> None:
        job = going.job
        for node in dict.fromkeys(attempt.host for attempt in live):
            if node in going.meeting:
                continue
            word = CommitHold(
                job=job.spec.id,
                epoch=job.epoch,
                number=self.gatherer.next_number(now_ms),
                attempt=_number(live),
                world=job.spec.gang,
                ranks=tuple((one.lease, one.rank) for one in live if one.host == node),
            )
            ready.send.append((node, word))

    def _say_start(self, job: Job, attempt: Attempt, now_ms: int, ready: Ready) -> None:
        go = job.gang_go
        assert go is not None, "nothing is started before"
        word = Start(
            job=job.spec.id,
            epoch=job.epoch,
            number=self.gatherer.next_number(now_ms),
            lease=attempt.lease,
            spec=travelling(job.spec),
            attempt=attempt.number,
            rank=attempt.rank,
            ranks=job.spec.gang,
            peers=go.peers,
            rendezvous=go.rendezvous,
            holders=job.guardians,
        )
        ready.send.append((attempt.host, word))

    def _take_up(self, job: Job, attempt: Attempt, now_ms: int, ready: Ready) -> None:
        """Of before a start, or of another home: go on if `go` was written, else give all back."""
        go = job.gang_go
        is_told = go is not None and (go.epoch, go.number) == (attempt.epoch, attempt.number)
        self._going[job.spec.id] = Going(job, now_ms - SOON_MS, is_free=is_told)
        if is_told and job.gang_end is None:
            return
        # Nothing is said to those that are given back, nor is it a success how they end.
        job.gang_end = job.gang_end or _stopped(attempt, "it was given back", now_ms)
        for other in job.live_attempts:
            self._coordinator.elsewhere.halt(job, other, ready)

    def _end(self, attempt: Attempt, why: str, now_ms: int, ready: Ready) -> None:
        self._coordinator.ended(_stopped(attempt, why, now_ms), now_ms, ready, is_away=True)


def _stopped(attempt: Attempt, why: str, now_ms: int) -> Ended:
    return untold_end(attempt.id, "stopped", now_ms, note=why)


def _number(ranks: list[Attempt]) -> int:
    """Of which attempt they are. The job may have heard of a later one, of another home."""
    return ranks[0].number if ranks else 0


def _meeting(address: str, port: int) -> str:
    """As programs read it; empty: no port is known."""
    host = f"[{address}]" if ":" in address else address
    return f"{host}:{port}" if port else ""
