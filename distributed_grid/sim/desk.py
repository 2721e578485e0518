"""The owner at the machine: comes, uses it, goes; and what is measured of that.

Lives here: the load that is not Grid's. Never here: what follows from it (`kernel.lending`).
"""

import random

from distributed_grid.kernel.inventory import Inventory
from distributed_grid.model.lending import WEEK_MINUTES, GpuUse, Sample

_MINUTE_MS = 60_000
_IDLE_MILLI = 20  # Of the machine: a clock ticks, a mail comes.


class Desk:
    """What the owner's programs use."""

    def __init__(self, machine: Inventory, rng: random.Random) -> None:
        self._machine = machine
        self._rng = rng
        self.cpu_milli = _IDLE_MILLI  # Of a thousand, as the following.
        self.memory_milli = _IDLE_MILLI
        self.gpu_milli = 0
        self.touched_ms: int | None = None  # The last key.

    @property
    def is_busy(self) -> bool:
        """Whether the owner is there."""
        return self.cpu_milli > _IDLE_MILLI

    def come(self, now_ms: int) -> None:
        """The owner begins to work; how hard, chance decides."""
        self.cpu_milli = self._rng.choice((250, 600, 950, 1_000))
        self.memory_milli = self._rng.choice((50, 400, 900))
        self.gpu_milli = self._rng.choice((0, 0, 900))
        self.touched_ms = now_ms

    def go(self, now_ms: int) -> None:
        """The owner has gone; the last key was now."""
        self.cpu_milli = self.memory_milli = _IDLE_MILLI
        self.gpu_milli = 0
        self.touched_ms = now_ms

    def measured(self, now_ms: int) -> Sample:
        """What a sampler sees."""
        machine = self._machine
        idle_ms = None
        if self.touched_ms is not None:
            idle_ms = 0 if self.is_busy else now_ms - self.touched_ms
        return Sample(
            at_ms=now_ms,
            local_minute=now_ms // _MINUTE_MS % WEEK_MINUTES,
            cpu_total_milli=machine.cpu_milli,
            cpu_used_milli=machine.cpu_milli * self.cpu_milli // 1_000,
            memory_total_bytes=machine.memory_bytes,
            memory_used_bytes=machine.memory_bytes * self.memory_milli // 1_000,
            storage_free_bytes=machine.storage_bytes,
            gpus=tuple(
                GpuUse(
                    device=gpu.device,
                    utilization_milli=self.gpu_milli,
                    memory_free_bytes=gpu.memory_bytes * (1_000 - self.gpu_milli) // 1_000,
                    memory_total_bytes=gpu.memory_bytes,
                )
                for gpu in machine.gpus
            ),
            idle_ms=idle_ms,
        )
