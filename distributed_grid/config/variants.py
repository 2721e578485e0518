"""The variants in which people have `cluster_config.yaml`, made one.

Lives here: names instead of machines, the `cluster:` wrapper, sections in their old places.
Never here: what a key may hold (`cluster_file`).
Invariant: nothing is dropped; what was moved is told, and keeps its line.
"""

from typing import Any

from distributed_grid.errors import BadInput


class Located:
    """A document with the lines of its keys, and what should be told about it."""

    def __init__(self, file: str, document: Any, lines: dict[str, int]) -> None:
        self.file, self.lines = file, dict(lines)
        self.notes: list[str] = []
        if not isinstance(document, dict):
            raise BadInput(
                file,
                path="$",
                problem="is no mapping of keys",
                remedy="Write it as `grid init` does",
            )
        self.document: dict[str, Any] = {
            key: dict(value) if isinstance(value, dict) else value
            for key, value in document.items()
        }

    def note(self, path: str, words: str) -> None:
        """Tell a person something about a path."""
        line = self.lines.get(path, 0)
        self.notes.append(f"{self.file}:{line}: {words}" if line else f"{self.file}: {words}")

    def move(self, path: str, to: str) -> None:
        """Let the lines below one path count below another."""
        for old in [old for old in self.lines if old == path or old.startswith(f"{path}.")]:
            self.lines[to + old[len(path) :]] = self.lines[old]


def normalised(file: str, document: Any, lines: dict[str, int]) -> Located:
    """The one shape of all variants."""
    found = Located(file, document, lines)
    _unwrap(found)
    _move_sharing(found)
    _name_machines(found)
    if found.document.get("nodes") and not found.document.get("name"):
        found.note("$.nodes", "the cluster has no name; `name: home` would give it one")
    return found


def _unwrap(found: Located) -> None:
    """`cluster: {name: …, nodes: …}` is the top level."""
    inside = found.document.pop("cluster", None)
    if inside is None:
        return
    if not isinstance(inside, dict):
        raise BadInput(
            found.file,
            path="$.cluster",
            problem="is no mapping of keys",
            remedy="Write its keys below it, or at the top level",
            line=found.lines.get("$.cluster", 0),
        )
    for key, value in inside.items():
        if key in found.document:
            raise BadInput(
                found.file,
                path="$.cluster",
                problem=f"has the key '{key}', which is at the top level too",
                remedy="Keep one of them",
                line=found.lines.get(f"$.cluster.{key}", 0),
            )
        found.document[key] = value
        found.move(f"$.cluster.{key}", f"$.{key}")
    found.note("$.cluster", "what is below 'cluster' counts as the top level")


def _move_sharing(found: Located) -> None:
    """`execution.resource_sharing` is the old place of the section; it overrides the new one."""
    execution = found.document.get("execution")
    if not isinstance(execution, dict) or execution.get("resource_sharing") is None:
        return
    moved = execution["resource_sharing"]
    found.document["execution"] = {k: v for k, v in execution.items() if k != "resource_sharing"}
    section = found.document.get("resource_sharing")
    told = "'execution.resource_sharing' counts as 'resource_sharing'"
    if isinstance(moved, dict) and isinstance(section, dict):
        moved = _over(section, moved)
        told = "'execution.resource_sharing' wins over 'resource_sharing' where both say something"
    found.document["resource_sharing"] = moved
    found.move("$.execution.resource_sharing", "$.resource_sharing")
    found.note("$.execution.resource_sharing", told)


def _over(section: dict[str, Any], winner: dict[str, Any]) -> dict[str, Any]:
    """Both as one, key by key, in every mapping below too."""
    merged = dict(section)
    for key, value in winner.items():
        before = merged.get(key)
        if isinstance(before, dict) and isinstance(value, dict):
            value = _over(before, value)  # noqa: PLW2901
        merged[key] = value
    return merged


def _name_machines(found: Located) -> None:
    """A machine may be only its name."""
    nodes = found.document.get("nodes")
    if isinstance(nodes, list):
        found.document["nodes"] = [
            {"name": node} if isinstance(node, str) else node for node in nodes
        ]
