"""A booking: resources that are kept for somebody over a stretch of time.

Lives here: the noun, and whose it is. Never here: whether two of them conflict (`kernel.bookings`).
Invariant: a booking has a name that can be typed, keeps something, and ends after it begins.
"""

import re

import msgspec

from distributed_grid.errors import BadValue
from distributed_grid.model.bounds import Moment, Name
from distributed_grid.model.resources import Request

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")


class Booking(msgspec.Struct, frozen=True, kw_only=True):
    """So much, from then to then, for a person or a project, or for whoever names it."""

    name: Name
    request: Request
    from_ms: Moment
    until_ms: Moment  # Excluded.
    user: Name = ""  # Empty: any.
    project: Name = ""  # Empty: any.

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise BadValue(
                self.name,
                expected="a name of letters, digits, '_', '.' and '-'",
                remedy="Begin with a letter or a digit, and use at most 63 of them",
            )
        if self.until_ms <= self.from_ms:
            raise BadValue(
                self.until_ms, expected="an end after the beginning", remedy="Check both times"
            )
        if self.request == Request():
            raise BadValue(
                self.name, expected="something to keep", remedy="Say what and how much of it"
            )

    def holds_at(self, moment_ms: int) -> bool:
        """Whether the moment lies inside."""
        return self.from_ms <= moment_ms < self.until_ms

    def is_open_to(self, user: str, project: str, name: str) -> bool:
        """Whether a job of this user and project, which names this booking or none, may use it.

        Those for whom it is need not name it. One that is for nobody is for whoever names it.
        """
        if (self.user and self.user != user) or (self.project and self.project != project):
            return False
        return self.name == name if name else bool(self.user or self.project)
