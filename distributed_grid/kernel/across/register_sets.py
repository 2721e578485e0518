"""Who votes on an at-most-once job: majorities, and which set a job should have.

Lives here: counting, and the choice of members. Never here: votes (`register_voter`), when a change
is due (`once_home`) and made (`register_chair`).
Invariant: two majorities of one set have a member in common; a set has one, three or five members,
as two are no safer than one and stop more often.
"""

from collections.abc import Collection, Container, Sequence
from typing import Final

from distributed_grid.wire.register import Member, Sets

SIZES: Final = (1, 3, 5)


def is_majority(members: Collection[Member], votes: Container[Member]) -> bool:
    """Whether more than half of them are among the votes."""
    return 2 * sum(member in votes for member in members) > len(members)


def is_carried(sets: Sets, votes: Container[Member]) -> bool:
    """Whether each set has a majority among the votes."""
    return all(is_majority(members, votes) for members in sets)


def can_be_carried(sets: Sets, refusals: Container[Member]) -> bool:
    """Whether those who have not refused would be enough."""
    return all(
        2 * sum(member not in refusals for member in members) > len(members) for members in sets
    )


def members_of(sets: Sets) -> tuple[Member, ...]:
    """Everybody once, in order."""
    return tuple(dict.fromkeys(member for members in sets for member in members))


def is_recollected(sets: Sets, me: Member, answered: Container[Member]) -> bool:
    """Whether a majority of the others in my sets have told what they remember of me."""
    return all(
        is_majority(others, answered) for others in _others(sets, me) if others
    )  # Alone, nobody could remember anything.


def is_remembered(sets: Sets, me: Member, remember: Container[Member]) -> bool:
    """Whether so many of the others remember that every majority of them has one who does."""
    return all(
        2 * sum(other in remember for other in others) >= len(others)
        for others in _others(sets, me)
    )


def _others(sets: Sets, me: Member) -> list[list[Member]]:
    return [[other for other in members if other != me] for members in sets if me in members]


def first_set(submitter: Member, ranked: Sequence[Member], size: int) -> tuple[Member, ...]:
    """The voters of a new job: the best by rank; of one or two nodes the submitter alone."""
    count = _size(len(ranked), size)
    return tuple(ranked[:count]) if count > 1 else (submitter,)


def due_set(
    voters: tuple[Member, ...],
    ranked: Sequence[Member],
    gone: Container[Member],
    size: int,
) -> tuple[Member, ...] | None:
    """The set that should take the place of this one; None if it should stay.

    It should not when it is smaller than wanted, or when one of it has left, has a new store, or
    has been dead for long (`gone`). Who is still there stays; others come in by rank.
    """
    kept = [member for member in voters if member not in gone]
    newcomers = [member for member in ranked if member not in kept and member not in gone]
    count = _size(len(kept) + len(newcomers), size)
    if count < len(voters) or (len(kept) == len(voters) and count == len(voters)):
        return None
    return tuple((kept + newcomers)[:count])


def _size(there: int, wanted: int) -> int:
    return max(size for size in SIZES if size <= max(1, min(there, wanted)))
