"""What differs between two replicas, found by comparing hashes of ranges.

Lives here: the hash of each item, of any range, and how a range is split. Never here: the
conversation about them (`replica_reconciling`).
Invariant: two indices give the same hash for a range exactly if they hold the same items in it (but
for chance, 1 in 2^128); nothing is hashed before somebody asks.

The hash of a range is the sum of the hashes of its items, modulo 2^128: the order does not matter,
a change is a subtraction and an addition, and both sides may split where they like.
"""

from bisect import bisect_left
from hashlib import blake2b
from itertools import pairwise
from typing import Final

from distributed_grid.wire.mesh import Entry, RangeHash

SPLIT: Final = 16  # 8,000 items in two steps; 16 hashes are half a kilobyte.
LIST_MAX: Final = 32  # Items that are listed rather than split: 3 kB.
HASH_BYTES: Final = 16
_MODULUS: Final = 1 << (8 * HASH_BYTES)
_MARK: Final = (1 << 32) - 1


def name_of(node: str, key: str) -> str:
    """What an item is sorted by."""
    return f"{node}/{key}"


def hash_of(entry: Entry) -> int:
    """Of one item."""
    stamp = f"{entry.node}/{entry.key}/{entry.generation}/{entry.version}/{len(entry.signature)}/"
    whole = stamp.encode() + entry.signature + entry.value
    return int.from_bytes(blake2b(whole, digest_size=HASH_BYTES).digest(), "big")


class Ranges:
    """The items of a replica in the order of their names, with their hashes."""

    def __init__(self) -> None:
        self._hashes: dict[str, int] = {}
        self._names: list[str] = []  # Sorted; complete after `_settle`.
        self._total = 0
        self._changed: dict[str, Entry | None] = {}  # Not yet hashed. None: it is gone.

    def put(self, name: str, entry: Entry) -> None:
        """Another value, or a new item."""
        self._changed[name] = entry

    def drop(self, name: str) -> None:
        """The item is gone."""
        self._changed[name] = None

    def mark(self, name: str) -> int:
        """A few bits of the hash of an item: tells two values of one version apart."""
        self._settle()
        return self._hashes[name] & _MARK

    def names(self, low: str = "", high: str = "") -> list[str]:
        """From `low` up to but without `high`; an empty `high` is no end."""
        self._settle()
        end = bisect_left(self._names, high) if high else len(self._names)
        return self._names[bisect_left(self._names, low) : end]

    def range(self, low: str = "", high: str = "") -> RangeHash:
        """This range as one hash."""
        self._settle()
        if not low and not high:
            return RangeHash(low, high, len(self._names), _bytes(self._total))
        return self._hashed(low, high, self.names(low, high))

    def split(self, low: str, high: str) -> list[RangeHash]:
        """This range as several hashes."""
        names = self.names(low, high)
        cuts = _cuts(names)
        lows = [low, *(_between(names[at - 1], names[at]) for at in cuts), high]
        return [
            self._hashed(lows[each], lows[each + 1], names[start:end])
            for each, (start, end) in enumerate(pairwise([0, *cuts, len(names)]))
        ]

    def _hashed(self, low: str, high: str, names: list[str]) -> RangeHash:
        total = sum(map(self._hashes.__getitem__, names)) % _MODULUS
        return RangeHash(low, high, len(names), _bytes(total))

    def _settle(self) -> None:
        if not self._changed:
            return
        fresh: list[str] = []
        is_shorter = False
        for name, entry in self._changed.items():
            was = self._hashes.pop(name, None)
            self._total -= was or 0
            if entry is not None:
                self._hashes[name] = now = hash_of(entry)
                self._total += now
                if was is None:
                    fresh.append(name)
            elif was is not None:
                is_shorter = True
        self._total %= _MODULUS
        self._changed.clear()
        if is_shorter:
            self._names = [name for name in self._names if name in self._hashes]
        if fresh:
            self._names += fresh
            self._names.sort()  # Nearly sorted already, and that is what it is good at.


def _bytes(total: int) -> bytes:
    return total.to_bytes(HASH_BYTES, "big")


def _cuts(names: list[str]) -> list[int]:
    """Where to cut into equal parts, but between nodes: there a few digits tell names apart."""
    cuts: list[int] = []
    for part in range(1, SPLIT):
        at = part * len(names) // SPLIT
        while 0 < at < len(names) and _node(names[at]) == _node(names[at - 1]):
            at += 1
        if (cuts[-1] if cuts else 0) < at < len(names):
            cuts.append(at)
    return cuts


def _node(name: str) -> str:
    return name.partition("/")[0]


def _between(before: str, after: str) -> str:
    """The shortest text above the first name and not above the second: ids differ early."""
    size = next(
        (at for at, (left, right) in enumerate(zip(before, after, strict=False)) if left != right),
        len(before),
    )
    return after[: size + 1]
