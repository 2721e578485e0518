"""What jobs leave behind: collected where they ran, brought back where they were asked for.

Lives here: globs of outputs, and writing among the files of people. Never here: cutting files
(`packing`), making directories of our own (`unpacking`).
Invariant: a file is replaced whole or not at all; what has changed here since the job was
submitted, also while its output is written, or did not travel, stays as it is, unless it is to be
overwritten, or came from a job itself: what came is kept beside it. No symbolic link of the place
is followed; nothing comes that was not asked for, and nothing into the folders of version control
and keys. Secrets, and files that say what travels or how, come only if somebody named them: else a
job could have the secrets sent next time.
"""

import contextlib
import errno
import functools
import itertools
import os
import secrets
import stat
import time
from collections.abc import Iterator
from typing import Final, NamedTuple, Protocol

from distributed_grid.edges.artifacts import Brought, CannotUnpack, Refused
from distributed_grid.edges.artifacts.changes import Pieces, bytes_of, holds, pieces_of
from distributed_grid.edges.artifacts.choosing import is_meant
from distributed_grid.edges.artifacts.chunks import ChunkStore
from distributed_grid.edges.artifacts.ignoring import Pattern, glob_of
from distributed_grid.edges.artifacts.recall import SECOND_NS
from distributed_grid.edges.artifacts.staying import GUARDED, MARKS, STEERING, built_in
from distributed_grid.edges.artifacts.walking import DRAFT, is_draft
from distributed_grid.model.artifact import (
    CHUNK_BYTES_MAX,
    NAME_BYTES_MAX,
    RETURNED,
    ROOT,
    File,
    Manifest,
    ManifestId,
    Symlink,
    joined,
    shown,
)

CHANGED: Final = "it has changed here since the job was submitted"
NOT_SENT: Final = "it did not travel with the job"
OURS: Final = "user.grid"  # Of a file that came from a job: its size and time, when it came.
BESIDE_MAX: Final = 10_000  # Files that are kept beside one; an array may write one each.
SYNCED_MAX: Final = 1_000  # Files that are synced one by one; more at once, with all of the disk.
DEAD_NS: Final = 86_400 * 10**9  # A draft that was not written to for a day: of a life cut short.
SWEPT_MAX: Final = 10_000  # Entries of a folder that are looked at for such.
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_DRAFT: Final = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_ZEROS: Final = bytes(CHUNK_BYTES_MAX)
_EVERYTHING: Final = (glob_of(b"**"),)  # Who wants all, later, has not looked at each.
_KINDS: Final = {stat.S_IFREG: "file", stat.S_IFLNK: "symbolic link"}


class Bringing(NamedTuple):
    """How outputs are brought back."""

    root: str
    globs: tuple[Pattern, ...] | None  # None: all that may come unasked.
    since_ns: int  # What changed here after this moment, by this machine's clock, stays. -1: all.
    overwrite: bool = False
    base: ManifestId = ManifestId("")  # Of what travelled from here, before the job.
    beside: str = ""  # The end of other names; empty: nothing is kept under one.
    is_homely: bool = False  # True: a home, say, where files unasked for could do harm.


class Bring(Protocol):
    """Brings one thing into an open folder, under a name; whether it was not there already."""

    def __call__(self, folder: int, name: bytes, *, is_beside: bool = False) -> bool:
        """Raise Conflict if something there is to stay."""
        ...


class Conflict(Exception):
    """Something here stands in the way."""


def bring(store: ChunkStore, manifest_id: ManifestId, wanted: Bringing) -> Brought:
    """Write outputs into a directory. Raises CannotUnpack, with what was written left there."""
    manifest = store.manifest(manifest_id)
    if manifest is None:
        raise CannotUnpack(wanted.root, why="its manifest is not here", lacking=1)
    count = len(manifest.files) + len(manifest.links)
    is_much = manifest.content_bytes > RETURNED.bytes_max or count > RETURNED.files_max
    if wanted.globs is None and is_much:
        raise CannotUnpack(wanted.root, why="more came than was asked for")
    bringer = _Bringer(store, manifest, wanted)
    try:
        return bringer.bring()
    except OSError as error:
        done = f", after {len(bringer.written)} of {count} files were written"
        raise CannotUnpack(wanted.root, why=(error.strerror or str(error)) + done) from error


class _Bringer:
    def __init__(self, store: ChunkStore, manifest: Manifest, wanted: Bringing) -> None:
        self._store = store
        self._manifest = manifest
        self._wanted = wanted
        self._folders = [path.split(b"/") for path in manifest.folder_paths()]
        self.written: list[str] = []
        self._unchanged: list[str] = []
        self._beside: list[tuple[str, str]] = []
        self._conflicts: list[Refused] = []
        self._swept: set[int] = set()  # Folders without drafts of other lives.

    def bring(self) -> Brought:
        for number, pieces in enumerate(pieces_of(self._manifest)):
            file = self._manifest.files[number]
            bring = functools.partial(self._bring_file, file, pieces)
            self._try(file.folder, file.name, bring)
        for link in self._manifest.links:
            self._try(link.folder, link.name, functools.partial(self._bring_link, link))
        if len(self.written) > SYNCED_MAX:
            os.sync()
        return Brought(
            written=tuple(self.written),
            unchanged=tuple(self._unchanged),
            beside=tuple(self._beside),
            conflicts=tuple(self._conflicts),
        )

    def _why_not(self, steps: list[bytes]) -> str:
        """Why something is not written, whatever is there; empty: it may be."""
        globs = self._wanted.globs
        if globs is not None and not is_meant(globs, steps):
            return "nobody asked for it"
        if any(step.lower() in GUARDED for step in steps):
            return "nothing of a job is written there"
        last = len(steps) - 1
        if globs in (None, _EVERYTHING) and steps[-1].lower() in STEERING:
            return "nobody asked for it"
        if globs is None and any(
            built_in(b"/".join(steps[: at + 1]), step, is_folder=at < last)
            for at, step in enumerate(steps)
        ):
            return "nobody asked for it"
        if self._wanted.is_homely and (last or steps[0].startswith(b".")):
            return f"only plain files come to {self._wanted.root} unasked"
        return ""

    def _try(self, folder: int, name: bytes, bring: Bring) -> None:
        """Bring one thing into its folder, which is made if need be; note what became of it."""
        steps = [] if folder == ROOT else self._folders[folder]
        path = shown(b"/".join([*steps, name]))
        if why := self._why_not([*steps, name]):
            self._conflicts.append(Refused(path, why))
            return
        try:
            descriptor = self._descend(steps)
            try:
                if folder not in self._swept:
                    self._swept.add(folder)
                    _sweep(descriptor)
                try:
                    is_written = bring(descriptor, name)
                except Conflict as conflict:
                    try:  # What came there meanwhile may be the same: of another rank, say.
                        is_written = bring(descriptor, name, is_beside=True)
                    except Conflict:
                        other = self._put_beside(descriptor, name, bring, conflict)
                        self._beside.append((path, shown(other)))
                        return
            finally:
                os.close(descriptor)
        except Conflict as conflict:
            self._conflicts.append(Refused(path, str(conflict)))
        else:
            (self.written if is_written else self._unchanged).append(path)

    def _put_beside(self, folder: int, name: bytes, bring: Bring, why: Conflict) -> bytes:
        """Keep something under another name; raises the Conflict if it is not to be kept."""
        end = b"." + os.fsencode(self._wanted.beside)
        for number in range(1, BESIDE_MAX + 1) if self._wanted.beside else ():
            whole = end if number == 1 else b"%s-%d" % (end, number)
            other = name[: NAME_BYTES_MAX - len(whole)] + whole
            with contextlib.suppress(Conflict):  # Another one is there: of another try, say.
                bring(folder, other, is_beside=True)
                return other
        raise why

    def _descend(self, steps: list[bytes]) -> int:
        descriptor = os.open(self._wanted.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        for depth, step in enumerate(steps):
            try:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(step, 0o777, dir_fd=descriptor)
                below = os.open(step, _FOLDER, dir_fd=descriptor)
                marks = [] if self._wanted.globs else [one for one in MARKS if _status(below, one)]
                if marks:
                    os.close(below)
                    raise Conflict(f"it belongs to {MARKS[marks[0]]} here")
            except OSError as error:
                if error.errno in (errno.ENOTDIR, errno.ELOOP):
                    path = shown(b"/".join(steps[: depth + 1]))
                    raise Conflict(f"{path} is no folder here") from error
                raise
            finally:
                os.close(descriptor)
            descriptor = below
        return descriptor

    def _bring_file(
        self, file: File, pieces: Pieces, folder: int, name: bytes, *, is_beside: bool = False
    ) -> bool:
        there = _status(folder, name)
        if there is not None:
            _refuse_other(there, stat.S_IFREG)
            if there.st_size == file.size and holds(folder, name, self._bytes(pieces)):
                return False
            self._refuse_newer(there, file, folder, is_beside=is_beside)
        with _draft(folder) as draft:
            descriptor = os.open(draft, _DRAFT, 0o600, dir_fd=folder)
            try:
                for data in self._bytes(pieces):
                    _write(descriptor, data)
                os.ftruncate(descriptor, file.size)  # It may end with a hole.
                os.fchmod(descriptor, _mode(file, there))
                with contextlib.suppress(OSError):  # Not every file system has room for that.
                    os.setxattr(descriptor, OURS, _words(os.fstat(descriptor)))
                if len(self._manifest.files) <= SYNCED_MAX:
                    os.fsync(descriptor)
            finally:
                os.close(descriptor)
            self._place(draft, name, folder, before=there, kind=stat.S_IFREG)
        return True

    def _bring_link(
        self, link: Symlink, folder: int, name: bytes, *, is_beside: bool = False
    ) -> bool:
        there = _status(folder, name)
        if there is not None:
            _refuse_other(there, stat.S_IFLNK)
            if os.readlink(name, dir_fd=folder) == link.target:
                return False
            self._refuse_newer(there, link, folder, is_beside=is_beside)
        with _draft(folder) as draft:
            os.symlink(link.target, draft, dir_fd=folder)
            self._place(draft, name, folder, before=there, kind=stat.S_IFLNK)
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
                self._refuse_changed(CHANGED)
        os.rename(draft, name, src_dir_fd=folder, dst_dir_fd=folder)

    def _refuse_newer(
        self, there: os.stat_result, one: File | Symlink, folder: int, *, is_beside: bool
    ) -> None:
        """Refuse what is not as it was when the job was submitted, nor as it travelled."""
        if is_beside:
            raise Conflict("another is here")
        steps = [] if one.folder == ROOT else self._folders[one.folder]
        path = b"/".join([*steps, one.name])
        is_known = self._wanted.globs is not None or path in self._sent
        if not is_known and not _is_ours(folder, one.name, there):
            self._refuse_changed(NOT_SENT)
        newest = max(there.st_mtime_ns, there.st_ctime_ns)
        if there.st_mtime_ns % SECOND_NS == there.st_ctime_ns % SECOND_NS == 0:
            newest += SECOND_NS  # It may have changed up to so much later.
        if newest > self._wanted.since_ns and not self._is_as_sent(there, path, folder):
            self._refuse_changed(CHANGED)

    @functools.cached_property
    def _base(self) -> Manifest:
        return self._store.manifest(self._wanted.base) or Manifest()

    @functools.cached_property
    def _sent(self) -> dict[bytes, Pieces | None]:
        """What travelled before the job, by path; None: a link."""
        paths = self._base.folder_paths()
        all_: list[File | Symlink] = [*self._base.files, *self._base.links]
        return {
            joined(b"" if one.folder == ROOT else paths[one.folder], one.name): pieces
            for one, pieces in itertools.zip_longest(all_, pieces_of(self._base))
        }

    def _is_as_sent(self, there: os.stat_result, path: bytes, folder: int) -> bool:
        """Whether a file here is, byte for byte, what travelled before the job."""
        pieces = self._sent.get(path)
        if pieces is None or sum(end - begin for _, begin, end in pieces) != there.st_size:
            return False
        name = path.rpartition(b"/")[2]
        return holds(folder, name, bytes_of(self._store.get, self._base, pieces))

    def _refuse_changed(self, why: str) -> None:
        if not self._wanted.overwrite:
            raise Conflict("another is here" if self._wanted.since_ns < 0 else why)

    def _bytes(self, pieces: Pieces) -> Iterator[memoryview]:
        for part in bytes_of(self._store.get, self._manifest, pieces):
            if part is None:
                raise CannotUnpack(self._wanted.root, why="a chunk is not here", lacking=1)
            yield part


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


def _words(status: os.stat_result) -> bytes:
    return b"%d %d" % (status.st_size, status.st_mtime_ns)


def _is_ours(folder: int, name: bytes, there: os.stat_result) -> bool:
    """Whether a file came from a job, and nobody has written to it since."""
    with contextlib.suppress(OSError):
        file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
        try:
            return os.getxattr(file, OURS) == _words(there)
        finally:
            os.close(file)
    return False


def _mode(file: File, there: os.stat_result | None) -> int:
    """Who may read or write a file here stays so; it is executed by no more than may read it."""
    if there is None:
        return file.mode
    return there.st_mode & 0o666 | file.mode & 0o111 & there.st_mode >> 2


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
