"""People's own policies and filters, from the packages they installed.

Lives here: finding and loading entry points. Never here: what a policy may do (`kernel.placement`).

A package registers them by name:

    [project.entry-points."distributed_grid.policies"]
    quiet = "my_package:quiet"
    [project.entry-points."distributed_grid.filters"]
    licensed = "my_package:licensed"
"""

from importlib.metadata import entry_points
from typing import Any

from distributed_grid.errors import BrokenPlugin

POLICIES_GROUP = "distributed_grid.policies"
FILTERS_GROUP = "distributed_grid.filters"


def own_policies() -> dict[str, Any]:
    """Every installed policy that is not Grid's own, by name."""
    return _loaded(POLICIES_GROUP, "policy")


def own_filters() -> dict[str, Any]:
    """Every installed filter, by name."""
    return _loaded(FILTERS_GROUP, "filter")


def _loaded(group: str, kind: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for entry in sorted(entry_points(group=group), key=lambda entry: (entry.name, entry.value)):
        if entry.name in found:
            raise BrokenPlugin(kind, entry.name, why="two packages register that name")
        try:
            loaded = entry.load()
        except Exception as error:  # Anything may happen in code that is not ours.
            raise BrokenPlugin(kind, entry.name, why=repr(error)) from error
        if not callable(loaded):
            raise BrokenPlugin(kind, entry.name, why=f"{entry.value} cannot be called")
        found[entry.name] = loaded
    return found
