"""When somebody last touched this machine: terminals and keyboard, where they can be seen.

Lives here: times of terminals, and counters of keyboard interrupts. Never here: how long is long
enough (`kernel.lending`).
Invariant: what cannot be seen is None, never "idle".
Source: sd-login(3); proc(5); tty_ioctl(4) and drivers/tty/tty_io.c (reading a terminal sets its
access time, in steps of eight seconds, so that whoever watches cannot tell keys apart).

A keyboard on USB has no interrupt of its own, and a graphical session no terminal. So beside such a
session quiet terminals prove nothing: a touch is told, quiet is not.
"""

import os
import re
from typing import Final

from distributed_grid.edges.probe.tree import Tree, integer

TERMINALS_MAX: Final = 1_024
BESIDE_DESKTOP_MS: Final = 300_000  # A touch that is older says nothing about who sits there.
_DESKTOP: Final = re.compile(r"^TYPE=(x11|wayland|mir)$", re.MULTILINE)
_IN_FRONT: Final = re.compile(r"^ACTIVE=1$", re.MULTILINE)
_OF_A_PERSON: Final = re.compile(r"^CLASS=user", re.MULTILINE)  # Not the screen to log in at.
_CONSOLE: Final = re.compile(r"tty[0-9]{1,3}")
_NUMBER: Final = re.compile(r"[0-9]{1,6}")
_KEYS: Final = re.compile(r"\b(i8042|keyboard|mouse|touchpad)\b", re.IGNORECASE)


class Activity:
    """Looks again and again, and remembers when the keyboard last did something."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        # Consoles stay; terminals of windows and connections come and go.
        self._consoles = [f"/dev/{name}" for name in tree.names("/dev") if _CONSOLE.fullmatch(name)]
        self._keys = self._interrupts()
        self._keys_ms: int | None = None

    def idle_ms(self, now_ms: int) -> int | None:
        """How long nothing was touched, at this moment since the epoch; None: cannot be seen."""
        keys = self._interrupts()
        if keys != self._keys:
            self._keys, self._keys_ms = keys, now_ms
        touched = [ms for ms in (self._keys_ms, self._terminal_ms()) if ms is not None]
        if not touched:
            return None
        idle_ms = max(now_ms - max(touched), 0)
        return None if idle_ms > BESIDE_DESKTOP_MS and self._has_desktop() else idle_ms

    def _has_desktop(self) -> bool:
        """Whether somebody has a graphical session in front of him."""
        where = "/run/systemd/sessions"
        sessions = (self._tree.text(f"{where}/{name}") or "" for name in self._tree.names(where))
        marks = (_DESKTOP, _IN_FRONT, _OF_A_PERSON)
        return any(all(mark.search(session) for mark in marks) for session in sessions)

    def _terminal_ms(self) -> int | None:
        names = [name for name in self._tree.names("/dev/pts") if _NUMBER.fullmatch(name)]
        terminals = [*self._consoles, *(f"/dev/pts/{name}" for name in names)]
        times = (self._accessed_ms(name) for name in terminals[:TERMINALS_MAX])
        return max((ms for ms in times if ms is not None), default=None)

    def _accessed_ms(self, path: str) -> int | None:
        place = path if self._tree.is_this_machine else self._tree.root + path
        try:
            return os.stat(place, follow_symlinks=False).st_atime_ns // 1_000_000  # noqa: PTH116
        except OSError:
            return None  # It was closed between the list and the look.

    def _interrupts(self) -> int | None:
        """All interrupts of keyboards and mice so far; None where there are none of their own."""
        found = None
        for line in (self._tree.text("/proc/interrupts") or "").splitlines():
            if _KEYS.search(line):
                found = (found or 0) + sum(
                    integer(word) or 0 for word in line.partition(":")[2].split()
                )
        return found
