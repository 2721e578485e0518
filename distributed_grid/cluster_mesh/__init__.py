"""The face of seed 002 (StratoSwarm cluster-mesh): a mesh of very different machines.

Lives here: the public names, loaded on first use. Never here: what they do.
"""

import importlib
from typing import Any, Final

_HOMES: Final[dict[str, str]] = {
    "NodeClass": "distributed_grid.model.node_class",
    "NodeClassifier": "distributed_grid.cluster_mesh.classifier",
    "PowerAwarePolicy": "distributed_grid.cluster_mesh.policies",
    "SchedulingPolicy": "distributed_grid.cluster_mesh.policies",
}

__all__ = ["NodeClass", "NodeClassifier", "PowerAwarePolicy", "SchedulingPolicy"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
