"""How far a map is: one line on a terminal, or one output of a notebook's cell, kept up to date.

Lives here: both, and which of them it is. Never here: counting (`mapping`).
Invariant: where neither is there to be written to, only the end is told; it never makes a map fail.
"""

import contextlib
import html
import sys
import time
from typing import Any, Final

EVERY_S: Final = 0.1  # Shown at most so often: people read no faster.
WIDTH: Final = 30


class MapProgress:
    """Of one map."""

    def __init__(self, name: str) -> None:
        self._name, self._line = name, ""
        self._began_s, self._shown_s = time.monotonic(), 0.0
        self._display: Any = None  # Of IPython.
        self._is_drawn = False

    def show(self, done: int, total: int | None, *, is_over: bool = False) -> None:
        """So many calls of so many have ended."""
        now_s = time.monotonic()
        if now_s - self._shown_s < EVERY_S and not is_over:
            return
        self._shown_s, took_s = now_s, now_s - self._began_s
        of, bar = "", ""
        if total:
            filled = WIDTH * done // total
            of, bar = f"/{total}", f" [{'#' * filled}{'.' * (WIDTH - filled)}]"
        self._line = (
            f"{self._name}{bar} {done}{of}, {done / max(took_s, 1e-3):.0f}/s, {took_s:.0f} s"
        )
        with contextlib.suppress(Exception):  # Closed, or nobody reads.
            self._draw(is_over=is_over)

    def clear(self) -> None:
        """Others write to the terminal now."""
        if self._is_drawn:
            self._is_drawn = False
            with contextlib.suppress(OSError, ValueError):
                sys.stderr.write("\r\x1b[K")
                sys.stderr.flush()

    def _draw(self, *, is_over: bool) -> None:
        if _is_notebook():
            if self._display is None:
                from IPython.display import display

                self._display = display(self, display_id=True)
            else:
                self._display.update(self)
        elif sys.stderr.isatty() or is_over:
            start = "\r\x1b[K" if sys.stderr.isatty() else ""
            sys.stderr.write(f"{start}{self._line}" + ("\n" if is_over else ""))
            sys.stderr.flush()
            self._is_drawn = not is_over

    def __repr__(self) -> str:
        return self._line

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(self._line)}</pre>"


def _is_notebook() -> bool:
    """Whether outputs go to a page: IPython runs, and not on a terminal."""
    known = sys.modules.get("IPython")
    shell = known.get_ipython() if known is not None else None
    return shell is not None and type(shell).__name__ != "TerminalInteractiveShell"
