"""Empty files, made once and used again while nobody has written anything into them.

Lives here: which of them are free, and who gets some. Never here: what becomes of them (`output`).
Invariant: what is handed out belongs to nobody else; what is taken back is empty.

A job that writes nothing would cost a directory and two files. On a disk that is being synced at
the same time making them takes longer than starting `/bin/true`.
"""

import os
import shutil
from collections.abc import Iterable
from typing import Final

from distributed_grid.wire.keeper import Run

STREAMS: Final = ("stdout", "stderr")
SPARE_MAX: Final = 128  # Twice as many as processes that start in a moment.
_FLAGS: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW


class Spare:
    """A directory of our own with what is free in it."""

    def __init__(self, root: str) -> None:
        self.root = root
        self._count = 0
        self._files: list[str] = []

    def clear(self) -> None:
        """Nothing here outlives a keeper: what is left is a dead one's, or ours at the end.

        What a dead one's jobs wrote was brought home before (`output.bring_home`).
        """
        self._files = []
        shutil.rmtree(self.root, ignore_errors=True)

    def lend(self, run: Run) -> tuple[str, ...]:
        """A file for each stream of a single process; none where it has a directory already."""
        if run.image or run.indices or os.path.isdir(run.output_dir):
            return ()
        lent: list[str] = []
        try:
            lent += (self.file() for _ in STREAMS)
        except OSError:  # No space here: perhaps there is where it goes.
            self.take_back(lent)
            return ()
        return tuple(lent)

    def take_back(self, paths: Iterable[str]) -> None:
        """Nobody wrote to these."""
        for path in paths:
            self.give_file(path)

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
