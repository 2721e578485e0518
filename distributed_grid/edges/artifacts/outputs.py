"""What jobs leave behind: collected where they ran, brought back where they were asked for.

Lives here: globs of outputs, and writing among the files of people. Never here: cutting files
(`packing`), making directories of our own (`unpacking`).
Invariant: a file is replaced whole or not at all; what has changed here since the job was
submitted, also while its output is written, stays as it is, unless it is to be overwritten; no
symbolic link of the place is followed; nothing comes that was not asked for.
"""

import contextlib
import errno
import functools
import itertools
import os
import secrets
import stat
import time
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from distributed_grid.edges.artifacts import Brought, CannotUnpack, Refused
from distributed_grid.edges.artifacts.choosing import is_meant
from distributed_grid.edges.artifacts.chunks import ChunkStore
from distributed_grid.edges.artifacts.ignoring import Pattern
from distributed_grid.edges.artifacts.walking import DRAFT, is_draft
from distributed_grid.model.artifact import (
    CHUNK_BYTES_MAX,
    ROOT,
    File,
    Manifest,
    ManifestId,
    Symlink,
    shown,
    stretches,
)

CHANGED: Final = "it has changed here since the job was submitted"
SYNCED_MAX: Final = 1_000  # Files that are synced one by one; more at once, with all of the disk.
DEAD_NS: Final = 86_400 * 10**9  # A draft that was not written to for a day: of a life cut short.
SWEPT_MAX: Final = 10_000  # Entries of a folder that are looked at for such.
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_DRAFT: Final = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_ZEROS: Final = bytes(CHUNK_BYTES_MAX)
_KINDS: Final = {stat.S_IFREG: "file", stat.S_IFLNK: "symbolic link"}


class Bringing(NamedTuple):
    """How outputs are brought back."""

    root: str
    globs: tuple[Pattern, ...]
    since_ns: int  # What changed here after this moment, by this machine's clock, stays. -1: all.
    overwrite: bool = False


class Conflict(Exception):
    """Something here stands in the way."""


def bring(store: ChunkStore, manifest_id: ManifestId, wanted: Bringing) -> Brought:
    """Write outputs into a directory. Raises CannotUnpack, with what was written left there."""
    manifest = store.manifest(manifest_id)
    if manifest is None:
        raise CannotUnpack(wanted.root, why="its manifest is not here", lacking=1)
    try:
        return _Bringer(store, manifest, wanted).bring()
    except OSError as error:
        raise CannotUnpack(wanted.root, why=error.strerror or str(error)) from error


class _Bringer:
    def __init__(self, store: ChunkStore, manifest: Manifest, wanted: Bringing) -> None:
        self._store = store
        self._manifest = manifest
        self._wanted = wanted
        self._folders = [path.split(b"/") for path in manifest.folder_paths()]
        self._written: list[str] = []
        self._unchanged: list[str] = []
        self._conflicts: list[Refused] = []
        self._swept: set[int] = set()  # Folders without drafts of other lives.

    def bring(self) -> Brought:
        for number, pieces in self._files():
            file = self._manifest.files[number]
            bring = functools.partial(self._bring_file, file, pieces)
            self._try(file.folder, file.name, bring)
        for link in self._manifest.links:
            self._try(link.folder, link.name, functools.partial(self._bring_link, link))
        if len(self._written) > SYNCED_MAX:
            os.sync()
        return Brought(
            written=tuple(self._written),
            unchanged=tuple(self._unchanged),
            conflicts=tuple(self._conflicts),
        )

    def _files(self) -> Iterator[tuple[int, list[tuple[int, int, int]]]]:
        """For each file: the (chunk, begin, end) it is made of."""
        pieces: list[list[tuple[int, int, int]]] = [[] for _ in self._manifest.files]
        for chunk, parts in stretches(self._manifest):
            for number, begin, end in parts:
                pieces[number].append((chunk, begin, end))
        return iter(enumerate(pieces))

    def _try(self, folder: int, name: bytes, bring: Callable[[int], bool]) -> None:
        """Bring one thing into its folder, which is made if need be; note what became of it."""
        steps = [] if folder == ROOT else self._folders[folder]
        path = shown(b"/".join([*steps, name]))
        if not is_meant(self._wanted.globs, [*steps, name]):
            self._conflicts.append(Refused(path, "nobody asked for it"))
            return
        try:
            descriptor = self._descend(steps)
            try:
                if folder not in self._swept:
                    self._swept.add(folder)
                    _sweep(descriptor)
                is_written = bring(descriptor)
            finally:
                os.close(descriptor)
        except Conflict as conflict:
            self._conflicts.append(Refused(path, str(conflict)))
        else:
            (self._written if is_written else self._unchanged).append(path)

    def _descend(self, steps: list[bytes]) -> int:
        descriptor = os.open(self._wanted.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        for depth, step in enumerate(steps):
            try:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(step, 0o777, dir_fd=descriptor)
                below = os.open(step, _FOLDER, dir_fd=descriptor)
            except OSError as error:
                if error.errno in (errno.ENOTDIR, errno.ELOOP):
                    path = shown(b"/".join(steps[: depth + 1]))
                    raise Conflict(f"{path} is no folder here") from error
                raise
            finally:
                os.close(descriptor)
            descriptor = below
        return descriptor

    def _bring_file(self, file: File, pieces: list[tuple[int, int, int]], folder: int) -> bool:
        there = _status(folder, file.name)
        if there is not None:
            _refuse_other(there, stat.S_IFREG)
            if there.st_size == file.size and self._is_same(folder, file.name, pieces):
                return False
            self._refuse_newer(there)
        with _draft(folder) as draft:
            descriptor = os.open(draft, _DRAFT, 0o600, dir_fd=folder)
            try:
                for data in self._bytes(pieces):
                    _write(descriptor, data)
                os.ftruncate(descriptor, file.size)  # It may end with a hole.
                os.fchmod(descriptor, file.mode)
                if len(self._manifest.files) <= SYNCED_MAX:
                    os.fsync(descriptor)
            finally:
                os.close(descriptor)
            self._place(draft, file.name, folder, before=there, kind=stat.S_IFREG)
        return True

    def _bring_link(self, link: Symlink, folder: int) -> bool:
        there = _status(folder, link.name)
        if there is not None:
            _refuse_other(there, stat.S_IFLNK)
            if os.readlink(link.name, dir_fd=folder) == link.target:
                return False
            self._refuse_newer(there)
        with _draft(folder) as draft:
            os.symlink(link.target, draft, dir_fd=folder)
            self._place(draft, link.name, folder, before=there, kind=stat.S_IFLNK)
        return True

    def _place(
        self, draft: bytes, name: bytes, folder: int, *, before: os.stat_result | None, kind: int
    ) -> None:
        """Give a draft its name, unless somebody was there while it was written."""
        now = _status(folder, name)
        if now is None:
            try:  # A link replaces nothing, a rename does.
                os.link(draft, name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
            except FileExistsError:
                now = _status(folder, name)
            except OSError:
                pass  # Not every file system has links.
            else:
                return
        if now is not None:
            _refuse_other(now, kind)
            if before is None or _look(now) != _look(before):
                self._refuse_changed()
        os.rename(draft, name, src_dir_fd=folder, dst_dir_fd=folder)

    def _refuse_newer(self, there: os.stat_result) -> None:
        newest = max(there.st_mtime_ns, there.st_ctime_ns)
        if newest > self._wanted.since_ns:
            self._refuse_changed()

    def _refuse_changed(self) -> None:
        if not self._wanted.overwrite:
            is_any = self._wanted.since_ns < 0
            raise Conflict("another is here" if is_any else CHANGED)

    def _is_same(self, folder: int, name: bytes, pieces: list[tuple[int, int, int]]) -> bool:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        with open(os.open(name, flags, dir_fd=folder), "rb", buffering=0) as file:
            return all(file.read(len(data)) == data for data in self._bytes(pieces))

    def _bytes(self, pieces: list[tuple[int, int, int]]) -> Iterator[memoryview]:
        digests = self._manifest.digests
        for chunk, begin, end in pieces:
            data = self._store.get(digests[chunk * 32 : chunk * 32 + 32])
            if data is None or len(data) != self._manifest.sizes[chunk]:
                raise CannotUnpack(self._wanted.root, why="a chunk is not here", lacking=1)
            yield memoryview(data)[begin:end]


@contextlib.contextmanager
def _draft(folder: int) -> Iterator[bytes]:
    """A name for what is being written; nothing is left there under it, whatever happens."""
    name = DRAFT + secrets.token_hex(16).encode()
    try:
        yield name
    finally:
        with contextlib.suppress(OSError):
            os.unlink(name, dir_fd=folder)


def _sweep(folder: int) -> None:
    """Remove the drafts of lives that were cut short."""
    before_ns = time.time_ns() - DEAD_NS
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in itertools.islice(entries, SWEPT_MAX):
            if (
                is_draft(os.fsencode(entry.name))
                and entry.stat(follow_symlinks=False).st_mtime_ns < before_ns
            ):
                os.unlink(entry.name, dir_fd=folder)


def _refuse_other(there: os.stat_result, kind: int) -> None:
    if stat.S_IFMT(there.st_mode) != kind:
        raise Conflict(f"something that is no {_KINDS[kind]} is there")


def _look(status: os.stat_result) -> tuple[int, int, int, int]:
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _write(descriptor: int, view: memoryview) -> None:
    if len(view) == CHUNK_BYTES_MAX and view == _ZEROS:
        os.lseek(descriptor, len(view), os.SEEK_CUR)  # A hole stays one.
        return
    while view:
        view = view[os.write(descriptor, view) :]


def _status(folder: int, name: bytes) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
