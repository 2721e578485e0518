"""The at-most-once jobs that a node coordinates, or wants to.

Lives here: which of them it asks for and which it has won. Never here: the rules of either
(`register_candidate`, `register_chair`).
Invariant: a job has one candidate or one chair here, never both; after a start, neither.
"""

import msgspec

from distributed_grid.kernel.across.register_candidate import NEVER, Candidate
from distributed_grid.kernel.across.register_chair import Chair
from distributed_grid.kernel.across.register_effects import Effects
from distributed_grid.kernel.across.register_voter import Chance
from distributed_grid.model.across import Epoch
from distributed_grid.model.ids import JobId, NodeId
from distributed_grid.wire.register import (
    Accepted,
    Member,
    NotAccepted,
    NotPromised,
    Promised,
    RegisterMessage,
    Written,
)


class Writer:
    """One node's word on at-most-once jobs."""

    def __init__(self, node: NodeId, chance: Chance) -> None:
        self._node = node
        self._chance = chance
        self._candidates: dict[JobId, Candidate] = {}
        self._chairs: dict[JobId, Chair] = {}

    def chair(self, job: JobId) -> Chair | None:
        """The job's, if this node has won it: through it everything is written."""
        return self._chairs.get(job)

    def is_asking(self, job: JobId) -> bool:
        """Whether this node wants the job, and has not won it."""
        return job in self._candidates

    def missing(self, job: JobId) -> tuple[NodeId, ...]:
        """Whose votes are not there yet: `stuck: needs …`, should it take long."""
        who = self._candidates.get(job) or self._chairs.get(job)
        # Its own may wait until others remember it: it is they who are needed.
        return tuple(node for node in who.missing if node != self._node) if who else ()

    def take_over(
        self, job: JobId, written: Written, now_us: int, *, seen: Epoch = NEVER
    ) -> Effects:
        """Become the coordinator of a job that this node holds; `seen`: the highest epoch.

        A new one, too: should others know it already, what they know goes on.
        """
        sets = written.standing.sets
        candidate = Candidate(self._node, job, sets, self._chance, written=written, seen=seen)
        return self._run_for(candidate, now_us)

    def bid_above(self, by: Epoch, chair: Chair, now_us: int) -> Effects:
        """Win a job anew, as one of its voters obeys another; forced, unless that is done."""
        job, written = chair.job, chair.written
        if chair.is_forced and not chair.is_ruling:
            return self.force(job, written.standing.voters, written, now_us, seen=by)
        return self.take_over(job, written, now_us, seen=by)

    def force(
        self,
        job: JobId,
        voters: tuple[Member, ...],
        written: Written,
        now_us: int,
        *,
        seen: Epoch = NEVER,
    ) -> Effects:
        """Go on without the old voters, as a person has decided: it may run twice."""
        candidate = Candidate(
            self._node, job, (voters,), self._chance,
            written=written, seen=seen, is_forced=True,
        )  # fmt: skip
        return self._run_for(candidate, now_us)

    def hurry(self, node: NodeId) -> None:
        """A node is there again, which may have been asked in vain."""
        for candidate in self._candidates.values():
            candidate.hurry(node)
        for chair in self._chairs.values():
            chair.hurry(node)

    def drop(self, job: JobId) -> None:
        """The job is over, or another's."""
        self._candidates.pop(job, None)
        self._chairs.pop(job, None)

    def hear(self, sender: NodeId, message: RegisterMessage, now_us: int) -> Effects:
        """What voters answer."""
        effects = Effects()
        match message:
            case Promised(job=job) | NotPromised(job=job):
                candidate = self._candidates.get(job)
                if candidate and isinstance(message, Promised):
                    candidate.promised(sender, message, now_us, effects)
                elif candidate and isinstance(message, NotPromised):
                    candidate.not_promised(sender, message, now_us, effects)
                if candidate and candidate.has_won():
                    self._won(candidate, now_us, effects)
            case Accepted(job=job):
                chair = self._chairs.get(job)
                if chair:
                    chair.accepted(sender, message, now_us, effects)
            case NotAccepted(job=job):
                chair = self._chairs.get(job)
                if chair:
                    chair.not_accepted(sender, message, effects)
                    if chair.is_deposed:
                        self.drop(job)
            case _:
                pass  # For voters and executors.
        return effects

    def tick(self, now_us: int) -> Effects:
        """Each 100 ms."""
        effects = Effects()
        for candidate in self._candidates.values():
            candidate.tick(now_us, effects)
        for chair in self._chairs.values():
            chair.tick(now_us, effects)
        return effects

    def _run_for(self, candidate: Candidate, now_us: int) -> Effects:
        effects = Effects()
        self._chairs.pop(candidate.job, None)
        self._candidates[candidate.job] = candidate
        candidate.begin(now_us, effects)
        return effects

    def _won(self, candidate: Candidate, now_us: int, effects: Effects) -> None:
        job = candidate.job
        del self._candidates[job]
        written = candidate.written
        if written.standing.sets != candidate.sets:  # Forced.
            (voters,) = candidate.sets
            standing = msgspec.structs.replace(written.standing, voters=voters, next=())
            written = msgspec.structs.replace(written, standing=standing)
        chair = self._chairs[job] = Chair(
            job, candidate.epoch, candidate.ask, written, is_forced=candidate.is_forced
        )
        chair.open(now_us, effects)
