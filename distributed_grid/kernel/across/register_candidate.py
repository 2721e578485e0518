"""A node that wants to be the coordinator of an at-most-once job.

Lives here: asking for promises until a majority has given theirs. Never here: what is written then
(`register_chair`).
Invariant: it wins only with majorities of the newest sets that anybody told it of, and then knows
everything that was ever durable with a majority; and never under an epoch of which it knows that
one of them obeys a higher one. Of other sets than it knows one voter alone is not believed, if all
others answer: what a majority has taken another knows too.
"""

from typing import Final

from distributed_grid.kernel.across.register_effects import AGAIN_US, Effects, Outbid
from distributed_grid.kernel.across.register_sets import is_carried, members_of
from distributed_grid.kernel.across.register_voter import Chance
from distributed_grid.model.across import Epoch, Fence
from distributed_grid.model.ids import JobId, NodeId
from distributed_grid.wire.register import Member, NotPromised, Prepare, Promised, Sets, Written

# Two who outbid each other try again at moments that differ by some round trips.
PAUSE_US: Final = 100_000
PAUSE_US_SPREAD: Final = 900_000
# Who does not answer is asked less and less often, down to this: it may be gone for days. Whoever
# is seen to come back is asked at once.
SILENCE_US_MAX: Final = 5_000_000
CLAIM_US: Final = 10_000_000  # Who could bear a claim out and is silent for so long may be lost.
NEVER: Final = Epoch()


class Candidate:
    """One node's attempts to win one job."""

    def __init__(
        self,
        me: NodeId,
        job: JobId,
        sets: Sets,
        chance: Chance,
        *,
        written: Written,
        seen: Epoch = NEVER,
        is_forced: bool = False,
    ) -> None:
        """`written` is the newest that this node holds; `is_forced`: with just these nodes."""
        self.job = job
        self.epoch = Epoch()
        self.ask = 0
        self.sets = sets
        self.written = written
        self._me = me
        self._chance = chance
        self.is_forced = is_forced
        self._counter = max(seen.counter, written.standing.version.epoch.counter)
        self._promises: set[Member] = set()
        self._refusals: set[Member] = set()
        self._claims: dict[NodeId, Written] = {}  # Of other sets than these, by who told of them.
        self._claimed_us: int | None = None  # Since when somebody does.
        self._said_us = 0
        self._silence_us = AGAIN_US  # Until who has not answered is asked again.
        self._begin_us: int | None = None  # When to ask under the next epoch.

    def begin(self, now_us: int, effects: Effects) -> None:
        """Ask all, under a new epoch."""
        self._counter += 1
        self.epoch = Epoch(self._counter, self._me)
        self.ask = self._chance(1 << 62)
        self._promises.clear()
        self._refusals.clear()
        self._claims.clear()
        self._begin_us = None
        self._silence_us = AGAIN_US
        self._say(now_us, effects)

    def promised(self, sender: NodeId, answer: Promised, now_us: int, effects: Effects) -> None:
        """One has promised."""
        if not self._learn(sender, answer, now_us, effects):
            self._promises.add(Member(sender, answer.store))

    def has_won(self) -> bool:
        """Whether the promises are enough, and everything that was told is known to be so or not.

        None of them obeys another, which would refuse every write.
        """
        if self._begin_us is not None or not is_carried(self.sets, self._promises):
            return False
        return not self._claims or set(self._members) <= self._promises | self._refusals

    def not_promised(
        self, sender: NodeId, answer: NotPromised, now_us: int, effects: Effects
    ) -> None:
        """One has refused."""
        if self._learn(sender, answer, now_us, effects):
            return
        self._refusals.add(Member(sender, answer.store))
        self._counter = max(self._counter, answer.promised.counter)
        if self.is_forced and self._correct(Member(sender, answer.store)):
            self.begin(now_us, effects)
        elif answer.promised >= self.epoch and self._begin_us is None:
            self._begin_us = now_us + PAUSE_US + self._chance(PAUSE_US_SPREAD)
            effects.happened.append(Outbid(job=self.job, by=answer.promised))

    def tick(self, now_us: int, effects: Effects) -> None:
        """Ask again who has not answered, or all, if it is time."""
        if self._begin_us is not None:
            if now_us >= self._begin_us:
                self.begin(now_us, effects)
        elif self._claims and now_us - (self._claimed_us or 0) >= CLAIM_US:
            self._adopt(max(self._claims.values(), key=_version), now_us, effects)
        elif now_us - self._said_us >= self._silence_us:
            self._silence_us = min(2 * self._silence_us, SILENCE_US_MAX)
            self._say(now_us, effects)

    def hurry(self, node: NodeId) -> None:
        """A node is there again: if its answer is lacking it is asked at the next look."""
        if node in self.missing:
            self._said_us, self._silence_us = 0, AGAIN_US

    @property
    def missing(self) -> tuple[NodeId, ...]:
        """Who has not promised."""
        silent = [member for member in members_of(self.sets) if member not in self._promises]
        return tuple(member.node for member in silent)

    @property
    def _members(self) -> tuple[Member, ...]:
        """Who may know what a majority has taken: of these sets, and of those somebody claims."""
        claimed = [some for one in self._claims.values() for some in one.standing.sets]
        return members_of((*self.sets, *claimed))

    def _say(self, now_us: int, effects: Effects) -> None:
        self._said_us = now_us
        question = Prepare(
            job=self.job, epoch=self.epoch, ask=self.ask, sets=self.sets, is_forced=self.is_forced
        )
        effects.send += [
            (member.node, question) for member in self._members if member not in self._promises
        ]

    def _correct(self, told: Member) -> bool:
        """One has another store than was thought when it was chosen; whether it was so.

        Nobody else may choose anew, as a set stands in a record. This one stands in none yet.
        """
        before = self.sets
        self.sets = tuple(
            tuple(told if one.node == told.node else one for one in members) for members in before
        )
        return self.sets != before

    def _learn(
        self, node: NodeId, answer: Promised | NotPromised, now_us: int, effects: Effects
    ) -> bool:
        """Take note of what somebody holds; whether nothing follows from the rest of its answer."""
        written = answer.written
        if answer.ask != self.ask or all(one.node != node for one in self._members):
            return True
        if written is None:
            return False
        version = written.standing.version
        self._counter = max(self._counter, version.epoch.counter)
        if version <= self.written.standing.version:
            return False
        if self.is_forced or written.standing.sets == self.sets:
            self.written = written
            return False
        self._claims[node] = written
        self._claimed_us = now_us if self._claimed_us is None else self._claimed_us
        told = [some for one in self._claims.values() for some in set(one.standing.sets)]
        if all(one in self.sets or told.count(one) > 1 for one in written.standing.sets):
            self._adopt(written, now_us, effects)
            return True
        self._say(now_us, effects)
        return False

    def _adopt(self, written: Written, now_us: int, effects: Effects) -> None:
        """Ask those who vote by now."""
        self.written, self.sets, self._claimed_us = written, written.standing.sets, None
        self.begin(now_us, effects)


def _version(written: Written) -> Fence:
    return written.standing.version
