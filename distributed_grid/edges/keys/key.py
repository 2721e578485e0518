"""An ed25519 key and its file.

Lives here: making, reading, signing, verifying. Never here: whose key it is
(`identity`, `authority`).
Invariant: a key file is whole or absent, and a key that others could have read is not used.
"""

import contextlib
import errno
import os
import stat
from pathlib import Path
from typing import Final, NoReturn

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import (
    Ed25519PrivateKey,
    Ed25519PublicKey,
)

from distributed_grid.errors import GridError

KEY_BYTES: Final = 32
_OPEN: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


class KeyUnusable(GridError):
    """A key file that cannot be used."""

    def __init__(self, path: str, *, why: str, remedy: str) -> None:
        self.path, self.why = path, why
        super().__init__(f"{path}: {why}", remedy=remedy)


class Key:
    """A private key. It signs, and shows its public half only."""

    __slots__ = ("_private", "public")

    def __init__(self, secret: bytes) -> None:
        self._private = Ed25519PrivateKey.from_private_bytes(secret)
        self.public = self._private.public_key().public_bytes_raw().hex()

    @classmethod
    def create(cls, path: Path) -> "Key":
        """A new key in a new file; raises KeyUnusable if there is one, or it cannot be written."""
        key = cls(Ed25519PrivateKey.generate().private_bytes_raw())
        key.write(path)
        return key

    @classmethod
    def from_file(cls, path: Path) -> "Key":
        """The key in a file; raises KeyUnusable, FileNotFoundError if there is none."""
        try:
            descriptor = os.open(path, _OPEN)
        except FileNotFoundError:
            raise
        except OSError as error:
            if error.errno == errno.ELOOP:
                _refuse(path, "is a link", "Put the key itself there, or remove the link")
            _refuse(path, f"cannot be read: {error.strerror}", "Check its owner and rights")
        try:
            _check(path, os.fstat(descriptor))
            return cls(os.read(descriptor, KEY_BYTES))
        finally:
            os.close(descriptor)

    def sign(self, message: bytes) -> bytes:
        """64 bytes."""
        return self._private.sign(message)

    def secret(self) -> bytes:
        """The key itself, for the transport, whose handshake is made with it."""
        return self._private.private_bytes_raw()

    def write(self, path: Path) -> None:
        """Into a new file, whole at once, readable by its owner only."""
        draft = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            draft.unlink(missing_ok=True)
            descriptor = os.open(
                draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600
            )
            with os.fdopen(descriptor, "wb") as file:
                os.fchmod(descriptor, 0o600)  # Whatever the umask was.
                file.write(self.secret())
                file.flush()
                os.fsync(descriptor)
            os.link(draft, path)  # Unlike a rename, it never replaces a key.
            sync_directory(path.parent)
        except FileExistsError:
            _refuse(path, "is there already", "Keys are never overwritten: move it away first")
        except OSError as error:
            why = f"cannot be written: {error.strerror}"
            _refuse(path, why, "Make space, or give yourself the right to write there")
        finally:
            with contextlib.suppress(OSError):
                draft.unlink(missing_ok=True)

    def __repr__(self) -> str:
        return f"<Key {self.public[:8]}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a key does not travel")


def verify(public: str, message: bytes, signature: bytes) -> bool:
    """Whether that key signed that message. Any junk is just not signed."""
    try:
        raw = bytes.fromhex(public)
        if raw.hex() != public:  # Spaces, upper case: another spelling would be another node.
            return False
        Ed25519PublicKey.from_public_bytes(raw).verify(signature, message)
    except (InvalidSignature, ValueError, TypeError):
        return False
    return True


def sync_directory(path: Path) -> None:
    """Make names in a directory durable."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _check(path: Path, found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        _refuse(path, "is no file", "Remove what stands in its place")
    if found.st_uid != os.geteuid():
        remedy = "Run as that user, or set GRID_HOME to a directory of your own"
        _refuse(path, f"belongs to another user (uid {found.st_uid})", remedy)
    if stat.S_IMODE(found.st_mode) & 0o077:
        _refuse(
            path,
            "others can read this key",
            f"If nobody has: chmod 600 {path}; else become a new node: grid up --new-identity",
        )
    if found.st_size != KEY_BYTES:
        remedy = "Put back a copy, or remove it: a new node is made, which needs a ticket"
        _refuse(path, f"is no key: {found.st_size} bytes instead of {KEY_BYTES}", remedy)


def _refuse(path: Path, why: str, remedy: str) -> NoReturn:
    raise KeyUnusable(str(path), why=why, remedy=remedy) from None
