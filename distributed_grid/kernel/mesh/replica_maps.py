"""What every node said of itself, and which word counts.

Lives here: the merge, and what may enter it at all. Never here: how words travel (`replica`,
`replica_links`).
Invariant: the state of a node is (generation, its entries); a higher generation replaces the whole
map, within one the higher version of a key wins, and of equal versions the larger bytes. So merging
is idempotent, commutative and associative, and nothing ever goes back.
"""

from typing import Final, get_args

import msgspec

from distributed_grid.kernel.mesh.arrivals import Arrivals
from distributed_grid.kernel.mesh.ranges import Ranges, name_of
from distributed_grid.model.ids import ID_DIGITS, NodeId
from distributed_grid.wire.mesh import GENERATION_FINAL, VALUE_BYTES_MAX, Entry, Key

NODES_MAX: Final = 20_000  # Twice the largest mesh that was modelled; 100 MB of entries or so.
VERSION_MAX: Final = 2**62  # A version a microsecond for as long as there have been people.
SIGNATURE_BYTES_MAX: Final = 64
KEYS: Final[frozenset[str]] = frozenset(get_args(Key))


class Held(msgspec.Struct, gc=False):
    """An entry, and what is known about it here."""

    entry: Entry
    at_us: int  # When it came.
    number: int = 0  # Of its arrival.
    knows: int = 0  # The neighbours that have it, a bit for each.


class NodeMap(msgspec.Struct):
    """What a node said in its latest generation."""

    generation: int
    held: dict[Key, Held]
    changed_us: int

    @property
    def is_out(self) -> bool:
        """Whether it will say no more."""
        # A withdrawn entry of a node that goes on stays: dropping it takes a memory as large.
        left = self.held.get("left")
        return (
            self.generation == GENERATION_FINAL
            or (left is not None and bool(left.entry.value))
            or not any(held.entry.value for held in self.held.values())
        )


def is_sound(entry: Entry) -> bool:
    """Whether an entry may be looked at; depends on nothing but itself."""
    is_final = entry.generation == GENERATION_FINAL
    return (
        0 < len(entry.node) <= ID_DIGITS
        and "/" not in entry.node
        and entry.key in KEYS
        and 0 <= entry.generation <= GENERATION_FINAL
        and is_final == (entry.key == "revoked")
        and 0 < entry.version < VERSION_MAX
        and len(entry.value) <= VALUE_BYTES_MAX
        and len(entry.signature) <= SIGNATURE_BYTES_MAX
        and (not is_final or (entry.version == 1 and not entry.signature))
    )


def beats(new: Entry, old: Entry) -> bool:
    """Whether the first of two entries of one node and key counts."""
    return (new.generation, new.version, new.value, new.signature) > (
        old.generation,
        old.version,
        old.value,
        old.signature,
    )


class Maps:
    """The maps of all nodes."""

    def __init__(self) -> None:
        self.nodes: dict[NodeId, NodeMap] = {}
        self.items: dict[str, Held] = {}  # By name.
        self.arrivals = Arrivals()
        self.ranges = Ranges()
        self.gone: dict[NodeId, tuple[int, int]] = {}  # Dropped: last generation and version.
        self.refused = 0  # Unsound, or of one node too many.

    def is_news(self, entry: Entry) -> bool:
        """Whether it would change something."""
        if not is_sound(entry):
            return False
        node = self.nodes.get(entry.node)
        if node is None:
            last = self.gone.get(entry.node)
            if last is not None and (entry.generation, entry.version) <= last:
                return False
            return len(self.nodes) < NODES_MAX
        if entry.generation != node.generation:
            return entry.generation > node.generation
        held = node.held.get(entry.key)
        return held is None or beats(entry, held.entry)

    def take(self, entry: Entry, now_us: int) -> Held | None:
        """Merge a verified entry; None: nothing changed."""
        if not self.is_news(entry):
            self._count(entry)
            return None
        node = self.nodes.get(entry.node)
        if node is None:
            self.gone.pop(entry.node, None)
            node = self.nodes[entry.node] = NodeMap(entry.generation, {}, now_us)
        elif entry.generation > node.generation:
            self._empty(entry.node, node)
            node.generation = entry.generation
        name = name_of(entry.node, entry.key)
        held = Held(entry, now_us, self.arrivals.add(name, now_us))
        self.items[name] = node.held[entry.key] = held
        self.ranges.put(name, entry)
        node.changed_us = max(node.changed_us, now_us)  # A disk gives the old in any order.
        return held

    def begin(self, me: NodeId, generation: int, now_us: int) -> None:
        """The writer itself starts over: an empty map under a higher generation."""
        node = self.nodes.get(me)
        if node is None:
            self.nodes[me] = NodeMap(generation, {}, now_us)
            return
        self._empty(me, node)
        node.generation = generation

    def drop(self, node: NodeId, *, may_return: bool = False) -> None:
        """Forget a node; what is as old does not bring it back, unless it may return."""
        state = self.nodes.pop(node, None)
        if state is None:
            return
        versions = [] if may_return else [held.entry.version for held in state.held.values()]
        self._empty(node, state)
        self.gone.pop(node, None)
        self.gone[node] = (state.generation, max(versions, default=0))
        if len(self.gone) > NODES_MAX:
            del self.gone[next(iter(self.gone))]

    def outdated(self, now_us: int, *, grace_us: int, revoked_us: int) -> list[NodeId]:
        """Who left, or withdrew everything, or was revoked, and so long ago."""
        return sorted(
            node
            for node, state in self.nodes.items()
            if state.is_out
            and now_us - state.changed_us
            > (revoked_us if state.generation == GENERATION_FINAL else grace_us)
        )

    def remembered(self, node: NodeId) -> int:
        """The highest generation of a node that was ever seen here; 0: none."""
        state = self.nodes.get(node)
        return state.generation if state is not None else self.gone.get(node, (0, 0))[0]

    def _empty(self, node: NodeId, state: NodeMap) -> None:
        for key in state.held:
            name = name_of(node, key)
            del self.items[name]
            self.arrivals.drop(name)
            self.ranges.drop(name)
        state.held.clear()

    def _count(self, entry: Entry) -> None:
        """Why an entry was no news: most are old, and that is nobody's fault."""
        if not is_sound(entry) or (entry.node not in self.nodes and entry.node not in self.gone):
            self.refused += 1
