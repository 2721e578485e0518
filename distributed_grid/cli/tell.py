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
NO_FILES: Final = (errno.EMFILE, errno.ENFILE)


def tell(text: str = "", *, end: str = "\n") -> None:
    """Write to stderr, at once."""
    try:
        sys.stderr.write(text + end)
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
