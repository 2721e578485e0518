"""The face of seed 002 (StratoSwarm cluster-mesh): a mesh of very different machines.

Lives here: the public names, loaded on first use. Never here: what they do.
"""

import importlib
from typing import Any, Final

_HOMES: Final[dict[str, str]] = {
    "Assignment": "distributed_grid.cluster_mesh.distributor",
    "ClusterMesh": "distributed_grid.cluster_mesh.mesh",
    "ClusterMetrics": "distributed_grid.cluster_mesh.monitor",
    "ClusterMonitor": "distributed_grid.cluster_mesh.monitor",
    "ClusterScaler": "distributed_grid.cluster_mesh.scaler",
    "Job": "distributed_grid.cluster_mesh.work",
    "JobBuilder": "distributed_grid.cluster_mesh.work",
    "MeshConfig": "distributed_grid.cluster_mesh.mesh_config",
    "NodeClass": "distributed_grid.model.node_class",
    "NodeClassifier": "distributed_grid.cluster_mesh.classifier",
    "NodeEvents": "distributed_grid.cluster_mesh.node_events",
    "NodeJoined": "distributed_grid.cluster_mesh.node_events",
    "NodeLeft": "distributed_grid.cluster_mesh.node_events",
    "NodeUpdated": "distributed_grid.cluster_mesh.node_events",
    "PowerAwarePolicy": "distributed_grid.cluster_mesh.policies",
    "ScalingPolicy": "distributed_grid.kernel.scaling",
    "SchedulingPolicy": "distributed_grid.cluster_mesh.policies",
    "TopologyType": "distributed_grid.cluster_mesh.mesh_config",
    "WorkDistributor": "distributed_grid.cluster_mesh.distributor",
}

__all__ = [
    "Assignment",
    "ClusterMesh",
    "ClusterMetrics",
    "ClusterMonitor",
    "ClusterScaler",
    "Job",
    "JobBuilder",
    "MeshConfig",
    "NodeClass",
    "NodeClassifier",
    "NodeEvents",
    "NodeJoined",
    "NodeLeft",
    "NodeUpdated",
    "PowerAwarePolicy",
    "ScalingPolicy",
    "SchedulingPolicy",
    "TopologyType",
    "WorkDistributor",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
