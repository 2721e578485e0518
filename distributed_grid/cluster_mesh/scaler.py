"""`ClusterScaler`: machines rest while there is little to do, and come back when there is much.

    scaler = ClusterScaler(mesh, ScalingPolicy(nodes_min=2), spares=["attic", "barn"])
    scaled = await scaler.step()
    print(scaled.rest, scaled.woken, scaled.why)

Lives here: how busy the mesh is, which of the spares rest, draining and undraining them. Never
here: how many there should be (`kernel.scaling`), switching a machine off: that is its owner's.
Invariant: only spares are drained or undrained, and a machine that rests has given its work away
first.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import msgspec

from distributed_grid.cluster_mesh.mesh import ClusterMesh
from distributed_grid.errors import MeshUnreachable
from distributed_grid.kernel.scaling import Load, Scaler, Scaling, ScalingPolicy
from distributed_grid.model import duration
from distributed_grid.model.milli import WHOLE
from distributed_grid.wire.mesh_api import NodeView

EVERY_S: Final = 15.0


class Scaled(msgspec.Struct, frozen=True, kw_only=True):
    """What a step did."""

    nodes: int  # In service after it.
    why: str
    rest: tuple[str, ...] = ()  # Names of those that were sent to rest,
    woken: tuple[str, ...] = ()  # and of those that take work again.


class ClusterScaler:
    """Keeps so many machines of a mesh in service as its work needs."""

    def __init__(
        self,
        mesh: ClusterMesh,
        policy: ScalingPolicy | None = None,
        *,
        spares: Iterable[str],
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._mesh = mesh
        self._spares = frozenset(spares)
        self._scaler = Scaler(policy or ScalingPolicy())
        self._clock_s = clock_s

    async def look(self) -> Scaling:
        """What a step would do now; nothing is done."""
        return self._decided(await self._mesh.list_nodes())

    async def step(self) -> Scaled:
        """Look, and let spares rest or take work again; who rests goes on giving its work away."""
        nodes = await self._mesh.list_nodes()
        decided = self._decided(nodes)
        is_out = decided.change > 0
        chosen = chosen_spares(nodes, self._spares, decided.change)
        names = tuple([node.name for node in chosen if await self._told(node, is_out=is_out)])
        if names:
            self._scaler.changed(self._now_ms())
        return Scaled(
            nodes=decided.before + (len(names) if is_out else -len(names)),
            why=decided.why,
            rest=() if is_out else names,
            woken=names if is_out else (),
        )

    async def run(self, every: float | str = EVERY_S) -> None:
        """A step now and then, until it is cancelled."""
        pause_s = duration.parse(every) / 1_000
        while True:
            await self.step()
            await asyncio.sleep(pause_s)

    async def _told(self, node: NodeView, *, is_out: bool) -> bool:
        """Whether it heard us; who did not is asked again at the next step."""
        cluster = self._mesh.cluster
        try:
            await (cluster.undrain(node.id) if is_out else cluster.drain(node.id))
        except MeshUnreachable:
            return False
        return True

    def _decided(self, nodes: Sequence[NodeView]) -> Scaling:
        return self._scaler.decide(load_of(nodes), self._now_ms())

    def _now_ms(self) -> int:
        return int(self._clock_s() * 1_000)


def load_of(nodes: Iterable[NodeView]) -> Load:
    """How busy those are that are in service; a job that waits anywhere counts."""
    there = list(nodes)
    serving = [node for node in there if _serves(node)]
    return Load(
        nodes=len(serving),
        used_milli=max(
            _used_milli(
                sum(node.cpu_milli_total for node in serving),
                sum(node.cpu_milli_free for node in serving),
            ),
            _used_milli(
                sum(node.gpus_total for node in serving) * WHOLE,
                sum(node.gpus_free_milli for node in serving),
            ),
        ),
        jobs_waiting=sum(node.jobs_waiting for node in there if node.health == "alive"),
    )


def chosen_spares(nodes: Iterable[NodeView], spares: frozenset[str], change: int) -> list[NodeView]:
    """Of the spares, those that come or go: the largest come first, the idlest go first."""
    ours = [one for one in nodes if not spares.isdisjoint((one.name, one.id))]
    if change > 0:
        at_rest = [one for one in ours if one.health == "alive" and one.is_draining]
        at_rest.sort(key=lambda one: (-one.cpu_milli_total, one.name))
        return at_rest[:change]
    serving = [one for one in ours if _serves(one)]
    serving.sort(key=lambda one: (one.jobs_running, one.cpu_milli_total, one.name))
    return serving[:-change]


def _serves(node: NodeView) -> bool:
    return node.health == "alive" and not node.is_draining


def _used_milli(total: int, free: int) -> int:
    return -((free - total) * WHOLE // total) if total else 0  # Rounded up: none too few.
