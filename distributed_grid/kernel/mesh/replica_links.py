"""One neighbour: what it was sent, what it took, what it still has to get.

Lives here: the cursor into the arrivals, the one delta that is under way. Never here: what is newer
(`replica_maps`), what it lacks (`replica_reconciling`).
Invariant: at most one delta is unanswered, so that a slow neighbour slows only itself; the cursor
moves when it was taken, never before.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from distributed_grid.kernel.mesh.ranges import name_of
from distributed_grid.kernel.mesh.replica_maps import Held, Maps
from distributed_grid.model.ids import NodeId
from distributed_grid.wire.mesh import DELTA_BYTES_MAX, Delta, Entry

PATIENCE_US: Final = 2_000_000  # Without an answer for so long, a delta is sent again.
FRAME_BYTES: Final = 32  # Of an encoded entry besides its texts and bytes; 27 at most.


class Sent(msgspec.Struct):
    """A delta that was not answered yet."""

    number: int
    entries: tuple[Entry, ...]
    cursor: int  # Where it leads.
    at_us: int


class Link:
    """A neighbour."""

    def __init__(self, peer: NodeId, *, bit: int, reconcile_us: int) -> None:
        self.peer = peer
        self.bit = bit  # In `Held.knows`.
        self.cursor = 0
        self.reconcile_us = reconcile_us  # When to compare everything next.
        self.is_compared = False  # Since the link came up.
        self.has_taught = False  # Others waited for it, as long as it was telling us much.
        self.sent: Sent | None = None
        self._wanted: deque[str] = deque()  # What it lacks, by arrival here,
        self._lacking: set[str] = set()  # and what has yet to be put in line.

    def is_idle(self, maps: Maps) -> bool:
        """Whether nothing is on its way, and nothing is due."""
        is_lacking = bool(self._wanted or self._lacking)
        return self.sent is None and not is_lacking and self.cursor == maps.arrivals.head

    @property
    def is_settled(self) -> bool:
        """Whether there is nothing to tell it, unless it is one of those who hear everything."""
        return self.is_compared and self.sent is None and not (self._wanted or self._lacking)

    def compared(self, maps: Maps, next_us: int) -> None:
        """Comparing has begun, by whomever. The first time it deals with all that came before."""
        if not self.is_compared:
            self.cursor = maps.arrivals.head
        self.is_compared = True
        self.reconcile_us = next_us

    def put_off(self, next_us: int) -> None:
        """Begin anew, but later. Until then nothing is sent that it may well have."""
        self.is_compared = False
        self.reconcile_us = next_us

    def want(self, names: Iterable[str]) -> None:
        """It lacks these."""
        self._lacking.update(names)

    def has_all(self, maps: Maps) -> None:
        """It said that it has everything that is here."""
        self._wanted.clear()
        self._lacking.clear()
        self.sent = None
        self.cursor = maps.arrivals.head

    def delta(
        self, maps: Maps, number: int, now_us: int, *, is_partner: bool = True
    ) -> Delta | None:
        """The next one; or the last one again, if there was no answer.

        Who is no partner, or was not compared yet, hears of what it lacks, not of all that arrives.
        """
        if self.sent is not None:
            return self._again(maps, now_us)
        is_partner = is_partner and self.is_compared
        if self._lacking:  # Once for all the lists that came since the last delta.
            self._lacking.update(self._wanted)
            self._wanted = deque(sorted(self._lacking, key=maps.arrivals.number))
            self._lacking.clear()
        if not self._wanted and not (is_partner and self.cursor < maps.arrivals.head):
            return None
        picked, cursor = self._pick(maps, is_partner=is_partner)
        if not picked:
            self.cursor = cursor
            return None
        entries = _in_version_order([held.entry for held in picked])
        self.sent = Sent(number, entries, cursor, now_us)
        return Delta(number=number, entries=entries)

    def taken(self, number: int, maps: Maps) -> tuple[Entry, ...]:
        """It has got this delta; returns what was in it."""
        sent = self.sent
        if sent is None or sent.number != number:
            return ()  # Of a delta that was answered before.
        self.sent = None
        self.cursor = sent.cursor
        for entry in sent.entries:
            held = maps.items.get(name_of(entry.node, entry.key))
            if held is not None and held.entry is entry:
                held.knows |= self.bit
        return sent.entries

    def _again(self, maps: Maps, now_us: int) -> Delta | None:
        sent = self.sent
        assert sent is not None, "there is one"
        if now_us - sent.at_us < PATIENCE_US:
            return None
        # What has changed meanwhile has arrived after the cursor, and goes with the next one.
        current = tuple(
            entry
            for entry in sent.entries
            if (held := maps.items.get(name_of(entry.node, entry.key))) and held.entry is entry
        )
        self.sent = Sent(sent.number, current, sent.cursor, now_us)
        return Delta(number=sent.number, entries=current)

    def _pick(self, maps: Maps, *, is_partner: bool) -> tuple[list[Held], int]:
        """As much as fits, the stalest first; and the cursor after it."""
        room = DELTA_BYTES_MAX
        picked: dict[int, Held] = {}
        cursor = self.cursor
        while self._wanted:
            held = maps.items.get(self._wanted[0])
            if held is not None and not held.knows & self.bit:
                room -= size_bytes(held.entry)
                if room < 0:
                    return list(picked.values()), cursor
                picked[held.number] = held
            self._wanted.popleft()
        if not is_partner:
            return list(picked.values()), cursor
        for number, name in maps.arrivals.after(cursor):
            held = maps.items[name]
            if number not in picked and not held.knows & self.bit:
                room -= size_bytes(held.entry)
                if room < 0:
                    return list(picked.values()), cursor
                picked[number] = held
            cursor = number
        return list(picked.values()), maps.arrivals.head


def size_bytes(entry: Entry) -> int:
    """Not less than it takes in a message."""
    texts = len(entry.node) + len(entry.key)
    return FRAME_BYTES + texts + len(entry.value) + len(entry.signature)


def _in_version_order(entries: Sequence[Entry]) -> tuple[Entry, ...]:
    """The places of each node's entries stay; within them the versions rise."""
    by_node: dict[NodeId, list[Entry]] = {}
    for entry in entries:
        by_node.setdefault(entry.node, []).append(entry)
    rising = {
        node: iter(sorted(own, key=lambda entry: (entry.generation, entry.version)))
        for node, own in by_node.items()
    }
    return tuple(next(rising[entry.node]) for entry in entries)
