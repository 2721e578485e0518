"""What clients and the agent say to each other about jobs and nodes across the mesh.

Lives here: requests, answers and their routes, as in `api`. Never here: what nodes say to each
other (`across`, `questions`).
"""

from typing import Annotated, Final, Literal

import msgspec

from distributed_grid.model.ids import JobId
from distributed_grid.model.job import Shipment
from distributed_grid.model.node import NodeRecord
from distributed_grid.wire.api import JobView, NodeStatus, Nothing, Route
from distributed_grid.wire.sharing import Queue, SharingStatus

PATHS_MAX: Final = 1_000  # Of one shipment; more is a directory.

_Path = Annotated[str, msgspec.Meta(min_length=1, max_length=4_096)]  # What Linux takes as one.


class OutputPlace(msgspec.Struct, frozen=True, kw_only=True):
    """Where a job's output is, or would be if it wrote any."""

    job: JobId
    node: str = ""  # The id of the node that has it; empty: the one that answers.
    word: str = ""  # What the job is called there; empty: as here.
    attempt: int = 0  # Which try writes it; 0: none has begun.
    is_over: bool = False  # The job has ended: nothing will be added.
    copies: tuple[str, ...] = ()  # Ids of nodes that keep the end of it, should that one be gone.
    earlier: tuple["OutputPlace", ...] = ()  # Of the tries before, of what runs but once.


class Safety(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a job would survive the loss of the machine it was submitted on."""

    id: JobId
    copies: int  # Of its record, that one included.
    bytes_left: int = 0  # Of its files, on one machine only so far.
    is_safe: bool = False  # Record and files are on a second machine, or it has ended.
    why: str = ""  # It will not be safe as things are: its directory may not travel, say.


class DrainView(msgspec.Struct, frozen=True, kw_only=True):
    """How far a node is with giving its work away."""

    id: str
    name: str
    state: Literal["open", "draining", "drained"]
    jobs_running: int = 0  # That are still there.
    jobs_waiting: int = 0
    jobs_leaving: int = 0  # Others' that have ended there: their outputs are not all home yet.


class MeshSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The nodes as placement sees them from here and now."""

    hash: str  # Of what all nodes know alike: not of distances and ages, which each measures.
    at_ms: int
    nodes: tuple[NodeRecord, ...]  # Sorted by id.


class SharingEverywhere(msgspec.Struct, frozen=True, kw_only=True):
    """What every node of the mesh offers, this one first, then by name."""

    nodes: tuple[SharingStatus, ...]
    missing: tuple[str, ...] = ()  # Names of those that are there and did not answer in time.


class Pack(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Take these files as they are now, to travel with a job."""

    directory: _Path  # Where the job starts; relative paths are meant from there.
    paths: Annotated[tuple[_Path, ...], msgspec.Meta(max_length=PATHS_MAX)] = ()  # None: all.
    python_env: Annotated[str, msgspec.Meta(max_length=4_096)] = ""  # A file; empty: none.
    ship_ignored: bool = False  # Also what ignore files leave out; secrets only if named.
    is_nothing: bool = False  # Nothing travels: the job finds an empty directory.
    is_dry: bool = False  # Nothing is taken: the answer lists what would be.


class LeftOut(msgspec.Struct, frozen=True, kw_only=True):
    """What stays at home for one reason."""

    why: str  # The ignore file that says so, or in words.
    count: int  # Files and folders; what is in those was not looked at.
    paths: tuple[str, ...]  # The first of them; a folder has a slash behind it.


class Travelling(msgspec.Struct, frozen=True, kw_only=True):
    """What would travel from a directory, as it is now."""

    files: tuple[tuple[str, int], ...] = ()  # Path and bytes.
    size_bytes: int = 0
    links: int = 0  # Symbolic links travel beside the files.
    left_out: tuple[LeftOut, ...] = ()
    note: str = ""  # Why nothing travels at all.


class Packed(msgspec.Struct, frozen=True, kw_only=True):
    """What of it goes into the job's specification."""

    ship: Shipment | None = None  # None: only the environment was asked for.
    python_env: str = ""  # The id of the manifest of that file, and of what it includes.
    travelling: Travelling | None = None  # Of a question that takes nothing.


class Outputs(msgspec.Struct, frozen=True, kw_only=True):
    """The files that a job left behind, and who has them."""

    job: JobId
    name: str
    node: str = ""  # The id of the node that has them; empty: the one that answers.
    manifests: tuple[str, ...] = ()  # Of an array one for each chunk, the newest last.
    globs: tuple[str, ...] = ()  # What of its directory was asked for.
    kept: tuple[str, ...] = ()  # Of what stayed on the node that answers: more than comes back.
    nodes: tuple[str, ...] = ()  # Ids of those it ran on: they may still have them.


class BringOutputs(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Put them into a directory of this machine."""

    directory: _Path
    overwrite: bool = False  # Also over files that are there and differ.


class OutputsBrought(msgspec.Struct, frozen=True, kw_only=True):
    """What became of them; of names the first thousand."""

    job: JobId
    written: tuple[str, ...] = ()
    unchanged: tuple[str, ...] = ()  # They were there already, byte for byte.
    conflicts: tuple[tuple[str, str], ...] = ()  # Left as they are here: path and why.
    files: int = 0  # That were written, all of them.


ACROSS_ROUTES: tuple[Route, ...] = (
    Route("rerun", "POST", "/v1/jobs/{job}/rerun", Nothing, JobView,
          "Submit a job that has ended once more, under this id; of an array only what failed",
          ("id", "failed")),
    Route("cancel_index", "POST", "/v1/jobs/{job}/cancel-index", Nothing, JobView,
          "Cancel one index of an array", ("index",)),
    Route("requeue", "POST", "/v1/jobs/{job}/requeue", Nothing, JobView,
          "Run a job that is untracked"),
    Route("force", "POST", "/v1/jobs/{job}/force", Nothing, JobView,
          "Go on with an at-most-once job whose voters are lost; it may run twice"),
    Route("output", "GET", "/v1/jobs/{job}/output", Nothing, OutputPlace,
          "Which node has its output", ("index",)),
    Route("outputs", "GET", "/v1/jobs/{job}/outputs", Nothing, Outputs,
          "The files it left behind, and which node has them"),
    Route("bring_outputs", "POST", "/v1/jobs/{job}/outputs", BringOutputs, OutputsBrought,
          "Put the files it left behind into a directory of this machine"),
    Route("safe", "GET", "/v1/jobs/{job}/safe", Nothing, Safety,
          "Answer when the job is on a second machine, or the time is over", ("timeout_ms",)),
    Route("drain", "POST", "/v1/nodes/{node}/drain", Nothing, DrainView,
          "Give a node's work away; answer when it is empty, or the time is over",
          ("timeout_ms", "now")),
    Route("undrain", "POST", "/v1/nodes/{node}/undrain", Nothing, DrainView,
          "Let a node take work again"),
    Route("snapshot", "GET", "/v1/snapshot", Nothing, MeshSnapshot,
          "The nodes as placement sees them"),
    Route("pack", "POST", "/v1/shipments", Pack, Packed, "Take files that travel with a job"),
    Route("node_status", "GET", "/v1/nodes/{node}/status", Nothing, NodeStatus, "Another node"),
    Route("node_sharing", "GET", "/v1/nodes/{node}/sharing", Nothing, SharingStatus,
          "What another node offers, what not and why, what is borrowed"),
    Route("sharing_everywhere", "GET", "/v1/sharing/everywhere", Nothing, SharingEverywhere,
          "The same of every node of the mesh"),
    Route("node_queue", "GET", "/v1/nodes/{node}/queue", Nothing, Queue,
          "The jobs that wait on another node, in the order of service", ("limit",)),
)  # fmt: skip
