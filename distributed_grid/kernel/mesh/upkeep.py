"""What time alone brings: beats, rounds of gossip, dials, links let go, expiries, the copy on disk.

Lives here: one effect for each clock of a mesh. Never here: what others cause (`machine`).
Invariant: nothing is done more often than its interval, however often the clock is read.
"""

from typing import TYPE_CHECKING, Final, Literal

import msgspec

from distributed_grid.kernel.mesh.events import MeshReady, Now, Tick
from distributed_grid.kernel.mesh.pool import surplus
from distributed_grid.kernel.mesh.rules import SECOND_US
from distributed_grid.kernel.mesh.topology import gossip_peers
from distributed_grid.model.membership import GRACE_MS
from distributed_grid.wire.mesh import Goodbye

if TYPE_CHECKING:
    from distributed_grid.kernel.mesh.machine import Mesh

UPKEEP_US: Final = 60 * SECOND_US  # Expiries, tombstones, the copy on disk.
SAVE_SOON_US: Final = 2 * SECOND_US  # After somebody came or went.


class Upkeep:
    """The clocks of one mesh."""

    def __init__(self, mesh: "Mesh", now: Now) -> None:
        self._mesh = mesh
        self._gossip_us = self._upkeep_us = self._second_us = now.mono_us
        self._save_us: int | None = None
        self._is_refreshing = False

    def tick(self, event: Tick, ready: MeshReady) -> None:
        """Whatever is due."""
        mesh, now = self._mesh, event.now
        ready.datagrams += mesh.liveness.tick(now.mono_us, mesh.links)
        mesh.verdicts(now, ready)
        if now.mono_us >= self._gossip_us:
            self._gossip_us = now.mono_us + mesh.rules.gossip_us
            mesh.rounds += 1
            self._round(now, ready)
        if now.mono_us >= self._second_us:
            self._second_us = now.mono_us + SECOND_US
            self._let_go(now, ready)
            mesh.membership.renewing.keep_valid(now, ready)
        if now.mono_us >= self._upkeep_us or (self._save_us and now.mono_us >= self._save_us):
            self._tidy(now, ready)

    def save_soon(self, now: Now) -> None:
        """Something changed that the next start should know."""
        self._save_us = self._save_us or now.mono_us + SAVE_SOON_US

    def refresh_soon(self) -> None:
        """Somebody came or went: looked at once a round, not for each of a thousand that come."""
        self._is_refreshing = True

    def _round(self, now: Now, ready: MeshReady) -> None:
        mesh = self._mesh
        assert mesh.replica is not None, "only members tick"
        if self._is_refreshing:
            self._is_refreshing = False
            mesh.refresh(now)
        self._locate(now)
        mesh.neighbourhood.pass_time(now.mono_us)
        place = mesh.neighbourhood.place()
        linked = [peer for peer in place.neighbours if peer in mesh.links]
        peers = gossip_peers(mesh.me, linked, essential=place.essential)
        partners = (*peers, *mesh.neighbourhood.hidden()) if peers else sorted(mesh.links)
        ready.messages += mesh.replica.round(partners, now.mono_us)
        self._dial(now, ready)

    def _dial(self, now: Now, ready: MeshReady) -> None:
        mesh = self._mesh
        wanted = dict.fromkeys((*mesh.liveness.wanted_links(), *mesh.neighbours()))
        if not mesh.links:  # A crash right after joining: nobody else is known yet.
            wanted |= dict.fromkeys(mesh.membership.hints)
        for peer in wanted:
            if peer in mesh.links:
                mesh.links[peer].wanted_us = now.mono_us
        out = {*mesh.links, *mesh.faults.refused(now.mono_us)}
        able = [peer for peer in wanted if peer not in out and mesh.contact(peer)]
        for peer in mesh.dialling.due(able, mesh.links, now.mono_us):
            contact = mesh.contact(peer)
            assert contact is not None, "just looked at"
            ready.dial.append(contact)

    def _let_go(self, now: Now, ready: MeshReady) -> None:
        """Links that nobody needs any more."""
        mesh = self._mesh
        used_us = {peer: link.wanted_us for peer, link in mesh.links.items()}
        for peer in surplus(
            used_us,
            neighbours=frozenset(mesh.neighbours()),
            connections_max=mesh.rules.connections_max,
            idle_us=mesh.rules.idle_us,
            now_us=now.mono_us,
        ):
            is_idle = now.mono_us - used_us[peer] >= mesh.rules.idle_us
            reason: Literal["idle", "full"] = "idle" if is_idle else "full"
            ready.messages.append((peer, Goodbye(reason=reason)))
            ready.hang_up.append((peer, reason))

    def _locate(self, now: Now) -> None:
        """Learn from round trips where this node stands, and say so when it has moved."""
        mesh = self._mesh
        for peer, rtt_us in mesh.liveness.take_rtts():
            theirs = mesh.said.coordinate(peer)
            if theirs is not None:
                mesh.positioning.learn(peer, theirs, rtt_us)
        rtts = filter(None, (mesh.liveness.rtt_us(peer) for peer in mesh.links))
        speeds = filter(None, (link.bandwidth_kbps for link in mesh.links.values()))
        position = mesh.positioning.news(rtts, speeds, now.mono_us)
        if position is not None:
            mesh.publish({"coordinate": msgspec.msgpack.encode(position)}, now)

    def _tidy(self, now: Now, ready: MeshReady) -> None:
        mesh = self._mesh
        roster, replica, wall_ms = mesh.roster, mesh.replica, mesh.wall_ms(now)
        assert roster is not None and replica is not None, "only members last"  # noqa: PT018
        self._upkeep_us = now.mono_us + UPKEEP_US
        self._save_us = None
        roster.see([mesh.me, *mesh.links], wall_ms)
        for node in roster.review(wall_ms):
            ready.hang_up.append((node, "expired"))
        for node in replica.drop_old(now.mono_us, GRACE_MS * 1_000):
            mesh.forget(node)
        for node in roster.outlived(wall_ms):
            if node != mesh.me:
                replica.forget(node, may_return=True)  # Should it be renewed, or our clock be set.
                mesh.forget(node)
        mesh.end_quarantines(now)
        mesh.refresh(now)
        mesh.membership.save_known(now, ready)
