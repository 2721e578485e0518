"""People's own policies and filters, from the packages they installed.

Lives here: finding and loading entry points. Never here: what a policy may do (`kernel.placement`).
Invariant: a policy is loaded when somebody asks for it by name, so a broken one harms nobody else;
filters guard every decision, so all of them are loaded, and a broken one stops everything.

A package registers them by name:

    [project.entry-points."distributed_grid.policies"]
    quiet = "my_package:quiet"
    [project.entry-points."distributed_grid.filters"]
    licensed = "my_package:licensed"
"""

from collections.abc import Iterator, Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from distributed_grid.errors import BrokenPlugin

POLICIES_GROUP = "distributed_grid.policies"
FILTERS_GROUP = "distributed_grid.filters"


def own_policies() -> Mapping[str, Any]:
    """Every installed policy that is not Grid's own, by name; each is loaded when it is read."""
    return _Plugins(POLICIES_GROUP, "policy")


def own_filters() -> dict[str, Any]:
    """Every installed filter, by name."""
    return dict(_Plugins(FILTERS_GROUP, "filter"))


class _Plugins(Mapping[str, Any]):
    """Entry points of one group; reading one loads it."""

    def __init__(self, group: str, kind: str) -> None:
        self._kind = kind
        self._found: dict[str, list[EntryPoint]] = {}
        for entry in sorted(entry_points(group=group), key=lambda entry: (entry.name, entry.value)):
            self._found.setdefault(entry.name, []).append(entry)

    def __getitem__(self, name: str) -> Any:
        entry, *others = self._found[name]
        if others:
            raise BrokenPlugin(self._kind, name, why="two packages register that name")
        try:
            loaded = entry.load()
        except Exception as error:  # Anything may happen in code that is not ours.
            raise BrokenPlugin(self._kind, name, why=repr(error)) from error
        if not callable(loaded):
            raise BrokenPlugin(self._kind, name, why=f"{entry.value} cannot be called")
        return loaded

    def __iter__(self) -> Iterator[str]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)
