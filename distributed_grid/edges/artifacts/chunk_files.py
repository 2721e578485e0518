"""One file of the store of chunks: what it is called, how it is written, how it looks.

Lives here: names and single files. Never here: which there are, room, pins (`chunks`).
Invariant: a file is called by the digest of its bytes; `write_whole` wrote all of them or raised.
"""

import os
from typing import NamedTuple

from distributed_grid.model import artifact


class Look(NamedTuple):
    """A file whose bytes were right."""

    inode: int
    size: int
    mtime_ns: int
    ctime_ns: int  # Any change of it, or of its name, moves this.
    until_ns: int  # Then it is looked through again.


def look(status: os.stat_result, until_ns: int) -> Look:
    """How a file looks."""
    return Look(status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns, until_ns)


def name_of(data: bytes, *, is_manifest: bool) -> bytes:
    """The name that these bytes deserve."""
    return bytes.fromhex(artifact.id_of(data)) if is_manifest else artifact.digest(data)


def digest_of(name: str) -> bytes:
    """The digest that a file is called by; empty: it is not one of ours."""
    try:
        found = bytes.fromhex(name)
    except ValueError:
        return b""
    return found if len(found) == artifact.DIGEST_BYTES and found.hex() == name else b""


def folder_of(is_manifest: bool) -> str:
    """Where it is."""
    return "manifests" if is_manifest else "chunks"


def write_whole(path: str, data: bytes) -> None:
    """Write a file that is not there yet. Raises OSError."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(descriptor, rest) :]
    finally:
        os.close(descriptor)


def sync(path: str, flags: int) -> None:
    """Make a file or a folder durable. Raises OSError."""
    descriptor = os.open(path, flags | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
