"""What became of the indices of an array, as runs of neighbours that share one fate.

Lives here: the runs, and how two lists of them become one. Never here: whole records (`record`).
Invariant: runs are in order, do not overlap, and no two that touch are alike; what no run covers
is pending. Joining takes the greater fate of each index, so the order of joining does not matter.
"""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Annotated, Final

import msgspec

from distributed_grid.kernel.jobs import CANCELLED, FAILED, RUNNING, SUCCEEDED
from distributed_grid.model.across import Epoch
from distributed_grid.model.bounds import Count, Place, Word
from distributed_grid.model.ids import NodeId

GONE, BAD, GOOD = 1, 2, 3  # Cancelled, failed, succeeded; the greater wins.
_FATES: Final = {CANCELLED: GONE, FAILED: BAD, SUCCEEDED: GOOD}
_STATES: Final = {fate: state for state, fate in _FATES.items()}
_SAME: Final = re.compile(rb"(.)\1*", re.DOTALL)


class Run(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Positions that ended alike, and the attempt that decided it."""

    start: Place
    stop: Place  # Excluded.
    fate: Annotated[int, msgspec.Meta(ge=GONE, le=GOOD)]
    attempt: Word = ""  # Empty: not known.
    epoch: Epoch = Epoch()
    number: Count = 0
    node: NodeId = NodeId("")

    def part(self, start: int, stop: int) -> "Run":
        """The same for some of its positions."""
        return Run(start, stop, self.fate, self.attempt, self.epoch, self.number, self.node)

    def is_like(self, other: "Run") -> bool:
        """Whether both tell the same."""
        return self.part(0, 0) == other.part(0, 0)


RUNS_MAX: Final = 1 << 20  # More do not fit into a record that is sent.
Runs = Annotated[tuple[Run, ...], msgspec.Meta(max_length=RUNS_MAX)]


def joined_runs(one: Runs, other: Runs) -> Runs:
    """The greater fate of each position; of equal ones that of the older attempt."""
    if one == other:
        return one
    cuts = sorted({cut for run in (*one, *other) for cut in (run.start, run.stop)})
    return _merged(
        better.part(start, stop)
        for start, stop, left, right in _overlaps(cuts, one, other)
        if (better := _better(left, right)) is not None
    )


def runs_of(states: bytes | bytearray) -> Runs:
    """The runs of an array whose attempts are not known."""
    return tuple(
        Run(same.start(), same.end(), _FATES[states[same.start()]])
        for same in _SAME.finditer(states)
        if states[same.start()] in _FATES
    )


def runs_of_attempt(positions: Iterable[int], states: bytearray, like: Run) -> Runs:
    """What an attempt decided: those of its positions that have a fate, in any order."""
    return _merged(
        Run(at, at + 1, _FATES[states[at]], like.attempt, like.epoch, like.number, like.node)
        for at in sorted(set(positions))
        if states[at] in _FATES
    )


def states_of(runs: Runs, size: int, running: Iterable[tuple[int, int]]) -> bytearray:
    """One byte for each index as the coordinator has it."""
    states = bytearray(size)
    for start, stop in running:
        states[start:stop] = bytes([RUNNING]) * (stop - start)
    for run in runs:
        states[run.start : run.stop] = bytes([_STATES[run.fate]]) * (run.stop - run.start)
    return states


def covers(runs: Runs, ranges: Iterable[tuple[int, int]]) -> bool:
    """Whether everything in these ranges has a fate."""
    return all(_covers(runs, start, stop) for start, stop in ranges)


def is_sound(runs: Runs, size: int) -> bool:
    """Whether they are in order, apart, inside, and of fates that we know."""
    at = 0
    for run in runs:
        if not (at <= run.start < run.stop <= size and run.fate in _STATES):
            return False
        at = run.stop
    return True


def neighbours_merged(runs: Runs) -> Runs:
    """The same in as few runs as possible."""
    return _merged(runs)


def _covers(runs: Runs, start: int, stop: int) -> bool:
    place = bisect_right(runs, start, key=lambda run: run.start) - 1
    while start < stop:
        if place < 0 or place == len(runs) or not runs[place].start <= start < runs[place].stop:
            return False
        start, place = runs[place].stop, place + 1
    return True


def _overlaps(
    cuts: list[int], one: Runs, other: Runs
) -> Iterator[tuple[int, int, Run | None, Run | None]]:
    """The stretches between the cuts, with the run of each side that covers it."""
    at_one = at_other = 0
    for start, stop in pairwise(cuts):
        while at_one < len(one) and one[at_one].stop <= start:
            at_one += 1
        while at_other < len(other) and other[at_other].stop <= start:
            at_other += 1
        yield start, stop, _at(one, at_one, start), _at(other, at_other, start)


def _at(runs: Runs, place: int, position: int) -> Run | None:
    return runs[place] if place < len(runs) and runs[place].start <= position else None


def _better(one: Run | None, other: Run | None) -> Run | None:
    if one is None or other is None:
        return one or other
    if one.fate != other.fate:
        return max(one, other, key=lambda run: run.fate)
    if bool(one.attempt) != bool(other.attempt):
        return one if one.attempt else other  # Somebody knows who it was.
    return min(one, other, key=lambda run: (run.epoch, run.number, run.node, run.attempt))


def _merged(runs: Iterable[Run]) -> Runs:
    merged: list[Run] = []
    for run in runs:
        if merged and merged[-1].stop == run.start and merged[-1].is_like(run):
            merged[-1] = run.part(merged[-1].start, run.stop)
        else:
            merged.append(run)
    return tuple(merged)
