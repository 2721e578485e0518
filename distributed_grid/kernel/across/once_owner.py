"""What runs on this node of jobs that never run twice at once, and what waits for its votes.

Lives here: attempts that are held back, let run, given up. Never here: leases and their renewal
(`register_lease`), whether an attempt may start at all (`once_home`, on its home).
Invariant: the keeper is told of such an attempt only with the deadline of a lease; one that waits
for votes which nobody asks for any more ends.
"""

from collections.abc import Container, Mapping

from distributed_grid.kernel.across.register_effects import MayRun
from distributed_grid.kernel.coordinator import Coordinator
from distributed_grid.kernel.jobs import Attempt
from distributed_grid.kernel.ready import Ready
from distributed_grid.model.ids import JobId
from distributed_grid.wire.keeper import Deadline, untold_end


class OnceOwner:
    """The at-most-once attempts of one node, its own jobs' and its guests'."""

    def __init__(self, coordinator: Coordinator) -> None:
        self._coordinator = coordinator
        self._awaiting: dict[str, None] = {}  # Attempts that the keeper was not told of.
        self._fresh: set[str] = set()  # Of these: since this step. It is named at its end.
        self._leased: dict[str, tuple[JobId, bool]] = {}  # With a lease, asked for or had.

    @property
    def is_busy(self) -> bool:
        """Whether anything of that kind is here."""
        return bool(self._awaiting or self._leased)

    def met(self, deadlines: Mapping[str, int]) -> None:
        """After a start: what the keeper runs under a lease, and what it was never told of."""
        for lease, (job_id, attempt) in self._coordinator.attempts.here.items():
            if attempt.awaits_votes:
                self._awaiting[lease] = None
            elif lease in deadlines:
                origin = self._coordinator.jobs[job_id].spec.origin
                self._leased[lease] = (origin.job if origin else job_id, True)

    def hold(self, attempt: Attempt) -> None:
        """It waits for its votes."""
        attempt.awaits_votes = True
        self._awaiting[attempt.id] = None
        self._fresh.add(attempt.id)

    def has(self, lease: str) -> bool:
        """Whether a lease is asked for, or had."""
        return lease in self._leased

    def may_begin(self, lease: str, job: JobId) -> bool:
        """Whether a lease may be asked for: there is something that it is for."""
        is_here = lease in self._coordinator.attempts.here
        if is_here:
            self._leased.setdefault(lease, (job, False))
        return is_here

    def may_run(self, word: MayRun, ready: Ready) -> bool:
        """A majority has renewed its lease; False: nobody wants it any more."""
        found = self._coordinator.attempts.here.get(word.lease)
        if found is None:
            return False
        job, attempt = self._coordinator.jobs[found[0]], found[1]
        self._leased[word.lease] = (word.job, True)
        attempt.until_boot_us, attempt.fence = word.until_boot_us, word.fence
        ready.touch(job)
        if attempt.awaits_votes:
            attempt.awaits_votes = False
            self._awaiting.pop(word.lease, None)
            lease = self._coordinator.host.ledger.leases[word.lease]
            self._coordinator.launch(job, attempt, lease)
        else:  # It runs since before there were others.
            ready.tell.append(Deadline(attempt=word.lease, until_boot_us=word.until_boot_us))
        return True

    def sweep(self, named: Container[str], now_ms: int, ready: Ready) -> None:
        """What waits for votes is looked after: it is asked for, and still wanted; or it ends."""
        for lease in list(self._awaiting):
            found = self._coordinator.attempts.here.get(lease)
            if found is None:
                del self._awaiting[lease]
                continue
            job = self._coordinator.jobs[found[0]]
            is_wanted = not (job.is_stopping or job.has_ended)
            is_wanted = is_wanted and lease not in self._coordinator.replaced
            if not is_wanted:
                self.give_up(lease, "it is not wanted any more", now_ms, ready)
            elif not (lease in self._leased or lease in named or lease in self._fresh):
                self.give_up(lease, "nobody asks for its votes any more", now_ms, ready)
        self._fresh.clear()

    def give_up(self, lease: str, why: str, now_ms: int, ready: Ready) -> None:
        """It has not started, and never will."""
        found = self._coordinator.attempts.here.get(lease)
        if found is None or not found[1].awaits_votes:
            return
        found[1].awaits_votes = False
        self._awaiting.pop(lease, None)
        end = untold_end(lease, "stopped", now_ms, note=why)
        self._coordinator.ended(end, now_ms, ready)

    def over(self) -> list[tuple[JobId, str, bool]]:
        """Those that live no more: job, lease, and whether it was let run. Told once."""
        gone = [one for one in self._leased if one not in self._coordinator.attempts.here]
        found = [(lease, *self._leased.pop(lease)) for lease in gone]
        return [(job, lease, has_run) for lease, job, has_run in found]
