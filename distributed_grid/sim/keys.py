"""Keys without cryptography: a keyed hash stands in for ed25519, and is a hundred times as fast.

Lives here: keys made from a seed, verifying, forging. Never here: real keys (`edges.keys`).
Invariant: only the holder of a key makes a signature that verifies; a forgery has the right length
and the wrong bytes. The ring knows every secret, which is how it verifies: no use outside of a
simulation.
"""

import hashlib
from typing import Final

SIGNATURE_BYTES: Final = 64


class Key:
    """One key pair; a `kernel.mesh.signing.Signer`."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret
        self.public = hashlib.blake2b(secret, digest_size=32, person=b"grid sim key").hexdigest()

    def __repr__(self) -> str:
        return f"Key({self.public[:8]})"

    def sign(self, message: bytes) -> bytes:
        """64 bytes; the same for the same message."""
        return hashlib.blake2b(message, key=self._secret, digest_size=SIGNATURE_BYTES).digest()


class Keys:
    """Every key of one world."""

    def __init__(self, seed: int | str) -> None:
        self._seed = seed
        self._known: dict[str, Key] = {}

    def make(self, name: str) -> Key:
        """The key of this name: the same again for the same name."""
        key = Key(hashlib.blake2b(f"{self._seed}/{name}".encode(), digest_size=32).digest())
        return self._known.setdefault(key.public, key)

    def verify(self, public: str, message: bytes, signature: bytes) -> bool:
        """Whether the holder of this key signed it. Junk is just wrong."""
        key = self._known.get(public)
        return key is not None and key.sign(message) == signature

    def forge(self, public: str, message: bytes) -> bytes:
        """What an attacker without the key can make: it looks right."""
        return hashlib.blake2b(
            message, key=public.encode()[:64], digest_size=SIGNATURE_BYTES
        ).digest()
