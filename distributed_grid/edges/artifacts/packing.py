"""From a directory to a manifest whose chunks are in the store.

Lives here: what may travel, in which order its bytes stand, how they are cut. Never here: looking
(`walking`), patterns (`ignoring`), keeping (`chunks`).
Invariant: what a manifest says of a file was true of that file at one moment; a file that changes
while it is read is read again, and named if it never rests. Of outputs such files alone stay out.

Files up to 128 KiB share chunks: a hundred thousand of them are some hundred messages. Where one
chunk ends and the next begins is told by the names of the files, so that one more file changes the
chunk it is in and not all that follow. Larger files have chunks of their own, of equal size: to cut
them by content, as backup programs do, takes a programme in C. Here it ran at 8 MB a second, and
the files of a work directory are replaced far more often than shifted.
"""

import os
import tempfile
import time
import zlib
from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from distributed_grid.edges.artifacts import REFUSED_MAX, CannotShip, Packed, Refused, TooMuch
from distributed_grid.edges.artifacts.chunks import ChunkStore
from distributed_grid.edges.artifacts.recall import Recall, key_of
from distributed_grid.edges.artifacts.staying import Level
from distributed_grid.edges.artifacts.walking import (
    Found,
    LeftOut,
    Named,
    Seen,
    Walk,
    Wanted,
    seen,
)
from distributed_grid.errors import BadValue
from distributed_grid.model import artifact
from distributed_grid.model.artifact import (
    CHUNK_BYTES_MAX,
    MANIFEST_BYTES_MAX,
    ROOT,
    Amount,
    File,
    Folder,
    Manifest,
    Symlink,
    joined,
    links_outside,
    shown,
)

SMALL_BYTES_MAX: Final = 128 << 10  # Such files share chunks: at least four of them.
SHARED_BYTES: Final = 256 << 10  # Of a shared chunk, on average, where all files are tiny.
LOOKS_MAX: Final = 3  # At files that change while they are read; then they are named.
LOOKS_WITHOUT_MAX: Final = 5  # At the rest: each time others may have begun to change.
RESTLESS: Final = "it changes while it is read"
LINK: Final = "a symbolic link that leads outside"
LARGEST_SHOWN: Final = 3  # Links that stay; folders that are named where there is too much,
DEPTH_SHOWN: Final = 2  # so deep.


class Changed(Exception):
    """Files are not what they were when they were looked at."""

    def __init__(self, restless: dict[bytes, str]) -> None:
        super().__init__(restless)
        self.restless = restless  # How each has changed, by path.


class Source(NamedTuple):
    """What is packed, and for whom."""

    root: bytes
    owner: str  # Pins the manifest.
    amount: Amount
    wanted: Wanted | None = None
    level: Level | None = None  # What stays at home; None: nothing does.
    leaves_out: frozenset[tuple[int, int]] = frozenset()
    is_strict: bool = True  # What may not travel ends it; else it is left out, and told.
    named: frozenset[bytes] = frozenset()  # Paths that somebody wants: something of each travels.

    @property
    def keeps_empty(self) -> bool:
        """Whether folders travel that hold nothing which does."""
        return self.wanted is None and self.named <= {b"."}


class Packing:
    """Packs directories into a store."""

    def __init__(self, store: ChunkStore) -> None:
        self._store = store
        self._read_bytes = 0

    def pack(self, source: Source) -> Packed:
        """Put a directory into the store. Raises CannotShip, TooMuch, BadValue, CacheError."""
        draft = f"pack:{source.owner}:{id(self)}"
        recall = Recall(f"{self._store.root}/recall", source.root)
        left_out: dict[bytes, str] = {}
        try:
            for look in range(LOOKS_MAX + LOOKS_WITHOUT_MAX):
                looked_ns = time.time_ns()
                found = self._look(source, left_out)
                read = self._read_all(source, found, recall, draft, looked_ns)
                if isinstance(read, Manifest):
                    recall.save()
                    return self._keep(read, found, source)
                if look >= LOOKS_MAX - 1:
                    left_out |= read
        finally:
            self._store.release(draft)
        raise CannotShip(shown(source.root), refused=_named(left_out)[:REFUSED_MAX])

    def _look(self, source: Source, left_out: dict[bytes, str]) -> Found:
        found = looked(source, bytes_max=self._store.bytes_max)
        if left_out:
            kept = [file for file in found.files if file.path not in left_out]
            refused = [*found.refused, *_named(left_out)][:REFUSED_MAX]
            found = found._replace(files=kept, refused=refused)
        if source.is_strict and found.refused:
            raise CannotShip(shown(source.root), refused=found.refused)
        return found

    def _read_all(
        self, source: Source, found: Found, recall: Recall, draft: str, looked_ns: int
    ) -> Manifest | dict[bytes, str]:
        """The manifest; or the files that have changed meanwhile, and how."""
        shares, large = lay_out(found.files)
        restless: dict[bytes, str] = {}
        digests: list[bytes] = []
        sizes: list[int] = []
        for files in [*shares, *([file] for file in large)]:
            key = key_of(files)
            made = recall.digests(key)
            try:
                if made is None or not self._is_kept(made, draft):
                    made = self._read(source.root, files, draft)
            except Changed as changed:
                restless |= changed.restless
                continue
            recall.remember(key, made, files, looked_ns=looked_ns)
            digests.append(made)
            sizes += _cuts(sum(file.size for file in files))
        if restless:
            return restless
        folders, numbers = _folders(found, keeps_empty=source.keeps_empty)
        return Manifest(
            mode=found.mode,
            folders=folders,
            files=tuple(
                File(numbers[file.folder], file.name, file.mode, file.size)
                for file in [*(file for share in shares for file in share), *large]
            ),
            links=tuple(
                Symlink(numbers[link.folder], link.name, link.target) for link in found.links
            ),
            digests=b"".join(digests),
            sizes=tuple(sizes),
        )

    def _is_kept(self, digests: bytes, draft: str) -> bool:
        step = artifact.DIGEST_BYTES
        parts = [digests[at : at + step] for at in range(0, len(digests), step)]
        return all(self._store.keep(part, draft=draft) for part in parts)

    def _read(self, root: bytes, files: Sequence[Seen], draft: str) -> bytes:
        """Put the bytes of files into the store: many that share a chunk, or one in many chunks.

        Raises Changed with all of them: else each would cost a look of its own.
        """
        if len(files) == 1:
            return self._read_one(root, files[0], draft)
        pieces: list[bytes] = []
        restless: dict[bytes, str] = {}
        for file in files:
            try:
                pieces.append(_read_small(root, file))
            except Changed as changed:
                restless |= changed.restless
        if restless:
            raise Changed(restless)
        return self._put(b"".join(pieces), draft)

    def _read_one(self, root: bytes, file: Seen, draft: str) -> bytes:
        descriptor = _open(root, file)
        try:
            made = [
                self._put(_read_exactly(descriptor, file, size), draft) for size in _cuts(file.size)
            ]
            _check(descriptor, file)
        finally:
            os.close(descriptor)
        return b"".join(made)

    def _put(self, data: bytes, draft: str) -> bytes:
        self._read_bytes += len(data)
        if not data:
            return b""  # Files without bytes need no chunk.
        name = artifact.digest(data)
        self._store.put(name, data, draft=draft)
        return name

    def _keep(self, manifest: Manifest, found: Found, source: Source) -> Packed:
        body = artifact.encode(manifest)
        if len(body) > MANIFEST_BYTES_MAX:
            raise TooMuch(
                shown(source.root),
                size_bytes=found.size_bytes,
                files=found.entries,
                amount=source.amount,
            )
        return Packed(
            id=self._store.put_manifest(body, owner=source.owner),
            files=len(manifest.files),
            content_bytes=manifest.content_bytes,
            entries=manifest.entries,
            refused=tuple(found.refused),
            read_bytes=self._read_bytes,
            links_outside=found.left_out.get(LINK, LeftOut()).named(LARGEST_SHOWN),
        )


def looked(source: Source, *, bytes_max: int) -> Found:
    """What of a directory would travel. Raises CannotShip, TooMuch, BadValue."""
    named = Named(source.named) if source.named else None
    found = _walked(source, named)
    lacking = [path for path in source.named if not _has(found, path)]
    if named is not None and lacking:  # They are ignored whole: who names them wants that, too.
        found = _walked(source, named._replace(whole=frozenset(lacking)))
    for path in lacking:
        if not _has(found, path) and _is_something(source, path):
            raise BadValue(
                shown(path),
                expected="something that is not left out whole, by .gridignore or as a secret",
                remedy="Name each file that the job needs",
                field="ship",
            )
    # It is copied into the store first, and nobody has a larger one by default.
    bytes_max = min(source.amount.bytes_max, bytes_max)
    if found.size_bytes > bytes_max or found.entries > source.amount.files_max:
        raise TooMuch(
            shown(source.root),
            size_bytes=found.size_bytes,
            files=found.entries,
            amount=msgspec.structs.replace(source.amount, bytes_max=bytes_max),
            largest=_largest(found),
        )
    return _without_outside_links(found, is_strict=source.is_strict)


def _walked(source: Source, named: Named | None) -> Found:
    walk = Walk(
        source.root,
        wanted=source.wanted,
        level=source.level,
        named=named,
        leaves_out=source.leaves_out,
    )
    try:
        return walk.look()
    except OSError as error:
        refused = [Refused(".", f"cannot be read: {error.strerror}")]
        raise CannotShip(shown(source.root), refused=refused) from error


def _largest(found: Found) -> list[tuple[str, int, int]]:
    """The folders with the most in them: path, bytes, files."""
    sizes: dict[bytes, list[int]] = {}
    for file in found.files:
        folder = b"/".join(file.path.split(b"/")[:-1][:DEPTH_SHOWN])
        size = sizes.setdefault(folder, [0, 0])
        size[0] += file.size
        size[1] += 1
    most = sorted(sizes, key=lambda one: -(sizes[one][0] + (sizes[one][1] << 16)))
    return [(f"{shown(one) or '.'}/", sizes[one][0], sizes[one][1]) for one in most[:LARGEST_SHOWN]]


def why_rooted(root: str, *, home: str) -> str:
    """Why nothing of a directory travels that nobody named; empty: it does."""
    real, real_home = os.path.realpath(root), os.path.realpath(home)
    if real == "/":
        return "it is the root of all files"
    if real == real_home:
        return "it is your home directory"
    if real_home.startswith(f"{real}/"):
        return "it holds your home directory"
    everybodys = ("/tmp", "/var/tmp", tempfile.gettempdir())  # noqa: S108  (nothing is made there)
    if real in map(os.path.realpath, everybodys):
        return "it is for temporary files of everybody"
    return ""


def lay_out(files: Sequence[Seen]) -> tuple[list[list[Seen]], list[Seen]]:
    """The files that share a chunk, chunk by chunk; and those that have chunks of their own."""
    shares: list[list[Seen]] = []
    share: list[Seen] = []
    used = 0
    for file in files:
        if file.size > SMALL_BYTES_MAX:
            continue
        if used + file.size > CHUNK_BYTES_MAX:
            shares.append(share)
            share, used = [], 0
        share.append(file)
        used += file.size
        if zlib.crc32(file.path) % SHARED_BYTES < file.size:
            shares.append(share)
            share, used = [], 0
    if share:
        shares.append(share)
    return shares, [file for file in files if file.size > SMALL_BYTES_MAX]


def _cuts(size: int) -> list[int]:
    """The sizes of the chunks of so many bytes."""
    whole, rest = divmod(size, CHUNK_BYTES_MAX)
    return [CHUNK_BYTES_MAX] * whole + ([rest] if rest else [])


def _open(root: bytes, file: Seen) -> int:
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        return os.open(joined(root, file.path), flags)
    except OSError as error:
        raise Changed({file.path: f"cannot be read: {error.strerror}"}) from error


def _read_small(root: bytes, file: Seen) -> bytes:
    descriptor = _open(root, file)
    try:
        data = _read_exactly(descriptor, file, file.size)
        _check(descriptor, file)
    finally:
        os.close(descriptor)
    return data


def _read_exactly(descriptor: int, file: Seen, size: int) -> bytes:
    try:
        data = os.read(descriptor, size)
        while len(data) < size and (more := os.read(descriptor, size - len(data))):
            data += more
    except OSError as error:
        raise Changed({file.path: f"cannot be read: {error.strerror}"}) from error
    if len(data) != size:
        raise Changed({file.path: RESTLESS})
    return data


def _check(descriptor: int, file: Seen) -> None:
    now = seen(file.folder, file.name, file.path, os.fstat(descriptor))
    if now != file:
        raise Changed({file.path: RESTLESS})


def _without_outside_links(found: Found, *, is_strict: bool) -> Found:
    """Links that lead outside stay at home, by name; of outputs they are told as the rest is."""
    tree = Manifest(folders=tuple(found.folders), links=tuple(found.links))
    outside = set(links_outside(tree))
    if not outside:
        return found
    paths = tree.folder_paths()
    refused, left_out = list(found.refused), LeftOut()
    for link in found.links:
        if link in outside:
            above = b"" if link.folder == ROOT else paths[link.folder]
            path, target = shown(joined(above, link.name)), shown(link.target)
            left_out.add(f"{path} -> {target}")
            if not is_strict:
                refused.append(Refused(path, f"{LINK}, to {target}"))
    kept = [link for link in found.links if link not in outside]
    told = {**found.left_out, LINK: left_out}
    return found._replace(links=kept, refused=refused, left_out=told)


def _has(found: Found, path: bytes) -> bool:
    """Whether something travels that is at a path or below it."""
    start = b"" if path == b"." else path + b"/"
    if any(file.path == path or file.path.startswith(start) for file in found.files):
        return True
    above = Manifest(folders=tuple(found.folders)).folder_paths()
    links = (
        joined(b"" if link.folder == ROOT else above[link.folder], link.name)
        for link in found.links
    )
    return any(one == path or one.startswith(start) for one in links)


def _is_something(source: Source, path: bytes) -> bool:
    """Whether there is anything at a path but empty folders, whatever is to be left out."""
    named = Named(frozenset((path,)))
    found = Walk(source.root, named=named, leaves_out=source.leaves_out).look()
    return bool(found.files or found.links)


def _folders(found: Found, *, keeps_empty: bool) -> tuple[tuple[Folder, ...], dict[int, int]]:
    """The folders that travel, and their new numbers."""
    used = set(range(len(found.folders))) if keeps_empty else set()
    starts = {file.folder for file in found.files} | {link.folder for link in found.links}
    for at in starts:
        above = at
        while above != ROOT and above not in used:
            used.add(above)
            above = found.folders[above].parent
    numbers = {old: new for new, old in enumerate(sorted(used))}
    numbers[ROOT] = ROOT
    return tuple(
        Folder(numbers[found.folders[at].parent], found.folders[at].name, found.folders[at].mode)
        for at in sorted(used)
    ), numbers


def _named(restless: dict[bytes, str]) -> list[Refused]:
    return [Refused(shown(path), why) for path, why in sorted(restless.items())]
