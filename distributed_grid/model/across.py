"""Nouns of jobs across machines: whose word counts, and where an attempt came from.

Lives here: epochs, fences, origins, saved states. Never here: what follows from them
(`kernel.across`).
Invariant: all of them are totally ordered, also when two nodes take over at once.
"""

import msgspec

from distributed_grid.model.ids import JobId, NodeId


class Epoch(msgspec.Struct, frozen=True, order=True, array_like=True):
    """Under whose word a job is: a takeover makes the next one, and a node obeys the highest."""

    counter: int = 0
    node: NodeId = NodeId("")


class Fence(msgspec.Struct, frozen=True, order=True, array_like=True):
    """The write that allowed something: of an attempt, the one that named it."""

    epoch: Epoch = Epoch()
    seq: int = 0


class GangGo(msgspec.Struct, frozen=True, kw_only=True):
    """All ranks of an attempt are committed and may run: written before any of them is started."""

    epoch: Epoch  # With the number: the attempt.
    number: int
    rendezvous: str = ""
    peers: tuple[str, ...] = ()  # The nodes of the ranks, in their order: addresses, or names.


class Saved(msgspec.Struct, frozen=True, kw_only=True):
    """What an attempt saved for the next one, as files."""

    manifest: str  # Its id.
    number: int = 0  # Of the attempt.
    node: str = ""  # The name of where it ran.


class Origin(msgspec.Struct, frozen=True, kw_only=True):
    """Where a guest comes from: an attempt that another node lets this one run."""

    home: NodeId  # The coordinator, at the time.
    job: JobId  # As people call it; the guest's own id is that of its attempt.
    epoch: Epoch
    attempt: str  # Its id: the lease's, 128 random bits, made by the node that granted it.
    number: int = 1  # GRID_ATTEMPT.
    indices: tuple[int, ...] = ()  # Of an array: those of this chunk.
    rank: int = 0  # GRID_RANK, of a gang.
    ranks: int = 1  # GRID_WORLD_SIZE.
    peers: tuple[str, ...] = ()  # GRID_PEERS: the nodes of all ranks, in their order.
    rendezvous: str = ""  # GRID_RENDEZVOUS: where they meet, `host:port` on the first one's node.
    saved: tuple[Saved, ...] = ()  # What it may begin with, the newest first.
    holders: tuple[NodeId, ...] = ()  # Who may look after the job when its home is gone.


HERE = NodeId("")  # In an attempt: it runs on the job's home; of a guest, on this node.
