"""Whom this node takes for dead, since when, and whether that counts already.

Lives here: the last view, and the moments at which somebody died in it. Never here: finding out who
is alive (`kernel.mesh`), what follows from it (`takeover`, `holders`).
Invariant: after a start nobody counts as dead before the mesh has had time to show itself.
"""

from typing import Final

from distributed_grid.kernel.across.peers import NOBODY, Peers, turned
from distributed_grid.model.ids import NodeId

START_MS: Final = 5_000  # After a start: until the links are up and everybody was heard.
RESTART_MS_MAX: Final = 60_000  # Of a planned restart: for longer nobody is waited for.


class Verdicts:
    """The other nodes as they are seen from here."""

    def __init__(self, me: NodeId) -> None:
        self.me = me
        self.peers: Peers = NOBODY
        self._dead: dict[NodeId, int] = {}  # Since when.
        self._begun_ms: int | None = None

    def begin(self, now_ms: int) -> None:
        """The clock of this start runs from its first word on."""
        if self._begun_ms is None:
            self._begun_ms = now_ms

    def is_settled(self, now_ms: int) -> bool:
        """Whether the mesh has had the time to show itself."""
        self.begin(now_ms)
        assert self._begun_ms is not None, "begun above"
        return now_ms >= self._begun_ms + START_MS

    def see(self, peers: Peers, now_ms: int) -> tuple[list[NodeId], list[NodeId]]:
        """The nodes as they are now; answers who died and who came, in order."""
        self.begin(now_ms)
        before, self.peers = self.peers, peers
        died, came = turned(before, peers)
        for node in died:
            self._dead[node] = now_ms
        for node in came:
            self._dead.pop(node, None)
        return died, came

    def sees(self, node: NodeId) -> bool:
        """Whether another node is alive, as far as we know."""
        peer = self.peers.get(node)
        return peer is not None and peer.is_alive

    def gone_since_ms(self, node: NodeId, now_ms: int) -> int | None:
        """Since when a node is dead and not only away for a restart; None: it is not."""
        self.begin(now_ms)
        if node == self.me or self.sees(node):
            return None
        assert self._begun_ms is not None, "begun above"
        since_ms = max(self._dead.setdefault(node, now_ms), self._begun_ms + START_MS)
        peer = self.peers.get(node)
        if peer is not None and peer.restarting_until_ms:
            since_ms = max(since_ms, min(peer.restarting_until_ms, since_ms + RESTART_MS_MAX))
        return since_ms if since_ms <= now_ms else None

    def is_gone(self, node: NodeId, now_ms: int) -> bool:
        """Whether nobody should wait for it."""
        return self.gone_since_ms(node, now_ms) is not None
