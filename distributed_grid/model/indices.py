"""The indices of an array that are no single range: `27,47,60-69`.

Lives here: a row of ranges as one sequence, its written form, and the way there. Never here: what
becomes of an index (`kernel.arrays`).
Invariant: the ranges rise, and each begins after the end of the one before.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Any

from distributed_grid.model.job import Part


class Indices(Sequence[int]):
    """Ranges one after the other; an index and its place are found without a walk."""

    def __init__(self, parts: Iterable[Part]) -> None:
        self._ranges = [range(*part) for part in parts]
        self._firsts = [one.start for one in self._ranges]
        self._places = [0, *accumulate(map(len, self._ranges))]

    def __len__(self) -> int:
        return self._places[-1]

    def __iter__(self) -> Iterator[int]:
        return (index for one in self._ranges for index in one)

    def __getitem__(self, place: Any) -> Any:
        """The index at a place."""
        if isinstance(place, slice):
            return list(self)[place]
        place = range(len(self))[place]
        at = bisect_right(self._places, place) - 1
        return self._ranges[at][place - self._places[at]]

    def __contains__(self, index: object) -> bool:
        return isinstance(index, int) and index in self._range(index)[1]

    def index(self, index: int, *_: int) -> int:
        """The place of an index. Raises ValueError if there is none."""
        at, found = self._range(index)
        return self._places[at] + found.index(index)

    def _range(self, index: int) -> tuple[int, range]:
        at = max(0, bisect_right(self._firsts, index) - 1)
        return at, self._ranges[at]


def check_parts(parts: Sequence[Part]) -> None:
    """Raise ValueError unless these are ranges as `Indices` wants them."""
    after = 0
    for start, stop, step in parts:
        if not (after <= start < stop and step >= 1):
            raise ValueError("expected rising ranges that do not overlap")
        after = stop
    if not parts:
        raise ValueError("expected at least one range")


def parts_of(indices: Iterable[int]) -> tuple[Part, ...]:
    """Rising indices as ranges of one step each, as few as a walk finds."""
    parts: list[Part] = []
    for index in indices:
        start, stop, step = parts[-1] if parts else (0, 0, 1)
        last = stop - 1
        if parts and (start == last or index == last + step):  # Of one alone any step will do.
            parts[-1] = (start, index + 1, index - last)
        elif step > 1 and last == start + step:  # The second of two begins the next rather.
            parts[-1:] = [(start, start + 1, 1), (last, index + 1, index - last)]
        else:
            parts.append((index, index + 1, 1))
    return tuple(parts)


def written(parts: Iterable[Part]) -> str:
    """As `--array` takes them."""
    return ",".join(map(_word, parts))


def _word(part: Part) -> str:
    indices = range(*part)
    if len(indices) <= 2:  # Shorter so.
        return ",".join(map(str, indices))
    step = f":{indices.step}" if indices.step > 1 else ""
    return f"{indices[0]}-{indices[-1]}{step}"
