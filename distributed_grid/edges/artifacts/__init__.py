"""The seam through which files travel: directories become chunks here, and chunks directories.

Lives here: the promises, what can be refused and why, the reports. Never here: whom to send what
(`agent.shipping`), what a manifest means (`model.artifact`).
Invariant: nothing is written outside of the directory that was named, whoever made the manifest;
what is refused is refused by name.
"""

from collections.abc import Iterable, Sequence
from typing import Final, Protocol

import msgspec

from distributed_grid.errors import GridError, counted
from distributed_grid.model.artifact import Amount, Manifest, ManifestId
from distributed_grid.model.bounds import Bytes, Name, Path
from distributed_grid.wire.across_api import Travelling
from distributed_grid.wire.cache import CacheStatus, Cleared

LESS: Final = "List what the job does not need in .gridignore, or name what it needs: --ship PATH"
WITHIN: Final = "Name what the job needs of it: --ship PATH, or work in a folder of its own"
SHOWN_MAX: Final = 5  # Of the paths in an error; all of them are in its fields.
PATH_SHOWN_MAX: Final = 200  # Characters; some paths have thousands.
REFUSED_MAX: Final = 1_000  # Noted in all: nobody reads more.


class Refused(msgspec.Struct, frozen=True):
    """Something that may not, or cannot, travel."""

    path: str  # Relative to the directory; what is no text is escaped.
    why: str


class Packed(msgspec.Struct, frozen=True, kw_only=True):
    """A directory whose files are in the store."""

    id: ManifestId
    files: int
    content_bytes: int
    entries: int = 0  # Files, folders and links.
    refused: tuple[Refused, ...] = ()  # Of outputs: they are left out. Of inputs: none.
    read_bytes: int = 0  # The rest was remembered from the last time.
    links_outside: tuple[str, ...] = ()  # The first of those that stay at home.


class Changed(msgspec.Struct, frozen=True, kw_only=True):
    """What a job made or changed in its directory, by path."""

    coming: frozenset[bytes] = frozenset()
    left: frozenset[bytes] = frozenset()  # More than comes back by itself.
    left_bytes: int = 0


class Brought(msgspec.Struct, frozen=True, kw_only=True):
    """What became of outputs that came back."""

    written: tuple[str, ...] = ()
    unchanged: tuple[str, ...] = ()  # They were there already, byte for byte.
    beside: tuple[tuple[str, str], ...] = ()  # Those that are here under another name: path, name.
    conflicts: tuple[Refused, ...] = ()  # They are left as they are here.


class Chunks(Protocol):
    """Keeps chunks and manifests by their digests. Calls may come from any thread, and may block.

    What is pinned stays; the rest makes room, the longest unused first. What `sync` returned for
    survives the death of the machine. What is read is what was written, or counts as not there;
    whoever reads, looks or pins while the disk is in trouble is told so: CacheFailed.
    """

    def put(self, digest: bytes, data: bytes, *, draft: str = "") -> None:
        """Keep a chunk; `draft` holds it until that is released. Raises CacheFull, CacheFailed."""
        ...

    def get(self, digest: bytes) -> bytes | None:
        """A chunk, looked through; None: it is not here (any more)."""
        ...

    def lacking(self, digests: Sequence[bytes]) -> list[int]:
        """Which of these are not here; those that are have been looked through."""
        ...

    def sync(self, digests: Iterable[bytes]) -> None:
        """Make chunks and manifests durable. Raises CacheFailed."""
        ...

    def put_manifest(self, body: bytes, *, owner: str = "") -> ManifestId:
        """Keep a manifest, and pin it for somebody. Raises CacheFull, CacheFailed."""
        ...

    def manifest_body(self, manifest: ManifestId) -> bytes | None:
        """The bytes of a manifest."""
        ...

    def manifest(self, manifest: ManifestId) -> Manifest | None:
        """A manifest, read."""
        ...

    def pin(self, manifest: ManifestId, owner: str) -> bool:
        """Keep a manifest and its chunks as long as somebody needs them; False: it is not here."""
        ...

    def unpin(self, manifest: ManifestId, owner: str) -> None:
        """Somebody needs it no longer; a second time is fine."""
        ...

    def release(self, draft: str) -> None:
        """What was put for a draft may go, unless it was pinned since."""
        ...

    def status(self) -> CacheStatus:
        """What there is."""
        ...

    def clear(self) -> Cleared:
        """Remove everything that is not pinned."""
        ...


class Files(Protocol):
    """Directories to manifests and back. Calls block: they belong into a thread."""

    def pack(
        self, root: str, *, owner: str, amount: Amount, paths: tuple[str, ...] = (),
        are_ignored_sent: bool = False,
    ) -> Packed:  # fmt: skip
        """What travels of a work directory, or only some paths of it.

        Raises CannotShip, TooMuch, BadValue, CacheError.
        """
        ...

    def listed(
        self, root: str, *, amount: Amount, paths: tuple[str, ...] = (),
        are_ignored_sent: bool = False,
    ) -> Travelling:  # fmt: skip
        """What `pack` would take, without reading it. Raises CannotShip, TooMuch, BadValue."""
        ...

    def pack_nothing(self, *, owner: str) -> Packed:
        """An empty directory, for who wants that. Raises CacheError."""
        ...

    def why_nothing(self, root: str) -> str:
        """Why nothing of a directory travels unless it is named: it is the user's home, say."""
        ...

    def unpack(self, manifest: ManifestId, target: str) -> Manifest:
        """Make a directory from a manifest, whole or not at all.

        Raises CannotUnpack, CacheError.
        """
        ...

    def changed(
        self, root: str, *, base: str, amount: Amount, globs: tuple[str, ...] = ()
    ) -> Changed:
        """What a job made or changed since a directory was unpacked, and how much of it comes back.

        `base`: the manifest, empty if there was nothing. Raises BadValue, OSError, CacheError.
        """
        ...

    def collect(
        self, root: str, *, owner: str, amount: Amount, globs: tuple[str, ...] = (),
        only: frozenset[bytes] | None = None,
    ) -> Packed:  # fmt: skip
        """What a job leaves behind that matches, or these paths. Raises BadValue, ArtifactError."""
        ...

    def keep(self, root: str, *, owner: str, amount: Amount) -> Packed:
        """All that is in a directory of ours and can travel. Raises TooMuch, CacheError."""
        ...

    def put_back(self, manifest: ManifestId, target: str) -> Manifest:
        """Make a directory of ours what it was when it was kept; else it stays as it is.

        Raises CannotUnpack.
        """
        ...

    def bring(
        self, manifest: ManifestId, root: str, *, globs: tuple[str, ...] | None, since_ns: int,
        overwrite: bool = False, base: str = "", beside: str = "",
    ) -> Brought:  # fmt: skip
        """Write outputs into a directory, each whole, none over what changed since then.

        `globs`: None for all that may come unasked. `base`: the manifest of what travelled from
        here; what is as it was then may be replaced, too. `beside`: the end of the names under
        which the others are kept; empty: they are not.
        """
        ...

    def pack_recipe(self, root: str, path: str, *, owner: str) -> Packed:
        """What a Python environment is made from. Raises BadInput, CacheError."""
        ...

    def has_entries(self, root: str) -> bool:
        """Whether there is anything in a directory; what cannot be read may have something."""
        ...

    def may_travel(self, root: str) -> bool:
        """The same of one that nobody named: nothing of the user's home travels, say."""
        ...

    def is_within(self, root: str, amount: Amount) -> bool:
        """Whether no more than this of a directory would travel; seen without reading a file."""
        ...

    def is_missing(self, root: str) -> bool:
        """Whether there is nothing of that name; what cannot be looked at may be there."""
        ...

    def make(self, target: str) -> None:
        """Make an empty directory of ours. Raises CannotUnpack."""
        ...

    def remove(self, target: str) -> None:
        """A job has left a directory of ours, whatever is in it; a second time is fine."""
        ...

    def set_aside(self, target: str, aside: str, only: frozenset[bytes] = frozenset()) -> None:
        """A job has left a directory of ours that people may want: it gets another name.

        Only some paths of it, if there are any. If it cannot have that name it stays as it is.
        """
        ...

    def clear(self) -> None:
        """Take away what is kept for jobs to come."""
        ...

    def folders(self, root: str) -> list[str]:
        """The names of the directories of ours below one; made, if it is not there."""
        ...


class Environment(msgspec.Struct, frozen=True, kw_only=True):
    """A Python environment that is whole."""

    key: Name
    path: Path  # Of the directory; its programs are in bin, which comes first in a job's PATH.
    python: Path
    tool: Name
    size_bytes: Bytes = 0


class Pythons(Protocol):
    """Builds Python environments, each once, and keeps them."""

    async def ready_from(self, recipe: str, *, user: str) -> Environment:
        """That of a directory made by `pack_recipe`. Raises BadInput, ArtifactError."""
        ...

    def let_go(self, key: str, user: str) -> None:
        """Somebody uses it no longer."""
        ...

    def users(self) -> set[str]:
        """Everyone who uses one, those of an agent before this one too."""
        ...

    def left(self, user: str) -> None:
        """Somebody is over, whatever it used; a second time is fine."""
        ...


class ArtifactError(GridError):
    """Files could not be packed, kept or unpacked."""


class CannotShip(ArtifactError):
    """Something in a directory may not travel; each is named."""

    exit_code = 2

    def __init__(self, root: str, *, refused: Sequence[Refused], remedy: str = LESS) -> None:
        self.root, self.refused = root, tuple(refused)
        named = "; ".join(f"{_short(one.path)} ({one.why})" for one in refused[:SHOWN_MAX])
        more = f", and {len(refused) - SHOWN_MAX} more" if len(refused) > SHOWN_MAX else ""
        super().__init__(f"{root} cannot be sent as it is: {named}{more}", remedy=remedy)


class TooMuch(ArtifactError):
    """A directory is larger than may travel at once."""

    exit_code = 2

    def __init__(
        self,
        root: str,
        *,
        size_bytes: int,
        files: int,
        amount: Amount,
        largest: Sequence[tuple[str, int, int]] = (),  # Folders: path, bytes, files.
    ) -> None:
        self.root, self.size_bytes, self.files, self.amount = root, size_bytes, files, amount
        self.largest = tuple(largest)
        most = ", ".join(
            f"{_short(path)} ({_size(size)} in {n} files)" for path, size, n in largest
        )
        super().__init__(
            f"of {root} {_size(size_bytes)} in {files} files and folders would travel, at most"
            f" {_size(amount.bytes_max)} in {amount.files_max} do"
            + (f"; the most is in {most}" if most else ""),
            remedy=LESS,
        )


class CannotUnpack(ArtifactError):
    """A directory cannot be made from its manifest."""

    def __init__(self, target: str, *, why: str, lacking: int = 0) -> None:
        self.target, self.why, self.lacking = target, why, lacking
        remedy = "It is fetched again by itself" if lacking else "Check that disk (df -h, df -i)"
        super().__init__(f"{target} cannot be made: {why}", remedy=remedy)


class CacheError(ArtifactError):
    """The store of chunks could not do it."""


class CacheFull(CacheError):
    """There is no room left that may be taken."""

    def __init__(self, *, wanted: int, bytes_max: int, pinned: int, why: str = "") -> None:
        self.wanted, self.bytes_max, self.pinned, self.why = wanted, bytes_max, pinned, why
        reason = why or f"of {bytes_max} bytes {pinned} are needed by jobs that run or wait"
        super().__init__(
            f"no room for {wanted} bytes in the cache of files: {reason}",
            remedy="Wait until jobs have ended, make space on that disk, or try: grid cache clear",
        )


class CacheFailed(CacheError):
    """The disk below the store does not do as it should."""

    def __init__(self, path: str, *, why: str) -> None:
        self.path, self.why = path, why
        super().__init__(
            f"{path}: {why}",
            remedy="Check its owner and rights, and the disk (dmesg tells of errors)",
        )


def _size(size_bytes: int) -> str:
    return counted("storage_bytes", size_bytes).removesuffix(" of storage")


def _short(path: str) -> str:
    """A path that somebody will read: of a very long one its ends."""
    if len(path) <= PATH_SHOWN_MAX:
        return path
    half = PATH_SHOWN_MAX // 2
    return f"{path[:half]}…{path[-half:]}"
