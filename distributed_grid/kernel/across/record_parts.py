"""What the record of a job is made of, and how parts of a newer version survive an older one.

Lives here: attempts, results and the home's own word as nouns. Never here: how two records become
one (`record`), what a job makes of them (`record_jobs`).
Invariant: each part is kept as the bytes that its writer wrote; whoever writes it anew takes over
the fields that it does not know.
"""

from typing import Annotated, Any, Final

import msgspec

from distributed_grid.kernel.jobs import WHY_CHARACTERS, WHYS_KEPT
from distributed_grid.model.across import Epoch, Fence, GangGo
from distributed_grid.model.ids import JobId, NodeId
from distributed_grid.model.job import Shipment
from distributed_grid.wire.keeper import Usage
from distributed_grid.wire.register import Standing as Votes

# States are text here, not a fixed list: a newer version may have others, and they must survive.
ATTEMPT_RANKS: Final = {"named": 0, "begun": 1, "lost": 2, "ended": 3}
RESULT_RANKS: Final = {"succeeded": 0, "cancelled": 1, "failed": 2, "lost": 3, "skipped": 4}

_Why = Annotated[str, msgspec.Meta(max_length=WHY_CHARACTERS)]


class AttemptNote(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One attempt, as the last who was told of it wrote it down."""

    number: int
    host: NodeId  # Always a node, never "here": this is read elsewhere.
    epoch: Epoch = Epoch()  # With the number: its identity, also after two takeovers at once.
    state: str = "named"  # named, begun, lost, ended.
    at: Fence = Fence()  # The write that said so.
    lease: str = ""  # Empty: it is the attempt's id.
    node: str = ""  # The name of the host.
    granted_ms: int = 0
    started_ms: int | None = None
    ended_ms: int | None = None
    exit_code: int | None = None
    how: str = ""
    note: str = ""
    pid: int | None = None
    positions: tuple[tuple[int, int], ...] = ()  # Of an array's chunk: from, up to but without.
    tries: int = 0
    ended_indices: int = 0
    cores: tuple[int, ...] = ()
    gpus: tuple[str, ...] = ()
    usage: Usage = Usage()
    rank: int = 0  # Of a gang.
    saved: str = ""  # The manifest of the state that it saved for the next one.

    @property
    def is_live(self) -> bool:
        """Whether it may still run."""
        return self.state not in ("ended", "lost")


class Result(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a job ended, on one side of what may have been a partition."""

    state: str  # succeeded, cancelled, failed, lost, skipped.
    epoch: Epoch = Epoch()
    number: int = 0  # Of the attempt; 0: none was made.
    node: NodeId = NodeId("")
    attempt: str = ""
    exit_code: int | None = None
    reason: str = ""
    ended_ms: int = 0


class Standing(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a job stands, as its home says; the last word counts."""

    name: str
    submitted_ms: int
    user: str = ""
    guardians: tuple[NodeId, ...] = ()  # Who else is to hold the record, in order of takeover.
    reason: str = ""
    exit_code: int | None = None
    failures: int = 0
    losses: int = 0
    preemptions: int = 0
    attempts_made: int = 0
    is_overdue: bool = False
    started_ms: int | None = None
    ended_ms: int | None = None
    ready_ms: int | None = None
    after_left: tuple[JobId, ...] = ()  # Whoever is no longer here was decided, once.
    tries: dict[int, int] = {}  # Of an array, by position.
    index_losses: dict[int, int] = {}
    mean_us: int = 0
    gang_go: GangGo | None = None  # The attempt whose ranks may run.
    votes: Votes | None = None  # Of an at-most-once job: who votes on it, as far as its home knows.
    ship: Shipment | None = None  # What travels with it, also if that was packed after it was told.
    rooted: NodeId = NodeId("")  # The only node that has its files; empty: others have them too.
    # Of an array, by position: what was noted of the first that failed.
    whys: Annotated[dict[int, _Why], msgspec.Meta(max_length=WHYS_KEPT)] = {}


_encoder: Final = msgspec.msgpack.Encoder()
_fields: Final = msgspec.msgpack.Decoder(dict[str, msgspec.Raw])
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
