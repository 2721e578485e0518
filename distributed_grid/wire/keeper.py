"""What agent and keeper say to each other over their socket pair.

Lives here: the messages. The keeper spawns, reaps, limits and journals; it decides nothing.

An *attempt* is one process, or the indices of an array chunk one after the other in the same slot.
A lease runs one attempt, or several in turn. Reports are numbered by the keeper and repeated to a
new agent until it acknowledges them, so that no exit status is lost when an agent crashes.
"""

from typing import Annotated, Final, Literal

import msgspec

from distributed_grid.errors import EXIT_GRID
from distributed_grid.model.bounds import (
    INDICES_MAX,
    Arguments,
    Bytes,
    Code,
    Cores,
    Count,
    Devices,
    Environment,
    Index,
    IndexOrNone,
    Labelled,
    Milli,
    Moment,
    Path,
    Pid,
    Sentence,
    Signal,
    Signed,
    Span,
    Word,
)
from distributed_grid.model.ids import JobId

# lost: the keeper or the machine died under it, told by the next keeper; or its deadline came.
How = Literal[
    "exited",
    "signalled",
    "timeout",
    "stopped",
    "preempted",  # It gave way: asked by `Preempt`, however it ended then.
    "not-found",
    "not-executable",
    "failed",
    "lost",
]
ATTEMPTS_MAX: Final = 1_000_000  # Of one keeper, those that wait for their turn included.
HAVING_RUN: Final = frozenset({"exited", "signalled", "timeout"})  # Of `How`: by its own doing.


NOT_STARTED: Final = "the agent could not be started"  # Why an adoption was refused.


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What a process may use; 0: not limited."""

    cpu_milli: Milli = 0
    memory_bytes: Bytes = 0
    processes_max: Count = 4_096  # A fork bomb ends here; a build with 64 cores does not.
    output_bytes_max: Bytes = 64 << 20  # Of each stream, in two files: the newest always stays.


class Slot(msgspec.Struct, frozen=True, kw_only=True):
    """Where it runs: the cores it is pinned to. Empty: not pinned (pretended, or shared cores)."""

    cores: Cores = ()


class Run(msgspec.Struct, frozen=True, kw_only=True, tag="run"):
    """Start an attempt."""

    attempt: Word  # Unique.
    job: JobId
    argv: Arguments
    env: Environment
    cwd: Path
    # Holds `stdout` and `stderr`, or `INDEX.stdout` and `INDEX.stderr`: of a chunk only those that
    # are not empty, and of the running index once it runs for a moment. The older half: `stdout.1`.
    output_dir: Path
    # Empty when a process starts, removed when the attempt has ended; told as GRID_WORKDIR.
    scratch_dir: Path
    # Of an array chunk, run one after the other. Empty: one process.
    indices: Annotated[tuple[Index, ...], msgspec.Meta(max_length=INDICES_MAX)] = ()
    slot: Slot = Slot()
    limits: Limits = Limits()
    timeout_ms: Span = 0  # Of each process; 0: none.
    grace_ms: Span = 10_000  # Between SIGTERM and SIGKILL.
    checkpoint_dir: Path = ""  # Made if not there, kept between attempts. Empty: none.
    niceness: Signed = 0  # Borrowed work yields to the owner's programs: 19.
    image: Path = ""  # Empty: a plain process; else a container of this image.
    devices: Devices = ()  # Granted GPUs, by uuid or name. Only a container must be told.
    # Attempts of one lease run one after the other, in the order told; empty: the attempt alone.
    lease: Word = ""
    # Of an attempt that must not run twice at once anywhere: killed then, on CLOCK_BOOTTIME, unless
    # a `Deadline` has moved it. 0: none.
    until_boot_us: Count = 0


class Stop(msgspec.Struct, frozen=True, kw_only=True, tag="stop"):
    """End an attempt: signal, after the grace kill the whole tree; later indices do not start."""

    attempt: Word
    signal: Signal = 15
    grace_ms: Span = 10_000


class Preempt(msgspec.Struct, frozen=True, kw_only=True, tag="preempt"):
    """Make an attempt give way: signal, its command beside it, after the grace kill the tree."""

    attempt: Word
    signal: Signal = 15
    grace_ms: Span = 10_000
    command: Arguments = ()  # In the job's directory and environment; killed with the tree.


class Suspend(msgspec.Struct, frozen=True, kw_only=True, tag="suspend"):
    """Stop all its processes where they are (SIGSTOP); its timeout stands still too."""

    attempt: Word


class Resume(msgspec.Struct, frozen=True, kw_only=True, tag="resume"):
    """Let them go on."""

    attempt: Word


class Deadline(msgspec.Struct, frozen=True, kw_only=True, tag="deadline"):
    """An attempt may run until then; an earlier moment than was told before changes nothing.

    The keeper kills its whole tree then, without grace, with or without an agent.
    """

    attempt: Word
    until_boot_us: Count


class StopIndex(msgspec.Struct, frozen=True, kw_only=True, tag="stop-index"):
    """Skip one index of a chunk, or end it if it runs."""

    attempt: Word
    index: IndexOrNone


class Withdraw(msgspec.Struct, frozen=True, kw_only=True, tag="withdraw"):
    """Give back an attempt that has not started; one that has goes on."""

    attempt: Word


class Acknowledge(msgspec.Struct, frozen=True, kw_only=True, tag="acknowledge"):
    """Every report up to this number is durable at the agent and may be forgotten."""

    upto: Count


class Quit(msgspec.Struct, frozen=True, kw_only=True, tag="quit"):
    """The agent goes for good: do not restart it. Stop the jobs too, or let them go on."""

    stop_jobs: bool = False


ToKeeper = (
    Run | Stop | Preempt | Suspend | Resume | Deadline | StopIndex | Withdraw | Acknowledge | Quit
)  # fmt: skip


class Adopt(msgspec.Struct, frozen=True, kw_only=True, tag="adopt"):
    """Said at `keeper.sock` to a keeper without agent: start one again, with this command."""

    argv: Arguments
    env: Environment
    cwd: Path = "/"


class Adopted(msgspec.Struct, frozen=True, kw_only=True, tag="adopted"):
    """The answer: the agent's process, or why there is none."""

    keeper_pid: Pid
    agent_pid: Pid = 0
    refusal: Sentence = ""


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """What a process and its children used."""

    user_us: Count = 0
    system_us: Count = 0
    # 0: too small and too short to tell (the kernel counts the keeper's own pages until exec).
    memory_bytes_peak: Bytes = 0


Attempts = Annotated[tuple[Word, ...], msgspec.Meta(max_length=ATTEMPTS_MAX)]


class Hello(msgspec.Struct, frozen=True, kw_only=True, tag="hello"):
    """The first message to every agent: who the keeper is, what it can enforce, what runs."""

    keeper_id: Word  # New for every keeper process.
    boot_id: Word
    pid: Pid
    limits: Labelled  # cpu, memory, processes -> mechanism, such as `cgroup v2` or `rlimit`.
    # Attempts with work left. One that the agent handed over, that is not here and of which no
    # `Ended` with `is_last` follows, never started or was lost with an older keeper.
    running: Attempts
    agent_restarts: Count = 0  # Without being asked to, since this keeper started.
    unacknowledged: Count = 0  # Reports that follow at once, because nobody acknowledged them.
    queued: Attempts = ()  # Those of `running` that wait for their turn and never started.
    suspended: Attempts = ()  # Those of `running` that were told to and not to resume.
    # Since when those of `running` do, in ms since the epoch.
    began: Annotated[dict[Word, Moment], msgspec.Meta(max_length=ATTEMPTS_MAX)] = {}
    # Of those of `running` that have one, on CLOCK_BOOTTIME, in µs.
    deadlines: Annotated[dict[Word, Count], msgspec.Meta(max_length=ATTEMPTS_MAX)] = {}


class Started(msgspec.Struct, frozen=True, kw_only=True, tag="started"):
    """A process runs. Of chunks only the first index is told; the rest shows in `Ended`."""

    number: Count
    attempt: Word
    pid: Pid
    at_ms: Moment  # Since the epoch.
    index: IndexOrNone = -1
    # With which state it began, in words; the agent adds it. Empty: none came.
    resumed: Sentence = ""


class Ended(msgspec.Struct, frozen=True, kw_only=True, tag="ended"):
    """A process is gone, and its tree with it."""

    number: Count
    attempt: Word
    how: How
    code: Code  # As a shell would say it: exit code, 128 + signal, 124, 126, 127.
    started_ms: Moment
    ended_ms: Moment
    usage: Usage
    index: IndexOrNone = -1
    # What a person should know: output cut, killed for memory, survivors ended.
    note: Sentence = ""
    is_last: bool = True  # Nothing of the attempt is left; an index not told of never started.
    outputs: Word = ""  # The manifest of what it left behind; the agent adds it, for its home.
    saved: Word = ""  # The same of the state that it saved, for the next attempt.


def untold_end(
    attempt: str, how: How, at_ms: int, *, note: str = "", started_ms: int | None = None
) -> Ended:
    """The end of an attempt that no keeper reports: it never ran, or nobody knows its fate."""
    return Ended(
        number=0,
        attempt=attempt,
        how=how,
        code=EXIT_GRID,
        started_ms=at_ms if started_ms is None else started_ms,
        ended_ms=at_ms,
        usage=Usage(),
        note=note,
    )


FromKeeper = Hello | Started | Ended
