"""The first of each group of those who wait, in the order of service within one class.

Lives here: heads by age (`PlainLane`), heads by who has used least (`FairLane`). Never here: who is
the head of a group, and in which class it is (`waiting`).
Invariant: a change costs as much as what it moves. When somebody's use changes, only the heads of
that user move; and those of a project alone in its place not even one by one.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable

from distributed_grid.kernel.entry import Entry
from distributed_grid.kernel.fairness import Accounts


class PlainLane:
    """Heads by age alone."""

    def __init__(self) -> None:
        self._heads: list[Entry] = []

    def add(self, head: Entry) -> None:
        """Somebody is the first of a group now."""
        insort(self._heads, head)

    def remove(self, head: Entry) -> None:
        """Somebody is so no longer."""
        _take(self._heads, head)

    def runs(self, accounts: Accounts) -> Iterable[list[Entry]]:
        """The heads in order, in pieces; not to be changed."""
        del accounts  # Who has used what does not matter here.
        return (self._heads,)

    def check(self) -> list[Entry]:
        """Re-derive what must be true; the heads, for more of that."""
        assert self._heads == sorted(self._heads), "heads are not in order of age"
        return self._heads


class _Block:
    """The heads of one project of one user."""

    __slots__ = ("heads", "project", "use", "user")

    def __init__(self, user: str, project: str) -> None:
        self.user, self.project = user, project
        self.heads: list[Entry] = []
        self.use: tuple[int, int] | None = None  # Of user and project; None: not looked up yet.


class _Place:
    """The heads of all blocks whose user and project have used the same; mostly that is one."""

    __slots__ = ("blocks", "heads")

    def __init__(self, heads: list[Entry]) -> None:
        self.heads = heads  # Of a block alone, its own list: so it moves without a copy.
        self.blocks = 1


class FairLane:
    """Heads by the use of their user, then of their project, then by age."""

    def __init__(self) -> None:
        self._blocks: dict[str, dict[str, _Block]] = {}  # By user and project.
        self._places: list[tuple[int, int, _Place]] = []  # By use of user and project; each once.
        self._unplaced: dict[tuple[str, str], _Block] = {}
        self._accounts: Accounts | None = None
        self._version = 0

    def add(self, head: Entry) -> None:
        """Somebody is the first of a group now."""
        projects = self._blocks.setdefault(head.user, {})
        block = projects.get(head.project)
        if block is None:
            block = projects[head.project] = _Block(head.user, head.project)
            self._unplaced[head.user, head.project] = block
        insort(block.heads, head)
        tied = self._tied(block)
        if tied is not None:
            insort(tied, head)

    def remove(self, head: Entry) -> None:
        """Somebody is so no longer."""
        projects = self._blocks[head.user]
        block = projects[head.project]
        tied = self._tied(block)
        if tied is not None:
            _take(tied, head)
        _take(block.heads, head)
        if not block.heads:
            self._displace(block)
            self._unplaced.pop((head.user, head.project), None)
            del projects[head.project]
            if not projects:
                del self._blocks[head.user]

    def runs(self, accounts: Accounts) -> Iterable[list[Entry]]:
        """The heads in order, in pieces; not to be changed."""
        if accounts is self._accounts:
            for user in accounts.changed_since(self._version):
                for block in self._blocks.get(user, {}).values():
                    self._place(block, accounts)
        else:
            self._forget_places()
            self._accounts = accounts
        self._version = accounts.version
        for block in self._unplaced.values():
            self._place(block, accounts)
        self._unplaced.clear()
        return [place.heads for _, _, place in self._places]

    def check(self) -> list[Entry]:
        """Re-derive what must be true; the heads, for more of that."""
        blocks = [block for projects in self._blocks.values() for block in projects.values()]
        placed: dict[tuple[int, int], list[Entry]] = {}
        for block in blocks:
            pair = (block.user, block.project)
            assert block.heads == sorted(block.heads), "heads are not in order of age"
            assert (block.use is None) == (pair in self._unplaced), "in a place, and in none"
            if block.use is not None:
                placed.setdefault(block.use, []).extend(block.heads)
        assert all(block.heads for block in self._unplaced.values()), "a block of nobody"
        places = [((user, project), place.heads) for user, project, place in self._places]
        assert places == [(use, sorted(placed[use])) for use in sorted(placed)], "misplaced"
        return [head for block in blocks for head in block.heads]

    def _place(self, block: _Block, accounts: Accounts) -> None:
        """Put a block where the use of its user and project wants it."""
        use = (accounts.user_use(block.user), accounts.project_use(block.user, block.project))
        if use == block.use:
            return
        self._displace(block)
        block.use = use
        index = bisect_left(self._places, use)
        if index == len(self._places) or self._places[index][:2] != use:
            self._places.insert(index, (*use, _Place(block.heads)))
            return
        place = self._places[index][2]
        if place.blocks == 1:
            place.heads = place.heads.copy()  # It was the other's own.
        place.blocks += 1
        for head in block.heads:
            insort(place.heads, head)

    def _displace(self, block: _Block) -> None:
        if block.use is None:
            return
        index = bisect_left(self._places, block.use)
        block.use = None
        place = self._places[index][2]
        place.blocks -= 1
        if not place.blocks:
            del self._places[index]
            return
        for head in block.heads:
            _take(place.heads, head)

    def _tied(self, block: _Block) -> list[Entry] | None:
        """The heads of a block's place, if they are not the block's own list."""
        if block.use is None:
            return None
        heads = self._places[bisect_left(self._places, block.use)][2].heads
        return None if heads is block.heads else heads

    def _forget_places(self) -> None:
        self._places.clear()
        for user, projects in self._blocks.items():
            for project, block in projects.items():
                block.use = None
                self._unplaced[user, project] = block


def _take(heads: list[Entry], head: Entry) -> None:
    """Remove one from a sorted list."""
    index = bisect_left(heads, head)
    assert heads[index] == head, "somebody left who was not there"
    del heads[index]
