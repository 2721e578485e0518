"""Keys: what a node is known by, what a mesh is known by, and which machine they belong to.

Lives here: what the rest of Grid asks of keys. Never here: what a signature means
(`kernel.mesh.trust`).
Invariant: the bytes of a key are in its file (0600) and in its object, and in no text at all.
"""

from distributed_grid.edges.keys.authority import (
    AUTHORITY_FILE,
    create_authority,
    load_authority,
    set_authority_aside,
)
from distributed_grid.edges.keys.identity import Identity, load_identity
from distributed_grid.edges.keys.key import Key, KeyUnusable, verify
from distributed_grid.edges.keys.machine import machine_fingerprint

__all__ = [
    "AUTHORITY_FILE",
    "Identity",
    "Key",
    "KeyUnusable",
    "create_authority",
    "load_authority",
    "load_identity",
    "machine_fingerprint",
    "set_authority_aside",
    "verify",
]
