"""What the next keeper, or the next agent, must know if this one is killed now.

Lives here: records with checksums in one growing file, read back and rewritten. Never here: what
they mean (`reports`).
Invariant: a record is either whole or not there; whatever follows a torn one is dropped.

No fsync: a killed process loses nothing that was written, and after a loss of power every attempt
is lost anyway, which the agent's own ledger and the boot id tell.
"""

import contextlib
import os
import zlib
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from distributed_grid.model.bounds import Count, Moment, Most, Name, Path
from distributed_grid.wire.keeper import Ended, Started

HEADER_BYTES: Final = 8  # Four of length, four of checksum.
RECORD_BYTES_MAX: Final = 1 << 20  # A report with the longest note is smaller by far.
COMPACT_ABOVE_BYTES: Final = 1 << 20  # Some 6,000 reports; rewriting the rest takes a millisecond.


class Opened(msgspec.Struct, frozen=True, kw_only=True, tag="opened"):
    """A keeper begins here."""

    keeper_id: Name
    boot_id: Name
    next_number: Count
    groups: Path = ""


class Begun(msgspec.Struct, frozen=True, kw_only=True, tag="begun"):
    """An attempt has work left until its last `Ended`."""

    attempt: Name
    scratch_dir: Path
    started_ms: Moment
    is_container: bool = False
    is_queued: bool = False  # It waits for its turn; a second record follows before it starts.
    lent: Most[Path] = ()  # Spare files that it writes to, in the order of the streams.
    output_dir: Path = ""  # Where what is in them belongs.


class Acknowledged(msgspec.Struct, frozen=True, kw_only=True, tag="acknowledged"):
    """Reports up to this number are not needed any more."""

    upto: Count


Record = Opened | Begun | Acknowledged | Started | Ended

_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(Record).decode


class Journal:
    """One file, appended to before an attempt starts, and once per turn of the loop."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._buffer: list[bytes] = []
        self._buffer_bytes = 0
        self.size = 0
        self.trouble = ""  # Why it cannot be written, if so.

    def records(self) -> Iterator[Record]:
        """Everything that is whole, from the start; a torn tail is cut off."""
        offset = 0
        while True:
            header = os.pread(self._handle, HEADER_BYTES, offset)
            length = int.from_bytes(header[:4], "big")
            if len(header) < HEADER_BYTES or length > RECORD_BYTES_MAX:
                break
            body = os.pread(self._handle, length, offset + HEADER_BYTES)
            if len(body) < length or zlib.crc32(body) != int.from_bytes(header[4:], "big"):
                break
            offset += HEADER_BYTES + length
            # Of another version: not for this one.
            with contextlib.suppress(msgspec.MsgspecError, UnicodeError, RecursionError):
                yield _decode(body)
        self.size = max(self.size, offset)

    def add(self, record: Record) -> None:
        """To be written with the next flush."""
        self.add_encoded(_encode(record))

    def add_encoded(self, body: bytes) -> None:
        """As `add`, for who has the bytes already."""
        if not self.trouble:
            self._buffer.append(_sealed(body))

    def flush(self) -> None:
        """Write what was added. A full disk is remembered in `trouble`, not raised."""
        if not self._buffer:
            return
        data = b"".join(self._buffer)
        self._buffer.clear()
        try:
            _write_whole(self._handle, data, self.size)
            self.size += len(data)
        except OSError as problem:
            self.trouble = problem.strerror or str(problem)
            with contextlib.suppress(OSError):
                os.ftruncate(self._handle, self.size)

    def rewrite(self, records: Iterable[Record], bodies: Iterable[bytes]) -> None:
        """Put these in the place of everything; the old file stays if that fails."""
        data = b"".join([_sealed(_encode(record)) for record in records])
        data += b"".join(map(_sealed, bodies))
        new = f"{self._path}.new"
        try:
            handle = os.open(new, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            try:
                _write_whole(handle, data, 0)
                os.rename(new, self._path)
            except OSError:
                os.close(handle)
                with contextlib.suppress(OSError):
                    os.unlink(new)
                raise
        except OSError as problem:
            self.trouble = problem.strerror or str(problem)
            return
        os.close(self._handle)
        self._handle, self.size, self.trouble = handle, len(data), ""
        self._buffer.clear()


def _sealed(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + zlib.crc32(body).to_bytes(4, "big") + body


def _write_whole(handle: int, data: bytes, offset: int) -> None:
    view = memoryview(data)
    while view:
        written = os.pwrite(handle, view, offset)
        view, offset = view[written:], offset + written
