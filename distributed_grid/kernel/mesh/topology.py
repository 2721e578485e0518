"""Who keeps a connection to whom: a pure function of the membership.

Lives here: the neighbours of a node, the most important first; with whom it gossips; whom it
watches in a large mesh. Never here: dialling (`machine`), or deciding who is a member.
Invariant: everybody computes the same graph from the same members. It is symmetric and connected,
and nobody has more than `most` neighbours (two at least).

Hybrid: the hubs stand in a circle by a hash of their ids. Each is linked to the next and the last,
to those 2, 4, 8, … places away, and to some that are near by coordinates. Whoever cannot be
dialled, or is a laptop, is no hub but a leaf of up to three of them, dealt out evenly. Where hubs
are too few for that, those that can be dialled are hubs too, and in the end everyone.
"""

import heapq
from collections.abc import Sequence
from typing import Final

import msgspec

from distributed_grid.kernel.mesh.coordinates import Coordinate, estimate_us
from distributed_grid.kernel.mesh.ring import alike, place, ring, vicinity
from distributed_grid.model.ids import NodeId
from distributed_grid.model.mesh_settings import Topology

SMALL: Final = 32  # Up to so many nodes each is linked to all: 31 connections are 4 MB.
_LEAF_LINKS: Final = 3  # One may go, and one more while the first is noticed.
_NEAR: Final = 8  # Near ones a hub is linked to: fingers cross the world, these stay in the house.
_CLOSE: Final = 4  # Places of the circle to either side that are linked, and watch each other.
_BLOCK: Final = 256  # Near ones are looked for among about so many: 2,000 distances at most.
_LEAST: Final = 2  # Neighbours: a circle.


class Member(msgspec.Struct, frozen=True):
    """What matters of a member here."""

    id: NodeId
    coordinate: Coordinate | None = None
    node_class: str = "workstation"  # One of model.node_class.CLASS_NAMES.
    is_dialable: bool = True


class Place(msgspec.Struct, frozen=True):
    """Where a node stands in the graph."""

    neighbours: tuple[NodeId, ...] = ()  # The most important first.
    essential: int = 0  # So many of them keep the graph of gossip connected, in both directions.
    watched: tuple[NodeId, ...] = ()  # By this node, if the mesh is too large for all to watch all.


def neighbours(
    me: NodeId, members: Sequence[Member], kind: Topology, most: int
) -> tuple[NodeId, ...]:
    """Whom this node keeps connections to, the most important first; `members` may include it."""
    return arranged(me, members, kind, most).neighbours


def gossip_peers(
    me: NodeId, neighbours: Sequence[NodeId], fanout: int = 4, essential: int = 2
) -> tuple[NodeId, ...]:
    """With whom this node gossips: the essential ones, and some that stand far apart.

    The first two are its places in the circle, so the graph of gossip is connected when everyone
    does so. A hub says by `essential` that it has leaves too, which hear of nothing but by it. The
    others are picked along the rest, from another place for each node: were they the nearest of the
    circle too, news would have to walk around it, hundreds of rounds for 1,000 nodes, not ten.
    Two far partners are enough for that; with more everybody hears everything once more for each.
    """
    others = tuple(node for node in neighbours if node != me)
    first, rest = others[:essential], others[essential:]
    count = min(max(fanout - len(first), 0), len(rest))
    start = place(me)
    return first + tuple(rest[(start + n * len(rest) // count) % len(rest)] for n in range(count))


def arranged(me: NodeId, members: Sequence[Member], kind: Topology, most: int) -> Place:
    """The place of this node in the graph of its members."""
    known = {member.id: member for member in members}
    known.setdefault(me, Member(me))
    most = max(most, _LEAST)
    size = len(known)
    if size - 1 <= most and (kind == "full" or size <= SMALL):
        watched = vicinity(me, known, 2 * _CLOSE)
        circle = ring(known)
        first = _beside(circle, me, known)
        found = dict.fromkeys((*first, *_around(circle, me)))
        return Place(tuple(found), len(first), watched)
    return _Hybrid(known, most).place(me)


def _around(circle: list[NodeId], me: NodeId) -> tuple[NodeId, ...]:
    """Everybody else: the next and the last, then the fingers, then the rest."""
    at, size = circle.index(me), len(circle)
    steps = [*_fingers(size), *range(1, size)]
    found = dict.fromkeys(circle[(at + sign * step) % size] for step in steps for sign in (1, -1))
    found.pop(me, None)
    return tuple(found)


def _beside(circle: list[NodeId], me: NodeId, known: dict[NodeId, Member]) -> list[NodeId]:
    """The next and the last that can be dialled, and for such a one whoever stands between.

    Two that nobody can dial have no link, so the circle alone would leave those out that stand
    among their like.
    """
    at, size = circle.index(me), len(circle)
    dialable = [step for step in range(1, size) if known[circle[(at + step) % size]].is_dialable]
    if not dialable:
        return list(dict.fromkeys(circle[(at + step) % size] for step in (1, -1)[: size - 1]))
    steps = [*range(1, dialable[0] + 1), *range(size - 1, dialable[-1] - 1, -1)]
    if not known[me].is_dialable:
        steps = [dialable[0], dialable[-1]]
    return list(dict.fromkeys(circle[(at + step) % size] for step in steps))


def _fingers(size: int) -> list[int]:
    """1, 2, 4, … up to half of the circle: whoever is further is nearer from the other side."""
    return [1 << power for power in range((size // 2).bit_length())]


class _Hybrid:
    """The hybrid graph, as far as one node needs it."""

    def __init__(self, known: dict[NodeId, Member], most: int) -> None:
        self._known = known
        self._hubs, self._leaves, load = _parted(known, most)
        self._leaf_links = min(_LEAF_LINKS, len(self._hubs))
        self._at = {node: index for index, node in enumerate(self._hubs)}
        room = max(most - load, _LEAST)
        self._fingers = _spread(_fingers(len(self._hubs)), room // 2)
        room -= 2 * len(self._fingers)
        self._near = max(min(_NEAR, room), 0)
        close = [step for step in range(2, _CLOSE + 1) if step not in self._fingers]
        self._close = close[: max(room - self._near, 0) // 2]

    def place(self, me: NodeId) -> Place:
        """Where this node stands."""
        if me not in self._at:
            start = self._first_hub(self._leaves.index(me))
            hubs = self._hubs * 2
            chosen = tuple(hubs[start : start + self._leaf_links])
            return Place(chosen, 1, chosen)
        at, size = self._at[me], len(self._hubs)
        first, more = self._leaves_of(at)
        fingers, close = self._stepped(at, self._fingers), self._stepped(at, self._close)
        found = dict.fromkeys((*fingers[:2], *first))
        found.pop(me, None)
        essential = len(found)
        found |= dict.fromkeys((*fingers, *self._nearest(me), *more, *close))
        found.pop(me, None)
        watched = [
            node
            for node in found
            if node not in self._at or _apart(at, self._at[node], size) <= _CLOSE
        ]
        return Place(tuple(found), essential, tuple(watched))

    def _stepped(self, at: int, steps: Sequence[int]) -> list[NodeId]:
        size = len(self._hubs)
        return [self._hubs[(at + sign * step) % size] for step in steps for sign in (1, -1)]

    def _first_hub(self, rank: int) -> int:
        """The leaves stand along the circle too; one more or less moves the others by little."""
        return rank * len(self._hubs) // len(self._leaves)

    def _leaves_of(self, at: int) -> tuple[list[NodeId], list[NodeId]]:
        """Those of which this hub is the first, and the others."""
        first: list[NodeId] = []
        more: list[NodeId] = []
        for rank, leaf in enumerate(self._leaves):
            choice = (at - self._first_hub(rank)) % len(self._hubs)
            if choice < self._leaf_links:
                (more if choice else first).append(leaf)
        return first, more

    def _nearest(self, me: NodeId) -> list[NodeId]:
        """Near ones to whom this node is near, too."""
        if not self._near:
            return []
        return [node for node in self._near_to(me) if me in self._near_to(node)]

    def _near_to(self, node: NodeId) -> list[NodeId]:
        here = self._known[node].coordinate
        if here is None:
            return []
        found = []
        for other in self._block(node):
            there = self._known[other].coordinate
            if there is not None and other != node and not self._is_stepped(node, other):
                found.append((estimate_us(here, there), other))
        return [other for _, other in heapq.nsmallest(self._near, found)]

    def _block(self, node: NodeId) -> Sequence[NodeId]:
        """The hubs among which near ones are looked for: those whose places begin alike."""
        return alike(self._hubs, node, (len(self._hubs) // _BLOCK).bit_length())

    def _is_stepped(self, one: NodeId, other: NodeId) -> bool:
        step = _apart(self._at[one], self._at[other], len(self._hubs))
        return step in self._fingers or step in self._close


def _parted(known: dict[NodeId, Member], most: int) -> tuple[list[NodeId], list[NodeId], int]:
    """(hubs, leaves, the leaves of a hub at most)."""
    circle = ring(known)
    dialable = [node for node in circle if known[node].is_dialable]
    steady = [node for node in dialable if known[node].node_class != "laptop"]
    for hubs in (steady, dialable):
        if hubs:
            chosen = set(hubs)
            leaves = [node for node in circle if node not in chosen]
            load = -(-len(leaves) // len(hubs)) * min(_LEAF_LINKS, len(hubs))
            if load <= most // 2:
                return hubs, leaves, load
    return circle, [], 0


def _spread(steps: list[int], count: int) -> list[int]:
    """So many of these steps, evenly; the first and the last among them."""
    if len(steps) <= count:
        return steps
    last = len(steps) - 1
    return [steps[index * last // max(count - 1, 1)] for index in range(count)]


def _apart(one: int, other: int, size: int) -> int:
    """How many places of a circle lie between two, the shorter way."""
    return min((one - other) % size, (other - one) % size)
