"""What the record of a job is made of, and how parts of a newer version survive an older one.

Lives here: attempts, results and the home's own word as nouns. Never here: how two records become
one (`record`), what a job makes of them (`record_jobs`).
Invariant: each part is kept as the bytes that its writer wrote; whoever writes it anew takes over
the fields that it does not know.
"""

from typing import Annotated, Any, Final

import msgspec

from distributed_grid.kernel.jobs import WHY_CHARACTERS, WHYS_KEPT
from distributed_grid.model.across import Epoch, Fence, GangGo, Nodes, Rank
from distributed_grid.model.bounds import (
    CHUNK_MAX,
    INDICES_MAX,
    Code,
    Cores,
    Count,
    Devices,
    Moment,
    Name,
    Pid,
    Place,
    Story,
    Word,
)
from distributed_grid.model.ids import JobId, NodeId
from distributed_grid.model.job import AFTER_MAX, Shipment
from distributed_grid.wire.keeper import Usage
from distributed_grid.wire.register import Standing as Votes

FIELDS_MAX: Final = 1_024  # Of one part, those of newer versions included.

# States are text here, not a fixed list: a newer version may have others, and they must survive.
ATTEMPT_RANKS: Final = {"named": 0, "begun": 1, "lost": 2, "ended": 3}
RESULT_RANKS: Final = {"succeeded": 0, "cancelled": 1, "failed": 2, "lost": 3, "skipped": 4}

_Ranges = Annotated[tuple[tuple[Place, Place], ...], msgspec.Meta(max_length=CHUNK_MAX)]
Counts = Annotated[dict[Place, Count], msgspec.Meta(max_length=INDICES_MAX)]
_Why = Annotated[str, msgspec.Meta(max_length=WHY_CHARACTERS)]


class AttemptNote(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One attempt, as the last who was told of it wrote it down."""

    number: Count
    host: NodeId  # Always a node, never "here": this is read elsewhere.
    epoch: Epoch = Epoch()  # With the number: its identity, also after two takeovers at once.
    state: Word = "named"  # named, begun, lost, ended.
    at: Fence = Fence()  # The write that said so.
    lease: Word = ""  # Empty: it is the attempt's id.
    node: Name = ""  # The name of the host.
    granted_ms: Moment = 0
    started_ms: Moment | None = None
    ended_ms: Moment | None = None
    exit_code: Code | None = None
    how: Word = ""
    note: Story = ""
    pid: Pid | None = None
    positions: _Ranges = ()  # Of an array's chunk: from, up to but without.
    tries: Count = 0
    ended_indices: Count = 0
    cores: Cores = ()
    gpus: Devices = ()
    usage: Usage = Usage()
    rank: Rank = 0  # Of a gang.
    saved: Word = ""  # The manifest of the state that it saved for the next one.

    @property
    def is_live(self) -> bool:
        """Whether it may still run."""
        return self.state not in ("ended", "lost")


class Result(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a job ended, on one side of what may have been a partition."""

    state: Word  # succeeded, cancelled, failed, lost, skipped.
    epoch: Epoch = Epoch()
    number: Count = 0  # Of the attempt; 0: none was made.
    node: NodeId = NodeId("")
    attempt: Word = ""
    exit_code: Code | None = None
    reason: Story = ""
    ended_ms: Moment = 0


class Standing(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a job stands, as its home says; the last word counts."""

    name: Name
    submitted_ms: Moment
    user: Name = ""
    guardians: Nodes = ()  # Who else is to hold the record, in order of takeover.
    reason: Story = ""
    exit_code: Code | None = None
    failures: Count = 0
    losses: Count = 0
    preemptions: Count = 0
    attempts_made: Count = 0
    is_overdue: bool = False
    started_ms: Moment | None = None
    ended_ms: Moment | None = None
    ready_ms: Moment | None = None
    # Whoever is no longer here was decided, once.
    after_left: Annotated[tuple[JobId, ...], msgspec.Meta(max_length=AFTER_MAX)] = ()
    tries: Counts = {}  # Of an array, by position.
    index_losses: Counts = {}
    mean_us: Count = 0
    gang_go: GangGo | None = None  # The attempt whose ranks may run.
    votes: Votes | None = None  # Of an at-most-once job: who votes on it, as far as its home knows.
    ship: Shipment | None = None  # What travels with it, also if that was packed after it was told.
    rooted: NodeId = NodeId("")  # The only node that has its files; empty: others have them too.
    # Of an array, by position: what was noted of the first that failed.
    whys: Annotated[dict[Place, _Why], msgspec.Meta(max_length=WHYS_KEPT)] = {}


_encoder: Final = msgspec.msgpack.Encoder()
_fields: Final[msgspec.msgpack.Decoder[dict[str, msgspec.Raw]]] = msgspec.msgpack.Decoder(
    Annotated[dict[Word, msgspec.Raw], msgspec.Meta(max_length=FIELDS_MAX)]
)
_note: Final = msgspec.msgpack.Decoder(AttemptNote)
_result: Final = msgspec.msgpack.Decoder(Result)
_standing: Final = msgspec.msgpack.Decoder(Standing)

encode: Final = _encoder.encode
note_of: Final = _note.decode
result_of: Final = _result.decode
standing_of: Final = _standing.decode


def fields_of(body: bytes) -> dict[str, msgspec.Raw]:
    """A struct's fields by name, each as it was written."""
    return _fields.decode(body)


def written_anew(part: Any, before: bytes) -> bytes:
    """A part as bytes, with what a newer version wrote there before and we do not know."""
    body = encode(part)
    if not before:
        return body
    known = part.__struct_fields__
    unknown = {name: raw for name, raw in fields_of(before).items() if name not in known}
    return encode({**fields_of(body), **unknown}) if unknown else body


def note_key(body: bytes) -> tuple[bool, Fence, int, bytes]:
    """The later of two notes on one attempt has the greater key.

    An end is a fact. A loss is a verdict: the home takes it back when the attempt turns out to run.
    """
    note = note_of(body)
    return note.state == "ended", note.at, ATTEMPT_RANKS.get(note.state, 0), body


def note_age(item: tuple[str, bytes]) -> tuple[Epoch, int, str]:
    """The order in which attempts were made."""
    note = note_of(item[1])
    return note.epoch, note.number, item[0]


def result_key(body: bytes) -> tuple[int, Epoch, int, NodeId, bytes]:
    """The best of several results has the smallest key."""
    result = result_of(body)
    return result_rank(result.state), result.epoch, result.number, result.node, body


def result_rank(state: str) -> int:
    """How good an end is; one that only a newer version knows counts as a failure."""
    return RESULT_RANKS.get(state, RESULT_RANKS["failed"])
