"""The files that a process writes to, kept within bounds while it writes.

Lives here: naming, cutting, and the names of a chunk's files. Never here: reading (the agent's).
Invariant: of a stream, the newest bytes are kept, and at most `bytes_max` of them.

The child holds the file open in append mode, so renaming would not help: the newest half is copied
to `NAME.1` and the file emptied, and the child goes on at its start.

The indices of a chunk share a file that is called by the index only once something is in it, or
when the index runs for a moment: an array of 100,000 silent jobs would otherwise cost 200,000
files, and making two files takes longer than a third of starting `/bin/true`.
"""

import contextlib
import os
from typing import Final

STREAMS: Final = ("stdout", "stderr")
LINE_BYTES_MAX: Final = 500  # Of what is shown to a person.
_COPY_BYTES: Final = 1 << 20
_FLAGS: Final = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW


class Output:
    """Both streams of one attempt, for one process at a time."""

    def __init__(self, directory: str, *, attempt: str, is_chunk: bool, bytes_max: int) -> None:
        self._directory = directory
        self._is_chunk = is_chunk
        # Of a file that has no index yet; other chunks of the job write beside it.
        self._shared = f"current.{attempt}."
        self._half = max(bytes_max // 2, 1) if bytes_max else 0
        self._prefix = self._shared if is_chunk else ""
        self.dropped_bytes = 0

    def open(self) -> tuple[int, int]:
        """Both files for the next process, to be closed by the caller."""
        self.dropped_bytes = 0
        if self._is_chunk:
            self._prefix = self._shared
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
        for stream in STREAMS:
            self._cut(self._path(stream))

    def finish(self, *, index: int) -> None:
        """After a process: its last bytes in bounds; empty shared files stay for the next one."""
        for stream in STREAMS:
            path = self._path(stream)
            if self._prefix == self._shared:
                if not _size(path):
                    continue
                path = self._name(stream, index)
            self._cut(path)

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
        if self._is_chunk:
            for stream in STREAMS:
                with contextlib.suppress(OSError):
                    os.unlink(f"{self._directory}/{self._shared}{stream}")

    def _path(self, stream: str) -> str:
        return f"{self._directory}/{self._prefix}{stream}"

    def _name(self, stream: str, index: int) -> str:
        named = f"{self._directory}/{index}.{stream}"
        with contextlib.suppress(OSError):
            os.rename(f"{self._directory}/{self._shared}{stream}", named)
        return named

    def _cut(self, path: str) -> None:
        size = _size(path)
        if self._half and size > self._half:
            with contextlib.suppress(OSError):  # Removed by the job meanwhile.
                self._keep_newest(path, size)

    def _keep_newest(self, path: str, size: int) -> None:
        older = f"{path}.1"
        handle = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            with contextlib.suppress(FileNotFoundError):
                self.dropped_bytes += os.stat(older).st_size
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
            kept = 0
            try:
                copy = os.open(older, flags, 0o600)
                try:
                    kept = _copy(handle, copy, size - self._half, self._half)
                finally:
                    os.close(copy)
            except OSError:
                kept = 0  # A full disk: the flood must end all the same.
            # What the child wrote meanwhile goes too, and is counted.
            self.dropped_bytes += os.fstat(handle).st_size - kept
            os.ftruncate(handle, 0)
        finally:
            os.close(handle)


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0  # The job removed it.


def _copy(source: int, target: int, offset: int, length: int) -> int:
    copied = 0
    while copied < length:
        data = os.pread(source, min(_COPY_BYTES, length - copied), offset + copied)
        if not data:
            break
        os.write(target, data)
        copied += len(data)
    return copied
