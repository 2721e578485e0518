"""Who is alive: no death without a reason, none unnoticed, no clone where there is none.

Lives here: the rules over verdicts. Never here: exact limits on a calm mesh (`acts`).
"""

from collections import Counter
from typing import Final

from distributed_grid.model.ids import NodeId
from distributed_grid.sim.mesh.checker import Checker, Violation
from distributed_grid.sim.mesh.host import Host
from distributed_grid.sim.mesh.timeline import SECOND_US
from distributed_grid.sim.mesh.world import World

DOUBTS_MAX: Final = 1  # For each pair in a whole run.


class NobodyDiesForNothing(Checker):
    """Whoever was awake, and connected with the observer by links that worked, is not dead.

    Nor does it flap: who loses datagrams may suspect such a one once, but not again and again.
    """

    def __init__(self) -> None:
        self._doubts: Counter[tuple[str, NodeId]] = Counter()  # (observer, whom it suspected).

    def happened(self, world: World, host: Host, name: str, node: NodeId) -> None:
        """Look for a way between the two that has held for long enough."""
        other = world.host(node)
        if name not in {"node.dead", "node.suspect"} or other is None:
            return
        window_us = 2 * world.rules.liveness.dead_us + SECOND_US
        if not _is_way(world, host, other, world.timeline.now_us - window_us):
            return
        if name == "node.dead":
            raise Violation(f"{host} thinks that {other} died, and nothing was the matter")
        self._doubts[host.name, node] += 1
        if self._doubts[host.name, node] > DOUBTS_MAX:
            raise Violation(f"{host} suspects {other} again, and nothing was the matter")


def _is_way(world: World, host: Host, other: Host, since_us: int) -> bool:
    """Whether links that have held since then lead from one to the other."""
    good: dict[Host, list[Host]] = {}
    for connection in world.network.connections:
        if connection.good_since_us is not None and connection.good_since_us <= since_us:
            one, two = connection.ends
            good.setdefault(one, []).append(two)
            good.setdefault(two, []).append(one)
    seen, edge = {host}, [host]
    while edge:
        edge = [far for near in edge for far in good.get(near, ()) if far not in seen]
        edge = list(dict.fromkeys(edge))
        seen.update(edge)
    return other in seen


class DeathsAreNoticed(Checker):
    """Who is down for long is dead for everyone who was awake all the time."""

    def __init__(self) -> None:
        self._down_us: dict[NodeId, int] = {}
        self._awake_us: dict[NodeId, int] = {}

    def looked(self, world: World) -> None:
        """Twice the limit, for an observer that hears few waits twice as long; and some room."""
        now_us = world.timeline.now_us
        for host in world.hosts:
            if host.is_awake and host.kernel.roster is not None:
                self._down_us.pop(host.id, None)
                self._awake_us.setdefault(host.id, now_us)
            else:
                self._awake_us.pop(host.id, None)
                self._down_us.setdefault(host.id, now_us)
        rules = world.rules.liveness
        long_ago_us = now_us - 2 * rules.dead_us - 5 * rules.period_us - SECOND_US
        down = [one for one in world.hosts if self._down_us.get(one.id, now_us) < long_ago_us]
        awake = [one for one in world.hosts if self._awake_us.get(one.id, now_us) < long_ago_us]
        for dead in down:
            for host in awake:
                self._compare(host, dead, now_us - long_ago_us)

    def crashed(self, world: World, host: Host) -> None:
        """It starts with nothing but what is on disk."""
        self._awake_us.pop(host.id, None)

    def _compare(self, host: Host, dead: Host, long_us: int) -> None:
        mesh = host.kernel
        if mesh.roster is None or not mesh.roster.is_member(dead.id) or mesh.has_left(dead.id):
            return
        health = mesh.liveness.health(dead.id)
        # Who has just heard of it begins to count then.
        if health.health != "dead" and host.now().mono_us - health.since_us > long_us:
            raise Violation(f"{host} has not noticed that {dead} is down: {health}")


class SleepersWakeQuietly(Checker):
    """Who wakes up does not think that the others died, if the network is as it was.

    Nor does it suspect them at once: that it has not heard of them is its own doing.
    """

    def happened(self, world: World, host: Host, name: str, node: NodeId) -> None:
        """In the first moments only those who really are away may look dead."""
        other, rules = world.host(node), world.rules.liveness
        limits_us = {"node.dead": rules.dead_us, "node.suspect": rules.suspect_us // 4}
        if other is None or host.woke_us is None or name not in limits_us:
            return
        if world.timeline.now_us - host.woke_us >= limits_us[name]:
            return
        network, others = world.network, [one for one in world.insiders() if one is not host]
        if network.blocked or network.loss_milli or not all(one.is_awake for one in others):
            return
        troubles_us = [max(one.started_us, one.woke_us or 0) for one in others]
        calm_us = world.timeline.now_us - max(network.changed_us, *troubles_us)
        if other in others and calm_us > 3 * world.rules.liveness.dead_us:
            raise Violation(f"{host} wakes up and thinks {other} {name}")


class NobodyIsACloneForNothing(Checker):
    """A start, a lost disk, an old disk: none of them is a clone."""

    def happened(self, world: World, host: Host, name: str, node: NodeId) -> None:
        """There is one in the last act only."""
        if name == "mesh.clone" and not world.network.doubles:
            raise Violation(f"{host} takes {world.names.get(node)} for a clone")
