"""What the mesh needs of keys: ed25519 in the product, a keyed hash in the simulator.

Lives here: the two shapes. Never here: the keys (`edges.keys`, `sim.keys`).
Invariant: signing is a function of key and message; there is no chance in it.
"""

from collections.abc import Callable
from typing import Protocol


class Signer(Protocol):
    """Holds a private key and never shows it."""

    @property
    def public(self) -> str:
        """The public key, as 64 hex digits."""
        ...

    def sign(self, message: bytes) -> bytes:
        """64 bytes."""
        ...


Verify = Callable[[str, bytes, bytes], bool]  # (public key, message, signature)
