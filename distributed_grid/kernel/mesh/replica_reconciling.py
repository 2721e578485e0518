"""The conversation of two neighbours about what differs between them.

Lives here: the answer to hashes of ranges and to lists. Never here: the hashes (`ranges`), when to
begin (`replica`), how the entries travel (`replica_links`).
Invariant: what is equal is not talked about; every answer is shorter ranges, a list, or nothing, so
that each conversation ends; nothing is remembered of it.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from distributed_grid.kernel.mesh.ranges import LIST_MAX, name_of
from distributed_grid.kernel.mesh.replica_links import Link
from distributed_grid.kernel.mesh.replica_maps import KEYS, Held, Maps
from distributed_grid.model.ids import ID_DIGITS
from distributed_grid.wire.mesh import (
    ITEMS_MAX,
    RANGES_MAX,
    Have,
    Item,
    MeshMessage,
    RangeHash,
    Ranges,
)

NAME_CHARS_MAX: Final = ID_DIGITS + 1 + max(map(len, KEYS))


def compare(ranges: tuple[RangeHash, ...], link: Link, maps: Maps) -> list[MeshMessage]:
    """What to say to a neighbour that sent these."""
    smaller: list[RangeHash] = []
    lists: list[Have] = []
    for theirs in _in_order(ranges):
        low, high = theirs.low, theirs.high
        mine = maps.ranges.range(low, high)
        if (mine.count, mine.hash) == (theirs.count, theirs.hash):
            if not low and not high:
                link.has_all(maps)
        elif theirs.count == 0 and (low or high):
            link.want(maps.ranges.names(low, high))
        elif mine.count <= LIST_MAX:
            items = tuple(_item(name, maps) for name in maps.ranges.names(low, high))
            _list(lists, Have(low=low, high=high, items=items))
        elif theirs.count <= LIST_MAX:
            smaller.append(mine)  # Theirs is the shorter list.
        else:
            smaller += maps.ranges.split(low, high)
    starts = range(0, len(smaller), RANGES_MAX)
    return [*lists, *(Ranges(ranges=tuple(smaller[at : at + RANGES_MAX])) for at in starts)]


def _list(lists: list[Have], have: Have) -> None:
    """One message for ranges that follow each other, as long as it may be."""
    last = lists[-1] if lists else None
    if (
        last is not None
        and last.high == have.low != ""
        and len(last.items) + len(have.items) <= ITEMS_MAX
    ):
        lists[-1] = Have(low=last.low, high=have.high, items=last.items + have.items)
    else:
        lists.append(have)


def answer(have: Have, link: Link, maps: Maps) -> list[MeshMessage]:
    """What to say to a neighbour that has these; what is newer here is put in line for it."""
    if len(have.items) > ITEMS_MAX or not _is_range(have.low, have.high):
        return []
    theirs = {name: item for name, item in _named(have.items) if _is_in(name, have)}
    names = theirs if have.is_answer else dict.fromkeys(maps.ranges.names(have.low, have.high))
    link.want([name for name in names if _is_newer(name, theirs.get(name), link, maps)])
    if have.is_answer:
        return []
    asked = tuple(
        _item(name, maps) if name in maps.items else Item(item.node, item.key, 0, 0)
        for name, item in theirs.items()
        if _is_lacking(name, item, maps)
    )
    return [Have(low=have.low, high=have.high, items=asked, is_answer=True)] if asked else []


def _is_newer(name: str, theirs: Item | None, link: Link, maps: Maps) -> bool:
    held = maps.items.get(name)
    if held is None:
        return False
    if theirs is None or _stamp(held) != (theirs.generation, theirs.version):
        return theirs is None or _stamp(held) > (theirs.generation, theirs.version)
    if maps.ranges.mark(name) == theirs.mark:
        held.knows |= link.bit
        return False
    return True


def _is_lacking(name: str, theirs: Item, maps: Maps) -> bool:
    stamp = (theirs.generation, theirs.version)
    held = maps.items.get(name)
    if held is None:
        # Whoever was dropped is not asked for; nor is an older life of somebody who spoke since.
        state = maps.nodes.get(theirs.node)
        if state is not None:
            return theirs.generation >= state.generation or not state.held
        return stamp > maps.gone.get(theirs.node, (-1, 0))
    if _stamp(held) == stamp:
        return maps.ranges.mark(name) != theirs.mark
    return _stamp(held) < stamp


def _stamp(held: Held) -> tuple[int, int]:
    return held.entry.generation, held.entry.version


def _item(name: str, maps: Maps) -> Item:
    entry = maps.items[name].entry
    mark = maps.ranges.mark(name)
    return Item(entry.node, entry.key, entry.generation, entry.version, mark)


def _named(items: Iterable[Item]) -> Iterator[tuple[str, Item]]:
    for item in items:
        if len(item.node) <= ID_DIGITS:
            yield name_of(item.node, item.key), item


def _is_in(name: str, have: Have) -> bool:
    return have.low <= name and (not have.high or name < have.high)


def _is_range(low: str, high: str) -> bool:
    return max(len(low), len(high)) <= NAME_CHARS_MAX and (not high or low < high)


def _in_order(ranges: tuple[RangeHash, ...]) -> Iterator[RangeHash]:
    """Those that do not overlap: so that a message costs no more than one look at everything."""
    reached: str | None = ""
    for each in ranges[:RANGES_MAX]:
        if reached is not None and each.low >= reached and _is_range(each.low, each.high):
            yield each
            reached = each.high or None
