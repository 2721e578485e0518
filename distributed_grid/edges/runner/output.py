"""The files that a process writes to, kept within bounds while it writes.

Lives here: naming, cutting, and the names of a chunk's files. Never here: reading (the agent's),
how a stream lies in its files once it was cut (`wire.cut_output`).
Invariant: of a stream, the newest bytes are kept, and at most `bytes_max` of them.

The child holds the file open in append mode, so renaming would not help: the newest half is copied
to `NAME.1` and the file emptied, and the child goes on at its start.

The indices of a chunk share a file that is called by the index only once something is in it, or
when the index runs for a moment: an array of 100,000 silent jobs would otherwise cost 200,000
files, and making two files takes longer than a third of starting `/bin/true`. Another try of an
index replaces the output of the one before. A single process writes to spare files, which become
the job's in the same way; further tries of it write to the end of what is there.
"""

import contextlib
import errno
import os
import stat
from itertools import islice
from typing import Final

from distributed_grid.edges.runner.spare import STREAMS, Spare
from distributed_grid.model import bytesize
from distributed_grid.wire.cut_output import (
    HEAD_BYTES,
    Span,
    head,
    marker_name,
    older_name,
    span_of,
)

LINE_BYTES_MAX: Final = 500  # Of what is shown to a person.
EARLIER_MAX: Final = 1_000  # Names; to look for more takes longer than to try each.
ROOM_PART: Final = 8  # Of what is kept: this part is for what is written while it is copied.
_COPY_BYTES: Final = 1 << 20
_FLAGS: Final = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW


class Output:
    """Both streams of one attempt, for one process at a time."""

    def __init__(
        self,
        directory: str,
        *,
        attempt: str,
        is_chunk: bool,
        bytes_max: int,
        spare: Spare | None = None,
        lent: tuple[str, ...] = (),
    ) -> None:
        self._directory = directory
        self._is_chunk = is_chunk
        self._spare = spare
        # Stream -> the spare file it is written to.
        self._lent = dict(zip(STREAMS, lent, strict=False))
        # Of a file that has no index yet; other chunks of the job write beside it.
        self._shared = f"current.{attempt}."
        self._half = max(bytes_max // 2, 1) if bytes_max else 0
        self._prefix = self._shared if is_chunk else ""
        self._is_looked_at = False
        self._earlier: frozenset[str] | None = None  # What was there before; None: too much.
        self.dropped_bytes = 0
        self._is_exact = True  # Nobody wrote while bytes were dropped.

    def open(self) -> tuple[int, int]:
        """Both files for the next process, to be closed by the caller."""
        self.dropped_bytes, self._is_exact = 0, True
        if self._is_chunk:
            self._prefix = self._shared
        files = self.open_again()
        if self._is_chunk and not self._is_looked_at:
            self._is_looked_at, self._earlier = True, _names_in(self._directory)
        return files

    def open_again(self) -> tuple[int, int]:
        """The same files, for another process that writes to their ends."""
        out_path, err_path = (self._path(stream) for stream in STREAMS)
        try:
            out = os.open(out_path, _FLAGS, 0o600)
        except FileNotFoundError:
            os.makedirs(self._directory, 0o700, exist_ok=True)
            out = os.open(out_path, _FLAGS, 0o600)
        try:
            return out, os.open(err_path, _FLAGS, 0o600)
        except OSError:
            os.close(out)
            raise

    def look(self, *, index: int) -> None:
        """While a process runs: give the files their name, and cut them."""
        if self._prefix == self._shared:
            for stream in STREAMS:
                self._name(stream, index)
            self._prefix = f"{index}."
        for stream in tuple(self._lent):
            self._own(stream)
        for stream in STREAMS:
            self._cut(self._path(stream), is_written=True)

    def finish(self, *, index: int, is_quiet: bool = True) -> None:
        """After a process: its last bytes in bounds; empty shared files stay for the next one.

        `is_quiet`: nobody of it is left who could still write.
        """
        for stream in STREAMS:
            path = self._path(stream)
            if stream in self._lent:
                if self._spare is not None and is_quiet and not _size(path):
                    self._spare.give_file(self._lent.pop(stream))
                    continue
                path = self._own(stream)
            elif self._prefix == self._shared:
                if not _size(path):
                    name = f"{index}.{stream}"
                    if self._earlier is None or name in self._earlier:
                        _forget(f"{self._directory}/{name}")
                    continue
                path = self._name(stream, index)
            self._cut(path, is_written=not is_quiet)

    def notes(self) -> list[str]:
        """What a person should know of it."""
        if not self.dropped_bytes:
            return []
        # What is written between the last look at the size and the cut is gone, and uncounted.
        least = "" if self._is_exact else "at least "
        return [f"output cut: {least}{bytesize.text(self.dropped_bytes)} dropped"]

    def last_words(self) -> str:
        """The last line that it wrote to stderr; empty if there is none."""
        try:
            with open(self._path("stderr"), "rb") as file:
                file.seek(max(os.fstat(file.fileno()).st_size - LINE_BYTES_MAX, 0))
                lines = file.read(LINE_BYTES_MAX).decode(errors="replace").splitlines()
        except OSError:
            return ""
        return next((line.strip() for line in reversed(lines) if line.strip()), "")

    def close(self) -> None:
        """After the last process."""
        for stream in tuple(self._lent):  # It could not be started.
            if self._spare is not None and not _size(self._lent[stream]):
                self._spare.give_file(self._lent.pop(stream))
            else:
                self._own(stream)
        if self._is_chunk:
            for stream in STREAMS:
                with contextlib.suppress(OSError):
                    os.unlink(f"{self._directory}/{self._shared}{stream}")

    def _own(self, stream: str) -> str:
        """Make a spare file the job's own."""
        lent, path = self._lent.pop(stream), self._path(stream)
        try:
            os.rename(lent, path)
        except FileNotFoundError:
            with contextlib.suppress(OSError):
                os.makedirs(self._directory, 0o700, exist_ok=True)
                os.rename(lent, path)
        return path

    def _path(self, stream: str) -> str:
        if stream in self._lent:
            return self._lent[stream]
        return f"{self._directory}/{self._prefix}{stream}"

    def _name(self, stream: str, index: int) -> str:
        named = f"{self._directory}/{index}.{stream}"
        _forget(named)
        with contextlib.suppress(OSError):
            os.rename(f"{self._directory}/{self._shared}{stream}", named)
        return named

    def _cut(self, path: str, *, is_written: bool) -> None:
        size = _size(path)
        if self._half and size > self._half:
            room = self._half // ROOM_PART if is_written else 0
            self._is_exact = self._is_exact and not is_written
            try:
                self._keep_newest(path, size, room=room)
            except OSError:  # Removed by the job meanwhile.
                _remove(marker_name(path))

    def _keep_newest(self, path: str, size: int, *, room: int) -> None:
        older, marker = _older(path), marker_name(path)
        handle = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            self.dropped_bytes += older.end - older.start
            from_byte = size - (self._half - room)
            kept = _copied(handle, marker, from_byte, self._half, start=older.end + from_byte)
            # What the child wrote beyond the room goes too, and is counted.
            self.dropped_bytes += os.fstat(handle).st_size - kept
            os.ftruncate(handle, 0)
        finally:
            os.close(handle)
        if kept:
            os.rename(marker, older_name(path))
        else:
            _remove(older_name(path))
            _remove(marker)


def bring_home(directory: str, lent: tuple[str, ...]) -> str:
    """Move what a dead keeper's process wrote to where it belongs; why not, if that failed."""
    problem = ""
    for stream, path in zip(STREAMS, lent, strict=False):
        try:
            found = os.stat(path, follow_symlinks=False)
            if found.st_size and stat.S_ISREG(found.st_mode):
                _bring(path, directory, stream)
        except FileNotFoundError:
            pass  # It has its name already.
        except OSError as error:
            problem = error.strerror or str(error)
    return problem


def _bring(path: str, directory: str, stream: str) -> None:
    os.makedirs(directory, 0o700, exist_ok=True)
    target = f"{directory}/{stream}"
    if not os.path.lexists(target):
        os.rename(path, target)
        return
    source = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        end = os.open(target, _FLAGS, 0o600)
        try:
            _copy(source, end, 0, os.fstat(source).st_size)
        finally:
            os.close(end)
    finally:
        os.close(source)
    os.unlink(path)  # Else it would be there twice, should we be killed before the journal is.


def _older(path: str) -> Span:
    """What was moved out of a file before; nothing at 0 if nothing was."""
    try:
        with open(older_name(path), "rb") as file:
            return span_of(file.read(HEAD_BYTES), os.fstat(file.fileno()).st_size)
    except OSError:
        return Span()


def _names_in(directory: str) -> frozenset[str] | None:
    """What is in a directory; None if that is too much to know, or not to be known."""
    try:
        with os.scandir(directory) as entries:
            names = frozenset(entry.name for entry in islice(entries, EARLIER_MAX + 1))
    except OSError:
        return None
    return names if len(names) <= EARLIER_MAX else None


def _forget(path: str) -> None:
    """Remove the output of an earlier try of an index."""
    if _remove(path):
        _remove(older_name(path))


def _remove(path: str) -> bool:
    try:
        os.unlink(path)
    except OSError:
        return False
    return True


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0  # The job removed it.


def _copied(source: int, path: str, from_byte: int, length: int, *, start: int) -> int:
    """How many bytes are in the new file; 0 if it could not be written."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        target = os.open(path, flags, 0o600)
    except OSError:
        return 0
    try:
        os.write(target, head(start))
        return _copy(source, target, from_byte, length)
    except OSError:
        return 0  # A full disk: the flood must end all the same.
    finally:
        os.close(target)


def _copy(source: int, target: int, offset: int, length: int) -> int:
    copied = 0
    while copied < length:
        data = os.pread(source, min(_COPY_BYTES, length - copied), offset + copied)
        if not data:
            break
        if os.write(target, data) < len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        copied += len(data)
    return copied
