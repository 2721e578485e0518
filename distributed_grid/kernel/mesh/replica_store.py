"""A replica as bytes, for the disk.

Lives here: what is kept, with its age, and what of it counts after an absence. Never here: writing
it (`agent`), whose entries may enter (`roster`).
Invariant: ages are kept, not times: the clock that never jumps starts anew with the machine. What
this node said itself does not count: it says it anew at every start.
"""

from typing import Final

import msgspec

from distributed_grid.kernel.mesh.replica_maps import Maps, is_sound
from distributed_grid.model.bounds import Lot, Most, Table
from distributed_grid.model.ids import NodeId
from distributed_grid.model.membership import GRACE_MS, MeshId
from distributed_grid.wire.mesh import JUNK, Entry

FORMAT: Final = 1
GRACE_US: Final = GRACE_MS * 1_000


class Stored(msgspec.Struct, frozen=True, kw_only=True):
    """What a replica knew."""

    format: Lot = FORMAT
    me: NodeId
    mesh: MeshId
    entries: Most[tuple[Entry, Lot]]  # With the age in microseconds, oldest arrival first.
    gone: Table[NodeId, tuple[Lot, Lot]] = {}

    def others(self, away_us: int) -> list[tuple[Entry, int]]:
        """What others said, with its age, that still counts after so long.

        Whoever was away for longer than the grace may know nodes that all have forgotten. But who
        was thrown out stays out: that was final.
        """
        away_us = max(0, away_us)  # A clock that went back says nothing.
        return [
            (entry, age_us + away_us)
            for entry, age_us in self.entries
            if entry.key == "revoked" or (entry.node != self.me and away_us <= GRACE_US)
        ]


def encoded(maps: Maps, *, me: NodeId, mesh: MeshId, now_us: int) -> bytes:
    """Everything that is worth keeping."""
    by_arrival = sorted(maps.items.values(), key=lambda held: held.number)
    entries = tuple((held.entry, max(0, now_us - held.at_us)) for held in by_arrival)
    stored = Stored(me=me, mesh=mesh, entries=entries, gone=maps.gone)
    return msgspec.msgpack.encode(stored)


def decoded(body: bytes) -> Stored | None:
    """None: it is not what was written here."""
    try:
        stored = msgspec.msgpack.decode(body, type=Stored)
    except JUNK:
        return None
    is_ours = stored.format == FORMAT and all(is_sound(entry) for entry, _ in stored.entries)
    return stored if is_ours else None
