"""What was packed before: files that were not touched since need not be read again.

Lives here: a table for each directory, from how its files looked to the chunks they became. Never
here: whether those chunks are still there (`chunks`).
Invariant: losing a table costs time, nothing else; a file that may have changed is not in it.

As git has it: a file that was written in the same moment in which it was read may have been
written again in that moment, so what is that young is not remembered.
"""

import contextlib
import hashlib
import os
import struct
from collections.abc import Sequence
from typing import Final

import msgspec

from distributed_grid.edges.artifacts.walking import Seen
from distributed_grid.model.bounds import Body, Table

TABLES_MAX: Final = 64  # Directories; the longest unused makes room.
TABLE_BYTES_MAX: Final = 16 << 20  # A directory of a terabyte has one of 70 MB: it is read again.
YOUNG_NS: Final = 50_000_000  # Clocks of file systems tick every 4 to 10 ms.
COARSE_YOUNG_NS: Final = 2_100_000_000  # Some tick every second, FAT every two.
SECOND_NS: Final = 10**9
_LOOKS: Final = struct.Struct("<qqqqqH")
_decoder: Final = msgspec.msgpack.Decoder(Table[Body, Body])


def key_of(files: Sequence[Seen]) -> bytes:
    """How files look that go into the same chunks, in short."""
    made = hashlib.blake2b(digest_size=16)
    for file in files:
        looks = (file.size, file.mtime_ns, file.ctime_ns, file.inode, file.device)
        made.update(_LOOKS.pack(*looks, len(file.path)))
        made.update(file.path)
    return made.digest()


class Recall:
    """The table of one directory."""

    def __init__(self, folder: str, root: bytes) -> None:
        """`folder` holds the tables of all directories."""
        name = hashlib.blake2b(root, digest_size=16).hexdigest()
        self._folder = folder
        self._path = f"{folder}/{name}"
        self._before = self._load()
        self._after: dict[bytes, bytes] = {}

    def digests(self, key: bytes) -> bytes | None:
        """The chunks that files of this look became, if it is known."""
        return self._after.get(key) or self._before.get(key)

    def remember(
        self, key: bytes, digests: bytes, files: Sequence[Seen], *, looked_ns: int
    ) -> None:
        """These files became these chunks; `looked_ns` is when they were looked at."""
        if digests and all(_is_settled(file, looked_ns) for file in files):
            self._after[key] = digests

    def save(self) -> None:
        """Keep what was used this time. A table that cannot be kept is none: nothing is raised."""
        if self._after == self._before:
            return
        body = msgspec.msgpack.encode(self._after)
        if len(body) > TABLE_BYTES_MAX:
            return
        draft = f"{self._path}.{os.getpid()}"
        with contextlib.suppress(OSError):
            os.makedirs(self._folder, 0o700, exist_ok=True)
            with open(draft, "wb") as file:
                file.write(body)
            os.replace(draft, self._path)
            self._tidy()

    def _load(self) -> dict[bytes, bytes]:
        try:
            with open(self._path, "rb") as file:
                body = file.read(TABLE_BYTES_MAX + 1)
            os.utime(self._path)
            return _decoder.decode(body)
        except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return {}

    def _tidy(self) -> None:
        with os.scandir(self._folder) as entries:
            aged = sorted((entry.stat().st_mtime_ns, entry.path) for entry in entries)
        for _, path in aged[:-TABLES_MAX]:
            os.unlink(path)


def _is_settled(file: Seen, looked_ns: int) -> bool:
    newest = max(file.mtime_ns, file.ctime_ns)
    is_coarse = file.mtime_ns % SECOND_NS == 0 and file.ctime_ns % SECOND_NS == 0
    return newest + (COARSE_YOUNG_NS if is_coarse else YOUNG_NS) < looked_ns
