"""What people write down for Grid: documents, fleets, jobs, settings.

Lives here: reading files that may be wrong, and saying so well. Never here: decisions on what
they say (`kernel`).
Invariant: a malformed file gives one `BadInput` with the path inside the file; never a
traceback, a hang, or memory without bound.
"""

from typing import Any

__all__ = ["ClusterConfig"]


def __getattr__(name: str) -> Any:
    # On first use: most of those who read a file do not need it.
    if name != "ClusterConfig":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from distributed_grid.config.cluster_config import ClusterConfig

    return ClusterConfig
