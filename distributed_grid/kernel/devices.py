"""Which GPUs a job gets: a share of the fullest device, or whole devices that are well linked.

Lives here: the choice, and what is free of each device. Never here: leases (`ledger`), which
devices answer a request at all (`model.gpus`).
Invariant: the shares given of a device never add up to more than the device.
"""

from collections.abc import Iterable, Sequence
from itertools import combinations
from math import comb
from typing import Final

import msgspec

from distributed_grid.model import milli
from distributed_grid.model.gpus import Gpu, GpuRequest

# Sets that are compared one by one: all of 8 devices, 4 of 16; some 5 ms at most. Beyond that the
# set grows device by device from its best pair.
SETS_MAX: Final = 2_000


class Devices:
    """What is free of every device."""

    def __init__(self, gpus: Iterable[Gpu], links: Iterable[tuple[str, str, int]]) -> None:
        self.all = {gpu.device: gpu for gpu in gpus}
        self.free = dict(self.all)  # A device of which nothing is free is not in it.
        self.weights: dict[tuple[str, str], int] = {}
        for left, right, weight in links:
            self.weights[left, right] = self.weights[right, left] = weight

    def choose(self, request: GpuRequest, among: frozenset[str] | None = None) -> tuple[Gpu, ...]:
        """The devices to take, sorted; nothing if they do not suffice. Takes nothing.

        Of those `among` which somebody may choose; None: of all.
        """
        free = [gpu for gpu in self.free.values() if among is None or gpu.device in among]
        if request.milli < milli.WHOLE or not self.weights:
            return request.choose(free)
        count = request.milli // milli.WHOLE
        whole = sorted(
            gpu for gpu in free if gpu.share_milli == milli.WHOLE and request.accepts(gpu)
        )
        if len(whole) <= count:
            return tuple(whole) if len(whole) == count else ()
        names = [gpu.device for gpu in whole]
        is_small = comb(len(names), count) <= SETS_MAX
        chosen = self._best_set(names, count) if is_small else self._grown_set(names, count)
        return tuple(self.free[name] for name in sorted(chosen))

    def available_milli(self, request: GpuRequest) -> int:
        """How much of the request is free in the shape that it wants."""
        return request.available_milli(self.free.values())

    def take(self, gpus: Iterable[Gpu]) -> None:
        """Use these shares."""
        for gpu in gpus:
            self._set(gpu.device, self.room(gpu.device) - gpu.share_milli)

    def give(self, gpus: Iterable[Gpu]) -> None:
        """Have them back."""
        for gpu in gpus:
            self._set(gpu.device, self.room(gpu.device) + gpu.share_milli)

    def room(self, device: str) -> int:
        """What is free of one device; nothing of one that is not here."""
        free = self.free.get(device)
        return free.share_milli if free else 0

    def copy(self) -> "Devices":
        """The same state again; what is done to one does not show in the other."""
        other = Devices((), ())
        other.all, other.weights = self.all, self.weights  # They never change.
        other.free = self.free.copy()
        return other

    def check(self) -> None:
        """Re-derive what must be true."""
        assert self.free.keys() <= self.all.keys(), "a device that is not here"
        for device, gpu in self.free.items():
            same = msgspec.structs.replace(gpu, share_milli=self.all[device].share_milli)
            assert same == self.all[device], "a device changed its nature"

    def _set(self, device: str, share_milli: int) -> None:
        assert 0 <= share_milli <= self.all[device].share_milli, "a device is oversold"
        if share_milli:
            changed = msgspec.structs.replace(self.all[device], share_milli=share_milli)
            self.free[device] = changed
        else:
            del self.free[device]

    def _best_set(self, names: Sequence[str], count: int) -> Sequence[str]:
        """Best linked inside; then least linked to what stays, so that pairs stay pairs."""
        reach = {name: self._to(name, names) for name in names}

        def order(some: tuple[str, ...]) -> tuple[int, int, tuple[str, ...]]:
            inside = sum(self.weights.get(pair, 0) for pair in combinations(some, 2))
            across = sum(reach[name] for name in some) - 2 * inside
            return -inside, across, some

        return min(combinations(names, count), key=order)

    def _grown_set(self, names: Sequence[str], count: int) -> Sequence[str]:
        chosen = list(self._best_set(names, 2) if comb(len(names), 2) <= SETS_MAX else names[:1])
        while len(chosen) < count:
            rest = [name for name in names if name not in chosen]
            chosen.append(min(rest, key=lambda name: (-self._to(name, chosen), name)))
        return chosen

    def _to(self, name: str, some: Iterable[str]) -> int:
        return sum(self.weights.get((name, other), 0) for other in some)
