"""What follows when an entry of somebody is new: who came, left, moved, was thrown out.

Lives here: one consequence for each key. Never here: whether the entry counts (`roster`,
`replica`).
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from distributed_grid.kernel.mesh.events import MeshReady, Now
from distributed_grid.kernel.mesh.roster import chain_of, revocation_of
from distributed_grid.model.ids import NodeId
from distributed_grid.wire.mesh import CloneSeen, Entry

if TYPE_CHECKING:
    from distributed_grid.kernel.mesh.machine import Mesh

BELONGING: Final = frozenset({"chain", "left"})  # They say who is there.
QUARANTINE_US: Final = 600_000_000  # Two that live take each other's links within a minute.


class News:
    """Draws the consequences for one mesh."""

    def __init__(self, mesh: "Mesh") -> None:
        self._mesh = mesh
        self._signs_us: dict[NodeId, int] = {}  # When two machines under one key last showed.

    def taken(self, changed: Sequence[Entry], now: Now, ready: MeshReady) -> None:
        """What is new about others."""
        mesh = self._mesh
        for entry in changed:
            mesh.changed_us[entry.node] = now.mono_us
            if entry.node != mesh.me or entry.key == "revoked":
                self._follow(entry, now, ready)
        others = (entry for entry in changed if entry.node != mesh.me)
        if any(entry.key in BELONGING and entry.value for entry in others):
            mesh.upkeep.refresh_soon()

    def _follow(self, entry: Entry, now: Now, ready: MeshReady) -> None:
        mesh = self._mesh
        match entry.key:
            case "chain" if entry.value:
                self._came(entry, now, ready)
            case "revoked":
                revocation = revocation_of(entry)
                if revocation is not None:
                    mesh.membership.out(revocation, now, ready)
            case "left" if entry.value:
                mesh.membership.known.discard(entry.node)
                mesh.tell(ready, "node.left", entry.node, now)
            case "contact":
                self._moved(entry, now, ready)
            case "coordinate":
                mesh.neighbourhood.moved(entry.node)
            case "profile" | "offers":
                mesh.neighbourhood.moved(entry.node)
                mesh.tell(ready, "node.updated", entry.node, now, what=entry.key)
            case _:
                pass

    def _came(self, entry: Entry, now: Now, ready: MeshReady) -> None:
        mesh = self._mesh
        assert mesh.roster is not None, "only members hear"
        is_member = mesh.roster.take(entry.node, chain_of(entry), mesh.wall_ms(now)) is not None
        mesh.upkeep.save_soon(now)
        if is_member:
            self.seen(entry.node, now, ready)

    def seen(self, node: NodeId, now: Now, ready: MeshReady) -> None:
        """A member was heard, or heard of: maybe for the first time."""
        if node not in self._mesh.membership.known:
            self._mesh.membership.known.add(node)
            self._mesh.tell(ready, "node.joined", node, now)

    def _moved(self, entry: Entry, now: Now, ready: MeshReady) -> None:
        """Other addresses, or another start: worth a dial at once."""
        mesh = self._mesh
        mesh.dialling.soon(entry.node)
        mesh.upkeep.save_soon(now)
        mesh.neighbourhood.moved(entry.node)
        reach = mesh.said.reach(entry.node)
        if reach is None:
            return
        if mesh.clones.rumour(entry.node, reach.machine, reach.nonce, entry.generation):
            self.came_back(entry.node, now, ready)

    def came_back(self, node: NodeId, now: Now, ready: MeshReady) -> None:
        """Somebody else used its key meanwhile: it learns of that other one, which learns of it."""
        machine, nonce = self._mesh.clones.other(node)
        self.quarantine(node, machine, now, ready)
        if node in self._mesh.links:
            ready.messages.append((node, CloneSeen(machine=machine, nonce=nonce)))

    def quarantine(self, node: NodeId, machine: str, now: Now, ready: MeshReady) -> None:
        """Two machines use this key: whoever asks is told, and views note it."""
        mesh = self._mesh
        if node not in mesh.quarantined:
            mesh.turns += 1
            mesh.tell(ready, "mesh.clone", node, now, machine=machine)
        mesh.quarantined[node] = "two machines use this key"
        self._signs_us[node] = now.mono_us

    def end_quarantines(self, now: Now) -> None:
        """Of whom no second machine has shown for long: one of the two is gone."""
        for node, sign_us in list(self._signs_us.items()):
            if now.mono_us - sign_us >= QUARANTINE_US:
                self.forget(node)

    def forget(self, node: NodeId) -> None:
        """It is no longer suspected of anything."""
        self._mesh.quarantined.pop(node, None)
        self._signs_us.pop(node, None)
