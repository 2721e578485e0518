"""The store of chunks: one file each, called by its digest, in the data directory.

Lives here: files, room, pins, what is durable. Never here: what chunks are for, cutting them
(`packing`), sending them (`agent.shipping`).
Invariant: a file has its name only once it is whole; what a reader gets has the digest it asked
for, seen now or a moment ago and not written to since; what is pinned is never removed; at most
`bytes_max` are used.

A chunk counts as here after it was written, or looked through once, in this life of the process:
a machine that lost its power leaves files whose names are right and whose bytes are not. They are
written without a sync; `sync` does many at once, before anybody is told that they are safe.
What cannot be read just now (too many open files, a disk with errors) is not taken for gone: it
stays, and whoever wants it is told. Maybe nobody else has it.

In memory: some 300 bytes for each chunk. Twenty gigabytes of half-megabytes are 40,000 of them.
"""

import contextlib
import errno
import itertools
import os
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from distributed_grid.edges.artifacts import CacheFailed, CacheFull
from distributed_grid.edges.artifacts.chunk_files import (
    Look,
    digest_of,
    folder_of,
    look,
    name_of,
    sync,
    write_whole,
)
from distributed_grid.model import artifact
from distributed_grid.model.artifact import BadManifest, Manifest, ManifestId
from distributed_grid.wire.cache import CacheStatus, Cleared

CACHE_BYTES_MAX: Final = 20 << 30  # A few work directories with data; a laptop's disk can bear it.
TOUCH_NS: Final = 3_600 * 10**9  # How exactly the order of use is known after a restart.
# What was just written is read at once, by whoever unpacks or sends it: its digest is known. A disk
# that spoils what it holds does so in days; and after so many chunks memory is better spent.
TRUSTED_NS: Final = 60 * 10**9
TRUSTED_MAX: Final = 4_096
MANIFESTS_READ_MAX: Final = 4  # Kept in memory as they were read: of those that travel now.
# Whoever removes many lets others in between: the loop pins and unpins, and waits for the lock.
REMOVED_MAX: Final = 100  # In one go: a millisecond or two.
PAUSE_S: Final = 0.001  # Then; who waits is awake by then.
SHED_BYTES: Final = 16 << 20  # For a chunk on a full disk: whoever fills it goes on with that.
_FULL: Final = (errno.ENOSPC, errno.EDQUOT)


class _Pinned(NamedTuple):
    owners: set[str]
    names: frozenset[bytes]  # The manifest and its chunks.


class ChunkStore:
    """Chunks and manifests in a directory. Safe to use from several threads."""

    def __init__(self, root: str, *, bytes_max: int = CACHE_BYTES_MAX) -> None:
        self.root = root
        self.bytes_max = bytes_max
        self._lock = threading.Lock()
        self._names = itertools.count()
        self._sizes: OrderedDict[bytes, int] = OrderedDict()  # The longest unused first.
        self._used = 0
        self._sound: set[bytes] = set()  # Written or looked through by this process.
        self._trusted: OrderedDict[bytes, Look] = OrderedDict()  # The longest known first.
        self._synced: set[bytes] = set()
        self._pins: Counter[bytes] = Counter()
        self._pinned: dict[ManifestId, _Pinned] = {}
        self._drafts: dict[str, set[bytes]] = {}
        self._read: OrderedDict[ManifestId, Manifest] = OrderedDict()
        self._manifests: set[bytes] = set()
        self._counts: Counter[str] = Counter()

    def open(self) -> None:
        """Make the directories, see what is there, remove what was not finished."""
        found: list[tuple[int, bytes, int, bool]] = []
        try:
            for folder in ("", "chunks", "manifests", "drafts"):
                os.makedirs(f"{self.root}/{folder}", 0o700, exist_ok=True)
            for draft in os.listdir(f"{self.root}/drafts"):
                os.unlink(f"{self.root}/drafts/{draft}")
            for folder in ("chunks", "manifests"):
                with os.scandir(f"{self.root}/{folder}") as entries:
                    for entry in entries:
                        status = entry.stat(follow_symlinks=False)
                        if name := digest_of(entry.name):
                            is_manifest = folder == "manifests"
                            found.append((status.st_mtime_ns, name, status.st_size, is_manifest))
        except OSError as error:
            raise CacheFailed(self.root, why=error.strerror or str(error)) from error
        with self._lock:
            for _, name, size, is_manifest in sorted(found):
                self._sizes[name] = size
                self._used += size
                if is_manifest:
                    self._manifests.add(name)
            self._make_room(0)

    # Chunks

    def put(self, digest: bytes, data: bytes, *, draft: str = "") -> None:
        """Keep a chunk. The caller has seen that the digest is right."""
        with self._lock:
            self._draw(draft, digest)
            if digest in self._sound:
                self._sizes.move_to_end(digest)
                return
        self._write(digest, data, is_manifest=False)

    def keep(self, digest: bytes, *, draft: str) -> bool:
        """Whether a chunk is here; it stays until the draft is released."""
        with self._lock:
            self._draw(draft, digest)
        return self._is_here(digest)

    def _draw(self, draft: str, digest: bytes) -> None:
        """Pin a chunk for a draft. Holds the lock."""
        if draft and digest not in self._drafts.setdefault(draft, set()):
            self._drafts[draft].add(digest)
            self._pins[digest] += 1

    def get(self, digest: bytes) -> bytes | None:
        """A chunk, looked through."""
        loaded = self._load(digest)
        if loaded is None:
            return None
        data, status = loaded
        is_trusted = self._is_trusted(digest, status)
        if not is_trusted and name_of(data, is_manifest=digest in self._manifests) != digest:
            self._forget(digest, is_damaged=True)
            return None
        with self._lock:
            if digest in self._sizes:
                self._sound.add(digest)
                self._sizes.move_to_end(digest)
                if not is_trusted:
                    self._trust(digest, status)
        return data

    def _is_trusted(self, digest: bytes, status: os.stat_result) -> bool:
        with self._lock:
            known = self._trusted.get(digest)
        return (
            known is not None
            and known == look(status, known.until_ns)
            and time.monotonic_ns() < known.until_ns
        )

    def _trust(self, digest: bytes, status: os.stat_result) -> None:
        """Its bytes are right. Holds the lock."""
        self._trusted.pop(digest, None)
        self._trusted[digest] = look(status, time.monotonic_ns() + TRUSTED_NS)
        if len(self._trusted) > TRUSTED_MAX:
            self._trusted.popitem(last=False)

    def lacking(self, digests: Sequence[bytes]) -> list[int]:
        """Which of these are not here, by their places."""
        lacking = [at for at, digest in enumerate(digests) if not self._is_here(digest)]
        with self._lock:
            gone = {digests[at] for at in lacking}
            here = {digest for digest in digests if digest not in gone}
            self._counts["hits"] += len(here)
            self._counts["misses"] += len(gone)
            self._counts["saved"] += sum(self._sizes.get(digest, 0) for digest in here)
        return lacking

    def _is_here(self, digest: bytes) -> bool:
        with self._lock:
            if digest in self._sound:
                self._sizes.move_to_end(digest)
                return True
            is_known = digest in self._sizes
        return is_known and self.get(digest) is not None

    def sync(self, digests: Iterable[bytes]) -> None:
        """Make them durable, with few syncs of directories."""
        with self._lock:
            todo = [name for name in dict.fromkeys(digests) if name not in self._synced]
        if not todo:
            return
        try:
            for name in todo:
                sync(self._path(name), os.O_RDONLY)
            for folder in ("chunks", "manifests"):
                sync(f"{self.root}/{folder}", os.O_RDONLY | os.O_DIRECTORY)
        except OSError as error:
            raise CacheFailed(self.root, why=error.strerror or str(error)) from error
        with self._lock:
            self._synced.update(name for name in todo if name in self._sizes)

    # Manifests

    def put_manifest(self, body: bytes, *, owner: str = "") -> ManifestId:
        """Keep a manifest; its bytes were read, or made, by us."""
        manifest = artifact.id_of(body)
        name = bytes.fromhex(manifest)
        with self._lock:
            is_here = name in self._sound
        if not is_here:
            self._write(name, body, is_manifest=True)
        if owner and not self.pin(manifest, owner):
            raise CacheFailed(self.root, why=f"the manifest {manifest[:12]} does not stay there")
        return manifest

    def manifest_body(self, manifest: ManifestId) -> bytes | None:
        """The bytes of a manifest."""
        name = digest_of(manifest)
        return self.get(name) if name and name in self._manifests else None

    def manifest(self, manifest: ManifestId) -> Manifest | None:
        """A manifest, read."""
        with self._lock:
            if manifest in self._read:
                self._read.move_to_end(manifest)
                return self._read[manifest]
        body = self.manifest_body(manifest)
        try:
            read = artifact.read(body) if body is not None else None
        except BadManifest:
            return None  # Of a later version: as good as not there.
        if read is not None:
            with self._lock:
                self._read[manifest] = read
                while len(self._read) > MANIFESTS_READ_MAX:
                    self._read.popitem(last=False)
        return read

    # Pins

    def pin(self, manifest: ManifestId, owner: str) -> bool:
        """Keep a manifest and its chunks, those to come too, as long as somebody needs them."""
        with self._lock:
            if manifest in self._pinned:
                self._pinned[manifest].owners.add(owner)
                return True
        read = self.manifest(manifest)
        if read is None:
            return False
        with self._lock:
            if manifest not in self._pinned:
                names = frozenset({bytes.fromhex(manifest), *read.chunks})
                self._pinned[manifest] = _Pinned(set(), names)
                self._pins.update(names)
            self._pinned[manifest].owners.add(owner)
        return True

    def unpin(self, manifest: ManifestId, owner: str) -> None:
        """Somebody needs it no longer."""
        with self._lock:
            pinned = self._pinned.get(manifest)
            if pinned is None:
                return
            pinned.owners.discard(owner)
            if not pinned.owners:
                del self._pinned[manifest]
                self._loosen(pinned.names)

    def release(self, draft: str) -> None:
        """What was put for a draft may go."""
        with self._lock:
            self._loosen(self._drafts.pop(draft, set()))

    def _loosen(self, names: Iterable[bytes]) -> None:
        for name in names:
            self._pins[name] -= 1
            if self._pins[name] <= 0:
                del self._pins[name]

    # People

    def status(self) -> CacheStatus:
        """What there is."""
        with self._lock:
            pinned = sum(self._sizes.get(name, 0) for name in self._pins)
            return CacheStatus(
                bytes_used=self._used,
                bytes_max=self.bytes_max,
                bytes_pinned=pinned,
                chunks=len(self._sizes) - len(self._manifests & self._sizes.keys()),
                manifests=len(self._manifests & self._sizes.keys()),
                hits=self._counts["hits"],
                misses=self._counts["misses"],
                bytes_saved=self._counts["saved"],
                evicted=self._counts["evicted"],
                damaged=self._counts["damaged"],
            )

    def clear(self) -> Cleared:
        """Remove everything that is not pinned."""
        chunks, bytes_removed = self._shed()
        return Cleared(chunks=chunks, bytes_removed=bytes_removed, bytes_left=self._used)

    # The disk

    def _write(self, name: bytes, data: bytes, *, is_manifest: bool) -> None:
        with self._lock:
            self._make_room(len(data))
            self._used += len(data)  # Promised: others must not take it meanwhile.
        try:
            try:
                self._place(name, data, is_manifest=is_manifest)
            except OSError as error:
                if error.errno not in _FULL or not self._evict(max(len(data), SHED_BYTES)):
                    raise
                self._place(name, data, is_manifest=is_manifest)
        except OSError as error:
            with self._lock:
                self._used -= len(data)
            if error.errno in _FULL:
                raise self._full(len(data), why="the disk is full") from error
            raise CacheFailed(self.root, why=error.strerror or str(error)) from error

    def _place(self, name: bytes, data: bytes, *, is_manifest: bool) -> None:
        """Write a file, and give it its name. Raises OSError."""
        draft = f"{self.root}/drafts/{next(self._names)}"
        try:
            write_whole(draft, data)
            with self._lock:  # Else somebody who makes room could take the new for the old.
                path = f"{self.root}/{folder_of(is_manifest)}/{name.hex()}"
                os.rename(draft, path)
                self._trust(name, os.stat(path))
                self._used -= self._sizes.pop(name, 0)  # Somebody was at it at the same time.
                self._sizes[name] = len(data)
                self._sound.add(name)
                self._synced.discard(name)
                if is_manifest:  # Not before: the old one of that name may have made room.
                    self._manifests.add(name)
        except OSError:
            with contextlib.suppress(OSError):
                os.unlink(draft)
            raise

    def _evict(self, wanted: int) -> bool:
        """Make room on a disk that others fill, too; whether there was anything to remove."""
        count, _ = self._shed(wanted)
        with self._lock:
            self._counts["evicted"] += count
        return count > 0

    def _shed(self, wanted: int | None = None) -> tuple[int, int]:
        """Remove what is not pinned, the longest unused first: so many bytes, or all.

        How many there were, and their bytes.
        """
        with self._lock:
            loose = [name for name in self._sizes if name not in self._pins]
        count = size = 0
        for at in range(0, len(loose), REMOVED_MAX):
            if at:
                time.sleep(PAUSE_S)
            with self._lock:
                for name in loose[at : at + REMOVED_MAX]:
                    if wanted is not None and size >= wanted:
                        return count, size
                    if name in self._sizes and name not in self._pins:  # As it is by now.
                        count, size = count + 1, size + self._sizes[name]
                        self._remove(name)
        return count, size

    def _load(self, name: bytes) -> tuple[bytes, os.stat_result] | None:
        with self._lock:
            if name not in self._sizes:
                return None
            path = self._path(name)
        try:
            with open(path, "rb", buffering=0) as file:
                # Before the bytes: what is written meanwhile shows the next time.
                status = os.fstat(file.fileno())
                data = file.read()
                now_ns = time.time_ns()
                if now_ns - status.st_mtime_ns > TOUCH_NS:
                    with contextlib.suppress(OSError):  # It is read all the same.
                        os.utime(file.fileno(), ns=(now_ns, now_ns))
                return data, status
        except FileNotFoundError:
            self._forget(name, is_damaged=False)
            return None
        except OSError as error:
            raise CacheFailed(path, why=error.strerror or str(error)) from error

    def _forget(self, name: bytes, *, is_damaged: bool) -> None:
        with self._lock:
            if is_damaged or not os.path.lexists(self._path(name)):  # Else it was written anew.
                self._counts["damaged"] += is_damaged
                self._remove(name)

    def _make_room(self, wanted: int) -> None:
        """Remove the longest unused, but nothing that is pinned. Holds the lock."""
        for _ in range(len(self._sizes)):
            if self._used + wanted <= self.bytes_max:
                return
            name = next(iter(self._sizes))
            if name in self._pins:
                self._sizes.move_to_end(name)
            else:
                self._remove(name)
                self._counts["evicted"] += 1
        if wanted and self._used + wanted > self.bytes_max:
            raise self._full(wanted)

    def _remove(self, name: bytes) -> None:
        """Holds the lock."""
        path = self._path(name)
        self._used -= self._sizes.pop(name, 0)
        self._sound.discard(name)
        self._trusted.pop(name, None)
        self._synced.discard(name)
        self._manifests.discard(name)
        self._read.pop(ManifestId(name.hex()), None)
        with contextlib.suppress(OSError):
            os.unlink(path)

    def _full(self, wanted: int, *, why: str = "") -> CacheFull:
        pinned = sum(self._sizes.get(name, 0) for name in list(self._pins))
        return CacheFull(wanted=wanted, bytes_max=self.bytes_max, pinned=pinned, why=why)

    def _path(self, name: bytes) -> str:
        return f"{self.root}/{folder_of(name in self._manifests)}/{name.hex()}"
