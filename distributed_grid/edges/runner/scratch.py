"""The private directory of an attempt: empty when a process starts, gone after the last one.

Lives here: making, emptying, removing. Never here: what a job puts there.
Invariant: nothing outside of the directory is ever removed; symbolic links are not followed.

Between the indices of a chunk an untouched directory is kept: making and removing one takes a fifth
of the time that `/bin/true` takes.
"""

import contextlib
import os
from collections.abc import Callable
from typing import Final

REMOVER: Final = "/bin/rm"
removing: Final[set[int]] = set()  # Processes that remove what lay aside, until they are reaped.


class Scratch:
    """One directory, by path."""

    def __init__(self, path: str, *, before_remover: Callable[[], None] = lambda: None) -> None:
        """The remover inherits what the keeper took on: cores, limits, group; step out first."""
        self.path = path
        self._before_remover = before_remover
        self._count = 0
        self._is_made = False

    def prepare(self) -> None:
        """Make it, empty, for us alone. Raises OSError with the reason if that cannot be."""
        if self._is_made and self._is_fresh():
            return
        try:
            os.mkdir(self.path, 0o700)
        except FileNotFoundError:
            os.makedirs(self.path, 0o700)
        except FileExistsError:
            if not self._is_fresh():
                self._make_anew()
        self._is_made = True

    def remove(self) -> int:
        """Take it away; the process that is still at it, or 0."""
        try:
            os.rmdir(self.path)
        except FileNotFoundError:
            return 0
        except OSError:
            return self._start_remover()
        return 0

    def _is_fresh(self) -> bool:
        try:
            return os.stat(
                self.path, follow_symlinks=False
            ).st_mode & 0o170777 == 0o040700 and not (os.listdir(self.path))
        except OSError:
            return False

    def _make_anew(self) -> None:
        """The old one is moved aside and removed by a process of its own: it may be large."""
        self._count += 1
        aside = f"{self.path}.old-{self._count}"  # The one before may not be gone yet.
        with contextlib.suppress(OSError):
            os.rename(self.path, aside)
            old = Scratch(aside, before_remover=self._before_remover)
            removing.add(old.remove())
        os.mkdir(self.path, 0o700)

    def _start_remover(self) -> int:
        self._before_remover()
        try:
            return os.posix_spawn(REMOVER, [REMOVER, "-rf", "--", self.path], {})
        except OSError:
            return 0  # A later start of the keeper finds it in the journal.
