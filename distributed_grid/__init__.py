"""One computer out of many.

The public names, sorted, loaded on first use: no command imports what it does not need.
"""

import importlib
from typing import Any, Final

__version__: Final = "0.2.0"

_HOMES: Final[dict[str, str]] = {
    "AsyncCluster": "distributed_grid.client.async_cluster",
    "AsyncJobHandle": "distributed_grid.client.async_cluster",
    "Cluster": "distributed_grid.client.cluster",
    "Executor": "distributed_grid.client.futures.executor",
    "GridError": "distributed_grid.errors",
    "JobHandle": "distributed_grid.client.cluster",
    "JobSpec": "distributed_grid.model.job",
    "JobView": "distributed_grid.wire.api",
    "NodeClass": "distributed_grid.model.node_class",
    "NodeRecord": "distributed_grid.model.node",
    "NotEnded": "distributed_grid.client.calls",
    "Resources": "distributed_grid.model.resources",
    "connect": "distributed_grid.client.cluster",
    "connect_async": "distributed_grid.client.async_cluster",
    "place": "distributed_grid.kernel.placement",
}

__all__ = [
    "AsyncCluster",
    "AsyncJobHandle",
    "Cluster",
    "Executor",
    "GridError",
    "JobHandle",
    "JobSpec",
    "JobView",
    "NodeClass",
    "NodeRecord",
    "NotEnded",
    "Resources",
    "connect",
    "connect_async",
    "place",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
