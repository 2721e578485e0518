"""Priorities: how important work is, in four words; weights: how much of a machine somebody gets.

Lives here: the words and their order, and who weighs what. Never here: what follows from them
(`kernel.fairness`, `kernel.waiting`, `kernel.preemption`).
"""

from typing import Final, Literal

import msgspec

from distributed_grid.errors import BadValue

Priority = Literal["urgent", "high", "medium", "low"]

RANKS: Final[dict[str, int]] = {"urgent": 0, "high": 1, "medium": 2, "low": 3}  # Lower is first.
NAMES: Final[tuple[Priority, ...]] = ("urgent", "high", "medium", "low")  # By rank.
URGENT: Final = 0
MEDIUM: Final = 2  # The class in which shares are fair.
LOW: Final = 3
SYNONYMS: Final = {"normal": "medium", "critical": "urgent"}


def priority(word: object) -> Priority:
    """The priority that a word means, in any case; `normal` and `critical` are understood."""
    lower = word.lower() if isinstance(word, str) else ""
    known = SYNONYMS.get(lower, lower)
    if known not in RANKS:
        expected, remedy = "urgent, high, medium or low", "Use one of these words"
        raise BadValue(word, expected=expected, remedy=remedy, field="priority")
    return known  # type: ignore[return-value]  # One of the keys of RANKS.


WEIGHT_MILLI: Final = 1_000  # Of whoever the settings do not name.
WEIGHT_MILLI_MAX: Final = 1_000_000  # A thousand times as much as others; beyond it, use classes.


class Weights(msgspec.Struct, frozen=True, kw_only=True):
    """How much more than others somebody gets, in thousandths: 2000 is twice as much."""

    users: dict[str, int] = {}
    projects: dict[str, int] = {}

    def __post_init__(self) -> None:
        for weight_milli in (*self.users.values(), *self.projects.values()):
            if not 0 < weight_milli <= WEIGHT_MILLI_MAX:
                raise BadValue(
                    weight_milli,
                    expected=f"a weight of 1 to {WEIGHT_MILLI_MAX} thousandths",
                    remedy="Use weights such as 0.5, 1 or 2",
                )

    def user(self, name: str) -> int:
        """The weight of a user among users."""
        return self.users.get(name, WEIGHT_MILLI)

    def project(self, name: str) -> int:
        """The weight of a project among the projects of one user."""
        return self.projects.get(name, WEIGHT_MILLI)
