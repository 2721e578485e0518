"""What everyone says about itself: it only goes forward, and takes a bounded place.

Lives here: the rules over entries. Never here: that all have the same (`world.disagreement`).
"""

from collections.abc import Sized
from typing import Final

from distributed_grid.model.ids import NodeId
from distributed_grid.sim.mesh.checker import Checker, Violation
from distributed_grid.sim.mesh.host import Host
from distributed_grid.sim.mesh.world import KEYS, World
from distributed_grid.wire.mesh import ENTRIES_MAX, GENERATION_FINAL, VALUE_BYTES_MAX, Delta

KEPT_BYTES_MAX: Final = 4_000  # On disk for each node: what these machines say is short.


class NobodyIsRolledBack(Checker):
    """As long as an agent runs, what it has of somebody never gets older."""

    def __init__(self) -> None:
        self._seen: dict[tuple[NodeId, NodeId], tuple[int, int]] = {}  # (observer, node).

    def crashed(self, world: World, host: Host) -> None:
        """It begins with what is on disk."""
        for key in [key for key in self._seen if key[0] == host.id]:
            del self._seen[key]

    def looked(self, world: World) -> None:
        """Compare with what it had a second ago."""
        for host in world.hosts:
            replica = host.kernel.replica if host.is_up else None
            if replica is None:
                continue
            for other in world.hosts:
                entry = replica.entry(other.id, "load")
                place = (host.id, other.id)
                if entry is None:
                    continue
                stamp = (entry.generation, entry.version)
                before = self._seen.get(place, (0, 0))
                if stamp < before:
                    raise Violation(f"{host} had {before} of {other}, and now {stamp}")
                self._seen[place] = stamp


class SavedBeforeSaid(Checker):
    """What a node says of itself comes under a generation that is on its disk."""

    def said(self, world: World, host: Host, delta: Delta) -> None:
        """Or after a crash it would say something else under the same one."""
        own = [entry.generation for entry in delta.entries if entry.node == host.id]
        own = [generation for generation in own if generation < GENERATION_FINAL]
        saved = int.from_bytes(host.disk.kept.get("mesh.generation", b""), "big")
        if max(own, default=0) > saved:
            raise Violation(f"{host} speaks under {max(own)}, and has saved {saved}")


class Bounded(Checker):
    """Memory and disk grow with the number of machines, and with nothing else."""

    def ended(self, world: World) -> None:
        """Look at everyone."""
        known = {host.id for host in world.hosts}
        for host in world.hosts:
            if not host.is_up or host.kernel.replica is None:
                continue
            mesh, replica = host.kernel, host.kernel.replica
            if set(replica.nodes()) - known:
                raise Violation(f"{host} keeps entries of nodes that there never were")
            size = sum(len(value) for value in host.disk.kept.values())
            if size > KEPT_BYTES_MAX * len(known) + VALUE_BYTES_MAX:
                raise Violation(f"{host} keeps {size} bytes on disk for {len(known)} nodes")
            held = sum(
                replica.entry(node, key) is not None for node in replica.nodes() for key in KEYS
            )
            if held > (ENTRIES_MAX + 1) * len(known):
                raise Violation(f"{host} holds {held} entries of {len(known)} nodes")
            tables: dict[str, Sized] = {
                "links": mesh.links,
                "hints": mesh.membership.hints,
                "known": mesh.membership.known,
                "quarantined": mesh.quarantined,
                "under way": mesh.dialling.under_way,
            }
            for name, table in tables.items():
                if len(table) > len(known):
                    raise Violation(f"{host} has {len(table)} {name} in a mesh of {len(known)}")
