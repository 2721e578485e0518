"""A directory as it travels: what is in it, and of which chunks its files are made.

Lives here: the manifest, its bytes, its id, its limits, and whether it can be believed. Never here:
walking directories, keeping chunks (`edges.artifacts`), sending them (`agent.shipping`).
Invariant: a manifest that was read by `read` names nothing outside of its own tree, whoever wrote
it, and its files are no larger than its chunks.

The files of a manifest, in its order, are one long row of bytes, and its chunks cut that row. So
many small files share a chunk, and a large one has many; no file has to say where its bytes are.
Names are bytes, as the file system has them: not every name is text.
"""

import hashlib
from collections.abc import Iterator
from itertools import accumulate
from typing import Final, NewType

import msgspec

from distributed_grid.errors import GridError
from distributed_grid.model.bounds import Body, Count, Most, Name, Signed

ManifestId = NewType("ManifestId", Name)  # 64 hex digits, as the ids of nodes and jobs.

# A chunk is one message of the bulk lane, which should be at most 1 MiB, so that lanes stay fair.
# Halves of that were as fast to store and send, and waste less where a little has changed.
CHUNK_BYTES_MAX: Final = 512 << 10
DIGEST_BYTES: Final = 32
CHUNKS_MAX: Final = 1 << 18  # 128 GiB: its hashes are 8 MiB, the bits of what is lacking 32 KiB.
FILES_MAX: Final = 250_000  # And folders, and links: some 60 MB of memory while one is read.
MANIFEST_BYTES_MAX: Final = (
    16 << 20
)  # 250,000 names of 40 bytes, or the hashes of 128 GiB and more.
NAME_BYTES_MAX: Final = 255  # What Linux and macOS allow.
PATH_BYTES_MAX: Final = 3_000  # They allow 4,096, and the work directory stands before it.
MODES_MAX: Final = 0o777  # Nobody is lent a setuid programme.
LINKS_MAX: Final = 20_000  # Each is followed when a manifest is read: this many in seconds.
HOPS_MAX: Final = 40  # From link to link; as Linux has it.
STEPS_MAX: Final = 1_000  # From folder to folder, of one link.
ROOT: Final = -1  # The folder that the manifest is of.
VERSION: Final = 1
# What reading bytes of others may raise.
_JUNK: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class BadManifest(GridError):
    """A manifest that cannot be believed; whoever sent it is broken, or means harm."""

    def __init__(self, why: str) -> None:
        self.why = why
        super().__init__(
            f"a manifest of files cannot be used: {why}",
            remedy="Compare grid version on both machines; if they are alike, report it",
        )


class Amount(msgspec.Struct, frozen=True, kw_only=True):
    """How much may travel at once."""

    bytes_max: int
    files_max: int


# What a job leaves behind comes back up to this, unless somebody said --output.
RETURNED: Final = Amount(bytes_max=256 << 20, files_max=20_000)
UNASKED: Final = Amount(bytes_max=1 << 30, files_max=20_000)  # Nobody said --ship.
ASKED: Final = Amount(bytes_max=CHUNKS_MAX * CHUNK_BYTES_MAX, files_max=FILES_MAX)


class Folder(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A directory; its parent stands before it."""

    parent: Signed  # An index, or ROOT.
    name: Body
    mode: Signed


class File(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A file; its bytes follow those of the file before it."""

    folder: Signed
    name: Body
    mode: Signed
    size: Signed


class Symlink(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A symbolic link to somewhere in the same tree."""

    folder: Signed
    name: Body
    target: Body


class Manifest(msgspec.Struct, frozen=True, array_like=True):
    """What a directory holds."""

    version: Count = VERSION
    mode: Signed = 0o755  # Of the directory itself.
    folders: Most[Folder] = ()
    files: Most[File] = ()
    links: Most[Symlink] = ()
    digests: Body = b""  # Of the chunks, one after the other.
    sizes: Most[Count] = ()  # Of the chunks.

    @property
    def chunks(self) -> list[bytes]:
        """The digests, apart; one may be there twice."""
        whole = self.digests
        return [whole[at : at + DIGEST_BYTES] for at in range(0, len(whole), DIGEST_BYTES)]

    @property
    def content_bytes(self) -> int:
        """All files together."""
        return sum(self.sizes)

    @property
    def entries(self) -> int:
        """Everything that has a name."""
        return len(self.folders) + len(self.files) + len(self.links)

    def folder_paths(self) -> list[bytes]:
        """The path of each folder, relative, without a slash at the end."""
        paths: list[bytes] = []
        for folder in self.folders:
            paths.append(
                joined(b"" if folder.parent == ROOT else paths[folder.parent], folder.name)
            )
        return paths


_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final = msgspec.msgpack.Decoder(Manifest)


def digest(data: bytes | memoryview) -> bytes:
    """What a chunk is called: its SHA-256.

    Processors have had instructions for it for years: 1.5 GB/s, where BLAKE2b ran at 0.8.
    """
    return hashlib.sha256(data).digest()


def encode(manifest: Manifest) -> bytes:
    """The canonical bytes."""
    return _encoder.encode(manifest)


def id_of(body: bytes) -> ManifestId:
    """The id of a manifest, from its canonical bytes; never that of a chunk with the same bytes."""
    made = hashlib.sha256(b"grid manifest\0")
    made.update(body)
    return ManifestId(made.hexdigest())


def is_id(text: str) -> bool:
    """Whether this could be the id of a manifest, whoever wrote it."""
    return len(text) == 2 * DIGEST_BYTES and all(digit in "0123456789abcdef" for digit in text)


def read(body: bytes) -> Manifest:
    """A manifest from bytes that anybody may have sent; raises BadManifest."""
    if len(body) > MANIFEST_BYTES_MAX:
        raise BadManifest(f"it has {len(body)} bytes, at most {MANIFEST_BYTES_MAX} are read")
    try:
        manifest = _decoder.decode(body)
    except _JUNK as error:
        raise BadManifest("its bytes are no manifest") from error
    if flaw := flaw_of(manifest):
        raise BadManifest(flaw)
    if encode(manifest) != body:
        raise BadManifest("its bytes are not the canonical ones")
    return manifest


def flaw_of(manifest: Manifest) -> str:
    """Why a manifest cannot be believed; empty: it can."""
    flaws = (_flaw_of_counts, _flaw_of_names, _flaw_of_chunks, _flaw_of_links)
    return next((flaw for look in flaws if (flaw := look(manifest))), "")


def joined(folder: bytes, name: bytes) -> bytes:
    """The path of something in a folder."""
    return folder + b"/" + name if folder else name


def shown(path: bytes) -> str:
    """A path as people and JSON can read it; what is no text is escaped."""
    return path.decode("utf-8", "backslashreplace")


def stretches(manifest: Manifest) -> Iterator[tuple[int, list[tuple[int, int, int]]]]:
    """For each chunk in order: (file, begin in the chunk, end in the chunk) of what it holds."""
    ends = list(accumulate(file.size for file in manifest.files))
    number, begin = 0, 0
    for chunk, size in enumerate(manifest.sizes):
        end = begin + size
        parts: list[tuple[int, int, int]] = []
        at = begin
        while at < end:
            while ends[number] <= at:
                number += 1
            until = min(end, ends[number])
            parts.append((number, at - begin, until - begin))
            at = until
        yield chunk, parts
        begin = end


def _flaw_of_counts(manifest: Manifest) -> str:
    if manifest.version != VERSION:
        return f"it is of version {manifest.version}, this is {VERSION}"
    if manifest.entries > FILES_MAX:
        return f"it has {manifest.entries} entries, at most {FILES_MAX} are read"
    if len(manifest.links) > LINKS_MAX:
        return f"it has {len(manifest.links)} links, at most {LINKS_MAX} are read"
    if len(manifest.sizes) > CHUNKS_MAX:
        return f"it has {len(manifest.sizes)} chunks, at most {CHUNKS_MAX} are read"
    return ""


def _flaw_of_names(manifest: Manifest) -> str:
    taken: set[tuple[int, bytes]] = set()
    lengths: list[int] = []  # Of the folders' paths.
    modes = [manifest.mode]
    for number, folder in enumerate(manifest.folders):
        if not ROOT <= folder.parent < number:
            return "a folder stands before its parent"
        length = 0 if folder.parent == ROOT else lengths[folder.parent] + 1
        lengths.append(length + len(folder.name))
        modes.append(folder.mode)
        if flaw := _flaw_of_name(taken, folder.parent, folder.name, length):
            return flaw
    entries: tuple[File | Symlink, ...] = (*manifest.files, *manifest.links)
    for entry in entries:
        if not ROOT <= entry.folder < len(lengths):
            return "a file is in a folder that is not there"
        length = 0 if entry.folder == ROOT else lengths[entry.folder] + 1
        if flaw := _flaw_of_name(taken, entry.folder, entry.name, length):
            return flaw
    modes.extend(file.mode for file in manifest.files)
    if not 0 <= min(modes) <= max(modes) <= MODES_MAX:
        return "a mode has other bits than those of rights"
    return ""


def _flaw_of_name(
    taken: set[tuple[int, bytes]], folder: int, name: bytes, before_bytes: int
) -> str:
    if not 0 < len(name) <= NAME_BYTES_MAX or b"/" in name or b"\0" in name:
        return f"{shown(name[:40])!r} is no name of a file"
    if name in (b".", b".."):
        return f"{shown(name)!r} leads elsewhere"
    if before_bytes + len(name) > PATH_BYTES_MAX:
        return f"a path is longer than {PATH_BYTES_MAX} bytes"
    if (folder, name) in taken:
        return f"{shown(name)!r} is there twice"
    taken.add((folder, name))
    return ""


def _flaw_of_chunks(manifest: Manifest) -> str:
    sizes = manifest.sizes
    if len(manifest.digests) != DIGEST_BYTES * len(sizes):
        return "there are more chunks than sizes, or fewer"
    if sizes and not 0 < min(sizes) <= max(sizes) <= CHUNK_BYTES_MAX:
        return f"a chunk is empty, or has more than {CHUNK_BYTES_MAX} bytes"
    if any(file.size < 0 for file in manifest.files):
        return "a file has less than no bytes"
    if sum(file.size for file in manifest.files) != sum(sizes):
        return "its files are not as large as its chunks"
    return ""


def _flaw_of_links(manifest: Manifest) -> str:
    for link in manifest.links:
        if not 0 < len(link.target) <= PATH_BYTES_MAX or b"\0" in link.target:
            return f"the link {shown(link.name)!r} leads nowhere"
    outside = links_outside(manifest)
    return f"the link {shown(outside[0].name)!r} leads outside" if outside else ""


def links_outside(manifest: Manifest) -> list[Symlink]:
    """The links that lead out of the tree, also by way of other links."""
    if not manifest.links:
        return []
    folders = {(folder.parent, folder.name): at for at, folder in enumerate(manifest.folders)}
    links = {(link.folder, link.name): link.target for link in manifest.links}
    return [link for link in manifest.links if _leaves(link, manifest, folders, links)]


def _leaves(
    link: Symlink,
    manifest: Manifest,
    folders: dict[tuple[int, bytes], int],
    links: dict[tuple[int, bytes], bytes],
) -> bool:
    """Whether a link leads out of the tree, or too far to be followed.

    To compare its text is not enough: `..` behind another link means where that one leads.
    """
    pending = _steps(link.target)
    at, beyond, hops = link.folder, 0, 0  # beyond: steps below something that is not there.
    for _ in range(STEPS_MAX):
        if not pending:
            return False
        step = pending.pop()
        if step == b"/" or (step == b".." and not beyond and at == ROOT):
            return True
        if step == b"..":
            beyond, at = (beyond - 1, at) if beyond else (0, manifest.folders[at].parent)
        elif beyond or ((at, step) not in folders and (at, step) not in links):
            beyond += 1
        elif (at, step) in folders:
            at = folders[at, step]
        elif (hops := hops + 1) <= HOPS_MAX:
            pending += _steps(links[at, step])
        else:
            return False  # It leads round in circles.
    return True


def _steps(target: bytes) -> list[bytes]:
    """The steps of a target, the first last; `/` stands for the root of the machine."""
    steps = [step for step in target.split(b"/") if step not in (b"", b".")]
    return [*reversed(steps), b"/"] if target.startswith(b"/") else steps[::-1]
