"""The work that every peer does, in the fastest way Python has."""

import os

WIDTH = int(os.environ.get("GRID_PEER_WIDTH", "2"))  # Workers of each.
TRUE = "/bin/true"


def spawn_true(_: object = None) -> int:
    """Start `true` and wait for it."""
    pid = os.posix_spawn(TRUE, [TRUE], {})
    return os.waitpid(pid, 0)[1]


def trivial(number: int) -> int:
    """A call that costs nothing."""
    return number + 1
