"""Who takes up how much of this node: bytes by sender and in total, and where the limits are.

Lives here: sums, and whether one more has room. Never here: what is kept (whoever has an account),
what a sender is told (`too much` in words of its own), use of cores (`fairness`).
Invariant: every sum is that of its parts, and never below zero. Up to `assured` a sender's answer
does not depend on what others take up.

A sender is the node that something came from, as the link has proven it, and not the person behind
it: what goes wrong is one programme, or one stolen machine, and names of people are only said.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Final, Literal, NamedTuple

from distributed_grid.model.ids import NodeId

Rank = Literal["guest", "member", "own"]  # Own: a machine of the same person. Who lends: a guest.

_KIB: Final = 1 << 10
_MIB: Final = 1 << 20

TOO_MUCH: Final = "too much"  # With these words a refusal begins, on every lane.


class Allowance(NamedTuple):
    """How many bytes a sender may take up, by its rank, and all of them together."""

    guest: int
    member: int
    own: int
    total: int
    assured: int  # To each, though the total is used up.


LIMITS: Final[dict[str, Allowance]] = {
    "records": Allowance(16 * _MIB, 256 * _MIB, 1024 * _MIB, 1024 * _MIB, _MIB),
    "votes": Allowance(64 * _MIB, 64 * _MIB, 256 * _MIB, 256 * _MIB, _MIB),
    "chunks": Allowance(256 * _MIB, 4096 * _MIB, 10240 * _MIB, 10240 * _MIB, 64 * _MIB),
    "logs": Allowance(16 * _MIB, 256 * _MIB, 1024 * _MIB, 1024 * _MIB, _MIB),
    "messages": Allowance(32 * _MIB, 64 * _MIB, 64 * _MIB, 256 * _MIB, _MIB),
    "going out": Allowance(32 * _MIB, 32 * _MIB, 32 * _MIB, 256 * _MIB, _MIB),
    "questions": Allowance(8 * _MIB, 32 * _MIB, 32 * _MIB, 128 * _MIB, 2 * _MIB),
    "entries": Allowance(_MIB, 12 * _MIB, 24 * _MIB, 24 * _MIB, 64 * _KIB),
    "gangs": Allowance(128 * _KIB, _MIB, 2 * _MIB, 2 * _MIB, 32 * _KIB),
    "in memory": Allowance(32 * _MIB, 32 * _MIB, 32 * _MIB, 128 * _MIB, 64 * _KIB),
}


class ByteAccounts:
    """What all senders take up of one kind."""

    def __init__(self, limits: Allowance) -> None:
        self.limits = limits
        self.total = 0
        self._of: Counter[NodeId] = Counter()

    def __getitem__(self, sender: NodeId) -> int:
        """What one sender takes up."""
        return self._of[sender]

    def has_room(self, sender: NodeId, rank: Rank, more: int) -> bool:
        """Whether a sender may take up so much more; always, if it is none."""
        after = self._of[sender] + more
        is_spared = after <= self.limits.assured or self.total + more <= self.limits.total
        return more <= 0 or (after <= self.most(rank) and is_spared)

    def most(self, rank: Rank) -> int:
        """How much one sender may take up."""
        most: int = getattr(self.limits, rank)
        return most

    def add(self, sender: NodeId, size: int) -> None:
        """It takes up so much more; or less, if something of it is gone."""
        self.total += size
        self._of[sender] += size
        if not self._of[sender]:
            del self._of[sender]

    def check(self, parts: Iterable[tuple[NodeId, int]]) -> None:
        """Re-derive the sums from what is kept."""
        found: Counter[NodeId] = Counter()
        for sender, size in parts:
            found[sender] += size
        assert self._of == found, "an account is not the sum of its parts"
        assert self.total == found.total(), "the total is not the sum of the accounts"
