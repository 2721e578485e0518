"""The key of a mesh, on the machine that founded it, and its recovery copy.

Lives here: the two files. Never here: what the authority signs (`kernel.mesh.trust`).
Invariant: a mesh is founded only when both files are written.
"""

import contextlib
from pathlib import Path
from typing import Final, NamedTuple

from distributed_grid.edges.keys.key import Key, KeyUnusable, sync_directory

AUTHORITY_FILE: Final = "mesh-authority.key"


class Authority(NamedTuple):
    """The key of a mesh, and where its copy is."""

    key: Key
    recovery: Path


def create_authority(data_dir: Path, recovery_dir: Path | None = None) -> Authority:
    """Make the key of a new mesh, with its copy.

    A second call goes on where the first one was interrupted. Whoever founds another mesh sets the
    old key aside first.
    """
    path = data_dir / AUTHORITY_FILE
    try:
        key = Key.from_file(path)
    except FileNotFoundError:
        key = Key.create(path)
    recovery = (recovery_dir or data_dir) / f"grid-recovery-{key.public[:8]}.key"
    try:
        copy = Key.from_file(recovery)
    except FileNotFoundError:
        key.write(recovery)
        return Authority(key, recovery)
    if copy.public != key.public:
        raise KeyUnusable(
            str(recovery), why="is the key of another mesh", remedy="Move it to a safe place"
        )
    return Authority(key, recovery)


def load_authority(data_dir: Path) -> Key | None:
    """The key of the mesh, if this machine has it; raises KeyUnusable."""
    try:
        return Key.from_file(data_dir / AUTHORITY_FILE)
    except FileNotFoundError:
        return None


def set_authority_aside(data_dir: Path) -> Path | None:
    """Keep the key under a name by which nobody uses it: this node has left that mesh."""
    key = load_authority(data_dir)
    if key is None:
        return None
    kept = data_dir / f"mesh-authority-{key.public[:8]}.key"
    with contextlib.suppress(FileExistsError):
        kept.hardlink_to(data_dir / AUTHORITY_FILE)
    (data_dir / AUTHORITY_FILE).unlink()
    sync_directory(data_dir)
    return kept
