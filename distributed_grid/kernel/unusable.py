"""What this node has on its disk and cannot work with: named, so that it can be left out.

Lives here: the word for it. Never here: leaving it out (`agent.recovery`).
Invariant: whatever goes wrong with one record is told with its name.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

Kind = Literal["job", "lease", "record", "meta"]  # A record: one that is kept for another node.


class Unusable(Exception):
    """One thing of the disk with which a step, or a start, broke off."""

    def __init__(self, kind: Kind, name: str, why: str) -> None:
        self.kind, self.name, self.why = kind, name, why
        super().__init__(f"{kind} {name}: {why}")


@contextmanager
def about(kind: Kind, name: str) -> Iterator[None]:
    """Whatever is raised meanwhile is raised about this."""
    try:
        yield
    except Unusable:
        raise
    except Exception as error:
        raise Unusable(kind, name, f"{type(error).__name__}: {error}") from error
