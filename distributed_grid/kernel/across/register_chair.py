"""The coordinator of an at-most-once job: every change of it is a write to a majority.

Lives here: the writes of one epoch, one after the other; the change of the set in two steps; the
wait before an attempt takes the place of one that may still run. Never here: how the epoch was won
(`register_candidate`), which attempt should run where (`once_home`).
Invariant: nothing follows from a write before majorities of all sets concerned have it; an attempt
is let start only when nothing named before it can still run.
"""

import msgspec

from distributed_grid.kernel.across.register_effects import (
    AGAIN_US,
    RENEW_US,
    WAIT_US,
    Deposed,
    Effects,
    MayStart,
    Ruling,
    Stored,
)
from distributed_grid.kernel.across.register_sets import (
    SIZES,
    can_be_carried,
    is_carried,
    members_of,
)
from distributed_grid.model.across import Epoch, Fence
from distributed_grid.model.ids import JobId, NodeId
from distributed_grid.wire.register import (
    Accept,
    Accepted,
    Member,
    NotAccepted,
    Sets,
    Standing,
    Written,
)

NOBODY = ""  # In the place of a lease: no attempt was named, or none may run any more.
UNKNOWN = "?"  # Likewise: whatever a former coordinator may have let start. Never written.


class Chair:
    """Of one job, in one epoch."""

    def __init__(
        self, job: JobId, epoch: Epoch, ask: int, written: Written, *, is_forced: bool = False
    ) -> None:
        """`written` is what was adopted, or what a new job begins with."""
        self.job = job
        self.epoch = epoch
        self.written = written  # As it is with a majority, or was adopted.
        self.is_ruling = False  # One write of this epoch is with a majority.
        self.is_deposed = False
        self.outbid_by: Epoch | None = None  # By whom, for one of those who vote.
        self._ask, self.is_forced = ask, is_forced
        self._seq = 0
        self._flight: Written | None = None  # On its way to a majority.
        self._sets: Sets = written.standing.sets  # Whose majorities decide on the last write.
        self._accepted: set[Member] = set()
        self._refused: dict[Member, Epoch] = {}
        self.since_us = 0  # When the last write was sent out first: it may take long.
        self._said_us = 0
        self._pause_us = AGAIN_US  # Until it is said again: whoever is silent may be gone.
        # What the next write will say.
        self._value: bytes | None = None
        self._named: tuple[NodeId, str] | None = None
        self._is_running = False  # The one that is to be named again runs.
        self._members: tuple[Member, ...] | None = None
        self._lease = written.standing.lease  # Of the attempt that is named, or just being.
        # Attempts that may still run beside it, the oldest first.
        self._doubtful: list[str] = []
        self._is_let = False  # The named one was let start, or may have been.
        self._is_over = False  # It has ended, or never will start.
        self._is_asked_for = False  # It is to be let start as soon as nothing is doubtful.
        self._start_us = 0

    def open(self, now_us: int, effects: Effects) -> None:
        """The first write: the same again, under the new epoch, so that an attempt goes on."""
        standing = self.written.standing
        has_named = standing.attempt != Fence()
        if has_named:
            self._doubtful, self._is_let, self._is_asked_for = [UNKNOWN], True, True
        self._write(standing, self.written.value, now_us, effects, is_fencing=has_named)

    # What the coordinator wants

    def store(self, value: bytes, now_us: int, effects: Effects) -> None:
        """Write another value, for the same attempt."""
        self._value = value
        self._go_on(now_us, effects)

    def name(self, node: NodeId, lease: str, value: bytes, now_us: int, effects: Effects) -> None:
        """Write which attempt is next, and where; it is let start once that is durable."""
        self._value, self._named, self._is_running = value, (node, lease), False
        self._go_on(now_us, effects)

    def adopt(self, node: NodeId, lease: str, value: bytes, now_us: int, effects: Effects) -> None:
        """Name an attempt again that runs: what took its place was never let start."""
        assert self.may_adopt(lease), "two would run"
        self._value, self._named, self._is_running = value, (node, lease), True
        self._go_on(now_us, effects)

    def close(self, now_us: int, effects: Effects) -> None:
        """Write that nobody may run it any more: it is over, and some attempt may not know."""
        if self._lease == NOBODY:
            self._named = None  # Nor is the one that was about to be named.
        else:
            self._named, self._is_running = (NodeId(""), NOBODY), False
            self._go_on(now_us, effects)

    def change_set(self, members: tuple[Member, ...], now_us: int, effects: Effects) -> None:
        """Let these be the voters."""
        assert len(members) in SIZES, "two or four are no safer than one or three"
        self._members = members
        self._go_on(now_us, effects)

    def runs(self, lease: str, effects: Effects) -> None:
        """Its node says that the named attempt runs, so nothing before it does."""
        if lease == self._lease:
            self._doubtful.clear()
            self._is_over = False  # Whoever said so knew less.
            self._let_start(effects)

    def ended(self, lease: str, effects: Effects, *, has_run: bool) -> None:
        """Its node says that an attempt is over. Had it run, nothing before it runs either."""
        if lease in self._doubtful and lease != UNKNOWN:  # Nobody can speak for those.
            place = self._doubtful.index(lease)
            del self._doubtful[0 if has_run else place : place + 1]
        elif lease == self._lease:
            self._is_over, self._is_asked_for = True, False
            if has_run:
                self._doubtful.clear()
        self._let_start(effects)

    # Votes

    def accepted(self, sender: NodeId, answer: Accepted, now_us: int, effects: Effects) -> None:
        """One has it."""
        if answer.ask != self._ask or answer.version.seq != self._seq:
            return
        self._accepted.add(Member(sender, answer.store))
        if self._flight is not None and is_carried(self._sets, self._accepted):
            self._carried(self._flight, now_us, effects)

    def not_accepted(self, sender: NodeId, answer: NotAccepted, effects: Effects) -> None:
        """One obeys another."""
        member = Member(sender, answer.store)
        is_late = answer.ask != self._ask or answer.version.seq != self._seq
        if is_late or member not in members_of(self._sets):
            return
        self._refused[member] = answer.promised
        self.outbid_by = max(self.outbid_by or answer.promised, answer.promised)
        if not can_be_carried(self._sets, self._refused):
            self.is_deposed = True
            effects.happened.append(Deposed(job=self.job, by=max(self._refused.values())))

    def tick(self, now_us: int, effects: Effects) -> None:
        """Say again what was not accepted; let start what has waited long enough."""
        # Once it is with a majority there is no hurry, but others should get it, too.
        pause_us = self._pause_us if self._flight else RENEW_US
        if self.missing and now_us - self._said_us >= pause_us:
            self._pause_us = min(2 * self._pause_us, RENEW_US)
            self._say(self._flight or self.written, now_us, effects)
        if self._start_us and now_us >= self._start_us:
            self._doubtful.clear()
            self._let_start(effects)

    def hurry(self, node: NodeId) -> None:
        """A node is there again: what it lacks is said at the next look."""
        if node in self.missing:
            self._said_us, self._pause_us = 0, AGAIN_US

    @property
    def is_writing(self) -> bool:
        """Whether a write is on its way to a majority."""
        return self._flight is not None

    @property
    def named(self) -> str:
        """The lease of the attempt that is named, or about to be."""
        return self._lease if self._named is None else self._named[1]

    def may_adopt(self, lease: str) -> bool:
        """Whether an attempt may run, and what was named since was not let start.

        One of longer ago is over, whatever a late word says: else the next had not been let start.
        """
        return lease in self._doubtful and not self._is_let and self._named is None

    @property
    def is_quiet(self) -> bool:
        """Whether nothing that was ever named can still run, or begin to."""
        is_over = self._is_over or self._lease == NOBODY
        return is_over and not self._doubtful and self._named is None

    @property
    def missing(self) -> tuple[NodeId, ...]:
        """Who has not accepted the last write."""
        silent = [member for member in members_of(self._sets) if member not in self._accepted]
        return tuple(member.node for member in silent)

    # Writing

    def _go_on(self, now_us: int, effects: Effects) -> None:
        """The next write, unless one is on its way. A change of the set is ended first."""
        if self._flight is not None:
            return
        standing, value = self.written.standing, self.written.value
        if standing.next:
            settled = msgspec.structs.replace(standing, voters=standing.next, next=())
            self._write(settled, value, now_us, effects)
        elif self._named is not None:
            node, lease = self._named
            if self._is_let and not self._is_over:
                self._doubtful.append(self._lease)
            if self._is_running:  # It was let start, so nothing before it runs.
                del self._doubtful[: self._doubtful.index(lease) + 1]
            self._is_let, self._is_over, self._is_asked_for = False, False, True
            self._lease, self._start_us, self._named = lease, 0, None
            named = msgspec.structs.replace(standing, node=node, lease=lease)
            self._write(named, self._take_value(), now_us, effects, is_fencing=True)
        elif self._value is not None:
            self._write(standing, self._take_value(), now_us, effects)
        elif self._members is not None and self._members != standing.voters:
            joint = msgspec.structs.replace(standing, next=self._members)
            self._write(joint, value, now_us, effects)

    def _take_value(self) -> bytes:
        value = self.written.value if self._value is None else self._value
        self._value = None
        return value

    def _write(
        self,
        standing: Standing,
        value: bytes,
        now_us: int,
        effects: Effects,
        *,
        is_fencing: bool = False,
    ) -> None:
        """Send a write out. Whoever decided before must agree, and whoever will decide after."""
        self._seq += 1
        version = Fence(self.epoch, self._seq)
        attempt = version if is_fencing else standing.attempt
        standing = msgspec.structs.replace(standing, version=version, attempt=attempt)
        self._sets = tuple(dict.fromkeys((*self.written.standing.sets, *standing.sets)))
        self._flight = Written(standing=standing, value=value)
        self._accepted.clear()
        self._refused.clear()
        self.since_us, self._pause_us = now_us, AGAIN_US
        self._say(self._flight, now_us, effects)

    def _say(self, written: Written, now_us: int, effects: Effects) -> None:
        self._said_us = now_us
        question = Accept(
            job=self.job, ask=self._ask, sets=self._sets, written=written,
            is_forced=self.is_forced,
        )  # fmt: skip
        effects.send += [(node, question) for node in self.missing]

    def _carried(self, written: Written, now_us: int, effects: Effects) -> None:
        is_new_fence = written.standing.attempt == written.standing.version
        self.written, self._flight = written, None
        if not self.is_ruling:
            self.is_ruling = True
            effects.happened.append(Ruling(job=self.job, epoch=self.epoch, written=written))
        effects.happened.append(Stored(job=self.job, written=written))
        if is_new_fence and self._is_asked_for:
            self._start_us = now_us + WAIT_US
            self._let_start(effects)
        if self._members == written.standing.voters:
            self._members = None
        self._go_on(now_us, effects)

    def _let_start(self, effects: Effects) -> None:
        """Let the named attempt start, if that is durable and nothing is doubtful."""
        if self._start_us and self._is_asked_for and not self._doubtful:
            self._start_us, self._is_asked_for, self._is_let = 0, False, True
            if self._lease != NOBODY:
                effects.happened.append(MayStart(job=self.job, standing=self.written.standing))
