"""What those who wait have in common: what they ask for, and who pays.

Lives here: claims, purses, groups, and the spots of a line. Never here: their order (`waiting`,
`forecast`).
Invariant: of a group, only the oldest can be next.
"""

import msgspec

from distributed_grid.kernel.entry import Entry
from distributed_grid.model.ids import JobId
from distributed_grid.model.resources import Request

ClaimKey = tuple[bool, Request, str]  # Shared, asked for, booking.
PurseKey = tuple[str, str]  # User, project.
GroupKey = tuple[ClaimKey, int, PurseKey]


class Claim:
    """What several groups ask for alike: if one cannot have it now, none can."""

    __slots__ = ("groups", "key", "quantum")

    def __init__(self, key: ClaimKey) -> None:
        self.key = key
        self.groups = 0
        self.quantum = 0  # What a grant costs; only in a forecast.


class Purse:
    """From which several groups pay alike."""

    __slots__ = ("ahead", "groups", "key", "waiting")

    def __init__(self, key: PurseKey) -> None:
        self.key = key
        self.groups = 0
        self.ahead = 0  # What it will have spent; only in a forecast.
        self.waiting: list[Spot] = []  # Who will be paid from it; only in a forecast.


class Group:
    """Entries that only their age tells apart."""

    __slots__ = ("claim", "due_ms", "entries", "head", "key", "lane", "number", "purse")

    def __init__(self, key: GroupKey, claim: Claim, purse: Purse, number: int) -> None:
        self.key, self.claim, self.purse, self.number = key, claim, purse, number
        self.entries: list[Entry] = []  # Oldest first.
        self.head: Entry | None = None  # As the lanes know it.
        self.lane = 0
        self.due_ms: int | None = None  # When the head is lifted; None: it is first already.


class Spot(msgspec.Struct, frozen=True, order=True, gc=False):
    """An entry with its group; spots sort as entries do."""

    submitted_ms: int
    job: JobId
    entry: Entry
    group: Group
    claim: Claim  # The group's; a forecast looks at so many that a detour would count.
    purse: Purse


def key_of(entry: Entry) -> GroupKey:
    """What entries of one group have in common."""
    claim = (entry.is_shared, entry.request, entry.booking)
    return claim, entry.rank, (entry.user, entry.project)
