"""One computer out of many.

The public names, sorted, loaded on first use: no command imports what it does not need.
"""

import importlib
from typing import Any, Final

__version__: Final = "0.1.0"

_HOMES: Final[dict[str, str]] = {
    "GridError": "distributed_grid.errors",
    "JobSpec": "distributed_grid.model.job",
    "NodeClass": "distributed_grid.model.node_class",
    "NodeRecord": "distributed_grid.model.node",
    "Resources": "distributed_grid.model.resources",
    "place": "distributed_grid.kernel.placement",
}

__all__ = ["GridError", "JobSpec", "NodeClass", "NodeRecord", "Resources", "place"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
