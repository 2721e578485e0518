"""Output of jobs, read from the files that the processes write.

Lives here: reading, following. Never here: writing or cutting it (`edges.runner`), how
it lies in its files once it was cut (`wire.cut_output`).
Invariant: of what is in the files, every byte is given once and in order. A follower misses bytes
only if they were cut away between two looks, and the attempt's note tells of them.
"""

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from typing import Final, NamedTuple

from distributed_grid.errors import BadValue
from distributed_grid.model.job import JobSpec
from distributed_grid.wire.cut_output import HEAD_BYTES, Span, marker_name, older_name, span_of
from distributed_grid.wire.tails import NO_INDEX

PART_BYTES: Final = 64 << 10  # One read; a client that does not read costs this much memory.
POLL_MS_MIN, POLL_MS_MAX = 20, 250  # Quiet files are looked at less often.


def output_name(spec: JobSpec, stream: str, index: int) -> str:
    """The name of the file; of an array, or of a chunk of one that is a guest, of one index.

    Of a gang the index is a rank, each of which writes files of its own.
    """
    ranks = spec.origin.ranks if spec.origin is not None else spec.gang
    if ranks > 1:
        if not NO_INDEX <= index < ranks:
            remedy = f"Give one below {ranks} with --rank"
            raise BadValue(index, expected="a rank of the gang", remedy=remedy)
        return stream
    indices: Sequence[int] = spec.origin.indices if spec.origin is not None else ()
    if spec.array is not None:
        indices = spec.array.indices
    if not indices and index != NO_INDEX:
        raise BadValue(index, expected="no index: it is no array", remedy="Leave --index out")
    if indices and index not in indices:
        raise BadValue(index, expected="an index of the array", remedy="Give one with --index")
    return name_of(stream, index)


def name_of(stream: str, index: int) -> str:
    """The same, of an index that is one, or of no array."""
    return stream if index == NO_INDEX else f"{index}.{stream}"


async def read_output(
    path: str,
    *,
    offset: int,
    follow: bool,
    has_ended: Callable[[], bool],
    changed: Callable[[float], Awaitable[object]],
) -> AsyncIterator[bytes]:
    """A stream from an offset on; with `follow`, until its writer has ended and all is read.

    `changed` waits until the job changes, for so many seconds at the most.
    """
    reader, poll_ms = _Reader(path, offset), POLL_MS_MIN
    try:
        while True:
            is_over = has_ended()  # Asked before reading: what was written before the end is read.
            grown = False
            for part in reader.parts(is_quiet=is_over):
                grown = True
                yield part
            if is_over or not follow:
                return
            poll_ms = POLL_MS_MIN if grown else min(2 * poll_ms, POLL_MS_MAX)
            await changed(poll_ms / 1_000)  # Files do not tell when they grow; the job's end does.
    finally:
        reader.close()


def read_tail(path: str, most: int) -> tuple[int, bytes]:
    """The end of a stream that nobody writes any more, and where in the stream it begins."""
    older = _older(path, known=_Older(Span(), ())).span
    try:
        newest = os.stat(path).st_size  # noqa: PTH116
    except FileNotFoundError:
        newest = 0
    start = max(older.start, older.end + newest - most)
    reader = _Reader(path, start)
    try:
        return start, b"".join(reader.parts(is_quiet=True))[:most]
    finally:
        reader.close()


class _Older(NamedTuple):
    """The part of a stream that was moved out of its file, and which file that is."""

    span: Span
    identity: tuple[int, ...]  # Empty: there is none.


class _Reader:
    """Where somebody stands in a stream. Holds the file open, also when another takes its name."""

    def __init__(self, path: str, position: int) -> None:
        self._path = path
        self._position = position  # In the stream, of which the file may be only the newest part.
        self._older = _Older(Span(), ())
        self._file: int | None = None

    def parts(self, *, is_quiet: bool) -> Iterator[bytes]:
        """Everything there is now. `is_quiet`: nobody writes or cuts any more."""
        while part := self._part(is_quiet=is_quiet):
            self._position += len(part)
            yield part

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _part(self, *, is_quiet: bool) -> bytes:
        while True:
            self._older = _older(self._path, known=self._older)
            if self._position < self._older.span.end:
                self._position = max(self._position, self._older.span.start)
                return _part_of(self._older, self._path, self._position)
            position, part = self._newest()
            if not is_quiet and self._was_cut():
                return b""  # It may be from another place of the stream: look again in a moment.
            self._position = position
            if part or not self._is_replaced():
                return part
            self.close()  # Another try of this index writes a file of its own.
            self._position = 0

    def _newest(self) -> tuple[int, bytes]:
        """Bytes from the file that is written to, and where in the stream they are."""
        start = self._older.span.end
        if self._file is None and not self._opened():
            return self._position, b""
        assert self._file is not None
        if self._position - start <= os.fstat(self._file).st_size:
            at = self._position - start
        elif self._is_replaced():
            return self._position, b""
        else:
            at = 0  # Emptied, and nothing was kept: the disk was full.
        return start + at, os.pread(self._file, PART_BYTES, at)

    def _was_cut(self) -> bool:
        """Whether the file was cut since we looked at its older part, or is being cut."""
        if os.path.exists(marker_name(self._path)):  # noqa: PTH110
            return True
        return _older(self._path, known=self._older) != self._older

    def _opened(self) -> bool:
        try:
            self._file = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        return True

    def _is_replaced(self) -> bool:
        if self._file is None:
            return False
        try:
            return not os.path.samestat(os.stat(self._path), os.fstat(self._file))  # noqa: PTH116
        except FileNotFoundError:
            return False  # The job removed it.


def _older(path: str, known: _Older) -> _Older:
    """What was moved out of a file; what is known already, if that still holds."""
    try:
        with open(older_name(path), "rb", buffering=0) as file:  # noqa: PTH123  (often, and short)
            found = os.fstat(file.fileno())
            if _identity(found) == known.identity:
                return known
            return _Older(span_of(file.read(HEAD_BYTES), found.st_size), _identity(found))
    except FileNotFoundError:
        return _Older(Span(), ())


def _part_of(older: _Older, path: str, position: int) -> bytes:
    """From a position in the stream on; nothing if another file has taken its place."""
    try:
        with open(older_name(path), "rb", buffering=0) as file:  # noqa: PTH123
            if _identity(os.fstat(file.fileno())) != older.identity:
                return b""
            file.seek(older.span.head_bytes + position - older.span.start)
            return file.read(PART_BYTES)
    except FileNotFoundError:
        return b""


def _identity(found: os.stat_result) -> tuple[int, ...]:
    return found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size
