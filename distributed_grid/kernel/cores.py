"""Which cores a job gets: whole ones near each other, and shares of cores already shared.

Lives here: the choice, and what is free of each core. Never here: leases (`ledger`).
Invariant: no core gives more than itself, and all together not more than the container's limit.

A request of 2500 is two whole cores and half of a third. Whole cores belong to one job alone; so a
request can find no room although the shares that are free would add up to it.
"""

from bisect import bisect_left, insort
from collections.abc import Container, Iterable

from distributed_grid.model import milli

Shares = tuple[tuple[int, int], ...]


class Cores:
    """What is free of every core."""

    def __init__(self, cores: Iterable[tuple[int, int]], *, cpu_milli: int) -> None:
        self.node_of = dict(cores)
        self.total_milli = self.free_milli = cpu_milli
        self.used: dict[int, int] = {}  # Core to thousandths, none zero.
        self.shared: dict[int, int] = {}  # Core to the room on it, where it is partly used.
        self.whole: dict[int, list[int]] = {}  # NUMA node to its unused cores, sorted.
        for core in sorted(self.node_of):
            self.whole.setdefault(self.node_of[core], []).append(core)

    def choose(self, wanted_milli: int) -> Shares | None:
        """The cores for this amount, sorted; None if there is no room. Takes nothing."""
        if wanted_milli > self.free_milli:
            return None
        count, share = divmod(wanted_milli, milli.WHOLE)
        if not count:
            return self._share(share, nodes=(), taken=()) if share else ()
        chosen = self._one_node(count, share) or self._few_nodes(count)
        if chosen is None or not share:
            return None if chosen is None else _whole(chosen)
        rest = self._share(share, nodes={self.node_of[core] for core in chosen}, taken=chosen)
        return None if rest is None else tuple(sorted((*_whole(chosen), *rest)))

    def available_milli(self, wanted_milli: int) -> int:
        """How much of this amount there is in the shape that it wants."""
        count, share = divmod(wanted_milli, milli.WHOLE)
        unused = sum(map(len, self.whole.values()))
        room = milli.WHOLE if unused > count else max(self.shared.values(), default=0)
        shaped = min(unused, count) * milli.WHOLE + min(room, share)
        return min(shaped, self.free_milli)

    def take(self, shares: Shares) -> None:
        """Use these shares, which `choose` gave or which `room` allows."""
        for core, share in shares:
            self._set(core, self.used.get(core, 0) + share)

    def give(self, shares: Shares) -> None:
        """Have them back."""
        for core, share in shares:
            self._set(core, self.used[core] - share)

    def room(self, core: int) -> int:
        """What is free of one core; nothing of one that is not here."""
        return milli.WHOLE - self.used.get(core, 0) if core in self.node_of else 0

    def copy(self) -> "Cores":
        """The same state again; what is done to one does not show in the other."""
        other = Cores((), cpu_milli=self.total_milli)
        other.node_of = self.node_of  # Never changes.
        other.free_milli = self.free_milli
        other.used, other.shared = self.used.copy(), self.shared.copy()
        other.whole = {node: cores.copy() for node, cores in self.whole.items()}
        return other

    def check(self) -> None:
        """Re-derive what must be true."""
        assert all(0 < used <= milli.WHOLE for used in self.used.values()), "a core is oversold"
        assert self.used.keys() <= self.node_of.keys(), "a core that is not here"
        assert self.free_milli == self.total_milli - sum(self.used.values()) >= 0, "cpu is oversold"
        unused = [core for node in sorted(self.whole) for core in self.whole[node]]
        assert sorted(unused) == sorted(self.node_of.keys() - self.used.keys()), "lost a core"
        assert all(cores == sorted(cores) for cores in self.whole.values()), "cores out of order"
        partly = {core: self.room(core) for core, used in self.used.items() if used < milli.WHOLE}
        assert self.shared == partly, "wrong about shared cores"

    def _set(self, core: int, used: int) -> None:
        before = self.used.get(core, 0)
        assert 0 <= used <= milli.WHOLE, "a core is oversold"
        self.free_milli -= used - before
        unused = self.whole[self.node_of[core]]
        if not before:
            del unused[bisect_left(unused, core)]
        if used:
            self.used[core] = used
        else:
            del self.used[core]
            insort(unused, core)
        if 0 < used < milli.WHOLE:
            self.shared[core] = milli.WHOLE - used
        else:
            self.shared.pop(core, None)

    def _one_node(self, count: int, share: int) -> list[int] | None:
        """Whole cores of the smallest NUMA node that has room for all, the share included."""
        for node in self._by_room():
            unused = self.whole[node]
            if len(unused) > count or (
                len(unused) == count and (not share or self._has_room(node, share))
            ):
                return unused[:count]
        return None

    def _few_nodes(self, count: int) -> list[int] | None:
        """Whole cores of as few nodes as possible; the last one the smallest that suffices."""
        chosen: list[int] = []
        nodes = self._by_room()
        while nodes and count:
            node = next((node for node in nodes if len(self.whole[node]) >= count), nodes[-1])
            nodes.remove(node)
            taken = self.whole[node][:count]
            chosen += taken
            count -= len(taken)
        return None if count else sorted(chosen)

    def _by_room(self) -> list[int]:
        return sorted(self.whole, key=lambda node: (len(self.whole[node]), node))

    def _has_room(self, node: int, share: int) -> bool:
        return any(
            room >= share and self.node_of[core] == node for core, room in self.shared.items()
        )

    def _share(self, share: int, *, nodes: Container[int], taken: Container[int]) -> Shares | None:
        """A share of the fullest core with room, else of an unused one; near to `nodes` first."""
        found = [
            (self.node_of[core] not in nodes, False, room, core)
            for core, room in self.shared.items()
            if room >= share
        ]
        for node, cores in self.whole.items():
            unused = next((core for core in cores if core not in taken), None)
            if unused is not None:
                found.append((node not in nodes, True, len(cores), unused))
        return ((min(found)[3], share),) if found else None


def _whole(cores: Iterable[int]) -> Shares:
    return tuple((core, milli.WHOLE) for core in cores)
