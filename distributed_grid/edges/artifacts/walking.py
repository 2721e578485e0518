"""What is in a directory: folders, files, links, and what may not travel.

Lives here: looking. Never here: reading files (`packing`), patterns (`ignoring`).
Invariant: symbolic links are looked at, never followed; the same tree is found in the same order;
what Grid itself was writing there when it was cut short is not there.
"""

import os
import re
import stat
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from distributed_grid.edges.artifacts import REFUSED_MAX, Refused
from distributed_grid.edges.artifacts.ignoring import (
    IGNORE_BYTES_MAX,
    IGNORE_FILE,
    Rules,
    is_ignored,
    rules_of,
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


class Found(NamedTuple):
    """What is in a directory."""

    mode: int
    folders: list[Folder]
    files: list[Seen]
    links: list[Symlink]
    refused: list[Refused]
    size_bytes: int
    entries: int


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


class Walk:
    """One look at one directory."""

    def __init__(
        self,
        root: bytes,
        *,
        wanted: Wanted | None = None,
        heeds_ignore: bool = True,
        leaves_out: frozenset[tuple[int, int]] = frozenset(),
        entries_max: int = ENTRIES_LOOKED_MAX,
    ) -> None:
        """`leaves_out`: (device, inode) of directories that are not looked into, such as ours.

        After a folder with which there are more than `entries_max` no other is looked into.
        """
        self.root = root
        self._wanted = wanted
        self._heeds_ignore = heeds_ignore
        self._leaves_out = leaves_out
        self._entries_max = entries_max
        self._folders: list[Folder] = []
        self._files: list[Seen] = []
        self._links: list[Symlink] = []
        self._refused: list[Refused] = []
        self._size_bytes = 0
        self._entries = 0

    def look(self) -> Found:
        """Everything that travels, by name; raises OSError if the root cannot be read."""
        mode = os.stat(self.root).st_mode & 0o777
        pending: list[tuple[int, tuple[bytes, ...], tuple[Rules, ...]]] = [(ROOT, (), ())]
        while pending and self._entries <= self._entries_max:
            folder, parts, rules = pending.pop()
            try:
                with os.scandir(
                    joined(self.root, b"/".join(parts)) if parts else self.root
                ) as all_:
                    entries = sorted(all_, key=lambda entry: entry.name)
            except OSError as error:
                if not parts:
                    raise
                self._note_unread(b"/".join(parts), error)
                continue
            rules = self._with_own(rules, parts, entries)
            deeper = [
                (number, (*parts, entry.name), rules)
                for entry in entries
                if (number := self._note(folder, parts, entry, rules)) is not None
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
        )

    def _with_own(
        self,
        rules: tuple[Rules, ...],
        parts: tuple[bytes, ...],
        entries: list[os.DirEntry[bytes]],
    ) -> tuple[Rules, ...]:
        if not self._heeds_ignore or all(entry.name != IGNORE_FILE for entry in entries):
            return rules
        path = joined(self.root, b"/".join((*parts, IGNORE_FILE)))
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                text = os.read(descriptor, IGNORE_BYTES_MAX + 1)
            finally:
                os.close(descriptor)
        except OSError as error:
            self._refuse(b"/".join((*parts, IGNORE_FILE)), f"cannot be read: {error.strerror}")
            return rules
        if len(text) > IGNORE_BYTES_MAX:  # What its end keeps at home may be a secret.
            most = f"it has more than {IGNORE_BYTES_MAX >> 10} KiB"
            self._refuse(b"/".join((*parts, IGNORE_FILE)), f"{most}: write fewer, wider patterns")
            return rules
        return (*rules, rules_of(text, depth=len(parts)))

    def _note(
        self,
        folder: int,
        parts: tuple[bytes, ...],
        entry: os.DirEntry[bytes],
        rules: tuple[Rules, ...],
    ) -> int | None:
        """Take one entry down; the number of a folder that is to be looked into."""
        name = entry.name
        path = (*parts, name)
        is_folder = entry.is_dir(follow_symlinks=False)
        if (
            is_draft(name)
            or (rules and is_ignored(rules, path, is_folder=is_folder))
            or (self._wanted is not None and not self._wanted(path, is_folder))
        ):
            return None
        whole = b"/".join(path)
        try:
            status = entry.stat(follow_symlinks=False)
            target = os.readlink(joined(self.root, whole)) if entry.is_symlink() else b""
        except OSError as error:
            self._note_unread(whole, error)
            return None
        if (status.st_dev, status.st_ino) in self._leaves_out:
            return None
        self._entries += 1
        if len(whole) > PATH_BYTES_MAX:
            self._refuse(whole, f"its path has more than {PATH_BYTES_MAX} bytes")
        elif is_folder:
            self._folders.append(Folder(folder, name, status.st_mode & 0o777))
            return len(self._folders) - 1
        elif target:
            self._note_link(Symlink(folder, name, target), whole)
        elif stat.S_ISREG(status.st_mode):
            self._files.append(seen(folder, name, whole, status))
            self._size_bytes += status.st_size
        else:
            kinds = (word for is_kind, word in _KINDS if is_kind(status.st_mode))
            self._refuse(whole, next(kinds, "neither a file nor a folder"))
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
