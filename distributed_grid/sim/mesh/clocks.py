"""What a machine believes the time to be: its two clocks run at its own speed, and one can jump.

Lives here: true time to a machine's `Now`. Never here: true time (`timeline`).
Invariant: the monotonic clock goes on while the machine sleeps, and never goes back.
"""

from typing import Final

from distributed_grid.kernel.mesh.events import Now

EPOCH_MS: Final = 1_800_000_000_000  # The wall clock of a world at its beginning.
BUILD_MS: Final = EPOCH_MS - 30 * 86_400_000  # A month before, the programme was built.
_UP_US: Final = 3_600_000_000  # Everyone has been up for an hour.


class Clock:
    """The clocks of one machine."""

    def __init__(self, *, drift_ppm: int = 0, wall_off_ms: int = 0) -> None:
        self.drift_ppm = drift_ppm
        self.wall_off_ms = wall_off_ms
        self._slept_ms = 0

    def sleep(self, long_ms: int) -> None:
        """So much time passes for this machine, in which nothing happens."""
        self._slept_ms += long_ms

    def now(self, true_us: int) -> Now:
        """Both clocks at this moment."""
        passed_us = true_us + true_us * self.drift_ppm // 1_000_000 + self._slept_ms * 1_000
        return Now(
            wall_ms=EPOCH_MS + passed_us // 1_000 + self.wall_off_ms, mono_us=_UP_US + passed_us
        )
