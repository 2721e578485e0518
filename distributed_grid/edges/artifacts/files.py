"""Directories to manifests and back, on this machine: the `Files` of the seam.

Lives here: what is plugged into what, and which directories never travel. Never here: how it is
done (`packing`, `unpacking`, `outputs`).
"""

import contextlib
import os
import tempfile

from distributed_grid.edges.artifacts import (
    WITHIN,
    Brought,
    CacheFailed,
    CacheFull,
    CannotShip,
    CannotUnpack,
    Changed,
    Packed,
    Refused,
)
from distributed_grid.edges.artifacts.changes import Comparing, Unpacked, chosen
from distributed_grid.edges.artifacts.choosing import globs_of, path_below, wanted_among, wanted_by
from distributed_grid.edges.artifacts.chunks import ChunkStore
from distributed_grid.edges.artifacts.git_excludes import level_of
from distributed_grid.edges.artifacts.outputs import Bringing, bring
from distributed_grid.edges.artifacts.packing import Packing, Source, looked, why_rooted
from distributed_grid.edges.artifacts.requirements import recipe_of, write_recipe
from distributed_grid.edges.artifacts.spares import Spares
from distributed_grid.edges.artifacts.unpacking import remove, thin_out, unpack
from distributed_grid.edges.artifacts.walking import Walk, Wanted
from distributed_grid.model.artifact import ASKED, Amount, Manifest, ManifestId, shown
from distributed_grid.wire.across_api import LeftOut, Travelling


class DiskFiles:
    """Packs and unpacks directories of this machine."""

    def __init__(self, store: ChunkStore, *, user_home: str, own: tuple[str, ...] = ()) -> None:
        """`own`: directories of Grid, which never travel."""
        self._store = store
        self._user_home = user_home
        self._own = own
        self._spares = Spares(store)

    def pack(
        self,
        root: str,
        *,
        owner: str,
        amount: Amount,
        paths: tuple[str, ...] = (),
        are_ignored_sent: bool = False,
    ) -> Packed:
        """What travels of a work directory, or only some paths of it."""
        return self._packed(self._source(root, owner, amount, paths, are_ignored_sent))

    def listed(
        self,
        root: str,
        *,
        amount: Amount,
        paths: tuple[str, ...] = (),
        are_ignored_sent: bool = False,
    ) -> Travelling:
        """What `pack` would take, without reading it."""
        source = self._source(root, "", amount, paths, are_ignored_sent)
        found = looked(source, bytes_max=self._store.bytes_max)
        if found.refused:
            raise CannotShip(root, refused=found.refused)
        return Travelling(
            files=tuple((shown(file.path), file.size) for file in found.files),
            size_bytes=found.size_bytes,
            links=len(found.links),
            left_out=tuple(
                LeftOut(why=why, count=one.count, paths=tuple(one.paths))
                for why, one in found.left_out.items()
            ),
        )

    def _source(
        self, root: str, owner: str, amount: Amount, paths: tuple[str, ...], are_sent: bool
    ) -> Source:
        for path in paths or ("",):
            if why := self.why_nothing(os.path.join(root, path)):
                refused = [Refused(path or ".", why)]
                raise CannotShip(root, refused=refused, remedy=WITHIN)
        folder = os.fsencode(root)
        level = level_of(folder, user_home=self._user_home)
        return Source(
            folder,
            owner,
            amount,
            level=level._replace(are_ignored_sent=are_sent),
            leaves_out=self._left_out(),
            named=frozenset(path_below(root, path) for path in paths),
        )

    def pack_nothing(self, *, owner: str) -> Packed:
        """An empty directory, for who wants that."""
        try:
            with tempfile.TemporaryDirectory(dir=self._store.root, prefix="nothing-") as folder:
                return Packing(self._store).pack(Source(os.fsencode(folder), owner, ASKED))
        except OSError as error:
            raise CacheFailed(self._store.root, why=error.strerror or str(error)) from error

    def why_nothing(self, root: str) -> str:
        """Why nothing of a directory travels unless it is named: it is the user's home, say."""
        return why_rooted(root, home=self._user_home)

    def unpack(self, manifest: ManifestId, target: str) -> Manifest:
        """Make a directory from a manifest, whole or not at all."""
        read = self._store.manifest(manifest)
        if read is not None and self._spares.take(manifest, read, target):
            return read
        made = unpack(self._store, manifest, target)
        self._spares.note(manifest, made, target)
        return made

    def changed(
        self, root: str, *, base: str, amount: Amount, globs: tuple[str, ...] = ()
    ) -> Changed:
        """What a job made or changed since a directory was unpacked."""
        before = self._spares.before(root)
        if before is None:
            before = Unpacked(
                (self._store.manifest(ManifestId(base)) if base else None) or Manifest()
            )
        comparing = Comparing(self._store, before, with_litter=bool(globs))
        return chosen(comparing.changed(os.fsencode(root)), globs_of(globs), amount)

    def collect(
        self,
        root: str,
        *,
        owner: str,
        amount: Amount,
        globs: tuple[str, ...] = (),
        only: frozenset[bytes] | None = None,
    ) -> Packed:
        """What a job leaves behind that matches, or these paths."""
        wanted = wanted_by(globs_of(globs)) if only is None else wanted_among(only)
        return self._collect(root, owner, amount, wanted)

    def keep(self, root: str, *, owner: str, amount: Amount) -> Packed:
        """All that is in a directory of ours and can travel."""
        return self._collect(root, owner, amount)

    def _collect(
        self, root: str, owner: str, amount: Amount, wanted: Wanted | None = None
    ) -> Packed:
        source = Source(
            os.fsencode(root),
            owner,
            amount,
            wanted=wanted,
            leaves_out=self._left_out(),
            is_strict=False,
        )
        return self._packed(source)

    def _packed(self, source: Source) -> Packed:
        """On a disk that is full, once more after directories that nobody uses have made room."""
        try:
            return Packing(self._store).pack(source)
        except CacheFull as error:
            if not error.why:  # The store is full, and not the disk: they are not in it.
                raise
        self._spares.clear()
        return Packing(self._store).pack(source)

    def put_back(self, manifest: ManifestId, target: str) -> Manifest:
        """Make a directory of ours what it was when it was kept; else it stays as it is."""
        made = f"{target}.made"
        remove(os.fsencode(made))  # Of a life that was cut short.
        read = unpack(self._store, manifest, made)
        try:
            remove(os.fsencode(target))
            os.rename(made, target)
        except OSError as error:
            raise CannotUnpack(target, why=error.strerror or str(error)) from error
        return read

    def bring(
        self,
        manifest: ManifestId,
        root: str,
        *,
        globs: tuple[str, ...] | None,
        since_ns: int,
        overwrite: bool = False,
        base: str = "",
        beside: str = "",
    ) -> Brought:
        """Write outputs into a directory, each whole, none over what changed since then."""
        meant = None if globs is None else globs_of(globs)
        wanted = Bringing(
            root,
            meant,
            since_ns,
            overwrite,
            ManifestId(base),
            beside,
            is_homely=meant is None and bool(self.why_nothing(root)),
        )
        return bring(self._store, manifest, wanted)

    def pack_recipe(self, root: str, path: str, *, owner: str) -> Packed:
        """What a Python environment is made from, and nothing else."""
        path = os.path.join(root, path)
        if os.path.relpath(path, root).startswith("../"):  # Of a project that begins above it.
            root = os.path.dirname(path)
        recipe = recipe_of(root, os.path.relpath(path, root))
        try:
            with tempfile.TemporaryDirectory(dir=self._store.root, prefix="recipe-") as folder:
                write_recipe(recipe, folder)
                source = Source(os.fsencode(folder), owner, ASKED)
                return Packing(self._store).pack(source)
        except OSError as error:
            raise CacheFailed(self._store.root, why=error.strerror or str(error)) from error

    def has_entries(self, root: str) -> bool:
        """Whether there is anything in a directory; what cannot be read may have something."""
        try:
            with os.scandir(root) as entries:
                return next(entries, None) is not None
        except FileNotFoundError:
            return False
        except OSError:
            return True

    def may_travel(self, root: str) -> bool:
        """The same of one that nobody named: nothing of the user's home travels, say."""
        return self.has_entries(root) and not self.why_nothing(root)

    def is_within(self, root: str, amount: Amount) -> bool:
        """Whether no more than this of a directory would travel; seen without reading a file."""
        most = amount.files_max
        folder = os.fsencode(root)
        level = level_of(folder, user_home=self._user_home)
        walk = Walk(folder, level=level, leaves_out=self._left_out(), entries_max=most)
        try:
            found = walk.look()
        except OSError:
            return False
        return found.entries <= most and found.size_bytes <= amount.bytes_max

    def is_missing(self, root: str) -> bool:
        """Whether there is nothing of that name; what cannot be looked at may be there."""
        try:
            os.stat(root)
        except FileNotFoundError:
            return True
        except OSError:
            return False
        return False

    def make(self, target: str) -> None:
        """Make an empty directory of ours."""
        try:
            os.makedirs(target, 0o700)
        except OSError as error:
            raise CannotUnpack(target, why=error.strerror or str(error)) from error

    def remove(self, target: str) -> None:
        """Take a directory of ours away."""
        if os.path.lexists(target) and not self._spares.give_back(target):
            remove(os.fsencode(target))

    def set_aside(self, target: str, aside: str, only: frozenset[bytes] = frozenset()) -> None:
        """A job has left a directory of ours that people may want: it gets another name."""
        with contextlib.suppress(OSError):
            if only:
                thin_out(os.fsencode(target), only)
            os.rename(target, aside)
            self._spares.give_back(target)  # It is gone: only how it looked is forgotten.

    def clear(self) -> None:
        """Take away what is kept for jobs to come."""
        self._spares.clear()

    def folders(self, root: str) -> list[str]:
        """The names of the directories of ours below one."""
        os.makedirs(root, 0o700, exist_ok=True)
        return os.listdir(root)

    def _left_out(self) -> frozenset[tuple[int, int]]:
        found = set()
        for path in self._own:
            with contextlib.suppress(OSError):
                status = os.stat(path)
                found.add((status.st_dev, status.st_ino))
        return frozenset(found)
