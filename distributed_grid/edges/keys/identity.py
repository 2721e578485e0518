"""Who this node is, and that it is still on the machine on which it was made.

Lives here: `identity.key` and, beside it, `identity.json` with the machine's fingerprint. Never
here: two nodes that use one key at once, which only others can see (`kernel.mesh.clones`).
Invariant: the binding is written before the key; a key without one came from elsewhere.
"""

import os
from pathlib import Path
from typing import Final, Literal

import msgspec

from distributed_grid.edges.keys.authority import set_authority_aside
from distributed_grid.edges.keys.key import Key, KeyUnusable, sync_directory
from distributed_grid.errors import IdentityMoved
from distributed_grid.model.bounds import Name
from distributed_grid.model.ids import NodeId

KEY_FILE: Final = "identity.key"
BINDING_FILE: Final = "identity.json"
BINDING_BYTES_MAX: Final = 4_096

WhenMoved = Literal["refuse", "new-identity", "moved-here"]


class Binding(msgspec.Struct, frozen=True, kw_only=True):
    """What stands in `identity.json`."""

    machine: Name


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """This node."""

    key: Key
    machine: str
    is_new: bool  # Made now: whatever else is in the data directory was another node's.

    @property
    def node(self) -> NodeId:
        """Its id: the public key."""
        return NodeId(self.key.public)


def load_identity(data_dir: Path, *, machine: str, when_moved: WhenMoved = "refuse") -> Identity:
    """The identity in a data directory, made if there is none; raises IdentityMoved, KeyUnusable.

    `new-identity` makes another one in any case: a machine that was cloned together with its id can
    be told only by others. `moved-here` believes that this machine is the right one from now on.
    """
    path = data_dir / KEY_FILE
    if when_moved == "new-identity":
        _set_aside(path)
        set_authority_aside(data_dir)
    try:
        key = Key.from_file(path)
    except FileNotFoundError:
        _bind(data_dir, machine)
        return Identity(key=Key.create(path), machine=machine, is_new=True)
    if when_moved == "moved-here":
        _bind(data_dir, machine)
    elif _bound_to(data_dir) != machine:
        raise IdentityMoved(str(data_dir), node=key.public)
    return Identity(key=key, machine=machine, is_new=False)


def _bound_to(data_dir: Path) -> str:
    """The machine's fingerprint in the binding; empty if there is none to read."""
    try:
        with (data_dir / BINDING_FILE).open("rb") as file:
            body = file.read(BINDING_BYTES_MAX)
        return msgspec.json.decode(body, type=Binding).machine
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return ""


def _bind(data_dir: Path, machine: str) -> None:
    path = data_dir / BINDING_FILE
    draft = path.with_name(f".{BINDING_FILE}.{os.getpid()}")
    try:
        with draft.open("wb") as file:
            os.fchmod(file.fileno(), 0o600)
            file.write(msgspec.json.encode(Binding(machine=machine)) + b"\n")
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
        sync_directory(data_dir)
    except OSError as error:
        raise KeyUnusable(
            str(path),
            why=f"cannot be written: {error.strerror}",
            remedy="Make space, or give yourself the right to write there",
        ) from error


def _set_aside(path: Path) -> None:
    """Keep a key that is no longer used under another name: nothing that exists once is deleted."""
    try:
        kept = path.with_name(f"identity-{Key.from_file(path).public[:8]}.key")
    except FileNotFoundError:
        return
    except KeyUnusable:
        kept = path.with_name("identity-unusable.key")
    path.replace(kept)
