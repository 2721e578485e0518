"""Directories that jobs have left: the next job with such files gets one, put in order.

Lives here: how many are kept, and making one again what its manifest says. Never here: making one
from nothing (`unpacking`).
Invariant: what is handed out is what the manifest says, whatever a job did to it. A file whose
looks have changed since we wrote it is written again; one that is so young that they need not show
a change, as git has it, is read.
"""

import errno
import os
import stat
import threading
import time
from collections.abc import Iterator
from functools import lru_cache
from typing import Final, NamedTuple

from distributed_grid.edges.artifacts import CacheError, CannotUnpack
from distributed_grid.edges.artifacts.changes import (
    GOT_MAX,
    Look,
    Unpacked,
    bytes_of,
    holds,
    is_young,
    look_of,
    pieces_of,
)
from distributed_grid.edges.artifacts.chunks import ChunkStore
from distributed_grid.edges.artifacts.recall import YOUNG_NS
from distributed_grid.edges.artifacts.unpacking import OPEN_FOR_US, remove, write_files
from distributed_grid.model.artifact import ROOT, Manifest, ManifestId, joined

SPARES_MAX: Final = 8  # Directories; the longest unused makes room.
SHARE: Final = 4  # They hold a quarter of what the store may hold, at most.
ENTRIES_MAX: Final = 20_000  # How each looked is kept in memory: some 200 bytes.
_LOOKS_AGAIN: Final = -1


class Spare(NamedTuple):
    """A directory that was made from a manifest, and how its files looked then."""

    manifest: ManifestId
    before: Unpacked
    size_bytes: int
    is_kept: bool = True  # Else it is no use for others.


class Spares:
    """Those of one store."""

    def __init__(self, store: ChunkStore) -> None:
        self._store = store
        self._folder = f"{store.root}/spares"
        self._lock = threading.Lock()
        self._made: dict[str, Spare] = {}  # In use, by path.
        self._left: dict[str, Spare] = {}  # By path, the longest unused first.
        self._number = _LOOKS_AGAIN

    def note(self, manifest_id: ManifestId, manifest: Manifest, target: str) -> None:
        """A directory was made; what it looks like is remembered until it is given back."""
        size = sum(file.size for file in manifest.files)
        is_few = 0 < manifest.entries <= ENTRIES_MAX and size <= self._bytes_max
        root, folders = os.fsencode(target), manifest.folder_paths()
        noted_ns, looks = time.time_ns(), list[Look]()
        for file in manifest.files:
            folder = root if file.folder == ROOT else joined(root, folders[file.folder])
            looks.append(look_of(os.lstat(joined(folder, file.name))))
        before = Unpacked(manifest, looks, noted_ns)
        with self._lock:
            self._made[target] = Spare(
                manifest_id, before, size, is_kept=is_few and not _is_shut(manifest)
            )

    def before(self, target: str) -> Unpacked | None:
        """How a directory in use was when it was made; None: nobody remembers."""
        with self._lock:
            spare = self._made.get(target)
        return spare.before if spare is not None else None

    def give_back(self, target: str) -> bool:
        """A job has left; whether its directory is kept for another."""
        with self._lock:
            spare = self._made.pop(target, None)
            if spare is None or not spare.is_kept:
                return False
            path = self._next()
            try:
                os.rename(target, path)
            except OSError:
                return False
            self._left[path] = spare
            gone = self._over()
        for one in gone:
            remove(os.fsencode(one))
        return True

    def take(self, manifest_id: ManifestId, manifest: Manifest, target: str) -> bool:
        """Whether there was one of such files: it stands there now as if it were new."""
        with self._lock:
            found = self._nearest(manifest_id, manifest)
            if not found:
                return False
            spare = self._left.pop(found)
        root = os.fsencode(found)
        try:
            _put_in_order(self._store, manifest, spare, root)
            os.rename(root, os.fsencode(target))
            os.chmod(target, manifest.mode)
        except (OSError, CannotUnpack, CacheError):
            remove(root)
            return False
        self.note(manifest_id, manifest, target)
        return True

    def _nearest(self, manifest_id: ManifestId, manifest: Manifest) -> str:
        """The path of one with the same files, or half of them. Holds the lock."""
        wanted = set(manifest.chunks)
        found, most = "", len(wanted) // 2
        for path, one in reversed(self._left.items()):
            if one.manifest == manifest_id:
                return path
            shared = len(wanted.intersection(one.before.manifest.chunks))
            if shared > most:
                found, most = path, shared
        return found

    def clear(self) -> None:
        """Remove those that nobody uses."""
        with self._lock:
            gone, self._left = list(self._left), {}
        for path in gone:
            remove(os.fsencode(path))

    @property
    def _bytes_max(self) -> int:
        return self._store.bytes_max // SHARE

    def _next(self) -> str:
        """A path that is not taken. Holds the lock."""
        if self._number == _LOOKS_AGAIN:  # Of another life: nobody knows how they looked.
            if os.path.lexists(self._folder):
                remove(os.fsencode(self._folder))
            os.makedirs(self._folder, 0o700, exist_ok=True)
        self._number += 1
        return f"{self._folder}/{self._number}"

    def _over(self) -> list[str]:
        """The longest unused of too many. Holds the lock."""
        gone = []
        used = sum(one.size_bytes for one in self._left.values())
        while len(self._left) > SPARES_MAX or used > self._bytes_max:
            path = next(iter(self._left))
            used -= self._left.pop(path).size_bytes
            gone.append(path)
        return gone


def _is_shut(manifest: Manifest) -> bool:
    """Whether we could not write into all of its folders."""
    modes = (manifest.mode, *(folder.mode for folder in manifest.folders))
    return any(mode & OPEN_FOR_US != OPEN_FOR_US for mode in modes)


def _contents(manifest: Manifest) -> Iterator[tuple[bytes, tuple[object, ...]]]:
    """For each file: where it is; its rights, and what is in it."""
    folders, chunks = manifest.folder_paths(), manifest.chunks
    for file, pieces in zip(manifest.files, pieces_of(manifest), strict=True):
        path = joined(b"" if file.folder == ROOT else folders[file.folder], file.name)
        yield path, (file.mode, *((chunks[at], begin, end) for at, begin, end in pieces))


def _put_in_order(store: ChunkStore, manifest: Manifest, spare: Spare, root: bytes) -> None:
    """Remove what does not belong there, make what is missing. Raises OSError, CannotUnpack."""
    os.chmod(root, OPEN_FOR_US)
    order = _Order(store, manifest, spare.before)
    order.look_through(root)
    paths = [joined(root, path) for path in manifest.folder_paths()]
    for path, folder in zip(paths, manifest.folders, strict=True):
        if (folder.parent, folder.name) not in order.seen:
            os.mkdir(path, OPEN_FOR_US)
    write_files(store, manifest, root, os.fsdecode(root), only=order.lacking)
    for link in manifest.links:
        if (link.folder, link.name) not in order.seen:
            where = root if link.folder == ROOT else paths[link.folder]
            os.symlink(link.target, joined(where, link.name))
    for path, folder in zip(reversed(paths), reversed(manifest.folders), strict=True):
        if stat.S_IMODE(os.lstat(path).st_mode) != folder.mode:
            os.chmod(path, folder.mode)


class _Order:
    """What is as it should be in a directory; the rest is removed."""

    def __init__(self, store: ChunkStore, manifest: Manifest, before: Unpacked) -> None:
        self._get = lru_cache(GOT_MAX)(store.get)
        self._manifest, self._noted_ns = manifest, before.noted_ns
        self._folders = {(one.parent, one.name): at for at, one in enumerate(manifest.folders)}
        self._files = {(one.folder, one.name): at for at, one in enumerate(manifest.files)}
        self._links = {(one.folder, one.name): one.target for one in manifest.links}
        self._pieces = pieces_of(manifest)
        was = zip(_contents(before.manifest), before.looks, strict=True)
        known = {path: (look, what) for (path, what), look in was}
        found = [(known.get(path), what) for path, what in _contents(manifest)]
        self._looks = [one[0] if one is not None else None for one, _ in found]
        self._are_same = [one is not None and one[1] == what for one, what in found]
        self.lacking = set(range(len(manifest.files)))
        self.seen: set[tuple[int, bytes]] = set()  # Folders and links.

    def look_through(self, root: bytes) -> None:
        """From the top down. Raises OSError."""
        todo = [(ROOT, root)]
        while todo:
            number, path = todo.pop()
            if os.listxattr(path):
                raise OSError(errno.EPERM, "it has rights of its own")
            with os.scandir(path) as found:
                entries = list(found)
            for entry in entries:
                if self._is_in_order(number, entry):
                    if entry.is_dir(follow_symlinks=False):
                        todo.append((self._folders[number, entry.name], entry.path))
                elif entry.is_dir(follow_symlinks=False):
                    remove(entry.path)
                else:
                    os.unlink(entry.path)

    def _is_in_order(self, number: int, entry: os.DirEntry[bytes]) -> bool:
        key = (number, entry.name)
        if entry.is_symlink():
            is_right = self._links.get(key) == os.readlink(entry.path)
        elif entry.is_dir(follow_symlinks=False):
            is_right = key in self._folders
        else:
            at = self._files.get(key)
            look = look_of(entry.stat(follow_symlinks=False))
            if at is None or self._looks[at] != look:
                return False
            if not self._are_same[at] or is_young(look, self._noted_ns, YOUNG_NS):
                file = self._manifest.files[at]
                parts = bytes_of(self._get, self._manifest, self._pieces[at])
                if (stat.S_IMODE(look[1]), look[2]) != (file.mode, file.size) or not holds(
                    None, entry.path, parts
                ):
                    return False
            self.lacking.discard(at)
            return True
        if is_right:
            self.seen.add(key)
        return is_right
