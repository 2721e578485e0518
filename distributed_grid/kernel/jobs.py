"""The life of a job: what may follow what, and what a job remembers of it.

Lives here: the table of moves, the record that is made durable, the array's indices. Never here:
when things happen (`coordinator`), where (`host`).
Invariant: a job that has ended never moves again, unless a better end was known on the other side
of a partition (`correct`); its story says how it came there.
"""

from collections import deque
from collections.abc import Iterable
from typing import Annotated, Final, Literal

import msgspec

from distributed_grid.errors import GridError
from distributed_grid.kernel.chunks import ranges_of
from distributed_grid.model.across import HERE, Epoch, Fence, GangGo
from distributed_grid.model.bounds import (
    COUNT_MAX,
    INDICES_MAX,
    Code,
    Count,
    Index,
    Listed,
    Moment,
    Most,
    Name,
    Pid,
    Place,
    Story,
    Table,
)
from distributed_grid.model.ids import JobId, NodeId
from distributed_grid.model.job import Array, JobSpec
from distributed_grid.wire.api import ENDED, JobState, StoryLine
from distributed_grid.wire.keeper import Ended, Usage
from distributed_grid.wire.register import Standing

MOVES: Final[dict[str, frozenset[str]]] = {
    "waiting": frozenset({"running", "cancelled", "skipped", "lost", "failed"}),
    "running": frozenset({"waiting", "succeeded", "failed", "cancelled", "lost"}),
    "succeeded": frozenset(),
    "failed": frozenset(),
    "cancelled": frozenset(),
    "lost": frozenset(),
    "skipped": frozenset(),
}

STORY_LINES_MAX: Final = 200  # Enough for dozens of attempts; older lines make room.
STAYS_HERE: Final = "stays here"  # In a story: its directory cannot travel.
ATTEMPTS_KEPT: Final = 20  # Of one job; an array's chunks would otherwise be thousands.
SAVED_KEPT: Final = 2  # States of one job: the last, and the one before should that be gone.
WHYS_KEPT: Final = 100  # Of the failed indices of an array: as many as are shown.
WHY_CHARACTERS: Final = 120  # More is a story; the record has the first of each.
WROTE_KEPT: Final = 2_000  # Chunks of an array: 80 KiB in its record.
OUTPUTS_KEPT: Final = 256  # Of an array: 16 KiB in its record, which is saved with each chunk.

PENDING, RUNNING, SUCCEEDED, FAILED, CANCELLED = range(5)  # Of one index of an array.
UNDECIDED: Final = frozenset({"", "stopped", "preempted", "lost"})  # Ends that decide no job.


class IllegalMove(GridError):
    """A job was asked to become what it cannot; a bug of ours."""

    def __init__(self, job: str, before: str, after: str, story: list[StoryLine]) -> None:
        self.job, self.before, self.after = job, before, after
        told = " > ".join(line.what for line in story[-8:])
        super().__init__(
            f"job {job} cannot go from {before} to {after} (story: {told})",
            remedy="This is a bug; please report it with the story",
        )


class Wrote(msgspec.Struct, frozen=True, array_like=True):
    """Who ran some positions of an array; it is asked for what they wrote."""

    start: Count
    stop: Count  # Excluded.
    host: Count  # Its place among the hosts.
    lease: Name  # What they are called there.
    number: Count  # Of the attempt.


class Progress(msgspec.Struct, kw_only=True):
    """What became of every index of an array, one byte each."""

    states: Annotated[bytearray, msgspec.Meta(max_length=INDICES_MAX)]
    codes: Table[Place, Code] = {}  # Position -> exit code, of the failed ones.
    tries: Table[Place, Count] = {}  # Position -> failures so far, where there were any.
    losses: Table[Place, Count] = {}  # Position -> times it was lost, where it was.
    mean_us: Count = 0  # Of one index, smoothed; 0: none has ended yet.
    whys: Table[Place, Story] = {}  # Position -> what was noted, of the first failed ones.
    again: Table[Place, Moment] = {}  # Position -> not tried again before this moment, in ms.
    hosts: Listed[NodeId] = []  # Where chunks ran whose attempts are forgotten,
    wrote: Listed[Wrote] = []  # and what each ran there, the newest last.

    @staticmethod
    def of(array: Array) -> "Progress":
        """Nothing has run yet."""
        return Progress(states=bytearray(len(array.indices)))

    def count(self, state: int) -> int:
        """How many indices are in a state."""
        return self.states.count(state)

    def pending_positions(self) -> deque[int]:
        """Positions to be run now, in order; those that run, or pause, are known apart."""
        return deque(
            at for at, state in enumerate(self.states) if state == PENDING and at not in self.again
        )

    def fail(self, position: int, code: int, why: str) -> None:
        """An index has failed for good."""
        self.states[position], self.codes[position] = FAILED, code
        if why and len(self.whys) < WHYS_KEPT:
            self.whys[position] = why[:WHY_CHARACTERS]

    def remember(
        self, ranges: Iterable[tuple[int, int]], host: NodeId, lease: str, number: int
    ) -> None:
        """Who ran these, before the attempt is forgotten; if all ran here, nobody need be asked."""
        if host == HERE and not self.hosts:
            return
        if host not in self.hosts:
            self.hosts.append(host)
        at = self.hosts.index(host)
        self.wrote += [Wrote(start, stop, at, lease, number) for start, stop in ranges]
        del self.wrote[:-WROTE_KEPT]

    def forgotten(self, position: int) -> Wrote | None:
        """Who ran this one last, of those who are forgotten; None: nobody is known."""
        return next((one for one in self.wrote[::-1] if one.start <= position < one.stop), None)

    @property
    def is_done(self) -> bool:
        """Whether no index is pending or running."""
        return PENDING not in self.states and RUNNING not in self.states


class Attempt(msgspec.Struct, kw_only=True):
    """One try: a process, or a chunk of an array, in a lease that short ones share in turn."""

    number: Count
    lease: Name  # Of another node's ledger, if it runs there.
    host: NodeId = HERE  # Where it runs, if not here.
    epoch: Epoch = Epoch()  # Under whose word it began.
    own_id: Name = ""  # Of one that lined up in a lease which another began.
    node: Name
    granted_ms: Moment
    state: Literal["granted", "running", "ended", "lost"] = "granted"
    indices: Most[Index] = ()
    tries: Count = 0  # Of a chunk: how often its indices have failed before.
    ended_indices: Count = 0  # How many of them have ended; they run in this order.
    started_ms: Moment | None = None
    ended_ms: Moment | None = None
    exit_code: Code | None = None
    how: Name = ""
    pid: Pid | None = None
    note: Story = ""
    cores: Most[Count] = ()
    gpus: Most[Name] = ()
    usage: Usage = Usage()
    rank: Count = 0  # Of a gang, whose ranks are attempts of one number.
    is_held: bool = False  # Of a rank on this node: it waits until all others are ready.
    # Of an at-most-once job on this node: it waits until a majority has renewed its lease,
    awaits_votes: bool = False
    until_boot_us: Count = 0  # and was first let run until then; 0: it was not.
    fence: Fence = Fence()  # The write that let it run: GRID_FENCE.
    saved: Name = ""  # The manifest of the state that it saved; empty: none that travels.
    resumed: Story = ""  # With which state it began, in words; empty: as its directory was.
    suspended: Story = ""  # Why it stands still; empty: it does not.

    @property
    def id(self) -> str:
        """How the keeper calls it."""
        return self.own_id or self.lease

    def add_usage(self, more: Usage) -> None:
        """One process more of it has ended."""
        self.usage = Usage(
            user_us=min(self.usage.user_us + more.user_us, COUNT_MAX),
            system_us=min(self.usage.system_us + more.system_us, COUNT_MAX),
            memory_bytes_peak=max(self.usage.memory_bytes_peak, more.memory_bytes_peak),
        )


class Conclusion(msgspec.Struct, frozen=True, kw_only=True):
    """How a job ends, before that is told to anyone."""

    state: JobState
    reason: Story = ""
    at_ms: Moment = 0


class Job(msgspec.Struct, kw_only=True):
    """Everything known of a job; this is what the store keeps."""

    spec: JobSpec
    submitted_ms: Moment
    state: JobState = "waiting"
    reason: Story = ""
    exit_code: Code | None = None
    is_cancelled: bool = False  # Asked for; the state follows when nothing runs any more.
    failures: Count = 0
    losses: Count = 0
    preemptions: Count = 0  # They count neither as failures nor as losses.
    is_overdue: bool = False  # Its deadline has passed, and it is being stopped.
    attempts_made: Count = 0
    attempts: Listed[Attempt] = []
    story: Listed[StoryLine] = []
    started_ms: Moment | None = None
    ended_ms: Moment | None = None
    progress: Progress | None = None
    ready_ms: Moment | None = None  # Since when only room is lacking: from then on it ages.
    again_ms: Moment = 0  # After a failure: not tried again before this moment.
    after_left: Listed[JobId] = []  # Of those it comes after: not ended yet. Each is decided once.
    epoch: Epoch = Epoch()  # Under whose word it is; in no mesh under nobody's.
    seq: Count = 0  # Of its record within the epoch: rises with what holders are to know.
    guardians: Most[NodeId] = ()  # Who else holds its record, by rank.
    gang_go: GangGo | None = None  # Of a gang: its ranks may run.
    votes: Standing | None = None  # Of an at-most-once job in a mesh: who votes on it.
    # Of an at-most-once job: its end, which counts once a majority of those who vote has it.
    ending: Conclusion | None = None
    gang_end: Ended | None = None  # Of a gang: what ended it, while other ranks still run.
    # Of a guest, which another node lets this one run: what ended of it, for its home.
    ends: Listed[Ended] = []
    confirmed: Count = 0  # How many of them its home has; those are not told again.
    certified_by: Name = ""  # The name of the node whose user submitted it; empty: it is told.
    is_foreign: bool = False  # Taken over, and not of this node's people: here it only borrows.
    outputs: Listed[Name] = []  # Manifests of what it left behind elsewhere, the newest last.
    output_of: Name = ""  # Its output is kept under this id: it began as a job of this node.
    rooted: NodeId = NodeId("")  # The only node that has its files; empty: others have them too.

    @property
    def has_ended(self) -> bool:
        """Whether nothing of it runs or will."""
        return self.state in ENDED

    @property
    def is_stopping(self) -> bool:
        """Whether nothing more of it is to start."""
        return self.is_cancelled or self.is_overdue

    @property
    def is_guest(self) -> bool:
        """Whether another node is its home, and this one only runs it."""
        return self.spec.origin is not None

    @property
    def is_untold(self) -> bool:
        """Whether its home has still to hear of something that ended of it; of guests only."""
        return self.is_guest and self.confirmed < len(self.ends)

    @property
    def is_finished(self) -> bool:
        """Whether nothing more is to be done for it: a start need not know it."""
        return self.has_ended and not self.is_untold

    @property
    def live_attempts(self) -> list[Attempt]:
        """Those that hold a lease."""
        return [attempt for attempt in self.attempts if attempt.state in ("granted", "running")]

    @property
    def telling_attempt(self) -> Attempt | None:
        """The one that counts: that runs, or whose end is the job's; else the last.

        It need not be the last: one that was given up may come back, and the newer one is stopped.
        """
        last_first = self.attempts[::-1]
        running = [one for one in last_first if one.state == "running"]
        is_decided = self.has_ended and not self.is_stopping
        decided = [one for one in last_first if is_decided and one.how not in UNDECIDED]
        return next(iter([*running, *decided, *last_first]), None)

    @property
    def saved(self) -> list[Attempt]:
        """Those whose state is kept for the next one, the newest first."""
        kept = [attempt for attempt in self.attempts if attempt.saved]
        return sorted(kept, key=lambda one: (one.epoch, one.number, one.id))[: -SAVED_KEPT - 1 : -1]

    def move(self, state: JobState, now_ms: int, reason: str = "") -> None:
        """Become something else, if the table allows it."""
        if state not in MOVES[self.state]:
            raise IllegalMove(self.spec.name, self.state, state, self.story)
        self.state, self.reason = state, reason
        self.tell(now_ms, state, reason)
        if self.has_ended:
            self.ended_ms = self.story[-1].at_ms

    def correct(self, state: JobState, now_ms: int, reason: str) -> None:
        """It had ended as far as was known here, and better elsewhere: that counts."""
        assert self.has_ended, "else it moves"
        self.state, self.reason = state, reason
        self.tell(now_ms, state, "on the other side of a partition")

    def tell(self, now_ms: int, what: str, detail: str = "") -> None:
        """Add a line to the story; it never goes back, whatever the clocks do."""
        at_ms = max(now_ms, self.story[-1].at_ms) if self.story else now_ms
        self.story.append(StoryLine(at_ms=at_ms, what=what, detail=detail))
        if len(self.story) > STORY_LINES_MAX:
            del self.story[1:2]  # The first line, how it began, stays.

    def leaves(self, manifest: str) -> None:
        """An attempt left these files behind, or none; of what runs but once, the last counts."""
        if self.progress is None and self.spec.gang == 1:
            self.outputs = [manifest] if manifest else []
        elif manifest and manifest not in self.outputs:
            self.outputs = [*self.outputs, manifest][-OUTPUTS_KEPT:]

    def keep_few_attempts(self) -> None:
        """Forget the oldest ended attempts beyond what is kept."""
        spared = {one.id for one in self.saved}  # Another one is to go on from there.
        ended = [
            attempt
            for attempt in self.attempts
            if attempt.state in ("ended", "lost") and attempt.id not in spared
        ]
        for attempt in ended[: max(0, len(self.attempts) - ATTEMPTS_KEPT)]:
            self.attempts.remove(attempt)
            if self.progress is not None and self.spec.array is not None:
                places = map(
                    self.spec.array.indices.index, attempt.indices[: attempt.ended_indices]
                )
                self.progress.remember(
                    ranges_of(list(places)), attempt.host, attempt.lease, attempt.number
                )
