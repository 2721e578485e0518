"""A tree of a few files, written where a test needs only those.

Lives here: `grown`. Never here: whole machines (`planting`).
"""

from pathlib import Path

from distributed_grid.edges.probe.tree import Tree


def grown(root: Path, files: dict[str, str]) -> Tree:
    """Write these files below `root`, and hand back the tree."""
    for path, text in files.items():
        place = root / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    return Tree(str(root))
