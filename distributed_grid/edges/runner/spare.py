"""Empty files, made once and used again while nobody has written anything into them.

Lives here: which of them are free. Never here: what becomes of them (`output`).
Invariant: what is handed out belongs to nobody else; what is taken back is empty.

A job that writes nothing would cost a directory and two files. On a disk that is being synced at
the same time making them takes longer than starting `/bin/true`.
"""

import os
import shutil
from typing import Final

SPARE_MAX: Final = 128  # Twice as many as processes that start in a moment.
_FLAGS: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW


class Spare:
    """A directory of our own with what is free in it."""

    def __init__(self, root: str) -> None:
        self.root = root
        self._count = 0
        self._files: list[str] = []
        self.clear()

    def clear(self) -> None:
        """Nothing here outlives a keeper: what is left is a dead one's, or ours at the end."""
        self._files = []
        shutil.rmtree(self.root, ignore_errors=True)

    def file(self) -> str:
        """An empty file, to be renamed or given back."""
        if self._files:
            return self._files.pop()
        self._count += 1
        path = f"{self.root}/{self._count}"
        try:
            handle = os.open(path, _FLAGS, 0o600)
        except FileNotFoundError:
            os.makedirs(self.root, 0o700, exist_ok=True)
            handle = os.open(path, _FLAGS, 0o600)
        os.close(handle)
        return path

    def give_file(self, path: str) -> None:
        """It is still empty, and nobody writes to it any more."""
        if len(self._files) < SPARE_MAX:
            self._files.append(path)
        else:
            os.unlink(path)
