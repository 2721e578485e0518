"""From a manifest to a directory.

Lives here: writing a tree that is not there yet. Never here: writing among files of people
(`outputs`).
Invariant: the directory is there whole, or not at all; nothing else is touched, whatever the
manifest says. It was read by `model.artifact.read`, so that its names lead nowhere; and links are
made last, when nothing is written any more.

Bytes are copied out of the store. A hard link would be quicker, and the first job that writes into
its file would write into the store.
"""

import contextlib
import errno
import itertools
import os
import shutil
import stat
import time
from collections.abc import Container, Iterable
from typing import Final

from distributed_grid.edges.artifacts import CacheError, CannotUnpack
from distributed_grid.edges.artifacts.chunks import ChunkStore
from distributed_grid.model.artifact import (
    CHUNK_BYTES_MAX,
    ROOT,
    Manifest,
    ManifestId,
    joined,
    stretches,
)

OPEN_FOR_US: Final = 0o700  # While a folder is filled; its own mode comes last.
STAMP_NS: Final = 10 * 10**9  # So far back lies the time of what was unpacked: see `changes`.
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_ZEROS: Final = bytes(CHUNK_BYTES_MAX)
_numbers: Final = itertools.count()


def unpack(store: ChunkStore, manifest_id: ManifestId, target: str) -> Manifest:
    """Make a directory that is not there yet. Raises CannotUnpack."""
    manifest = store.manifest(manifest_id)
    if manifest is None:
        raise CannotUnpack(target, why="its manifest is not here", lacking=1)
    draft = os.fsencode(f"{target.rstrip('/')}.part-{os.getpid()}-{next(_numbers)}")
    try:
        os.mkdir(draft, OPEN_FOR_US)
        fill(store, manifest, draft, target)
        _take_place(draft, os.fsencode(target))
        os.chmod(target, manifest.mode)
    except OSError as error:
        remove(draft)
        raise CannotUnpack(target, why=_why(error)) from error
    except BaseException:
        remove(draft)
        raise
    return manifest


def fill(store: ChunkStore, manifest: Manifest, root: bytes, target: str) -> None:
    """Write a manifest into an empty directory. Raises OSError, CannotUnpack."""
    paths = [joined(root, path) for path in manifest.folder_paths()]
    for path in paths:
        os.mkdir(path, OPEN_FOR_US)
    write_files(store, manifest, root, target)
    for link in manifest.links:
        folder = root if link.folder == ROOT else paths[link.folder]
        os.symlink(link.target, joined(folder, link.name))
    for path, entry in zip(reversed(paths), reversed(manifest.folders), strict=True):
        if entry.mode != OPEN_FOR_US:
            os.chmod(path, entry.mode)


def write_files(
    store: ChunkStore,
    manifest: Manifest,
    root: bytes,
    target: str,
    only: Container[int] | None = None,
) -> None:
    """Write its files, or some of them, into its folders. Raises OSError, CannotUnpack."""
    paths = [joined(root, path) for path in manifest.folder_paths()]
    with contextlib.closing(_Writer(manifest, root, paths)) as writer:
        digests = manifest.chunks
        data, loaded = None, b""
        for chunk, all_parts in stretches(manifest):
            parts = all_parts if only is None else [part for part in all_parts if part[0] in only]
            if not parts:
                continue
            if digests[chunk] != loaded:  # Zeros follow zeros.
                data, loaded = store.get(digests[chunk]), digests[chunk]
            if data is None or len(data) != manifest.sizes[chunk]:
                raise CannotUnpack(target, why=_lack(store, digests), lacking=1)
            writer.write(data, parts)
        writer.write_empty(only)


class _Writer:
    """Writes files one after the other; a large one stays open from chunk to chunk."""

    def __init__(self, manifest: Manifest, root: bytes, paths: list[bytes]) -> None:
        self._files = manifest.files
        self._root = root
        self._paths = paths
        self._open = -1  # A descriptor.
        self._number = -1  # Of the open file.
        self._stamp = ((time.time_ns() - STAMP_NS) // 10**9 * 10**9,) * 2

    def write(self, data: bytes, parts: Iterable[tuple[int, int, int]]) -> None:
        view = memoryview(data)
        for number, begin, end in parts:
            if number != self._number:
                self.close()
                self._begin(number)
            file = self._files[number]
            if end - begin == CHUNK_BYTES_MAX and data == _ZEROS:
                os.lseek(self._open, end - begin, os.SEEK_CUR)  # A hole stays one.
            else:
                _write(self._open, view[begin:end])
            if os.lseek(self._open, 0, os.SEEK_CUR) == file.size > CHUNK_BYTES_MAX:
                os.ftruncate(self._open, file.size)

    def write_empty(self, only: Container[int] | None) -> None:
        for number, file in enumerate(self._files):
            if not file.size and (only is None or number in only):
                self.close()
                self._begin(number)

    def close(self) -> None:
        if self._open >= 0:
            os.utime(self._open, ns=self._stamp)
            os.close(self._open)
            self._open = self._number = -1

    def _begin(self, number: int) -> None:
        file = self._files[number]
        folder = self._root if file.folder == ROOT else self._paths[file.folder]
        self._open = os.open(joined(folder, file.name), _NEW, 0o600)
        self._number = number
        os.fchmod(self._open, file.mode)


def remove(path: bytes) -> None:
    """Take a tree of ours away, folders without rights too; what cannot be removed stays."""

    def again(_: object, name: str, __: object) -> None:
        folder = os.path.dirname(name)
        with contextlib.suppress(OSError):
            if stat.S_ISDIR(os.lstat(name).st_mode):
                os.chmod(name, OPEN_FOR_US)
                shutil.rmtree(name, ignore_errors=True)
            else:
                os.chmod(folder, OPEN_FOR_US)
                os.unlink(name)

    shutil.rmtree(os.fsdecode(path), onerror=again)


def thin_out(root: bytes, only: frozenset[bytes]) -> None:
    """Remove all files of a tree of ours but these."""
    for folder, _, names in os.walk(root):
        start = folder[len(root) + 1 :]
        for name in names:
            if joined(start, name) not in only:
                with contextlib.suppress(OSError):
                    os.unlink(joined(folder, name))


def _take_place(draft: bytes, target: bytes) -> None:
    """Give a directory its name. An empty one may stand there, nothing else."""
    os.rename(draft, target)


def _write(descriptor: int, view: memoryview) -> None:
    while view:
        view = view[os.write(descriptor, view) :]


def _lack(store: ChunkStore, digests: list[bytes]) -> str:
    try:
        gone = len(store.lacking(digests))
    except CacheError as error:
        return error.message
    return f"{gone} of its {len(digests)} chunks are not here"


def _why(error: OSError) -> str:
    if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
        return "something else is there already"
    return error.strerror or str(error)
