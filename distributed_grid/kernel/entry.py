"""One who waits for resources, and what decides its place in the line.

Lives here: the entry, and how waiting lifts it. Never here: the line (`waiting`).
Invariant: entries sort by the time they were submitted, then by id; that is the order of those whom
nothing else tells apart. A job that waits long enough comes before all that are submitted later.
"""

from typing import Final

import msgspec

from distributed_grid.model.ids import JobId
from distributed_grid.model.priority import MEDIUM, URGENT
from distributed_grid.model.resources import Request

# Each of these that a job waits lifts it by one class. So after three, however unimportant, it is
# first among all that come later.
AGEING_MS: Final = 3_600_000


class Entry(msgspec.Struct, frozen=True, kw_only=True, order=True, gc=False):
    """A job in the line."""

    submitted_ms: int
    job: JobId
    rank: int = MEDIUM  # Of its own priority; lower is first.
    is_shared: bool = False
    may_evict: bool = True  # Or it takes what is free, and nobody gives way to it.
    user: str = ""
    project: str = ""
    request: Request = Request()
    booking: str = ""  # Whose resources it may use.
    timeout_ms: int = 0  # It runs no longer than this; 0: nobody knows.


def lifted(rank: int, waited_ms: int, ageing_ms: int = AGEING_MS) -> int:
    """The class that somebody has after waiting; it is never lifted above the first."""
    return max(URGENT, rank - max(0, waited_ms) // ageing_ms)
