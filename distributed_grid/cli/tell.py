"""A line for people, beside what a command prints.

Lives here: stderr, and errors of the system as sentences; without click, `grid run` starts without
it. Never here: what is told.
Invariant: a stderr that cannot be written costs the words, and nothing else.
"""

import contextlib
import errno
import os
import sys
from typing import Final

# Of what we write to: full, torn off, or open for reading only.
NO_ROOM: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF)
COLUMNS: Final = 80  # Of a terminal that does not tell.
NO_FILES: Final = (errno.EMFILE, errno.ENFILE)


class _Live:
    """The line of a terminal that is written again and again."""

    is_there = False
    is_taken = False  # A job has begun the line, and not ended it.


def tell(text: str = "", *, end: str = "\n") -> None:
    """Write to stderr, at once."""
    wipe()
    _write(text + end)


def live(text: str) -> None:
    """Show a line on the terminal of stderr, instead of the one before; nothing stays of it."""
    if _Live.is_taken:
        return
    columns = COLUMNS
    with contextlib.suppress(OSError):
        columns = os.get_terminal_size(sys.stderr.fileno()).columns or COLUMNS
    plain = "".join(letter if letter.isprintable() else "?" for letter in text[: columns - 1])
    _Live.is_there = True
    _write(f"\r{plain}\x1b[K")


def wipe() -> None:
    """Before anything else is written, the live line goes."""
    if _Live.is_there:
        _Live.is_there = False
        _write("\r\x1b[K")


def poured(data: bytes) -> None:
    """A job has written this: what stands in an open line stays."""
    _Live.is_taken = not data.endswith(b"\n")


def _write(text: str) -> None:
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except OSError:
        lose(sys.stderr.fileno())


def lose(target: int) -> None:
    """What is still to be written there goes nowhere: Python would fail over it at its exit."""
    with contextlib.suppress(OSError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, target)
        os.close(nowhere)


def is_unwritten(error: OSError) -> bool:
    """Whether it is about our output: errors of files that we open name the file."""
    return error.filename is None and (isinstance(error, BrokenPipeError) or error.errno in NO_ROOM)


def sentence(error: OSError) -> str:
    """What the system refuses, and what to do."""
    why = error.strerror or str(error)
    if is_unwritten(error):
        return f"cannot write: {why}. Make room, or write elsewhere."
    if error.errno in NO_FILES:
        return f"{why}. Close some, or raise the limit: ulimit -n."
    where = "" if error.filename is None else f"{error.filename}: "
    return f"{where}{why}. The system refuses it: try grid doctor."
