"""A line for people, beside what a command prints.

Lives here: stderr, without click: `grid run` starts without it. Never here: what is told.
"""

import sys


def tell(text: str = "", *, end: str = "\n") -> None:
    """Write to stderr, at once."""
    sys.stderr.write(text + end)
    sys.stderr.flush()
