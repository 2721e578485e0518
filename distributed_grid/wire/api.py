"""What clients and the agent say to each other over HTTP: one struct each way for every route.

Lives here: requests, answers, and the table of routes that server, client and OpenAPI page share.
Never here: serving (`web`), calling (`client`), lending and booking (`sharing`: every `grid run`
loads this file, few need that one).
Invariant: every answer that is not 2xx is a `Problem`.
"""

from typing import Any, Literal, NamedTuple

import msgspec

from distributed_grid.model.bounds import (
    Argument,
    Bytes,
    Code,
    Count,
    Lot,
    Moment,
    Most,
    Name,
    Path,
    Pid,
    Story,
    Table,
)
from distributed_grid.model.ids import JobId
from distributed_grid.model.job import JobSpec
from distributed_grid.model.transit import Transit
from distributed_grid.wire.maps import (
    FeedMap,
    MapNews,
    OpenMap,
    TakeCalls,
    TakenCalls,
    ValueHere,
    WantValue,
)

JobState = Literal[
    "waiting",  # For another job, or for resources.
    "running",
    "succeeded",
    "failed",
    "cancelled",
    "lost",  # The machine failed it too often.
    "skipped",  # What it waited for can no longer come true.
]
ENDED: frozenset[str] = frozenset({"succeeded", "failed", "cancelled", "lost", "skipped"})

JOBS_MAX = 10_000  # In one submission or one page.
WAIT_JOBS_MAX = 1_000  # In one wait: a megabyte of answer.
REQUEST_BYTES_MAX = 64 << 20


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """What went wrong: the name of the error, its sentence, its remedy, its facts."""

    error: Story
    message: Story
    remedy: Story
    exit_code: Code = 1
    facts: dict[str, Any] = {}


class Submit(msgspec.Struct, frozen=True, kw_only=True):
    """Take these jobs; submitting the same id with the same spec again changes nothing."""

    jobs: Most[JobSpec]


class Submitted(msgspec.Struct, frozen=True, kw_only=True):
    """The jobs are durable on this many nodes."""

    ids: Most[JobId]
    copies: Count = 1
    bytes_left: Bytes = 0  # Of their files, on this machine only so far: it should stay on.
    is_only_here: bool = False  # A directory that nobody named; its turn comes.


class AttemptView(msgspec.Struct, frozen=True, kw_only=True):
    """One try at running a job."""

    number: Count
    node: Name
    state: Literal["granted", "running", "ended", "lost"]
    started_ms: Moment | None = None
    ended_ms: Moment | None = None
    exit_code: Code | None = None
    how: Name = ""  # exited, signalled, timeout, stopped, not-found, not-executable, failed, lost
    pid: Pid | None = None
    note: Story = ""
    cores: Most[Count] = ()
    gpus: Most[Name] = ()
    user_us: Count = 0  # While it runs: all by now, where somebody asks its node for this one job.
    system_us: Count = 0
    memory_bytes_peak: Bytes = 0  # While it runs: what it holds now, likewise.
    limits: Table[Name, Name] = {}  # What is enforced, by which mechanism.
    lease: Name = ""  # What another node calls it, while it is made ready there.
    suspended: Story = ""  # Why it stands still; empty: it does not.
    indices: Story = ""  # Of an array: those that it runs, such as 0-3,7. Empty: no array.


class ArrayView(msgspec.Struct, frozen=True, kw_only=True):
    """How far an array is."""

    total: Count
    waiting: Count = 0
    running: Count = 0
    succeeded: Count = 0
    failed: Count = 0
    cancelled: Count = 0
    failed_indices: Most[tuple[Count, Code]] = ()  # The first hundred: index and exit code.
    reasons: Most[Story] = ()  # Why each of them failed, in words.
    indices: Story = ""  # All of them, such as 0-3,7; empty in a list of jobs.


class StoryLine(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that happened to a job."""

    at_ms: Moment
    what: Name  # submitted, granted, cancel asked, or the state it moved to.
    detail: Story = ""


class JobView(msgspec.Struct, frozen=True, kw_only=True):
    """A job as people and programs see it."""

    id: JobId
    name: Name
    state: JobState
    submitted_ms: Moment
    exit_code: Code | None = None  # Of the run as a shell would say it; of an array 0 or 1.
    reason: Story = ""  # Why it is in this state, in a sentence.
    node: Name | None = None
    user: Name = ""
    argv: Most[Argument] = ()
    cwd: Path = ""
    started_ms: Moment | None = None
    ended_ms: Moment | None = None
    attempts: Most[AttemptView] = ()
    array: ArrayView | None = None
    cpu_milli: Count = 0
    memory_bytes: Bytes = 0
    gpu_milli: Count = 0
    priority: Name = "medium"
    project: Name = ""
    is_shared: bool = False  # Runs on what the owner offers.
    start_ms: Moment = 0  # Not before this moment; 0: at once.
    deadline_ms: Moment = 0  # Ended by this moment; 0: none.
    booking: Name = ""
    story: Most[StoryLine] = ()
    home: Name = ""  # The id of the node that looks after it; empty: the one that answers.
    holders: Most[Name] = ()  # Ids of the others that keep a copy of its record.
    guest_of: Name = ""  # An attempt of this job, which another node looks after. Empty: a job.
    gang: Count = 1
    at_most_once: bool = False
    transits: Most[Transit] = ()  # Its files that are on their way.
    output_only_on: Name = ""  # The name of a node; empty: its home has what it wrote, or the end.


class Jobs(msgspec.Struct, frozen=True, kw_only=True):
    """A page of jobs, newest first."""

    jobs: Most[JobView]
    more: bool = False
    missing: Most[Name] = ()  # Names of nodes that did not answer in time.
    damaged: Most[Name] = ()  # Ids of jobs of this node whose records cannot be read.


class WaitMany(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Wait for all of these; the answer has those that have ended when the time is over."""

    ids: Most[Name]  # Ids, names or prefixes; at most `WAIT_JOBS_MAX`.
    timeout_ms: Moment = 3_600_000


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """Why a job is where it is, and what would help."""

    id: JobId
    state: JobState
    summary: Story
    position: Count | None = None  # Among the waiting, from 1.
    shortfall: Most[tuple[Story, Lot, Lot]] = ()  # (what, wanted, free)
    waits_for: Most[Name] = ()  # Names of jobs it comes after, or that hold what it needs.
    remedies: Most[Story] = ()
    priority: Name = "medium"
    lifted: Name = ""  # The class it counts as after waiting long. Empty: the same.
    share_milli: Lot | None = None  # What its user holds of the machine, over the weight.
    is_shared: bool = False
    user: Name = ""
    project: Name = ""
    start_ms: Moment = 0  # Not before this moment; 0: at once.


class NodeStatus(msgspec.Struct, frozen=True, kw_only=True):
    """This node in one glance."""

    id: Name
    name: Name
    node_class: Name
    version: Name
    pid: Pid
    keeper_pid: Pid
    since_ms: Moment
    data_dir: Path
    cpu_milli_total: Count
    cpu_milli_free: Count
    memory_bytes_total: Bytes
    memory_bytes_free: Bytes
    gpus_total: Count
    gpus_free_milli: Count
    jobs_waiting: Count
    jobs_running: Count
    limits: Table[Name, Name] = {}
    pretended: Most[Name] = ()
    troubles: Most[Story] = ()  # What its owner should look at, with what to do about it.


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """Something that happened, for `GET /v1/events` and watchers."""

    number: Count  # From 1 on after each start of the agent.
    at_ms: Moment
    name: Name  # job.submitted, job.started, job.ended, agent.started, …
    job: JobId | None = None
    fields: dict[str, Any] = {}
    epoch: Count = 0  # Which start of the agent this is; 0: one that does not count them.

    @property
    def id(self) -> str:
        """What to ask after, to hear what follows."""
        return f"{self.epoch}-{self.number}" if self.epoch else str(self.number)


EventPlace = tuple[int, int] | None  # Epoch (0: this one) and number; None: those to come.
GAP = "events.gap"  # The name of an event that says that others were lost.


class Down(msgspec.Struct, frozen=True, kw_only=True):
    """Stop the agent; the jobs too, or let them go on."""

    stop_jobs: bool = False


class Nothing(msgspec.Struct, frozen=True):
    """An empty body."""


class Route(NamedTuple):
    """One operation."""

    name: str
    method: Literal["GET", "POST"]
    path: str
    request: Any
    answer: Any  # A struct, or a media type for what streams.
    summary: str
    query: tuple[str, ...] = ()
    codec: Literal["json", "msgpack"] = "json"  # Of the bodies; a problem is always JSON.


ROUTES: tuple[Route, ...] = (
    Route("submit", "POST", "/v1/jobs", Submit, Submitted, "Submit jobs"),
    Route("jobs", "GET", "/v1/jobs", Nothing, Jobs, "List jobs",
          ("state", "name", "user", "limit", "before_ms")),
    Route("job", "GET", "/v1/jobs/{job}", Nothing, JobView, "One job, by id, name or prefix"),
    Route("wait", "GET", "/v1/jobs/{job}/wait", Nothing, JobView,
          "Answer when the job has ended, or the time is over", ("timeout_ms",)),
    Route("wait_many", "POST", "/v1/jobs/wait", WaitMany, Jobs,
          "Answer with those that have ended, when all have or the time is over"),
    Route("cancel", "POST", "/v1/jobs/{job}/cancel", Nothing, JobView, "Cancel a job"),
    Route("explain", "GET", "/v1/jobs/{job}/explain", Nothing, Explanation, "Why it waits"),
    Route("logs", "GET", "/v1/jobs/{job}/logs", Nothing, "application/octet-stream",
          "Its output as it was written", ("stream", "index", "follow", "offset", "attempt")),
    Route("open_map", "POST", "/v1/maps", OpenMap, Nothing,
          "Begin a map of a Python function, or bring more workers to it", codec="msgpack"),
    Route("feed_map", "POST", "/v1/maps/{map}/feed", FeedMap, MapNews,
          "Add calls, and answer when there are results", codec="msgpack"),
    Route("take_calls", "POST", "/v1/maps/{map}/take", TakeCalls, TakenCalls,
          "For workers: tell results, and answer when there are calls", codec="msgpack"),
    Route("map_value", "POST", "/v1/maps/{map}/value", WantValue, ValueHere,
          "For workers: where a large value of a call is", codec="msgpack"),
    Route("hold_map", "GET", "/v1/maps/{map}/hold", Nothing, "application/octet-stream",
          "Keeps a map alive for as long as somebody listens"),
    Route("close_map", "POST", "/v1/maps/{map}/close", Nothing, Nothing,
          "End a map and its workers"),
    Route("status", "GET", "/v1/status", Nothing, NodeStatus, "This node"),
    Route("events", "GET", "/v1/events", Nothing, "text/event-stream", "What happens, as it happens",
          ("after", "follow")),
    Route("down", "POST", "/v1/down", Down, Nothing, "Stop the agent"),
    Route("health", "GET", "/health", Nothing, Nothing, "Whether the agent answers"),
    Route("metrics", "GET", "/metrics", Nothing, "text/plain", "For Prometheus"),
    Route("openapi", "GET", "/openapi.json", Nothing, "application/json", "This table as OpenAPI"),
)  # fmt: skip
