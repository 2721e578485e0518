"""`ClusterMonitor` of seed 002: the mesh in figures, and what happens in it.

    monitor = ClusterMonitor(mesh)
    metrics = await monitor.get_metrics()
    print(f"Total compute: {metrics.total_compute_power} TFLOPS")
    async for event in await monitor.watch_events():
        match event:
            case NodeJoined(node):
                print(f"Node {node.id} joined")

Lives here: sums. Never here: measuring (`edges.probe`), which event is which (`node_events`).
"""

import msgspec

from distributed_grid.cluster_mesh.mesh import ClusterMesh
from distributed_grid.cluster_mesh.node_events import NodeEvents

_TERA = 10**12


class ClusterMetrics(msgspec.Struct, frozen=True, kw_only=True):
    """The mesh in figures; the dead count for nothing."""

    total_compute_power: float  # TFLOPS: of cores as measured, of GPUs as their makers state.
    total_memory_tb: float  # 10^12 bytes.
    active_jobs: int  # That run.
    nodes: int


class ClusterMonitor:
    """Looks at a mesh."""

    def __init__(self, mesh: ClusterMesh) -> None:
        self._mesh = mesh

    async def get_metrics(self) -> ClusterMetrics:
        """The figures of this moment, of all nodes that are not dead."""
        nodes = [
            node for node in await self._mesh.list_nodes() if node.health not in ("dead", "down")
        ]
        return ClusterMetrics(
            # Summed up as integers: the order of nodes changes nothing.
            total_compute_power=sum(node.scores_tflops_milli for node in nodes) / 1_000,
            total_memory_tb=sum(node.memory_bytes_total for node in nodes) / _TERA,
            active_jobs=sum(node.jobs_running for node in nodes),
            nodes=len(nodes),
        )

    def watch_events(self) -> NodeEvents:
        """NodeJoined, NodeLeft and NodeUpdated from now on, without end.

        Await it to begin (nothing after that is missed), then iterate; or iterate at once.
        """
        return NodeEvents(self._mesh.cluster)
