"""What a job made or changed in its copy of a directory, compared with what was unpacked there.

Lives here: the comparison, and which of it comes back by itself. Never here: reading it for good
(`packing`), writing it among files of people (`outputs`).
Invariant: a file counts as unchanged only if it looks as it did after it was written, or if its
bytes are those of the manifest. Unpacked files have a time that lies back, so that a change shows
on storage that counts in seconds, too; what such storage could hide all the same is read.
"""

import os
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from distributed_grid.edges.artifacts import Changed
from distributed_grid.edges.artifacts.choosing import is_meant
from distributed_grid.edges.artifacts.chunks import ChunkStore
from distributed_grid.edges.artifacts.ignoring import Pattern
from distributed_grid.edges.artifacts.recall import COARSE_YOUNG_NS, SECOND_NS
from distributed_grid.edges.artifacts.staying import MARKS, is_litter
from distributed_grid.edges.artifacts.walking import is_draft
from distributed_grid.model.artifact import ROOT, Amount, Manifest, joined, stretches

Look = tuple[int, int, int, int, int]  # Inode, mode, size, and both times.
Pieces = list[tuple[int, int, int]]  # (chunk, begin, end), one after the other.
Get = Callable[[bytes], bytes | None]  # Gives a chunk.
GOT_MAX: Final = 16  # Chunks at hand: small files share them.


class Unpacked(NamedTuple):
    """A directory as it was before a job got it."""

    manifest: Manifest = Manifest()
    looks: Sequence[Look] = ()  # Of its files, in their order; none: nobody remembers.
    noted_ns: int = 0  # When they were noted.


def look_of(status: os.stat_result) -> Look:
    """What changes with a file."""
    return status.st_ino, status.st_mode, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def is_young(look: Look, noted_ns: int, young_ns: int = 0) -> bool:
    """Whether a file may have changed after it was noted, and look the same.

    By chance it cannot where time is counted in less than seconds: its time lies back.
    """
    is_coarse = look[-1] % SECOND_NS == 0
    return look[-1] + (COARSE_YOUNG_NS if is_coarse else young_ns) >= noted_ns


def pieces_of(manifest: Manifest) -> list[Pieces]:
    """For each file: what it is made of."""
    pieces: list[Pieces] = [[] for _ in manifest.files]
    for chunk, parts in stretches(manifest):
        for number, begin, end in parts:
            pieces[number].append((chunk, begin, end))
    return pieces


def bytes_of(get: Get, manifest: Manifest, pieces: Pieces) -> Iterator[memoryview | None]:
    """The bytes of a file; None for what is not here."""
    for chunk, begin, end in pieces:
        data = get(manifest.digests[chunk * 32 : chunk * 32 + 32])
        whole = data is not None and len(data) == manifest.sizes[chunk]
        yield memoryview(data)[begin:end] if data is not None and whole else None


def holds(folder: int | None, name: bytes, parts: Iterable[memoryview | None]) -> bool:
    """Whether a file, in an open folder or at this path, begins with these bytes."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with open(os.open(name, flags, dir_fd=folder), "rb", buffering=0) as file:
        return all(part is not None and file.read(len(part)) == part for part in parts)


class Comparing:
    """One look through a directory that a job has left."""

    def __init__(self, store: ChunkStore, before: Unpacked, *, with_litter: bool) -> None:
        self._get, self._manifest = lru_cache(GOT_MAX)(store.get), before.manifest
        self._looks, self._noted_ns = before.looks, before.noted_ns
        self._with_litter = with_litter
        self._folders = {
            (one.parent, one.name): number for number, one in enumerate(self._manifest.folders)
        }
        self._files = {
            (one.folder, one.name): number for number, one in enumerate(self._manifest.files)
        }
        self._links = {(one.folder, one.name): one.target for one in self._manifest.links}
        self._pieces: list[Pieces] | None = None
        self._new = ROOT - 1  # The number of every folder that was not there.

    def changed(self, root: bytes) -> dict[bytes, int]:
        """What was made or changed, with its size; raises OSError if the root cannot be read."""
        found: dict[bytes, int] = {}
        todo = [(ROOT, b"")]
        while todo:
            number, above = todo.pop()
            try:
                entries = os.scandir(joined(root, above) if above else root)
            except OSError:
                if not above:
                    raise
                found[above] = 0  # Who collects it says why it cannot be read, or that it is gone.
                continue
            start = above + b"/" if above else b""
            with entries:
                for entry in entries:
                    at = self._files.get((number, entry.name))
                    try:
                        if at is not None and self._is_as_before(at, entry):
                            continue
                        self._note(number, start + entry.name, entry, found, todo)
                    except FileNotFoundError:
                        continue  # It has vanished.
        return found

    def _is_as_before(self, at: int, entry: os.DirEntry[bytes]) -> bool:
        status = entry.stat(follow_symlinks=False)
        look = look_of(status)
        if self._looks and self._looks[at] == look and not is_young(look, self._noted_ns):
            return True
        file = self._manifest.files[at]
        if not stat.S_ISREG(status.st_mode) or status.st_size != file.size:
            return False
        if self._pieces is None:
            self._pieces = pieces_of(self._manifest)
        try:
            parts = bytes_of(self._get, self._manifest, self._pieces[at])
            return holds(None, entry.path, parts)
        except OSError:
            return False

    def _note(
        self,
        number: int,
        path: bytes,
        entry: os.DirEntry[bytes],
        found: dict[bytes, int],
        todo: list[tuple[int, bytes]],
    ) -> None:
        key, is_folder = (number, entry.name), entry.is_dir(follow_symlinks=False)
        if is_folder and key in self._folders:
            todo.append((self._folders[key], path))
        elif is_draft(entry.name) or (
            not self._with_litter and is_litter(entry.name, is_folder=is_folder)
        ):
            return
        elif is_folder:
            marks = () if self._with_litter else MARKS
            if not any(os.path.lexists(joined(entry.path, mark)) for mark in marks):
                todo.append((self._new, path))
        elif not entry.is_symlink():
            found[path] = entry.stat(follow_symlinks=False).st_size
        elif self._links.get(key) != os.readlink(entry.path):
            found[path] = 0


def chosen(found: dict[bytes, int], globs: Sequence[Pattern], amount: Amount) -> Changed:
    """Which of it comes back: what matches, the smallest first, until it is too much."""
    if globs:
        found = {path: size for path, size in found.items() if is_meant(globs, path.split(b"/"))}
    coming: set[bytes] = set()
    size_bytes = 0
    for path, size in sorted(found.items(), key=lambda one: (one[1], one[0])):
        size_bytes += size
        if size_bytes > amount.bytes_max or len(coming) >= amount.files_max:
            break
        coming.add(path)
    left = found.keys() - coming
    return Changed(
        coming=frozenset(coming),
        left=frozenset(left),
        left_bytes=sum(found[path] for path in left),
    )
