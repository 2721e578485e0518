"""What is in a directory: folders, files, links, and what may not travel.

Lives here: looking. Never here: reading files (`packing`), what stays at home (`staying`).
Invariant: symbolic links are looked at, never followed; the same tree is found in the same order;
folders that stay at home are not looked into; what Grid itself was writing there when it was cut
short is not there.
"""

import os
import re
import stat
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from distributed_grid.edges.artifacts import REFUSED_MAX, Refused
from distributed_grid.edges.artifacts.ignoring import IGNORE_BYTES_MAX
from distributed_grid.edges.artifacts.staying import (
    ENVIRONMENT,
    GIT_IGNORE,
    GRID_IGNORE,
    MARKS,
    Level,
)
from distributed_grid.model.artifact import (
    LINKS_MAX,
    PATH_BYTES_MAX,
    ROOT,
    Folder,
    Symlink,
    joined,
    shown,
)

LEFT_OUT_SHOWN_MAX: Final = 20  # Paths for each reason.
ENTRIES_LOOKED_MAX: Final = 2_000_000  # Then it is too much, however much it is: some ten seconds.
_KINDS: Final = (
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISCHR, "a device"),
)

DRAFT: Final = b".grid-draft-"  # Before 32 digits: an output that is being written (`outputs`).
_DRAFT_NAME: Final = re.compile(re.escape(DRAFT) + rb"[0-9a-f]{32}")

Wanted = Callable[[Sequence[bytes], bool], bool]  # By path, and whether it is a folder.


class Seen(NamedTuple):
    """A file as it was when it was looked at; if it is the same later, so are its bytes."""

    folder: int
    name: bytes
    path: bytes  # From the root.
    mode: int
    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int
    device: int


class LeftOut:
    """What stays at home for one reason."""

    def __init__(self) -> None:
        self.count = 0
        self.paths: list[str] = []  # The first of them.

    def add(self, path: str) -> None:
        """One more."""
        self.count += 1
        if self.count <= LEFT_OUT_SHOWN_MAX:
            self.paths.append(path)

    def named(self, most: int) -> tuple[str, ...]:
        """Some of them, and how many more there are."""
        more = self.count - most
        return (*self.paths[:most], *([f"{more} more"] if more > 0 else []))


class Found(NamedTuple):
    """What is in a directory."""

    mode: int
    folders: list[Folder]
    files: list[Seen]
    links: list[Symlink]
    refused: list[Refused]
    size_bytes: int
    entries: int
    left_out: dict[str, LeftOut]  # By why.


class Named(NamedTuple):
    """Paths that somebody wants, whatever would leave them out."""

    paths: frozenset[bytes] = frozenset()  # b".": all, as if nothing had been named.
    whole: frozenset[bytes] = frozenset()  # Of these also what is ignored below them.

    def on_the_way(self) -> frozenset[bytes]:
        """The folders that they are in."""
        steps = [path.split(b"/") for path in self.paths]
        return frozenset(b"/".join(s[:n]) for s in steps for n in range(1, len(s)))


def is_draft(name: bytes) -> bool:
    """Whether a file is ours, among those of people: they never made it."""
    return _DRAFT_NAME.fullmatch(name) is not None


def seen(folder: int, name: bytes, path: bytes, status: os.stat_result) -> Seen:
    """What was seen of a file."""
    return Seen(
        folder,
        name,
        path,
        status.st_mode & 0o777,
        status.st_size,
        status.st_mtime_ns,
        status.st_ctime_ns,
        status.st_ino,
        status.st_dev,
    )


class Ahead(NamedTuple):
    """A folder that is to be looked into."""

    number: int
    path: bytes
    level: Level | None  # None: nothing is left out.
    is_wanted: bool  # Else only what was named in it, and what is on the way there.


class Walk:
    """One look at one directory."""

    def __init__(
        self,
        root: bytes,
        *,
        wanted: Wanted | None = None,
        level: Level | None = None,
        named: Named | None = None,
        leaves_out: frozenset[tuple[int, int]] = frozenset(),
        entries_max: int = ENTRIES_LOOKED_MAX,
    ) -> None:
        """`leaves_out`: (device, inode) of directories that are not looked into, such as ours.

        `level`: what stays at home before any file in the directory is read; None: nothing does.
        After a folder with which there are more than `entries_max` no other is looked into.
        """
        self.root = root
        self._wanted = wanted
        self._level = level
        self._named = named or Named(frozenset((b".",)))
        self._on_the_way = self._named.on_the_way()
        self._leaves_out = leaves_out
        self._entries_max = entries_max
        self._folders: list[Folder] = []
        self._files: list[Seen] = []
        self._links: list[Symlink] = []
        self._refused: list[Refused] = []
        self._left_out: dict[str, LeftOut] = {}
        self._size_bytes = 0
        self._entries = 0

    def look(self) -> Found:
        """Everything that travels, by name; raises OSError if the root cannot be read."""
        mode = os.stat(self.root).st_mode & 0o777
        is_wanted = b"." in self._named.paths
        pending = [Ahead(ROOT, b"", self._level, is_wanted)]
        while pending and self._entries <= self._entries_max:
            folder = pending.pop()
            try:
                with os.scandir(
                    joined(self.root, folder.path) if folder.path else self.root
                ) as all_:
                    entries = sorted(all_, key=_name)
            except OSError as error:
                if not folder.path:
                    raise
                self._note_unread(folder.path, error)
                continue
            folder = folder._replace(level=self._with_own(folder, entries))
            start = folder.path + b"/" if folder.path else b""
            deeper = [
                below for one in entries if (below := self._note(folder, start + one.name, one))
            ]
            pending.extend(reversed(deeper))
        return Found(
            mode,
            self._folders,
            self._files,
            self._links,
            self._refused,
            self._size_bytes,
            self._entries,
            self._left_out,
        )

    def _with_own(self, folder: Ahead, entries: list[os.DirEntry[bytes]]) -> Level | None:
        """What counts in a folder, with the ignore files that are in it."""
        level = folder.level
        if level is None:
            return None
        for name in [one.name for one in entries if one.name in (GIT_IGNORE, GRID_IGNORE)]:
            path = joined(folder.path, name) if folder.path else name
            try:
                descriptor = os.open(
                    joined(self.root, path), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
                )
                try:
                    text = os.read(descriptor, IGNORE_BYTES_MAX + 1)
                finally:
                    os.close(descriptor)
            except OSError as error:
                self._note_unread(path, error)
                continue
            if len(text) > IGNORE_BYTES_MAX:  # What its end keeps at home may be a secret.
                most = f"it has more than {IGNORE_BYTES_MAX >> 10} KiB"
                self._refuse(path, f"{most}: write fewer, wider patterns")
                continue
            level = level.with_file(name, text, folder.path)
        return level

    def _below(self, folder: Ahead, path: bytes, entry: os.DirEntry[bytes]) -> Ahead | None:
        """What counts below something that travels; None: it does not."""
        name, level = entry.name, folder.level
        is_folder = entry.is_dir(follow_symlinks=False)
        why = level.why(path, name, is_folder=is_folder) if level is not None else ""
        if level is not None and not why and is_folder:
            whole = joined(self.root, path)
            marks = (MARKS[mark] for mark in MARKS if os.path.lexists(joined(whole, mark)))
            why = next(marks, "")
            if why == ENVIRONMENT and level.are_ignored_sent:
                why = ""
        is_on_the_way = is_folder and path in self._on_the_way
        is_wanted = path in self._named.paths or (folder.is_wanted and not why)
        if not is_wanted and not is_on_the_way:
            if folder.is_wanted:
                kind = "/" if is_folder else ""
                self._left_out.setdefault(why, LeftOut()).add(shown(path) + kind)
            return None
        if level is not None and (why or path in self._named.paths):
            level = level.within(path)  # What left it out is no longer asked.
            if path in self._named.whole:
                is_all = level.are_ignored_sent
                level = level._replace(are_ignored_sent=True, is_grid_heard=not is_all)
            elif why:
                level = level._replace(git=())
        return Ahead(ROOT, path, level, is_wanted)

    def _note(self, folder: Ahead, path: bytes, entry: os.DirEntry[bytes]) -> Ahead | None:
        """Take one entry down; a folder that is to be looked into."""
        name = entry.name
        if is_draft(name):
            return None
        below = self._below(folder, path, entry)
        is_folder = entry.is_dir(follow_symlinks=False)
        if below is None or (
            self._wanted is not None and not self._wanted(path.split(b"/"), is_folder)
        ):
            return None
        try:
            status = entry.stat(follow_symlinks=False)
            target = os.readlink(joined(self.root, path)) if entry.is_symlink() else b""
        except OSError as error:
            self._note_unread(path, error)
            return None
        if (status.st_dev, status.st_ino) in self._leaves_out:
            return None
        self._entries += 1
        if len(path) > PATH_BYTES_MAX:
            self._refuse(path, f"its path has more than {PATH_BYTES_MAX} bytes")
        elif is_folder:
            self._folders.append(Folder(folder.number, name, status.st_mode & 0o777))
            return below._replace(number=len(self._folders) - 1)
        elif target:
            self._note_link(Symlink(folder.number, name, target), path)
        elif stat.S_ISREG(status.st_mode):
            self._files.append(seen(folder.number, name, path, status))
            self._size_bytes += status.st_size
        else:
            kinds = (word for is_kind, word in _KINDS if is_kind(status.st_mode))
            self._refuse(path, next(kinds, "neither a file nor a folder"))
        return None

    def _note_unread(self, path: bytes, error: OSError) -> None:
        """What is gone since its folder was read is not there, and refuses nothing."""
        if not isinstance(error, FileNotFoundError):
            self._refuse(path, f"cannot be read: {error.strerror}")

    def _note_link(self, link: Symlink, path: bytes) -> None:
        if len(self._links) >= LINKS_MAX:
            self._refuse(path, f"there are more than {LINKS_MAX} symbolic links")
        elif len(link.target) > PATH_BYTES_MAX:
            self._refuse(path, "a symbolic link with too long a target")
        else:
            self._links.append(link)

    def _refuse(self, path: bytes, why: str) -> None:
        if len(self._refused) < REFUSED_MAX:
            self._refused.append(Refused(shown(path), why))


def _name(entry: os.DirEntry[bytes]) -> bytes:
    return entry.name
