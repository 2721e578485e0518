"""What clients and the agent say to each other about jobs and nodes across the mesh.

Lives here: requests, answers and their routes, as in `api`. Never here: what nodes say to each
other (`across`, `questions`).
"""

from typing import Annotated, Final, Literal

import msgspec

from distributed_grid.model.bounds import Bytes, Count, Moment, Most, Name, Sentence, Story
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
    node: Name = ""  # The id of the node that has it; empty: the one that answers.
    word: Name = ""  # What the job is called there; empty: as here.
    attempt: Count = 0  # Which try writes it; 0: none has begun.
    is_over: bool = False  # The job has ended: nothing will be added.
    copies: Most[Name] = ()  # Ids of nodes that keep the end of it, should that one be gone.
    earlier: Most["OutputPlace"] = ()  # Of the tries before, of what runs but once.


class Safety(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a job would survive the loss of the machine it was submitted on."""

    id: JobId
    copies: Count  # Of its record, that one included.
    bytes_left: Bytes = 0  # Of its files, on one machine only so far.
    is_safe: bool = False  # Record and files are on a second machine, or it has ended.
    why: Story = ""  # It will not be safe as things are: its directory may not travel, say.


class DrainView(msgspec.Struct, frozen=True, kw_only=True):
    """How far a node is with giving its work away."""

    id: Name
    name: Name
    state: Literal["open", "draining", "drained"]
    jobs_running: Count = 0  # That are still there.
    jobs_waiting: Count = 0
    jobs_leaving: Count = 0  # Others' that have ended there: their outputs are not all home yet.


class MeshSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The nodes as placement sees them from here and now."""

    hash: Name  # Of what all nodes know alike: not of distances and ages, which each measures.
    at_ms: Moment
    nodes: Most[NodeRecord]  # Sorted by id.


class SharingEverywhere(msgspec.Struct, frozen=True, kw_only=True):
    """What every node of the mesh offers, this one first, then by name."""

    nodes: Most[SharingStatus]
    missing: Most[Name] = ()  # Names of those that are there and did not answer in time.


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

    why: Story  # The ignore file that says so, or in words.
    count: Count  # Files and folders; what is in those was not looked at.
    paths: Most[Sentence]  # The first of them; a folder has a slash behind it.


class Travelling(msgspec.Struct, frozen=True, kw_only=True):
    """What would travel from a directory, as it is now."""

    files: Most[tuple[Sentence, Bytes]] = ()  # Path and bytes.
    size_bytes: Bytes = 0
    links: Count = 0  # Symbolic links travel beside the files.
    left_out: Most[LeftOut] = ()
    note: Story = ""  # Why nothing travels at all.


class Packed(msgspec.Struct, frozen=True, kw_only=True):
    """What of it goes into the job's specification."""

    ship: Shipment | None = None  # None: only the environment was asked for.
    python_env: Name = ""  # The id of the manifest of that file, and of what it includes.
    travelling: Travelling | None = None  # Of a question that takes nothing.


class Outputs(msgspec.Struct, frozen=True, kw_only=True):
    """The files that a job left behind, and who has them."""

    job: JobId
    name: Name
    node: Name = ""  # The id of the node that has them; empty: the one that answers.
    manifests: Most[Name] = ()  # Of an array one for each chunk, the newest last.
    globs: Most[Sentence] = ()  # What of its directory was asked for.
    kept: Most[Sentence] = ()  # Of what stayed on the node that answers: more than comes back.
    nodes: Most[Name] = ()  # Ids of those it ran on: they may still have them.


class BringOutputs(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Put them into a directory of this machine."""

    directory: _Path
    overwrite: bool = False  # Also over files that are there and differ.


class OutputsBrought(msgspec.Struct, frozen=True, kw_only=True):
    """What became of them; of names the first thousand."""

    job: JobId
    written: Most[Sentence] = ()
    unchanged: Most[Sentence] = ()  # They were there already, byte for byte.
    conflicts: Most[tuple[Sentence, Sentence]] = ()  # Left as they are here: path and why.
    files: Count = 0  # That were written, all of them.


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
