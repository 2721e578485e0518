"""A job as somebody asks for it: what it runs, what it needs, where it may run and where not.

Lives here: the specification, which never changes. Never here: a job's life (`kernel.jobs`).
"""

from collections.abc import Sequence
from functools import cached_property
from typing import Annotated, Final, Literal

import msgspec

from distributed_grid.model.across import Origin
from distributed_grid.model.bounds import (
    GANG_MAX,
    INDEX_MAX,
    NAMES_MAX,
    Arguments,
    Bytes,
    Count,
    Environment,
    Index,
    Moment,
    Name,
    Names,
    Path,
    Signal,
    Span,
    Tries,
)
from distributed_grid.model.ids import JobId
from distributed_grid.model.priority import Priority
from distributed_grid.model.resources import Request

AFTER_MAX: Final = 10_000
FEATURES_MAX: Final = 1_024
COPIES_MAX: Final = 4  # The home and three guardians.
VOTERS: Final = 3  # On an at-most-once job: it survives the loss of any one of them.
VOTERS_MAX: Final = 5  # … of any two.
VOTERS_CHOICE: Final = (VOTERS, VOTERS_MAX)
_Stop = Annotated[int, msgspec.Meta(ge=0, le=INDEX_MAX + 1)]
_Step = Annotated[int, msgspec.Meta(ge=1, le=INDEX_MAX)]
Part = tuple[Index, _Stop, _Step]  # Of indices, as of `range`: first, end (excluded), step.
PARTS_MAX: Final = 10_000  # Ranges of one array: 200 KB in its record.
OUTPUTS_MAX: Final = 256  # Patterns; more is a directory.
PATTERN_CHARACTERS_MAX: Final = 4_096  # A path: what Linux takes as one.
POLICY_CHARACTERS_MAX: Final = 64  # Of a name in the registry of policies.
HASH_CHARACTERS_MAX: Final = 128  # In hexadecimal: of every hash there is.
CONTAINERS: Final = "containers"  # The feature of a node that can run an image.
FILES_MAX: Final = 10_000_000  # Of one work directory; their manifest fits in memory.

Locality = Literal[
    "",  # Wherever it fits.
    "data",  # Where its files are already.
    "rack",  # Near the node it was submitted on: in its rack, zone or region.
    "zone",
    "region",
]


_Labels = Annotated[tuple[tuple[Name, Name], ...], msgspec.Meta(max_length=NAMES_MAX)]


class Where(msgspec.Struct, frozen=True, kw_only=True):
    """A description of nodes. As `require` all parts must hold; as `avoid`, none may."""

    classes: Names = ()
    labels: _Labels = ()  # Sorted by key.
    nodes: Names = ()  # Names or ids.
    jobs: Names = ()  # Nodes on which one of these runs: affinity.
    latency_us_max: Count | None = None


NOWHERE = Where()
Hash = Annotated[str, msgspec.Meta(max_length=HASH_CHARACTERS_MAX)]
PolicyName = Annotated[str, msgspec.Meta(max_length=POLICY_CHARACTERS_MAX)]
_Pattern = Annotated[str, msgspec.Meta(min_length=1, max_length=PATTERN_CHARACTERS_MAX)]  # A glob.
Patterns = Annotated[tuple[_Pattern, ...], msgspec.Meta(max_length=OUTPUTS_MAX)]


class Work(msgspec.Struct, frozen=True, kw_only=True):
    """What a job runs, and how long it may."""

    argv: Arguments
    cwd: Path
    env: Environment = {}
    told: Arguments = ()  # Those of `env` that were given by name: elsewhere only they count.
    is_abroad: bool = False  # It has left the machine it was submitted on, with no more than those.
    image: Path = ""  # Empty: a plain process; else a container of this image.
    timeout_ms: Span = 0  # Of each process; 0: none.
    grace_ms: Span = 10_000  # Between asking it to end and killing it.
    # Where it was submitted: the file that gets what it wrote once it has ended; empty: none.
    log: Path = ""


class Array(msgspec.Struct, frozen=True, kw_only=True, dict=True, cache_hash=True):
    """One job of many processes, told apart by GRID_ARRAY_INDEX."""

    start: Index = 0
    # Excluded. None: those of `parts`; members who know no parts cannot read that, and so never
    # look after such a job.
    stop: _Stop | None = None
    step: _Step = 1
    width: Index = 0  # How many may run at once; 0: as many as fit.
    parts: Annotated[tuple[Part, ...], msgspec.Meta(max_length=PARTS_MAX)] = ()

    def __post_init__(self) -> None:
        """Raise ValueError for parts that are no rising ranges."""
        if self.stop is None:
            from distributed_grid.model.indices import check_parts  # Few arrays need it.

            check_parts(self.parts)

    @property
    def ranges(self) -> tuple[Part, ...]:
        """Every index, as ranges."""
        return self.parts if self.stop is None else ((self.start, self.stop, self.step),)

    @cached_property
    def indices(self) -> Sequence[int]:
        """Every index, in order."""
        if self.stop is None:
            from distributed_grid.model.indices import Indices

            return Indices(self.parts)
        return range(self.start, self.stop, self.step)


class After(msgspec.Struct, frozen=True, kw_only=True):
    """Wait for another job: until it ended well, ended, or ended badly."""

    job: JobId
    when: Literal["ok", "any", "failed"] = "ok"


class Preempt(msgspec.Struct, frozen=True, kw_only=True):
    """How a job is asked to give way, and whether it may be."""

    signal: Signal = 15
    grace_ms: Span = 10_000  # From the signal until its processes are killed.
    command: Arguments = ()  # Run in its directory when it is warned, to save its state.
    is_forbidden: bool = False  # Only with the owner's permission.


class Shipment(msgspec.Struct, frozen=True, kw_only=True):
    """The files that travel with a job: its work directory, or a part of it."""

    manifest: Hash  # Its id.
    size_bytes: Bytes  # Of all files together.
    files: Annotated[int, msgspec.Meta(ge=0, le=FILES_MAX)]
    is_named: bool = False  # Somebody said what travels; else it is the directory as it was.


_Features = Annotated[tuple[Name, ...], msgspec.Meta(max_length=FEATURES_MAX)]


class JobSpec(msgspec.Struct, frozen=True, kw_only=True):
    """What a job needs of the node it runs on. Filters exclude; wishes only rank."""

    id: JobId
    name: Name
    request: Request = Request()
    require: Where = NOWHERE  # Filter.
    avoid: Where = NOWHERE  # Filter.
    prefer: Where = NOWHERE  # Wish.
    avoid_if_possible: Where = NOWHERE  # Wish.
    arch: Name = ""  # Empty: any.
    features: _Features = ()  # Sorted; the node must have them all.
    battery_safe: bool = True  # False: never on a node that runs on battery.
    work: Work | None = None  # None: only to be placed, as by `grid place`.
    array: Array | None = None
    after: Annotated[tuple[After, ...], msgspec.Meta(max_length=AFTER_MAX)] = ()
    retries: Tries = 0  # Of the job's own failures: non-zero exit, timeout.
    losses_max: Tries = 3  # Of nodes, keepers, boots; then it is lost for good.
    wait_for_capacity: bool = False  # Accept more than there is, and wait for it.
    user: Name = ""
    priority: Priority = "medium"
    project: Name = ""
    is_shared: bool = False  # Runs on what the owner offers, not on all there is.
    preempt: Preempt = Preempt()
    start_ms: Moment = 0  # Not before this moment; 0: at once.
    deadline_ms: Moment = 0  # Ended by this moment, one way or the other; 0: none.
    booking: Name = ""  # The name of the booking whose resources it may use.
    policy: PolicyName = ""  # Empty: the mesh's.
    locality: Locality = ""  # Wish.
    at_most_once: bool = False  # Never two processes, even if a node comes back from the dead.
    voters: Annotated[int, msgspec.Meta(ge=1, le=VOTERS_MAX)] = VOTERS  # Of an at-most-once job.
    # 0: acknowledged with as many as answered within a second; else refused with fewer than these.
    copies: Annotated[int, msgspec.Meta(ge=0, le=COPIES_MAX)] = 0
    gang: Annotated[int, msgspec.Meta(ge=1, le=GANG_MAX)] = 1  # Ranks, all at once or none.
    origin: Origin | None = None  # Of a guest: the attempt it is, and who asked for it.
    ship: Shipment | None = None  # None: nothing travels; it finds its files where it runs.
    outputs: Patterns = ()  # Of files in its directory that are brought home.
    # True: what it makes or changes in its copy of the directory comes home; of that only what
    # matches `outputs`, if there are any. Older members know nothing of it.
    brings_changes: bool = False
    overwrite: bool = False  # True: what comes home replaces newer files there.
    python_env: Hash = ""  # Of what describes its environment: among what travels.

    @property
    def needs(self) -> tuple[str, ...]:
        """The features that its node must have, told or not."""
        has_image = self.work is not None and self.work.image
        return (*self.features, CONTAINERS) if has_image else self.features

    @property
    def lasting(self) -> "JobSpec":
        """With what it demands of a place for ever: who runs there today may be gone tomorrow."""
        if not (self.require.jobs or self.avoid.jobs):
            return self
        return msgspec.structs.replace(
            self,
            require=msgspec.structs.replace(self.require, jobs=()),
            avoid=msgspec.structs.replace(self.avoid, jobs=()),
        )
