"""Nouns of jobs across machines: whose word counts, and where an attempt came from.

Lives here: epochs, fences, origins, saved states. Never here: what follows from them
(`kernel.across`).
Invariant: all of them are totally ordered, also when two nodes take over at once.
"""

from typing import Annotated, Final

import msgspec

from distributed_grid.model.bounds import GANG_MAX, Count, Indices, Name, Word
from distributed_grid.model.ids import JobId, NodeId

HOLDERS_READ_MAX: Final = 256  # Of a job; eight times as many as are kept.
Rank = Annotated[int, msgspec.Meta(ge=0, lt=GANG_MAX)]
Ranks = Annotated[int, msgspec.Meta(ge=1, le=GANG_MAX)]
Nodes = Annotated[tuple[NodeId, ...], msgspec.Meta(max_length=HOLDERS_READ_MAX)]
Peers = Annotated[tuple[Name, ...], msgspec.Meta(max_length=GANG_MAX)]


class Epoch(msgspec.Struct, frozen=True, order=True, array_like=True, gc=False):
    """Under whose word a job is: a takeover makes the next one, and a node obeys the highest."""

    counter: Count = 0
    node: NodeId = NodeId("")


class Fence(msgspec.Struct, frozen=True, order=True, array_like=True):
    """The write that allowed something: of an attempt, the one that named it."""

    epoch: Epoch = Epoch()
    seq: Count = 0


class GangGo(msgspec.Struct, frozen=True, kw_only=True):
    """All ranks of an attempt are committed and may run: written before any of them is started."""

    epoch: Epoch  # With the number: the attempt.
    number: Count
    rendezvous: Name = ""
    peers: Peers = ()  # The nodes of the ranks, in their order: addresses, or names.


class Saved(msgspec.Struct, frozen=True, kw_only=True):
    """What an attempt saved for the next one, as files."""

    manifest: Word  # Its id.
    number: Count = 0  # Of the attempt.
    node: Name = ""  # The name of where it ran.


SavedStates = Annotated[tuple[Saved, ...], msgspec.Meta(max_length=GANG_MAX)]


class Origin(msgspec.Struct, frozen=True, kw_only=True):
    """Where a guest comes from: an attempt that another node lets this one run."""

    home: NodeId  # The coordinator, at the time.
    job: JobId  # As people call it; the guest's own id is that of its attempt.
    epoch: Epoch
    attempt: Word  # Its id: the lease's, 128 random bits, made by the node that granted it.
    number: Count = 1  # GRID_ATTEMPT.
    indices: Indices = ()  # Of an array: those of this chunk.
    rank: Rank = 0  # GRID_RANK, of a gang.
    ranks: Ranks = 1  # GRID_WORLD_SIZE.
    peers: Peers = ()  # GRID_PEERS: the nodes of all ranks, in their order.
    rendezvous: Name = ""  # GRID_RENDEZVOUS: where they meet, `host:port` on the first one's node.
    saved: SavedStates = ()  # What it may begin with, the newest first.
    holders: Nodes = ()  # Who may look after the job when its home is gone.


HERE = NodeId("")  # In an attempt: it runs on the job's home; of a guest, on this node.
